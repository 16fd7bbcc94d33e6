"""Values of a loop's body, computed outside of it: what hoisting and sinking build."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.order import post_order
from rnncc.passes.batching import batched_operands, spread
from rnncc.passes.dependence import Kind


@dataclass
class Outside:
    """Makes values of a body in front of an op, each once.

    Attributes:
        before: the op, outside of the loop.
        consts: values of the body that are known outside, the same for all steps.
        rows: values of the body that are known outside for all steps, with a leading time axis.
    """

    before: Operation
    steps: Dim
    kinds: dict[SSAValue, Kind]
    consts: dict[SSAValue, SSAValue]
    rows: dict[SSAValue, SSAValue]

    def const(self, value: SSAValue) -> SSAValue:
        """A value that depends on consts alone."""
        for inner in () if value in self.consts else post_order(value, self._const_needs):
            op = inner.owner
            if inner in self.consts:
                continue  # another result of the same loop
            assert isinstance(op, RnnOp | Scan)
            clone = op.clone({x: self.consts[x] for x in op.operands})
            assert self.before.parent is not None
            self.before.parent.insert_op_before(clone, self.before)
            self.consts |= zip(op.results, clone.results, strict=True)
        return self.consts[value]

    def _const_needs(self, value: SSAValue) -> list[SSAValue]:
        assert isinstance(value.owner, RnnOp | Scan)
        return [x for x in value.owner.operands if x not in self.consts]

    def all_steps(self, value: SSAValue) -> SSAValue:
        """A value for all steps, with a leading time axis."""
        for inner in () if value in self.rows else post_order(value, self._row_needs):
            op = inner.owner
            if self.kinds[inner] == Kind.CONST:
                self.rows[inner] = spread(self.build(), self.const(inner), self.steps)
                continue
            assert isinstance(op, RnnOp)
            batched = batched_operands(op, self.kinds)
            operands = [self.rows[x] if x in batched else self.const(x) for x in op.operands]
            self.rows[inner] = op.batch(self.build(op), operands, self.steps)
        return self.rows[value]

    def _row_needs(self, value: SSAValue) -> list[SSAValue]:
        op = value.owner
        if self.kinds[value] == Kind.CONST:
            return []
        assert isinstance(op, RnnOp)
        return [x for x in batched_operands(op, self.kinds) if x not in self.rows]

    def build(self, op: Operation | None = None) -> Builder:
        """A builder at that place, with the location of an op of the body."""
        b = Builder.before(self.before)
        if op is not None:
            b.loc = Builder.before(op).loc
        return b
