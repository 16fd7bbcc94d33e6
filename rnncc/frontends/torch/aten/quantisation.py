"""Simulated quantisation of aten: floats rounded to the numbers that few bits hold."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Block

from rnncc.frontends.torch.node_context import NodeContext, Table, Value, rank_of
from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of


def fake_quantize(
    at: NodeContext, x: Value, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """(q - zero) · scale, with q = zero + round(x / scale) held within bounds; where it was within

    The scale, its inverse and the result are float32 in PyTorch, whatever x is.
    """
    held = at.b.fill(float(np.float32(scale)), (), "f32")
    return _quantised(at, x, held, at.value(zero_point), (quant_min, quant_max))


def fake_quantize_by_tensors(
    at: NodeContext,
    x: Value,
    scale: Value,
    zero_point: Value,
    fake_quant_enabled: Value,
    quant_min: int,
    quant_max: int,
) -> tuple[Value, Value]:
    """With scale and zero in tensors; x as it is where a flag says so"""
    b, bounds = at.b, (quant_min, quant_max)
    scale, zero_point, enabled = (b.reshape(v, ()) for v in (scale, zero_point, fake_quant_enabled))
    y, within = _quantised(at, x, scale, at.value(zero_point), bounds)
    enabled = b.cast(enabled, "i1")
    return b.select(enabled, y, x), b.logical("or", within, b.logical_not(enabled))


def fake_quantize_by_channels(
    at: NodeContext,
    x: Value,
    scale: Value,
    zero_point: Value,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> tuple[Value, Value]:
    """With a scale and a zero for each place of an axis"""
    along = [at.axis(axis, rank_of(x))]
    scale, zero_point = (at.b.broadcast(v, dims_of(x), along) for v in (scale, zero_point))
    return _quantised(at, x, scale, at.value(zero_point), (quant_min, quant_max), at.dtype)


def _quantised(
    at: NodeContext,
    x: Value,
    scale: Value,
    zero: Value,
    bounds: tuple[int, int],
    kind: str = "f32",
) -> tuple[Value, Value]:
    """`kind`: the element type of the last product."""
    b = at.b
    inverse = at.value(b.div(b.fill(1, (), "f32"), scale))
    q = b.add(b.round("even", b.mul(x, inverse)), zero)
    low, high = map(at.value, bounds)
    within = b.logical("and", b.compare("ge", q, low), b.compare("le", q, high))
    moved = b.sub(b.minimum(b.maximum(q, low), high), zero)
    y = at.value(b.mul(b.cast(moved, kind), b.cast(scale, kind)))
    inner = Builder(Block(arg_types=[y.type, within.type]), b.loc)
    grad, passes = inner.block.args
    straight = inner.select(passes, grad, inner.fill(0, (), at.dtype))
    return b.with_gradient(y, [x], [within], inner, [straight]), within


OPERATORS: Table = {
    "fake_quantize_per_tensor_affine_cachemask": fake_quantize,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": fake_quantize_by_tensors,
    "fake_quantize_per_channel_affine_cachemask": fake_quantize_by_channels,
}
