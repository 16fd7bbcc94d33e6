"""Values whose gradients are stated, where those of their formulas are others or are no numbers."""

from __future__ import annotations

import math
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


def without_slope_where(b: Builder, x: SSAValue, where: SSAValue) -> SSAValue:
    """x, whose gradient is NaN where a flag is set."""
    inner = Builder(Block(arg_types=[x.type, where.type]), b.loc)
    dy, flag = inner.block.args
    # A factor keeps it linear in dy, as second derivatives need it.
    factor = inner.select(flag, inner.full_like(dy, math.nan), inner.full_like(dy, 1.0))
    return b.with_gradient(x, [x], [where], inner, [inner.mul(dy, factor)])
