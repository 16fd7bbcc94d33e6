"""Conv and MaxPool: of floats, and of such that come from bytes, which these are computed of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.conv import convolved, windows_of
from rnncc.frontends.onnx.ops.integer_products import BYTES, LEAST_DEPTH, as_int8
from rnncc.frontends.onnx.ops.pooling import max_pooled
from rnncc.frontends.onnx.values import Dequantised, Value
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Array
from rnncc.nn.axes import along
from rnncc.nn.convolution import FEW, are_sums
from rnncc.nn.quantisation import dequantise, integer_convolution

LEAST = 16
"""As `LEAST_DEPTH`, where bytes are windows of more than a few channels: they are in memory so."""


def _conv(n: Node) -> SSAValue:
    """Weights times windows of X, plus a bias, over one axis or more, in groups of channels; of
    floats that both come from bytes, exact sums of these times both scales.

    Refused: elements other than floats; weights of open sizes.
    """
    whole = _dequantised(n)
    return convolved(n) if whole is None else whole


def _dequantised(n: Node) -> SSAValue | None:
    """None where floats do not come from bytes, where scales differ along the sums, or sums are too
    short to gain."""
    known = n.scope.model.dequantised
    left, right = known.get(n.value(0).made), known.get(n.value(1))
    if left is None or right is None or n.scope.model.training:
        return None
    numbers, scales = right.numbers.numbers, right.scale.numbers
    if numbers is None or scales is None or {left.numbers.dtype, right.numbers.dtype} - {*BYTES}:
        return None
    one = left.scale.dims in ((), (Dim.of(1),)) and (scales.size == 1 or right.axis == 0)
    windows, groups = windows_of(n)  # checked, ahead of all that is made of shapes
    if not one or not _gains(numbers.shape, groups):
        return None
    zero = np.zeros((), np.int32) if right.zero is None else np.asarray(right.zero.numbers)
    if zero.size > 1 and groups > 1:
        return None
    apart, b = as_int8(n, numbers, zero, 0), n.b
    w_zero = along(b, n.literal(zero.astype(np.int32)), 0, numbers.ndim) if apart is None else None
    weights = n.scope.ssa(Value.of(numbers if apart is None else apart, right.numbers.name)), w_zero
    x_zero = None if left.zero is None else b.reshape(b.cast(n.scope.ssa(left.zero), "i32"), ())
    x = n.scope.ssa(left.numbers), x_zero
    return _scaled(n, left, scales, integer_convolution(b, x, weights, None, windows, groups))


def _gains(shape: Sequence[int], groups: int) -> bool:
    """Whether sums of bytes by weights of a shape are faster than those of floats."""
    least = LEAST if shape[1] > FEW else LEAST_DEPTH
    few_sums = not are_sums(shape[1], -(-shape[0] // groups), groups)
    return few_sums and math.prod(shape[1:]) >= least


def _scaled(n: Node, left: Dequantised, scales: Array, sums: SSAValue) -> SSAValue:
    """Sums times the scales of both sides, plus the bias."""
    b, rank, one = n.b, len(n.dims()), scales.size == 1
    y = b.cast(sums, "f32")
    each = n.literal(scales.reshape(() if one else -1))
    scale = b.mul(b.reshape(n.scope.ssa(left.scale), ()), each)
    y = b.mul(y, scale if one else along(b, scale, 1, rank))
    bias = n.maybe(2, FLOATS)
    return y if bias is None else b.add(y, along(b, bias, 1, rank))


def _max_pool(n: Node) -> list[SSAValue]:
    """The largest element of each window; and where in X it stands, counted along its last axis
    first, or with `storage_order` along the first axis of space.

    Refused: auto_pad SAME_UPPER and SAME_LOWER with windows shorter than their stride.
    """
    origin, plain = n.scope.model.dequantised.get(n.value(0).made), len(n.op.output) == 1
    if origin is None or not plain or not _is_monotonic(origin) or _may_be_empty(n):
        return max_pooled(n)
    b, n.inputs = n.b, [origin.numbers, *n.inputs[1:]]
    [numbers] = max_pooled(n)
    scale = b.reshape(n.scope.ssa(origin.scale), ())
    zero = None if origin.zero is None else b.cast(n.scope.ssa(origin.zero), "i32")
    floats = dequantise(b, numbers, scale, None if zero is None else b.reshape(zero, ()))
    stored = Value.computed(b.cast(numbers, origin.numbers.dtype))
    n.scope.model.dequantised[floats] = replace(origin, numbers=stored)
    return [floats]


def _is_monotonic(origin: Dequantised) -> bool:
    """Whether larger bytes are larger floats: by one scale that is known to be positive."""
    scale = origin.scale.numbers
    one = scale is not None and scale.size == 1 and bool(scale.reshape(()) > 0)
    return one and origin.numbers.dtype in BYTES


def _may_be_empty(n: Node) -> bool:
    """Whether a window may have no element, of which the largest is no number."""
    pads, kernel = n.integers("pads", []), n.integers("kernel_shape")
    apart = max(n.integers("dilations", [1])) > 1 or n.flag("ceil_mode", 0)
    return apart or any(pad >= taps for pad, taps in zip(pads, [*kernel, *kernel], strict=False))


OPERATORS: dict[str, OnnxOperator] = {
    "Conv": OnnxOperator(_conv),
    "MaxPool": OnnxOperator(_max_pool),
}
