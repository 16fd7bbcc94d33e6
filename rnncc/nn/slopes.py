"""Values whose gradients are stated, where those of their formulas are others or are no numbers."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder

Backward = Callable[[Builder, SSAValue, SSAValue], SSAValue]
"""The gradient of x, of dy and x."""
ByResult = Callable[[Builder, SSAValue, SSAValue, SSAValue], SSAValue]
"""The gradient of x, of dy, x and y."""


def with_backward(b: Builder, y: SSAValue, x: SSAValue, backward: Backward) -> SSAValue:
    """y, through which the gradient of x is what `backward` makes of dy."""
    inner = Builder(Block(arg_types=[y.type, x.type]), b.loc)
    dy, same = inner.block.args
    return b.with_gradient(y, [x], [x], inner, [backward(inner, dy, same)])


def with_backward_by_result(b: Builder, y: SSAValue, x: SSAValue, backward: ByResult) -> SSAValue:
    """As `with_backward`, of what needs y as well."""
    inner = Builder(Block(arg_types=[y.type, x.type, y.type]), b.loc)
    dy, *read = inner.block.args
    return b.with_gradient(y, [x], [x, y], inner, [backward(inner, dy, *read)])


def passing(
    b: Builder, y: SSAValue, x: SSAValue, where: Callable[[Builder, SSAValue], SSAValue]
) -> SSAValue:
    """y, whose gradient is x's where a condition on x holds, and elsewhere 0.

    Args:
        where: the condition, of a builder and x.
    """

    def backward(b: Builder, dy: SSAValue, x: SSAValue) -> SSAValue:
        return b.select(where(b, x), dy, b.full_like(dy, 0.0))

    return with_backward(b, y, x, backward)
