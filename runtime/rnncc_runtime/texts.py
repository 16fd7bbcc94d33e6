"""Texts of calls: compiled code knows them by their places in the table that a model tells of.

A text that is not in the table gets a number behind it, the same each time, so that results of
these can be read, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from rnncc_runtime.arrays import Array, as_array
from rnncc_runtime.errors import ArrayError, StreamError

_KINDS = "UOT"
"""Of arrays that hold texts: NumPy's of one length, Python's objects, NumPy's of any length."""


class Words:
    """The texts that a model knows, by number, and the inputs and outputs that hold such."""

    def __init__(
        self, words: Sequence[str], inputs: Collection[str], outputs: Collection[str]
    ) -> None:
        self.words, self.inputs, self.outputs = list(words), inputs, outputs
        self.numbers = {word: number for number, word in enumerate(words)}


class Texts:
    """The texts of one call, or of a stream whose state holds such.

    Attributes:
        known: those of the model.
    """

    def __init__(self, known: Words, further: Iterable[str] = ()) -> None:
        self.known = known
        self._further = {word: number for number, word in enumerate(further, len(known.words))}

    @property
    def further(self) -> list[str]:
        """Those that came, in the order of their numbers."""
        return list(self._further)

    def coded(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inputs with numbers in the place of texts; numbers, and what else there is, stay.

        Raises:
            ArrayError: an element is neither a text nor a number of one, or a text that NumPy
                would cut off.
        """
        if not hasattr(inputs, "items"):
            return inputs  # its reader says so
        return {
            name: self._numbers(name, value) if name in self.known.inputs else value
            for name, value in inputs.items()
        }

    def _numbers(self, name: str, value: object) -> Array:
        # NumPy would make texts of all elements of a list of which some are texts
        array = as_array(name, value, object if isinstance(value, (list, tuple)) else None)
        if array.dtype.kind not in _KINDS:
            if array.dtype != np.int32:
                raise ArrayError(f"{name} is {array.dtype}, expected str, or int32 for numbers")
            return array
        words = array.reshape(-1).tolist()
        for word in words:
            if not isinstance(word, str):
                raise ArrayError(f"{name} holds {word!r} of type {type(word).__name__}, no text")
            if word.endswith("\0"):
                raise ArrayError(f"{name} holds {word!r}: NumPy drops zeros at the end of a text")
        numbers = [self._number(word) for word in words]
        return np.array(numbers, np.int32).reshape(array.shape)

    def _number(self, word: str) -> int:
        number = self.known.numbers.get(word)
        if number is None:
            behind = len(self.known.words) + len(self._further)
            number = self._further.setdefault(word, behind)
        return number

    def decoded(self, outputs: dict[str, Array]) -> dict[str, Array]:
        """Outputs with texts in the place of their numbers.

        Raises:
            ArrayError: a number is that of no text, as where the caller gave numbers.
        """
        known, further = self.known.words, self.further
        first, end = len(known), len(known) + len(further)
        for name in outputs.keys() & self.known.outputs:
            numbers = outputs[name]
            if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < end:
                raise ArrayError(f"output {name} has the number of no text; out= gives numbers")
            flat: list[int] = numbers.reshape(-1).tolist()
            shown = [known[at] if at < first else further[at - first] for at in flat]
            outputs[name] = np.array(shown, np.str_).reshape(numbers.shape)
        return outputs


def words_of(metadata: Mapping[str, Any]) -> Words | None:
    """The texts that a model knows; None of one that has none as inputs or outputs."""
    if "texts" not in metadata:
        return None
    groups = (metadata["inputs"], metadata["outputs"])
    names = [[e["name"] for e in entries if e["dtype"] == "text"] for entries in groups]
    return Words(metadata["texts"], *names)


def saved_texts(texts: Texts | None) -> bytes:
    """What of a stream's texts its model does not know; nothing if its state holds none."""
    return b"" if texts is None else json.dumps(texts.further).encode()


def restored_texts(content: bytes, texts: Texts | None) -> Texts | None:
    """The texts that were saved, for a stream that has others, or holds none.

    Raises:
        StreamError: these are not such.
    """
    if texts is None and not content:
        return None
    try:
        further: object = json.loads(content)
    except (ValueError, RecursionError):
        further = None
    if texts is None or not isinstance(further, list):
        raise StreamError("the state is damaged: what follows its values are no texts")
    words = cast("list[Any]", further)
    distinct = {word for word in words if isinstance(word, str)}
    if len(distinct) < len(words) or not distinct.isdisjoint(texts.known.numbers):
        raise StreamError("the state is damaged: it has a text twice")
    return Texts(texts.known, words)
