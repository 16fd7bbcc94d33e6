"""The terms of a row, as many at a time as there are lanes, in one stream of vectors or in several.

Largest and smallest terms come in several where a row may be long: their order is free. A sum comes
in one, which is the order that it has wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import I64, Value
from rnncc.ir.dims import Dim

STREAMS = 4
"""Of an extremum: each waits for its own last vector alone, 7 cycles on Zen 4 where NaN is passed
on (rows of 2000: from 0.125 to 0.046 ns an element)."""

Terms = Callable[[Value, Value | None, list[Value]], list[Value]]
"""Totals with the terms from a place on, those of a mask; the place, the mask, the totals."""


def streams_of(kind: str, size: Dim, lanes: int) -> int:
    """How many streams a row of so many terms comes in."""
    short = size.is_static and int(size) < STREAMS * lanes
    return 1 if kind == "sum" or short or lanes == 1 else STREAMS


def folded_along(
    emit: CpuEmit, folding: Folding, size: tuple[Value, int, int], totals: list[Value], terms: Terms
) -> list[Value]:
    """The totals of all terms of a row, whose lanes are not folded yet.

    Args:
        size: of the row, its terms, lanes and streams.
        totals: what they start at.
        terms: adds a vector of terms to each of them.
    """
    b, (elements, lanes, streams) = emit.b, size
    count, done = len(totals), I64(0)

    def several(i: Value, carried: list[Value]) -> list[Value]:
        first, after = b.mul(i, I64(streams * lanes)), list[Value]()
        for number in range(streams):
            own = carried[number * count : (number + 1) * count]
            after += terms(b.add(first, I64(number * lanes)), None, own)
        return after

    if streams > 1:
        rounds = emit.quotient(elements, I64(streams * lanes))
        fresh = [folding.initial(lanes)] * (count * (streams - 1))
        sums = emit.loop(rounds, several, [*totals, *fresh])
        ends = (sums[number::count] for number in range(count))
        totals = [reduce(lambda x, y: folding.combined(x, y, lanes), end) for end in ends]
        done = b.mul(rounds, I64(streams))

    def vector(i: Value, carried: list[Value]) -> list[Value]:
        return terms(b.mul(b.add(done, i), I64(lanes)), None, carried)

    full = emit.quotient(elements, I64(lanes))
    totals = emit.loop(b.sub(full, done), vector, totals)
    if lanes == 1:
        return totals
    start = b.mul(full, I64(lanes))
    return terms(start, emit.first_lanes(b.sub(elements, start), lanes), totals)
