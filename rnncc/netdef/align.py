"""Lines up two sequences: which item of one is which of the other, in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

MAX_EDITS = 400
"""Sequences that differ in more than this many places are not lined up: that bounds the time."""

Pairs = list[tuple[int, int]]


def align(keys: Sequence[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> Pairs:
    """Pairs (i, j) of items that correspond, increasing in both.

    Args:
        keys: the items of both sequences, first as the strictest key sees them, last as the
            laxest: a laxer key pairs only what lies between two pairs of the stricter ones.
    """
    pairs: Pairs = []
    for a, b in keys:
        matched: Pairs = []
        last = (-1, -1)
        for pair in [*pairs, (len(a), len(b))]:
            inner_a, inner_b = a[last[0] + 1 : pair[0]], b[last[1] + 1 : pair[1]]
            matched += [(last[0] + 1 + i, last[1] + 1 + j) for i, j in _common(inner_a, inner_b)]
            matched.append(pair)
            last = pair
        pairs = matched[:-1]
    return pairs


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """A longest common subsequence; beyond `MAX_EDITS` only what both start and end with."""
    short = min(len(a), len(b))
    head = next((i for i in range(short) if a[i] != b[i]), short)
    short -= head
    tail = next((i for i in range(short) if a[-1 - i] != b[-1 - i]), short)
    middle = _shortest_edit(a[head : len(a) - tail], b[head : len(b) - tail])
    pairs = [(i, i) for i in range(head)]
    pairs += [(head + i, head + j) for i, j in middle]
    return pairs + [(len(a) - i, len(b) - i) for i in range(tail, 0, -1)]


def _shortest_edit(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """Myers' greedy search: after d edits, `reach[k]` is how far in `a` diagonal k = i - j got."""
    if not a or not b:
        return []
    reach = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MAX_EDITS) + 1):
        history.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            i = reach[k + 1] if down else reach[k - 1] + 1
            while i < len(a) and 0 <= i - k < len(b) and a[i] == b[i - k]:
                i += 1
            reach[k] = i
            if i >= len(a) and i - k >= len(b):
                return _way_back(history, len(a), len(b))
    return []


def _way_back(history: Sequence[dict[int, int]], i: int, j: int) -> Pairs:
    """The pairs that the search passed, from its end to its start."""
    pairs: Pairs = []
    for edits in range(len(history) - 1, -1, -1):
        reach, k = history[edits], i - j
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        before = k + 1 if down else k - 1
        start = (reach[before], reach[before] - before) if edits else (0, 0)
        while i > start[0] and j > start[1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        i, j = start
    return pairs[::-1]
