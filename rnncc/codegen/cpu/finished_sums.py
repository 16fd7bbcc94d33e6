"""A reduction over windows and the map of its results, in one pass: results are finished before
they are stored.

Such are the scale, the shift and the activation behind a depthwise convolution: a pass of their own
would read and write once more what may be larger than a cache near the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.ir import Block, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.orders.loop_orders import element_of
from rnncc.codegen.cpu.sums.one_pass import is_read_in_time, is_scratch
from rnncc.codegen.cpu.sums.reduce import ReduceCode
from rnncc.codegen.cpu.sums.shared_rows import ResultIndices, has_few_taps
from rnncc.codegen.cpu.sums.totals import Totals
from rnncc.codegen.llvm.nest import indexed_axes
from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import Pointer, Value
from rnncc.kern.access import Access, buffer_dtype
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Map, Reduce
from rnncc.kern.program import KernelProgram
from rnncc.planning.served_outputs import served_outputs

Pointers = Mapping[SSAValue, Pointer]


def finished_sums(programs: Iterable[KernelProgram]) -> dict[Reduce, Map]:
    """Reductions that may compute the map behind them, each with that map."""
    pairs = dict[Reduce, Map]()
    for program in programs:
        own = dict(_pairs(program.func.body.block))
        served = served_outputs(program) if own else {}
        pairs |= {op: then for op, then in own.items() if served.get(op) == served.get(then)}
    return pairs


def _pairs(block: Block) -> Iterator[tuple[Reduce, Map]]:
    for op in block.ops:
        then = op.next_op
        if isinstance(op, For):
            yield from _pairs(op.body.block)
        elif isinstance(op, Reduce) and isinstance(then, Map) and _fit(op, then):
            yield op, then


def emit_finished(emit: CpuEmit, op: Reduce, then: Map, pointers: Pointers) -> None:
    """Write the loops of both."""
    ReduceCode(_FinishedTotals(emit, op, then, pointers)).over_rows(None)


class _FinishedTotals(Totals):
    """Totals that go through a map's body, and are stored where the map writes."""

    def __init__(self, emit: CpuEmit, op: Reduce, then: Map, pointers: Pointers) -> None:
        [total] = op.outs
        super().__init__(emit, op, [pointers[v] for v in op.ins], pointers[total], None)
        arguments: Sequence[SSAValue] = then.body.block.args
        reads = list(zip(arguments, then.ins, then.in_accesses, strict=True))
        self.total = [argument for argument, value, _ in reads if value is total]
        self.beside = [(a, pointers[v], access) for a, v, access in reads if v is not total]
        [value], [access] = then.outs, then.out_accesses
        self.written = pointers[value], access
        varying = {a for a, _, access in self.beside if access.strides[-1] != 0}
        self.finish = RegionCode(emit, then.body.block, {*self.total, *varying}, self.axis)

    def result_at(self, indices: list[Value]) -> Pointer:
        return self._at(*self.written, indices)

    def finished(self, totals: list[Value], places: Sequence[ResultIndices]) -> list[Value]:
        read = dict[tuple[object, ...], Value]()  # once, by several places
        return [self._finished(*pair, read) for pair in zip(totals, places, strict=True)]

    def _finished(
        self, total: Value, place: ResultIndices, read: dict[tuple[object, ...], Value]
    ) -> Value:
        """A vector of what the map makes of its totals; `read`: what others have read."""
        emit, vectors = self.emit, dict[SSAValue, Value](dict.fromkeys(self.total, total))
        scalars = dict[SSAValue, Value]()
        for argument, pointer, access in self.beside:
            varies = argument in self.finish.varying
            shift = tuple(
                by for by, step in zip(place.shift, access.strides[-2:], strict=False) if step != 0
            )
            # The places of one call are those of one block: their shifts tell them apart.
            key = argument, access.strides[-2:], shift, varies and place.mask
            if key not in read:
                at = self._at(pointer, access, place.indices)
                read[key] = emit.load(at, self.lanes, place.mask) if varies else emit.load(at)
            (vectors if varies else scalars)[argument] = read[key]

        def no_index(axis: int) -> Value:
            raise AssertionError(f"axis {axis} is no operand")

        scalars = self.finish.invariants(scalars, no_index)
        [result] = self.finish.vectors(scalars, vectors, no_index, self.lanes)
        return result

    def _at(self, pointer: Pointer, access: Access, indices: list[Value]) -> Pointer:
        first = self.emit.at(pointer, self.emit.dim(access.offset))
        return self.emit.along(first, access.strides, indices)


def _fit(op: Reduce, then: Map) -> bool:
    """Whether a map goes over just the results of a reduction over windows."""
    kept = len(op.dims) - op.reduced.data
    plain = op.rows is None and then.rows is None and op.init is None and op.order.data == "any"
    if not plain or then.dims != op.dims[:kept] or kept < 2 or indexed_axes(then):
        return False
    if lanes_of(op) is not Lanes.ACROSS or not has_few_taps(op, kept):
        return False
    [total], [result] = op.outs, op.out_accesses
    written = Access(result.offset, result.strides[:kept])
    own = [a for v, a in zip(then.ins, then.in_accesses, strict=True) if v is total]
    if not own or own != [written] * len(own) or len(then.outs) != 1:
        return False
    if not all(access.strides[-1] in (0, 1) for access in then.in_accesses):
        return False
    same = element_of(op) == element_of(then) and buffer_dtype(then.outs[0]) == buffer_dtype(total)
    dense = then.out_accesses[0].strides[-1] == 1
    return dense and same and _is_between(op, then) and _is_apart(op, then)


def _is_between(op: Reduce, then: Map) -> bool:
    """Whether nothing but the map reads the results."""
    [total] = op.outs
    return is_scratch(total) and {use.operation for use in total.uses} == {op, then}


def _is_apart(op: Reduce, then: Map) -> bool:
    """Whether the map writes nothing that the reduction, or the map elsewhere, has yet to read."""
    [value], [access] = then.outs, then.out_accesses
    out = value.owner
    if not isinstance(out, Buffer) or not is_scratch(value):
        return False
    reads: list[tuple[SSAValue, Access | None]] = [(v, None) for v in op.ins]
    reads += [p for p in zip(then.ins, then.in_accesses, strict=True) if p[0] is not op.outs[0]]
    return all(is_read_in_time(read, place, out, access) for read, place in reads)
