"""Offsets for blocks of memory whose sizes are formulas and whose lifetimes are known.

A formula is held as one coefficient a monomial. One block lies below another for certain where
its end is at most the other's start in every coefficient, since symbols are never negative.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import add, le, mul

from rnncc.ir.dims import Dim, Largest, Monomial
from rnncc.planning.lifetimes import Lifetime

Vector = tuple[int, ...]

Grain = tuple[int, int]
"""What a start must be a multiple of, and what it had better be."""

LINE = 64
"""Bytes of a line of the cache."""
LITTLE = 4
"""How many lines make room for rounding up to one more."""
MANY = 500
"""Of more blocks, as long unrolled nets have, one order is tried: time grows with the square."""
TYPICAL, TYPICAL_OTHER = {"T": 50, "N": 8}, 50
"""Sizes at which the orders of placement are compared; of other symbols, one size."""


@dataclass(frozen=True)
class Block:
    """Bytes, when they must be the block's own, and how many each of its elements takes."""

    size: Dim
    lifetime: Lifetime
    item: int


@dataclass(frozen=True)
class _Placed:
    start: Vector
    end: Vector
    lifetime: Lifetime


def place(blocks: Sequence[Block]) -> tuple[list[Dim], Largest]:
    """An offset for each block, and the bytes that all of them take.

    Blocks alive at once never overlap, whatever the symbols' values. Each starts at a multiple of
    its elements' size; one whose rows fill lines of the cache at a line, unless that costs more
    than a little. First fit, in several orders; the one that takes least at typical sizes is kept.
    """
    found = {m for block in blocks for m, _ in block.size.terms}
    monomials = sorted(found, key=lambda m: (-len(m), m))
    weights = [_typical(m) for m in monomials]
    sizes = [tuple(max(b.size.coefficient(m), 0) for m in monomials) for b in blocks]
    lined = [all(f % LINE == 0 for m, f in block.size.terms if m) for block in blocks]
    grains = [(b.item, LINE if whole else b.item) for b, whole in zip(blocks, lined, strict=True)]
    values = [_dot(size, weights) for size in sizes]
    by_size = sorted(range(len(blocks)), key=lambda i: (-values[i], blocks[i].lifetime.first))
    by_class = sorted(by_size, key=lambda i: [not c for c in sizes[i]])
    by_line = sorted(by_class, key=lambda i: not lined[i])
    by_start = sorted(by_size, key=lambda i: blocks[i].lifetime.first)
    by_end = sorted(by_size, key=lambda i: -blocks[i].lifetime.last)
    orders = [by_line, by_class, by_size, by_start, by_end] if len(blocks) <= MANY else [by_line]
    layouts = [_first_fit(order, blocks, sizes, grains) for order in orders]
    offsets, ends = min(
        layouts, key=lambda found: max((_dot(e, weights) for e in found[1]), default=0)
    )
    highest = Largest(_formula(monomials, end) for end in ends)
    return [_formula(monomials, offset) for offset in offsets], highest


def _first_fit(
    order: Sequence[int],
    blocks: Sequence[Block],
    sizes: Sequence[Vector],
    grains: Sequence[Grain],
) -> tuple[list[Vector], list[Vector]]:
    """Offsets in the blocks' own order, and the ends that may be the highest."""
    offsets: list[Vector] = [()] * len(blocks)
    placed: list[_Placed] = []
    for i in order:
        lifetime = blocks[i].lifetime
        others = [p for p in placed if p.lifetime.overlaps(lifetime)]
        offsets[i] = start = _lowest(sizes[i], grains[i], others)
        end = _sum(start, sizes[i])
        insort(placed, _Placed(start, end, lifetime), key=lambda p: (p.start, p.end))
    return offsets, _highest([p.end for p in placed])


def _highest(ends: Sequence[Vector]) -> list[Vector]:
    """The ends that no other is above of."""
    found: list[Vector] = []
    for end in sorted(set(ends), key=sum, reverse=True):
        if not any(_below(end, other) for other in found):
            found.append(end)
    return found


def _lowest(size: Vector, grain: Grain, others: Sequence[_Placed]) -> Vector:
    """The first start that is clear of the others, which are in order, going up past each."""
    start, moved = (0,) * len(size), True
    while moved:
        others = [p for p in others if not _below(p.end, start)]
        moved = False
        for other in others:
            if not _below(other.end, start) and not _below(_sum(start, size), other.start):
                start = _aligned(_join(start, other.end), grain)
                moved = True
    return start


def _aligned(start: Vector, grain: Grain) -> Vector:
    """Up to a multiple of the wanted grain in coefficients large enough, else of the least."""
    least, wanted = grain
    return tuple(_up(c, wanted if c >= wanted * LITTLE else least) for c in start)


def _below(a: Vector, b: Vector) -> bool:
    return all(map(le, a, b))


def _sum(a: Vector, b: Vector) -> Vector:
    return tuple(map(add, a, b))


def _join(a: Vector, b: Vector) -> Vector:
    return tuple(map(max, a, b))


def _dot(a: Vector, b: Sequence[int]) -> int:
    return sum(map(mul, a, b))


def _up(value: int, grain: int) -> int:
    return -(-value // grain) * grain


def _typical(monomial: Monomial) -> int:
    return prod(TYPICAL.get(name, TYPICAL_OTHER) for name in monomial)


def _formula(monomials: Sequence[Monomial], vector: Vector) -> Dim:
    return Dim(zip(monomials, vector, strict=True))
