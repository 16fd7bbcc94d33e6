"""Losses of aten whose gradients are not those of the formulas that PyTorch expands them to."""

from __future__ import annotations

from xdsl.ir import Block

from rnncc.frontends.torch.node_context import NodeContext, Table, Value
from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.reduction import mean, total

LEAST_LOG = -100.0
"""The least logarithm that PyTorch takes."""
LEAST_SLOPE = 1e-12
"""The least x · (1 - x) that PyTorch divides by."""
MEAN, SUM = 1, 2
"""Of the losses of all elements, as aten numbers them; 0 is none."""


def binary_cross_entropy(
    at: NodeContext, x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN
) -> Value:
    """-(target · ln x + (1 - target) · ln(1 - x)), logarithms of -100 at least; its slope is finite
    at 0 and 1, where sigmoids end up"""
    b, x, target = at.b, at.value(x), at.value(target)
    one, least = b.full_like(x, 1.0), b.full_like(x, LEAST_LOG)
    log, log_rest = (b.maximum(v, least) for v in (b.log(x), b.log1p(b.neg(x))))
    y = b.sub(b.mul(b.sub(target, one), log_rest), b.mul(target, log))
    inner = Builder(Block(arg_types=[y.type, x.type, target.type]), b.loc)
    dx, dtarget = _slopes(inner)
    y = b.with_gradient(y, [x, target], [x, target], inner, [dx, dtarget])
    y = y if weight is None else b.mul(y, at.value(weight))
    if reduction not in (MEAN, SUM):
        return y
    return (mean if reduction == MEAN else total)(b, y, range(len(dims_of(y))))


def _slopes(b: Builder) -> tuple[Value, Value]:
    """The gradients of x and of the target."""
    dy, x, target = b.block.args
    rest = b.sub(b.full_like(x, 1.0), x)
    slope = b.maximum(b.mul(rest, x), b.full_like(x, LEAST_SLOPE))
    dx = b.div(b.mul(dy, b.sub(x, target)), slope)
    return dx, b.mul(dy, b.sub(b.log(rest), b.log(x)))


OPERATORS: Table = {"binary_cross_entropy": binary_cross_entropy}
