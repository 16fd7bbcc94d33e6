"""`kern.map`: loops over the domain, vectors along its last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import cast

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.transposing import TransposeTiling, TransposingMap
from rnncc.codegen.llvm.nest import Nest, indexed_axes, joined, make_nest, split_nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value, selection
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.source import Fill
from rnncc.ir.types import ITEM_BYTES, dtype_of
from rnncc.kern.access import Access, are_near
from rnncc.kern.kernels import Map
from rnncc.platforms import LINE_FLOATS

MOST_REPEATED = 8
"""Steps of an innermost loop, up to so many are put between each other by shuffles."""
WORD = 4
"""Bytes of a lane."""
MOST_OPS = 64
"""Of all these steps, of which there is code for vectors of several lengths."""
_State = tuple[list[Pointer], dict[SSAValue, Value], dict[int, Value]]
"""Of a row: pointers to its first elements, what does not vary along it, indices by axis."""


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
    pairs = _Interleaved.of(emit, op, nest, pointers)
    if pairs is not None:
        emit.nest([emit.dim(d) for d in nest.dims[:-2]], pairs.row, shared=True)
        return
    code = _MapCode(emit, op, nest, pointers)
    counts = [emit.dim(d) for d in nest.dims[:-1]]
    # Threads share the outermost loop; where there is none, the row.
    emit.nest(counts, partial(code.row, shared=not counts), shared=True)


def _emit_listed(emit: CpuEmit, op: Map, pointers: list[Pointer], rows: Pointer) -> None:
    """Loops over listed rows, and inside over what is left of the domain."""
    listing = op.active_rows
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
        dense = are_near(self.steps[: self.count])
        dense = dense and all(s == 1 for s in self.steps[self.count :])
        self.lanes = emit.target.lanes if nest.dims and dense else 1
        moves = self.lanes > 1 and all(s in (0, 1) for s in self.steps)
        self.wide = self.lanes * _elements_in_word(op) if moves else 1
        axis, last = (nest.axes[-1], nest.dims[-1]) if nest.dims else (None, Dim.of(1))
        # What divides the last axis, whatever its symbols are: a rest in whole shorter vectors
        # needs no mask, whose stores reach a later load 4 ns later than others.
        self.factor = gcd(LINE_FLOATS, *(factor for _, factor in last.terms))
        self.arguments: Sequence[SSAValue] = op.body.block.args
        varying = {v for v, s in zip(self.arguments, self.steps, strict=False) if s != 0}
        self.code = RegionCode(emit, op.body.block, varying, axis)

    def row(self, indices: list[Value], shared: bool = False) -> None:
        """The points along the last axis, given the indices of the others.

        Args:
            shared: whether threads share them; else the row is one thread's.
        """
        emit, nest, state = self.emit, self.nest, self.state(indices)
        count = emit.dim(nest.dims[-1]) if nest.dims else I64(1)

        first, mine = I64(0), count
        if emit.team is not None and shared:
            # Whole lines, as two threads that write into one line take it from each other.
            first, mine = emit.team.share(count, LINE_FLOATS)

        def vector(start: Value, lanes: int, mask: Value | None) -> None:
            values, here = self.values(state, emit.b.add(first, start), lanes, mask)
            for value, pointer in zip(values, here, strict=True):
                emit.store(value, pointer, lanes, mask)

        self._along(mine, vector)

    def state(self, indices: list[Value], more: Mapping[int, Value] | None = None) -> _State:
        """What is computed once a row.

        Args:
            more: the indices of axes that are no loops.
        """
        emit, nest = self.emit, self.nest
        pointers = list(self.bases)
        for loop, index in enumerate(indices):
            for i, access in enumerate(nest.accesses):
                if access.strides[loop] != 0:
                    step = emit.b.mul(index, emit.dim(access.strides[loop]))
                    pointers[i] = emit.at(pointers[i], step)
        by_axis = dict(zip(nest.axes, indices, strict=False)) | dict(more or {})
        known = {
            v: emit.load(pointers[i])
            for i, v in enumerate(self.arguments)
            if v not in self.code.varying
        }
        return pointers, self.code.invariants(known, lambda a: by_axis.get(a, I64(0))), by_axis

    def _along(self, count: Value, vector: Callable[[Value, int, Value | None], None]) -> None:
        """Whole vectors, then a rest in shorter ones, if the count tells that it fills them."""
        emit, lanes = self.emit, self.lanes
        if self.wide > lanes:
            first = self._pieces(I64(0), count, self.wide, vector)
            count, vector = emit.b.sub(count, first), partial(_behind, emit, first, vector)
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

    def values(
        self, state: _State, start: Value, lanes: int, mask: Value | None
    ) -> tuple[list[Value], list[Pointer]]:
        """A vector of each result, and where it belongs."""
        emit, (pointers, scalars, by_axis) = self.emit, state
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

        return self.code.vectors(scalars, known, index, lanes), here[self.count :]


def _behind(
    emit: CpuEmit,
    first: Value,
    vector: Callable[[Value, int, Value | None], None],
    start: Value,
    lanes: int,
    mask: Value | None,
) -> None:
    vector(emit.b.add(first, start), lanes, mask)


def _elements_in_word(op: Map) -> int:
    """How many elements a lane holds where they are moved and not computed with."""
    if not all(isinstance(inner, Fill | Yield) for inner in op.body.block.ops):
        return 1
    return min(WORD // ITEM_BYTES[dtype_of(v)] for v in (*op.body.block.args, *op.yields)) or 1


class _Interleaved:
    """Rows of a few steps, such as elements that are repeated: vectors run along the axis around.

    Args:
        parts: the code of the first step, and so on.
        steps: of the last axis, for what is left.
    """

    def __init__(
        self, emit: CpuEmit, nest: Nest, parts: Sequence[_MapCode], steps: _MapCode
    ) -> None:
        self.emit, self.parts, self.steps = emit, parts, steps
        self.size, self.axis = nest.dims[-2], nest.axes[-1]

    @staticmethod
    def of(emit: CpuEmit, op: Map, nest: Nest, pointers: list[Pointer]) -> _Interleaved | None:
        """The code of a map whose innermost loop is so short, and whose results are dense."""
        if len(nest.dims) < 2 + (emit.team is not None) or not nest.dims[-1].is_static:
            return None
        size, ins = int(nest.dims[-1]), len(op.ins)
        if not 1 < size <= MOST_REPEATED or size * len(op.body.block.ops) > MOST_OPS:
            return None
        steps = [a.strides[-2] for a in nest.accesses]
        near = all(s in (0, 1) for s in steps[:ins])
        dense = all(a.strides[-2:] == (size, 1) for a in nest.accesses[ins:])
        short = nest.dims[-2].is_static and int(nest.dims[-2]) < emit.target.lane_counts[0]
        if not near or not dense or short or emit.target.lanes < 2 or emit.target.compact:
            return None
        parts = [
            _MapCode(emit, op, Nest(nest.dims[:-1], nest.axes[:-1], _part(nest, n)), pointers)
            for n in range(size)
        ]
        return _Interleaved(emit, nest, parts, _MapCode(emit, op, nest, pointers))

    def row(self, indices: list[Value]) -> None:
        """The points along the last two axes."""
        emit, b = self.emit, self.emit.b
        states = [part.state(indices, {self.axis: I64(n)}) for n, part in enumerate(self.parts)]
        count, done = emit.dim(self.size), cast(Value, I64(0))
        # the rest in shorter vectors, then one by one
        for lanes in reversed(emit.target.lane_counts):
            pieces = emit.quotient(b.sub(count, done), I64(lanes))
            emit.loop(pieces, partial(self._vectors, states, done, lanes))
            done = b.add(done, b.mul(pieces, I64(lanes)))

        def single(i: Value, carried: list[Value]) -> list[Value]:
            self.steps.row([*indices, b.add(done, i)])
            return []

        emit.loop(b.sub(count, done), single)

    def _vectors(
        self, states: Sequence[_State], first: Value, lanes: int, i: Value, carried: list[Value]
    ) -> list[Value]:
        emit, b = self.emit, self.emit.b
        start = b.add(first, b.mul(i, I64(lanes)))
        by_point = [
            part.values(state, start, lanes, None)
            for part, state in zip(self.parts, states, strict=True)
        ]
        for number, place in enumerate(by_point[0][1]):
            vectors = _interleaved(b, [values[number] for values, _ in by_point])
            for n, vector in enumerate(vectors):
                emit.store(vector, emit.at(place, I64(n * lanes)), lanes)
        return []


def _part(nest: Nest, number: int) -> tuple[Access, ...]:
    """The accesses of one step of the innermost loop, over the others."""
    return tuple(Access(a.offset + a.strides[-1] * number, a.strides[:-1]) for a in nest.accesses)


def _interleaved(b: ir.IRBuilder, vectors: Sequence[Value]) -> list[Value]:
    """The first element of each vector, then the second of each, and so on."""
    count, lanes = len(vectors), cast(ir.VectorType, vectors[0].type).count
    interleaved = list[Value]()
    for first in range(0, count * lanes, lanes):
        joined = vectors[0]
        # lane i takes element at of vector number % count; what is taken already stays
        for number, vector in enumerate(vectors[1:], 1):
            chosen = list[int]()
            for lane in range(lanes):
                at, source = divmod(first + lane, count)
                before = at if number == 1 else lane
                chosen.append(lanes + at if source == number else before)
            joined = b.shuffle_vector(joined, vector, selection(*chosen))
        interleaved.append(joined)
    return interleaved
