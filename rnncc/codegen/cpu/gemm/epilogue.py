"""The epilogue of `kern.gemm`: the body on the sums, one vector of units of one row at a time."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.terms import neighbours
from rnncc.codegen.llvm.nest import Nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Gemm

SHORT = 6
"""Ops of a body that is short."""
RowState = tuple[list[Pointer], dict[SSAValue, Value], dict[int, Value]]
"""What is computed once a row: its pointers, what does not vary along units, indices by axis."""


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
        slots = op.slots.data
        self.arguments: Sequence[SSAValue] = op.body.block.args
        self.inputs = self.arguments[slots:]
        varying = set(self.arguments[:slots])
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

    def run(
        self, state: RowState, panel: Value, vector: int, inside: int | Value, slots: list[Value]
    ) -> None:
        """The body on one vector of units, of which so many are inside: no others are touched."""
        emit, b = self.emit, self.emit.b
        pointers, scalars, by_axis = state
        unit = b.add(b.mul(panel, I64(self.panel)), I64(vector * self.lanes))
        lanes = self._lanes(inside)
        known = {v: emit.first_of(x, lanes) for v, x in zip(self.arguments, slots, strict=False)}
        for v, pointer, step in zip(self.inputs, pointers, self.unit_steps, strict=False):
            if v in self.code.varying:
                known[v] = neighbours(emit, pointer, unit, emit.dim(step), inside, lanes)

        def index(axis: int) -> Value:
            if axis == self.unit_axis:
                return emit.lane_numbers(unit, lanes)
            return emit.splat(by_axis.get(axis, I64(0)), lanes)

        values = self.code.vectors(scalars, known, index, lanes)
        count = len(self.inputs)
        for value, pointer, step in zip(
            values, pointers[count:], self.unit_steps[count:], strict=True
        ):
            self._store(value, pointer, unit, step, inside)

    def _lanes(self, inside: int | Value) -> int:
        # A shorter vector needs no mask: see `Core.lanes_for`.
        return self.emit.target.lanes_for(inside) if isinstance(inside, int) else self.lanes

    def _store(
        self, value: Value, pointer: Pointer, unit: Value, step: Dim, inside: int | Value
    ) -> None:
        emit, b = self.emit, self.emit.b
        if step == 1:
            lanes = self._lanes(inside)
            emit.store(value, emit.at(pointer, unit), lanes, emit.mask(inside, lanes))
            return
        assert isinstance(inside, int)
        stride = emit.dim(step)
        for lane in range(inside):
            at = b.mul(b.add(unit, I64(lane)), stride)
            element = value if self.lanes == 1 else b.extract_element(value, I64(lane))
            emit.store(element, emit.at(pointer, at))
