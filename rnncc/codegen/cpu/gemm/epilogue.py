"""The epilogue of `kern.gemm`: the body on the sums, one vector of units of one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.terms import neighbours
from rnncc.codegen.llvm.nest import Nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import dtype_of
from rnncc.kern.kernels import Gemm
from rnncc.records import record

SHORT = 6
"""Ops of a body that is short."""
RowState = tuple[list[Pointer], dict[SSAValue, Value], dict[int, Value]]
"""What is computed once a row: its pointers, what does not vary along units, indices by axis."""


@record
class EpilogueStage:
    """A part of the body.

    Attributes:
        known: the values that it is given: sums, or what the stage before keeps.
        kept: those of its and of earlier values that later stages read; in the last, the results.
        is_last: whether it stores them.
    """

    ops: list[Operation]
    known: list[SSAValue]
    kept: list[SSAValue]
    is_last: bool = True


class Epilogue:
    """Reads inputs and writes outputs.

    Args:
        nest: the rows' axes; its accesses are those of the left operand, inputs, outputs.
    """

    def __init__(self, emit: CpuEmit, op: Gemm, pointers: list[Pointer], nest: Nest) -> None:
        self.emit, self.panel, self.lanes = emit, op.panel.data, emit.target.lanes
        accesses = [*op.in_accesses, *op.out_accesses]
        self.bases = [
            emit.at(p, emit.dim(x.offset)) for p, x in zip(pointers, accesses, strict=True)
        ]
        self.row_axes = list(nest.axes)
        self.row_steps = [x.strides for x in nest.accesses[1:]]
        self.unit_steps = [x.strides[-1] for x in accesses]
        arguments, slots = op.body.block.args, op.slots.data
        self.sums, self.inputs = arguments[:slots], arguments[slots:]
        varying = set(self.sums)
        varying |= {v for v, s in zip(self.inputs, self.unit_steps, strict=False) if s != 0}
        self.unit_axis = len(op.dims) - 1
        self.code = RegionCode(emit, op.body.block, varying, self.unit_axis)

    @property
    def is_short(self) -> bool:
        """Whether it may be written once for each row of a tile."""
        return self.code.is_short(SHORT) and not self.emit.target.compact

    def row(self, indices: list[Value]) -> RowState:
        """What the epilogue needs once a row."""
        emit = self.emit
        pointers = [
            emit.along(p, steps, indices)
            for p, steps in zip(self.bases, self.row_steps, strict=True)
        ]
        by_axis = dict(zip(self.row_axes, indices, strict=False))
        known: dict[SSAValue, Value] = {
            v: emit.load(p)
            for v, p in zip(self.inputs, pointers, strict=False)
            if v not in self.code.varying
        }
        scalars = self.code.invariants(known, lambda axis: by_axis.get(axis, I64(0)))
        return pointers, scalars, by_axis

    @cached_property
    def whole(self) -> EpilogueStage:
        """The body as one stage."""
        return EpilogueStage(self.code.vector_ops, list(self.sums), list(self.code.results))

    @cached_property
    def stages(self) -> list[EpilogueStage]:
        """The body in parts, of which each is for all rows of a tile before the next one.

        A function that waits for another one's result holds up what follows it, other rows too.
        There is one stage where more values than sums, whose places they take, or values of other
        types would have to be kept.
        """
        *parts, last = self.code.stages()
        results, stages = list(self.code.results), list[EpilogueStage]()
        known: list[SSAValue] = [*self.sums]
        for i, ops in enumerate(parts):
            following = [op for later in (*parts[i + 1 :], last) for op in later]
            read = {v for op in following for v in op.operands} | set(results)
            kept: list[SSAValue] = [
                v for v in (*known, *(op.results[0] for op in ops)) if v in read
            ]
            if len(kept) > len(self.sums) or any(dtype_of(v) != self.emit.element for v in kept):
                return [self.whole]
            stages.append(EpilogueStage(ops, known, kept, is_last=False))
            known = kept
        return [*stages, EpilogueStage(last, known, results)]

    def run(
        self,
        state: RowState,
        panel: Value,
        vector: int,
        inside: int | Value,
        values: Sequence[Value],
        stage: EpilogueStage,
    ) -> list[Value]:
        """A stage of the body on one vector of units, of which so many are inside: no others are
        touched. What it keeps; the last one stores the results."""
        emit, b = self.emit, self.emit.b
        pointers, scalars, by_axis = state
        unit = b.add(b.mul(panel, I64(self.panel)), I64(vector * self.lanes))
        lanes = self.lanes_of(inside)
        known = {v: emit.first_of(x, lanes) for v, x in zip(stage.known, values, strict=True)}
        read = {v for op in stage.ops for v in op.operands} | set(stage.kept)
        for v, pointer, step in zip(self.inputs, pointers, self.unit_steps, strict=False):
            if v in self.code.varying and v in read:
                known[v] = neighbours(emit, pointer, unit, emit.dim(step), inside, lanes)

        def index(axis: int) -> Value:
            if axis == self.unit_axis:
                return emit.lane_numbers(unit, lanes)
            return emit.splat(by_axis.get(axis, I64(0)), lanes)

        computed = self.code.ahead(stage.ops, scalars, known, index, lanes)
        kept = [computed[v] for v in stage.kept]
        if stage.is_last:
            count = len(self.inputs)
            outs = zip(kept, pointers[count:], self.unit_steps[count:], strict=True)
            for value, pointer, step in outs:
                self._store(value, pointer, unit, step, inside)
        return kept

    def lanes_of(self, inside: int | Value) -> int:
        # A shorter vector needs no mask: see `Core.lanes_for`.
        return self.emit.target.lanes_for(inside) if isinstance(inside, int) else self.lanes

    def _store(
        self, value: Value, pointer: Pointer, unit: Value, step: Dim, inside: int | Value
    ) -> None:
        emit, b = self.emit, self.emit.b
        if step == 1:
            lanes = self.lanes_of(inside)
            emit.store(value, emit.at(pointer, unit), lanes, emit.mask(inside, lanes))
            return
        assert isinstance(inside, int)
        stride = emit.dim(step)
        for lane in range(inside):
            at = b.mul(b.add(unit, I64(lane)), stride)
            element = value if self.lanes == 1 else b.extract_element(value, I64(lane))
            emit.store(element, emit.at(pointer, at))
