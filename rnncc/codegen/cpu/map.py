"""`kern.map`: loops over the domain, vectors along its last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import cast

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.transposing import TransposeTiling, TransposingMap
from rnncc.codegen.llvm.nest import Nest, indexed_axes, joined, make_nest, split_nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import FAR, I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.kernels import Map

LINE = 16
"""Elements of which no two threads write some each: those of a line of the cache."""


def emit_map(
    emit: CpuEmit, op: Map, ins: list[Pointer], outs: list[Pointer], rows: Pointer | None = None
) -> None:
    """Write the loops of a map; `rows`: the list of those that are computed."""
    if rows is not None:
        _emit_listed(emit, op, [*ins, *outs], rows)
        return
    pointers, nest = [*ins, *outs], _nest_of(op, {})
    # A batch of one, innermost, would leave a lane a vector: the loop around is vectorised then (an
    # attention LSTM, H = 128, B = 1: 769 to 668 us).
    symbol = _innermost(nest)
    if symbol is None:
        _emit_nest(emit, op, nest, pointers)
        return
    alone = emit.b.icmp_signed("==", emit.symbols[symbol], I64(1))
    with emit.b.if_else(alone) as (one, several):
        with one:  # the axis around is the innermost one then
            _emit_nest(emit, op, _nest_of(op, {symbol: 1}), pointers)
        with several:
            _emit_nest(emit, op, nest, pointers)


def _nest_of(op: Map, sizes: Mapping[str, int]) -> Nest:
    """The loops of a map, where symbols have these sizes."""
    accesses = [
        Access(a.offset, tuple(s.substitute(sizes) for s in a.strides))
        for a in (*op.in_accesses, *op.out_accesses)
    ]
    return make_nest([d.substitute(sizes) for d in op.dims], accesses, indexed_axes(op))


def _innermost(nest: Nest) -> str | None:
    """The symbol that is the size of the innermost of several loops."""
    if len(nest.dims) < 2:
        return None
    return next((s for s in nest.dims[-1].symbols if nest.dims[-1] == Dim.of(s)), None)


def _emit_nest(emit: CpuEmit, op: Map, nest: Nest, pointers: list[Pointer]) -> None:
    tiling = TransposeTiling.of(emit, op, nest, pointers)
    if tiling is not None:
        TransposingMap(emit, op, nest, pointers, tiling).run()
        return
    code = _MapCode(emit, op, nest, pointers)
    counts = [emit.dim(d) for d in nest.dims[:-1]]
    # Threads share the outermost loop; where there is none, the row.
    emit.nest(counts, partial(code.row, shared=not counts), shared=True)


def _emit_listed(emit: CpuEmit, op: Map, pointers: list[Pointer], rows: Pointer) -> None:
    """Loops over listed rows, and inside over what is left of the domain."""
    listing = op.some_rows
    assert listing is not None
    outer, inner = split_nest(op, [*op.in_accesses, *op.out_accesses], listing.axes)
    code = _MapCode(emit, op, joined(outer, inner), pointers)
    RowList(emit, op, outer.dims, rows).nest([emit.dim(d) for d in inner.dims[:-1]], code.row)


class _MapCode:
    """One row of the domain, in vectors where its last axis is dense."""

    def __init__(self, emit: CpuEmit, op: Map, nest: Nest, pointers: list[Pointer]) -> None:
        self.emit, self.nest = emit, nest
        self.bases = [
            emit.at(p, emit.dim(a.offset)) for p, a in zip(pointers, nest.accesses, strict=True)
        ]
        self.steps = [a.strides[-1] if nest.dims else Dim.of(0) for a in nest.accesses]
        self.count = len(op.ins)
        dense = all(s.is_static and 0 <= int(s) <= FAR for s in self.steps[: self.count])
        dense = dense and all(s == 1 for s in self.steps[self.count :])
        self.lanes = emit.target.lanes if nest.dims and dense else 1
        axis, last = (nest.axes[-1], nest.dims[-1]) if nest.dims else (None, Dim.of(1))
        # What divides the last axis, whatever its symbols are: a rest in whole shorter vectors
        # needs no mask, whose stores reach a later load 4 ns later than others.
        self.factor = gcd(LINE, *(factor for _, factor in last.terms))
        self.arguments: Sequence[SSAValue] = op.body.block.args
        varying = {v for v, s in zip(self.arguments, self.steps, strict=False) if s != 0}
        self.code = RegionCode(emit, op.body.block, varying, axis)

    def row(self, indices: list[Value], shared: bool = False) -> None:
        """The points along the last axis, given the indices of the others.

        Args:
            shared: whether threads share them; else the row is one thread's.
        """
        emit, nest = self.emit, self.nest
        pointers = list(self.bases)
        for loop, index in enumerate(indices):
            for i, access in enumerate(nest.accesses):
                if access.strides[loop] != 0:
                    step = emit.b.mul(index, emit.dim(access.strides[loop]))
                    pointers[i] = emit.at(pointers[i], step)
        by_axis = dict(zip(nest.axes, indices, strict=False))
        known = {
            v: emit.load(pointers[i])
            for i, v in enumerate(self.arguments)
            if v not in self.code.varying
        }
        scalars = self.code.invariants(known, lambda axis: by_axis.get(axis, I64(0)))
        count = emit.dim(nest.dims[-1]) if nest.dims else I64(1)

        first, mine = I64(0), count
        if emit.team is not None and shared:
            # Whole lines, as two threads that write into one line take it from each other.
            first, mine = emit.team.share(count, LINE)

        def vector(start: Value, lanes: int, mask: Value | None) -> None:
            self._vector(pointers, scalars, by_axis, emit.b.add(first, start), lanes, mask)

        self._along(mine, vector)

    def _along(self, count: Value, vector: Callable[[Value, int, Value | None], None]) -> None:
        """Whole vectors, then a rest in shorter ones, if the count tells that it fills them."""
        emit, lanes = self.emit, self.lanes
        short = gcd(self.factor, lanes)
        # No length of vectors divides the axis at all sizes.
        if short not in emit.target.lane_counts:
            emit.in_vectors(count, lanes, lambda start, mask: vector(start, lanes, mask))
            return
        done = cast(Value, I64(0))
        for size in dict.fromkeys((lanes, short)):
            done = self._pieces(done, count, size, vector)

    def _pieces(
        self, first: Value, count: Value, size: int, vector: Callable[[Value, int, None], None]
    ) -> Value:
        """All whole vectors of a size from the first element on; where they end."""
        b = self.emit.b
        pieces = self.emit.quotient(b.sub(count, first), I64(size))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            vector(b.add(first, b.mul(i, I64(size))), size, None)
            return []

        self.emit.loop(pieces, iteration)
        return b.add(first, b.mul(pieces, I64(size)))

    def _load(self, pointer: Pointer, number: int, lanes: int, mask: Value | None) -> Value:
        """A vector of an input; far apart elements are read one by one, where a vector is one."""
        step = self.steps[number]
        return self.emit.spaced(pointer, int(step) if lanes > 1 else 1, lanes, mask)

    def _vector(
        self,
        pointers: list[Pointer],
        scalars: dict[SSAValue, Value],
        by_axis: dict[int, Value],
        start: Value,
        lanes: int,
        mask: Value | None,
    ) -> None:
        emit = self.emit
        here = [
            emit.at(p, emit.b.mul(start, emit.dim(s)) if s != 1 else start) if s != 0 else p
            for p, s in zip(pointers, self.steps, strict=True)
        ]
        known = {
            v: self._load(here[i], i, lanes, mask)
            for i, v in enumerate(self.arguments)
            if v in self.code.varying
        }

        def index(axis: int) -> Value:
            if self.nest.dims and axis == self.nest.axes[-1]:
                return emit.lane_numbers(start, lanes)
            return emit.splat(by_axis.get(axis, I64(0)), lanes)

        values = self.code.vectors(scalars, known, index, lanes)
        for value, pointer in zip(values, here[self.count :], strict=True):
            emit.store(value, pointer, lanes, mask)
