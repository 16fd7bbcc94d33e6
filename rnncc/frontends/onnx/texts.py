"""Texts: known ones are NumPy's, those of the run are numbers of a vocabulary.

Compiled code sees no characters. It compares, moves and looks up numbers, which callers get from
the table that a library tells of: an element that is not in it has any other number, its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

MAX_CHARACTERS = 1 << 26
"""Of the texts of one tensor, each as long as the longest."""


def texts_of(words: Sequence[str], dims: Sequence[int] = (-1,)) -> Array:
    """Known texts in a shape.

    Raises:
        ValueError: one holds a zero, where C takes it to end (NumPy loses those at its end), they
            are too long, or do not fill the shape.
    """
    if any("\0" in word for word in words):
        raise ValueError("a text holds a zero")
    longest = max(map(len, words), default=0)
    if longest * len(words) > MAX_CHARACTERS:
        raise ValueError(f"{len(words)} texts of up to {longest} characters are too many")
    return np.array(words, f"<U{max(longest, 1)}").reshape(dims)


KEPT = {"Equal", "Gather", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"}
"""Operators whose results of known texts are known, as those of numbers are."""


def may_fold(operator: str, arrays: Sequence[Array]) -> bool:
    """Whether an operator's results of known values are known: of texts some operators'."""
    return operator in KEPT or all(array.dtype.kind != "U" for array in arrays)


class Vocabulary:
    """The texts that a model mentions where it runs, numbered as they come.

    The empty text is 0, so that zeros that fill a tensor are empty texts.
    """

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def numbers(self, texts: Array) -> Array:
        """The numbers of known texts, as int32."""
        held = self._numbers
        numbers = [held.setdefault(word, len(held)) for word in texts.reshape(-1).tolist()]
        return np.array(numbers, np.int32).reshape(texts.shape)

    @property
    def words(self) -> tuple[str, ...]:
        """All so far, by their numbers."""
        return tuple(self._numbers)
