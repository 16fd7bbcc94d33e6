"""Texts of calls: compiled code knows them by their places in the table that a model tells of.

A text that is not in the table gets a number behind it, the same each time, so that results of
these can be read, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rnncc_runtime.arrays import Array, as_array
from rnncc_runtime.errors import ArrayError

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
    """The texts of one call, or of a stream."""

    def __init__(self, words: Words) -> None:
        self._known, self._further = words, dict[str, int]()

    def coded(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Inputs with numbers in the place of texts; numbers, and what else there is, stay.

        Raises:
            ArrayError: an element is no text.
        """
        if not hasattr(inputs, "items"):
            return inputs  # its reader says so
        return {
            name: self._numbers(name, value) if name in self._known.inputs else value
            for name, value in inputs.items()
        }

    def _numbers(self, name: str, value: object) -> Array:
        array = as_array(name, value)
        if array.dtype.kind not in _KINDS:
            return array
        words = array.reshape(-1).tolist()
        for word in words:
            if not isinstance(word, str):
                raise ArrayError(f"{name} holds {word!r} of type {type(word).__name__}, no text")
        numbers = [self._number(word) for word in words]
        return np.array(numbers, np.int32).reshape(array.shape)

    def _number(self, word: str) -> int:
        number = self._known.numbers.get(word)
        if number is not None:
            return number
        return self._further.setdefault(word, len(self._known.words) + len(self._further))

    def decoded(self, outputs: dict[str, Array]) -> dict[str, Array]:
        """Outputs with texts in the place of their numbers.

        Raises:
            ArrayError: a number is that of no text, as where the caller gave numbers.
        """
        words: Sequence[str] = [*self._known.words, *self._further]
        for name in outputs.keys() & self._known.outputs:
            numbers = outputs[name]
            if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(words):
                raise ArrayError(f"output {name} has the number of no text; out= gives numbers")
            shown: list[str] = [words[number] for number in numbers.reshape(-1).tolist()]
            outputs[name] = np.array(shown, np.str_).reshape(numbers.shape)
        return outputs


def words_of(metadata: Mapping[str, Any]) -> Words | None:
    """The texts that a model knows; None of one that has none as inputs or outputs."""
    if "texts" not in metadata:
        return None
    groups = (metadata["inputs"], metadata["outputs"])
    names = [[e["name"] for e in entries if e["dtype"] == "text"] for entries in groups]
    return Words(metadata["texts"], *names)
