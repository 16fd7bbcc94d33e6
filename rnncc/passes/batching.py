"""An op of a loop's body, done for all time steps at once: every axis moves by one."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.types import dims_of
from rnncc.passes.dependence import Kind

Kinds = dict[SSAValue, Kind]


def can_batch(op: Operation, kinds: Kinds) -> bool:
    """Whether an op has a batching rule for operands of these kinds."""
    return isinstance(op, RnnOp) and _batched(op, kinds) is not None


def batched_operands(op: RnnOp, kinds: Kinds) -> list[SSAValue]:
    """The operands that are sequences, one row a step; the others are the same for all steps."""
    batched = _batched(op, kinds)
    assert batched is not None, f"{op.name} has no batching rule"
    return [v for v, differs in zip(op.operands, batched, strict=True) if differs]


def spread(b: Builder, value: SSAValue, steps: Dim) -> SSAValue:
    """A value repeated for all steps."""
    dims = dims_of(value)
    return b.broadcast(value, [steps, *dims], range(1, len(dims) + 1))


def _batched(op: RnnOp, kinds: Kinds) -> Sequence[bool] | None:
    return op.batched_operands([kinds[v] != Kind.CONST for v in op.operands])
