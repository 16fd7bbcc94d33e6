"""Gradients that users give, in the place of those that follow from what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, Pure

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Array, Axes, Context, Grads, Properties, RnnOp, Tangents, View
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.checks import expect
from rnncc.ir.ops.control import terminator
from rnncc.ir.ops.elementwise import Add, Div, Mul, Neg, Select, Share, StopGradient, Sub
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Concat
from rnncc.ir.ops.source import Fill
from rnncc.ir.types import Tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder


@irdl_op_definition
class WithGradient(RnnOp):
    """y = x, where not x has the gradient of y, but `inputs` have those that the body makes of it.

    body: (dy, reads...) -> (gradient of each of inputs...). Where it reads x, second derivatives
    take that for y: x itself may be the last of some approximations, and constant.
    """

    name = "rnn.with_gradient"
    x = operand_def()
    inputs = var_operand_def()
    reads = var_operand_def()
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(IsolatedFromAbove(), Pure())

    def __init__(
        self, x: SSAValue, inputs: Sequence[SSAValue], reads: Sequence[SSAValue], body: Block
    ) -> None:
        IRDLOperation.__init__(
            self,
            operands=[x, list(inputs), list(reads)],
            result_types=[x.type],
            regions=[Region(body)],
        )

    @classmethod
    def infer(cls, properties: Properties, *types: Tensor) -> Tensor:
        return types[0]

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        return arrays[0]

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """What the body makes of dy"""
        grads = b.inline(self.body.block, [dy, *self.known_reads])
        return [None, *grads, *(None for _ in self.reads)]

    def jvp(self, b: Builder, tangents: Tangents) -> SSAValue | None:
        raise AssertionError("`passes.tangents` transposes its body")

    @property
    def differentiable(self) -> Sequence[SSAValue]:
        return self.inputs

    @property
    def known_reads(self) -> Sequence[SSAValue]:
        """What the body reads, with the gradients that are stated."""
        return [self.y if value is self.x else value for value in self.reads]

    @property
    def splits(self) -> bool:
        """If the body is linear in dy: else two gradients make other ones than their sum does."""
        return _is_linear(self.body.block)

    def operand_axes(self, axis: int) -> Axes | None:
        return (axis, *(None for _ in self.operands[1:]))

    def batched_operands(self, differ: Sequence[bool]) -> Sequence[bool] | None:
        return None

    def work(self) -> Dim | None:
        return Dim.of(0)

    def verify_(self) -> None:
        super().verify_()
        block = self.body.block
        expected = [self.y.type, *(value.type for value in self.reads)]
        actual = [arg.type for arg in block.args]
        expect(actual == expected, f"the body takes {actual}, expected {expected}")
        types = [value.type for value in terminator(block)]
        expect(types == [v.type for v in self.inputs], f"the body gives {types} as gradients")


def _is_linear(body: Block) -> bool:
    """Whether all that a block gives is linear in its first argument."""
    linear: set[SSAValue] = {body.args[0]}
    for op in body.ops:
        # it does not depend on dy: a constant factor of what follows
        if linear.isdisjoint(op.operands):
            continue
        if op is not body.last_op and not _keeps_linear(op, linear):
            return False
        linear.update(op.results)
    return all(value in linear or _is_zero(value) for value in terminator(body))


def _keeps_linear(op: Operation, tracked: set[SSAValue]) -> bool:
    """Whether an op's result is linear in those of its operands that are found."""
    linear = [value in tracked for value in op.operands]
    match op:
        case View() | Neg() | Cast() | StopGradient():
            return True
        case Mul() | Matmul():
            # a product of two values that depend on dy is quadratic in it
            return linear.count(True) == 1
        case Div() | Share():
            # a quotient is linear in its dividend alone
            return linear == [True, False]
        case Reduce():
            # the maximum of a sum is not the sum of maxima
            return op.kind.data == "sum"
        case Select():
            # a condition that depends on dy would choose differently for a sum
            return not linear[0] and all(map(_is_term, op.operands[1:], linear[1:]))
        case Add() | Sub() | Concat():
            # f(dy) + c is affine: f(a) + f(b) would count c twice
            return all(map(_is_term, op.operands, linear))
        case _:
            return False


def _is_term(value: SSAValue, linear: bool) -> bool:
    return linear or _is_zero(value)


def _is_zero(value: SSAValue) -> bool:
    if isinstance(value.owner, View):
        return _is_zero(value.owner.operands[0])
    return isinstance(value.owner, Fill) and value.owner.value.value.data == 0


OPS: list[type[Operation]] = [WithGradient]
