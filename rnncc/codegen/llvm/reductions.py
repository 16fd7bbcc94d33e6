"""`kern.reduce` on any LLVM target: what is folded, and how it lies to vectors of lanes.

From how it lies follows the order of an `any` sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

from llvmlite import ir

from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.text_builder import undefined
from rnncc.codegen.llvm.values import VALUE, Value, selection
from rnncc.codegen.llvm.vector import Real, real_of
from rnncc.ir.types import FLOATS, ITEM_BYTES, dtype_of
from rnncc.kern.access import Access, are_near
from rnncc.kern.kernels import Reduce


class Lanes(Enum):
    """What runs along the lanes: results, each of which one lane sums; the last reduced axis, whose
    lanes are added up in the end; nothing."""

    ACROSS = auto()
    ALONG = auto()
    NONE = auto()


def lanes_of(op: Reduce) -> Lanes:
    """Lanes run along the last axis that is kept, where memory is dense along it, or nearly so;
    else along the last reduced axis, where that is dense and the order is free."""
    kept, listing = len(op.dims) - op.reduced.data, op.active_rows
    reads, [written] = op.in_accesses, op.out_accesses
    across = kept > 0 and written.strides[kept - 1] == 1 and _near(reads, kept - 1)
    if across and (listing is None or listing.axes < kept):  # listed rows are far apart
        return Lanes.ACROSS
    along = op.order.data == "any" and op.reduced.data > 0 and _dense(reads, len(op.dims) - 1)
    return Lanes.ALONG if along else Lanes.NONE


def _dense(accesses: Sequence[Access], axis: int) -> bool:
    steps = [a.strides[axis] for a in accesses]
    return any(s == 1 for s in steps) and all(s in (0, 1) for s in steps)


def _near(accesses: Sequence[Access], axis: int) -> bool:
    steps = [a.strides[axis] for a in accesses]
    return are_near(steps) and any(s != 0 for s in steps)


class Folding:
    """Sum, largest or smallest of terms, each of so many lanes."""

    def __init__(self, emit: Emit, kind: str, dtype: str) -> None:
        self.emit, self.kind, self.dtype = emit, kind, dtype
        self.real: Real | None = real_of(dtype) if dtype in FLOATS else None

    @staticmethod
    def of(emit: Emit, op: Reduce) -> Folding:
        """That of a reduction."""
        return Folding(emit, op.kind.data, dtype_of(op.yields[0]))

    def initial(self, lanes: int) -> Value:
        """Of no terms."""
        if self.real is not None:
            number = {"sum": 0.0, "max": -math.inf, "min": math.inf}[self.kind]
            return self.emit.math(lanes, self.real).splat(number)
        bits = 8 * ITEM_BYTES[self.dtype]
        limits = {"sum": 0, "max": -(1 << (bits - 1)), "min": (1 << (bits - 1)) - 1}
        return self.emit.splat(ir.Constant(VALUE[self.dtype], limits[self.kind]), lanes)

    def combined(self, total: Value, term: Value, lanes: int) -> Value:
        """One more term."""
        b = self.emit.b
        if self.kind == "sum":
            return b.fadd(total, term) if self.real else b.add(total, term)
        if self.real is not None:
            m = self.emit.math(lanes, self.real)
            return (m.maximum if self.kind == "max" else m.minimum)(b, total, term)
        return b.select(b.icmp_signed(self._order, total, term), total, term)

    def added(self, total: Value, term: Sequence[Value], lanes: int) -> Value:
        """One more term: a value, or two factors whose product is not rounded."""
        if len(term) == 1:
            return self.combined(total, term[0], lanes)
        assert self.real is not None
        a, b = term
        return self.emit.math(lanes, self.real).fma(self.emit.b, a, b, total)

    def halves(self, low: Value, high: Value) -> Value:
        """The lower lanes and the upper ones, folded; of two NaNs the lower one's."""
        b = self.emit.b
        if self.kind == "sum":
            return b.fadd(low, high) if self.real else b.add(low, high)
        if self.real is None:
            return b.select(b.icmp_signed(self._order, low, high), low, high)
        keeps = b.fcmp_ordered(self._order, low, high)
        return b.select(b.or_(keeps, b.fcmp_unordered("uno", low, low)), low, high)

    @property
    def _order(self) -> str:
        return ">" if self.kind == "max" else "<"


def fold(folding: Folding, total: Value, lanes: int) -> Value:
    """The lanes as one: halves added, then halves of these, ..."""
    b = folding.emit.b
    while lanes > 1:
        lanes //= 2
        low, high = (
            b.shuffle_vector(total, undefined(total.type), selection(*range(first, first + lanes)))
            for first in (0, lanes)
        )
        if lanes == 1:
            low, high = (b.extract_element(v, ir.IntType(32)(0)) for v in (low, high))
            return folding.combined(low, high, 1)
        total = folding.halves(low, high)
    return total


def fold_together(folding: Folding, totals: Sequence[Value]) -> Value:
    """Vectors of as many lanes, each folded as alone: its upper half onto its lower one, and so on.

    Two vectors of halves make one: as many additions fold all as would else fold a few.
    """
    b, lanes = folding.emit.b, len(totals)
    part, values = lanes, list(totals)
    while part > 1:
        part //= 2
        first = [start + i for start in range(0, 2 * lanes, 2 * part) for i in range(part)]
        low, high = (selection(*(place + by for place in first)) for by in (0, part))
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [
            folding.halves(b.shuffle_vector(x, y, low), b.shuffle_vector(x, y, high))
            for x, y in pairs
        ]
    return values[0]
