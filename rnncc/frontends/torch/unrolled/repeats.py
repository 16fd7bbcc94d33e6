"""Parts of a sequence of labels that repeat one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rnncc.records import record

Array = np.ndarray[Any, Any]


@record
class Repeat:
    """labels[i] == labels[i + period] for start <= i < end - period."""

    start: int
    end: int
    period: int

    @property
    def count(self) -> int:
        """How often the part is there as a whole."""
        return (self.end - self.start) // self.period


def repeats(labels: Sequence[int], least: int) -> list[Repeat]:
    """All parts that are there at least `least` times in a row, `least` >= 3; longest first.

    Takes O(n log n) time. A part of p labels, where L / 2 < p <= L, is seen by the words of L
    labels: within the repeats, and nowhere else, such a word is found again p labels later.
    """
    assert least >= 3, "a word and its next copy may take three periods"
    all_repeats, length = list[Repeat](), 1
    words = np.asarray(labels, np.int64)
    while len(words) > 1:
        all_repeats += [r for r in _repeats(words, length) if r.count >= least]
        if 2 * length > len(labels):
            break
        words = _renumbered(words[:-length] * (words.max() + 1) + words[length:])
        length *= 2
    return sorted(all_repeats, key=lambda r: (r.start - r.end, r.period))


def _repeats(words: Array, length: int) -> Iterator[Repeat]:
    gaps = _gaps(words)
    gaps[(gaps <= length // 2) | (gaps > length)] = 0
    edges = np.flatnonzero(np.diff(gaps, prepend=0, append=0))
    for first, last in pairwise(edges):
        if gap := int(gaps[first]):
            yield Repeat(int(first), int(last) - 1 + gap + length, gap)


def _gaps(words: Array) -> Array:
    """How far from each word the next one like it is; 0 for the last one."""
    order = np.argsort(words, kind="stable")
    gaps = np.zeros(len(words), np.int64)
    alike = words[order[1:]] == words[order[:-1]]
    gaps[order[:-1]] = np.where(alike, np.diff(order), 0)
    return gaps


def _renumbered(words: Array) -> Array:
    return np.unique(words, return_inverse=True)[1]
