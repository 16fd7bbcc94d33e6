"""Products and layers of quantised tensors: sums of integers, which are exact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import INTEGERS, SINGLE, Node, OnnxOperator, Result, contributed
from rnncc.frontends.onnx.ops.channels_last import if_last
from rnncc.frontends.onnx.ops.contributed_attention import attended_parts
from rnncc.frontends.onnx.ops.conv import windows_of
from rnncc.frontends.onnx.ops.quantised import check_training, saturated, scalar
from rnncc.frontends.onnx.ops.recurrent import LstmLayer, Stacked
from rnncc.frontends.onnx.values import Array, Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.arithmetic import times
from rnncc.nn.axes import along, row
from rnncc.nn.cells import CellWeights
from rnncc.nn.quantisation import (
    IntegerWeights,
    Zero,
    dynamic_matmul,
    integer_convolution,
    integer_matmul,
)
from rnncc.records import record

BYTES = ("i8", "u8")
ROWS, COLUMNS = -2, -1
"""Axes along which scales and zero points of a product's operands differ."""
LEAST_DEPTH = 64
"""Terms of a sum from which on integers gain more than it takes to convert rows."""
Numbers = tuple[SSAValue, Zero]
"""Of i8 or u8, and their zero point."""


def _numbers(n: Node, index: int, zero: int, axis: int) -> Numbers:
    """A tensor, and its zero points: one, or one along an axis.

    Constants become their distance from the zero point where that is an int8.
    """
    value, known = n.value(index), n.value(zero).numbers if n.has(zero) else np.zeros((), np.int32)
    if known is not None and not known.any():
        return n.x(index, BYTES), None
    if known is not None and value.numbers is not None:
        moved = as_int8(n, value.numbers, known, axis)
        if moved is not None:
            return n.scope.ssa(Value.of(moved, value.name)), None
    return n.x(index, BYTES), _spread(n, n.x(zero, INTEGERS), index, axis)


def as_int8(n: Node, numbers: Array, zero: Array, axis: int) -> Array | None:
    """numbers - zero as int8, where all of it is."""
    if zero.ndim == 1 and zero.size > 1:
        wide = [1] * numbers.ndim
        wide[axis] = zero.size
        zero = zero.reshape(wide)
    zero = zero.reshape(()) if zero.size == 1 else zero
    sizes = zip(zero.shape[::-1], numbers.shape[::-1], strict=False)
    if zero.ndim > numbers.ndim or any(own not in (1, size) for own, size in sizes):
        raise n.error(f"has zero points {zero.shape} for data {numbers.shape}")
    apart = numbers.astype(np.int32) - zero
    fits = apart.size == 0 or (apart.min() >= -128 and apart.max() <= 127)
    return apart.astype(np.int8) if fits else None


def _spread(n: Node, values: SSAValue, index: int, axis: int) -> SSAValue:
    """Scales or zero points of an input: one, one along an axis, or as many axes as it has."""
    own, dims = dims_of(values), n.dims(index)
    if len(own) > 1:
        return values
    if not dims or (own not in ((), (1,)) and own != (dims[axis],)):
        shapes = f"{shape_text(own)} scales or zero points for data {shape_text(dims)}"
        raise n.error(f"has {shapes}")
    return along(n.b, values, axis % len(dims), len(dims))


def _scale(n: Node, index: int, scale: int, axis: int) -> SSAValue:
    return _spread(n, n.x(scale, SINGLE), index, axis)


def _check_matrices(n: Node, *indices: int) -> None:
    """Refuse vectors, of whose scales the standard says nothing."""
    check_training(n)
    if any(len(n.dims(index)) < 2 for index in indices):
        shapes = " and ".join(shape_text(n.dims(index)) for index in indices)
        raise n.unsupported(f"multiplies {shapes}")


def _matmul_integer(n: Node) -> SSAValue:
    """(A - a_zero_point) (B - b_zero_point), exact.

    Refused: vectors with several zero points.
    """
    check_training(n)
    sums, dims = _whole_sums(n, (0, 2), (1, 3))
    return n.b.reshape(sums, dims)


def _whole_sums(
    n: Node, left: tuple[int, int], right: tuple[int, int]
) -> tuple[SSAValue, Sequence[Dim]]:
    """Products of two inputs, each followed by that of its zero points: with two axes or more, and
    the shape without those of vectors."""
    row, column = (len(n.dims(index)) == 1 for index, _ in (left, right))
    for (_, zero), is_vector in ((left, row), (right, column)):
        if is_vector and n.has(zero) and n.dims(zero) not in ((), (Dim.of(1),)):
            raise n.unsupported(f"has {shape_text(n.dims(zero))} zero points for a vector")
    b, (x, x_zero) = n.b, _numbers(n, *left, -1 if row else ROWS)
    w, w_zero = _numbers(n, *right, COLUMNS)
    x = b.reshape(x, (1, *dims_of(x))) if row else x
    w = b.reshape(w, (*dims_of(w), 1)) if column else w
    sums = integer_matmul(b, x, x_zero, w, w_zero)
    *outer, height, width = dims_of(sums)
    return sums, [*outer, *([] if row else [height]), *([] if column else [width])]


def _conv_integer(n: Node) -> SSAValue:
    """Weights times windows of X, both less their zero points, exact.

    Refused: weights of open sizes.
    """
    check_training(n)
    windows, x, weights = windows_of(n), _numbers(n, 0, 2, 1), _numbers(n, 1, 3, 0)
    return integer_convolution(n.b, x, weights, None, *windows)


def _qlinear_matmul(n: Node) -> SSAValue:
    """A B of what the numbers stand for, quantised: exact sums times one factor, rounded once.

    Refused: vectors with several scales.
    """
    check_training(n)
    for index in (0, 3):
        if len(n.dims(index)) == 1 and n.dims(index + 1) not in ((), (Dim.of(1),)):
            raise n.unsupported(f"has {shape_text(n.dims(index + 1))} scales for a vector")
    sums, dims = _whole_sums(n, (0, 2), (3, 5))
    scale = n.b.mul(_scale(n, 0, 1, ROWS), _scale(n, 3, 4, COLUMNS))
    return n.b.reshape(_requantised(n, sums, scale, 6), dims)


def _requantised(n: Node, sums: SSAValue, scale: SSAValue, index: int) -> SSAValue:
    """Sums of that scale by the one of that number and the zero point behind it."""
    factor = n.b.div(scale, scalar(n, index, SINGLE))
    value = n.b.mul(n.b.cast(sums, "f32"), factor)
    dtype = n.value(index + 1).dtype if n.has(index + 1) else "u8"
    return saturated(n, value, index + 1, dtype)


def _qlinear_conv(n: Node) -> SSAValue:
    """The convolution of what the numbers stand for, plus a bias, quantised: exact sums times one
    factor, rounded once.

    Refused: weights of open sizes.
    """
    check_training(n)
    b, rank = n.b, len(n.dims())
    x, weights, windows = _numbers(n, 0, 2, 1), _numbers(n, 3, 5, 0), windows_of(n, 3)
    sums = integer_convolution(b, x, weights, n.maybe(8, ("i32",)), *windows)
    by_channel = along(b, n.x(4, SINGLE), 1, rank)
    return _requantised(n, sums, b.mul(scalar(n, 1, SINGLE), by_channel), 6)


def dequantised_product(n: Node, by_unit: bool = False) -> SSAValue | None:
    """A B of floats that both come from bytes, as exact sums of these times both scales.

    None where they do not, where scales differ along the sums, or sums are too short to gain.

    Args:
        by_unit: whether B is [N, K].
    """
    known, b = n.scope.model.dequantised, n.b
    left, right = known.get(n.value(0).made), known.get(n.value(1))
    if left is None or right is None or len(n.dims()) < 2 or n.scope.model.training:
        return None
    a, numbers, units = left.numbers, right.numbers.numbers, 0 if by_unit else 1
    if numbers is None or numbers.ndim != 2 or {a.dtype, right.numbers.dtype} - {*BYTES}:
        return None
    scales = right.scale.numbers
    if left.scale.dims not in ((), (Dim.of(1),)) or scales is None:
        return None
    depth = numbers.shape[1 - units]
    if (scales.size > 1 and right.axis != units) or depth < LEAST_DEPTH or n.dims()[-1] != depth:
        return None
    zero = np.zeros((), np.int32) if right.zero is None else np.asarray(right.zero.numbers)
    apart = as_int8(n, numbers, zero, units)
    if apart is None:
        return None
    a_zero = None if left.zero is None else b.reshape(b.cast(n.scope.ssa(left.zero), "i32"), ())
    weights = n.scope.ssa(Value.of(apart, right.numbers.name))
    weights = b.transpose(weights, (1, 0)) if by_unit else weights
    sums = integer_matmul(b, n.scope.ssa(a), a_zero, weights, None)
    scale = b.reshape(n.scope.ssa(left.scale), ())
    each = n.literal(scales.reshape(-1) if scales.size > 1 else scales.reshape(()))
    return b.mul(b.cast(sums, "f32"), b.mul(scale, each))


# Operators of ONNX Runtime


def _qgemm(n: Node) -> SSAValue:
    """alpha · (A B + C) of what the numbers stand for, as floats, or quantised where a scale of the
    result is given; A and B may be transposed.
    """
    _check_matrices(n, 0, 3)
    b, turned = n.b, n.flag("transB", 0)
    a, zero = _numbers(n, 0, 2, ROWS)
    a = b.transpose(a, (1, 0)) if n.flag("transA", 0) else a
    weights, w_zero = _numbers(n, 3, 5, 0 if turned else COLUMNS)
    if turned:
        weights = b.transpose(weights, (1, 0))
        w_zero = b.transpose(w_zero, (1, 0)) if w_zero is not None and dims_of(w_zero) else w_zero
    sums = n.plus(integer_matmul(b, a, zero, weights, w_zero), 6, ("i32",))
    alpha = n.real("alpha", 1.0)
    units = along(b, n.x(4, SINGLE), 1, 2)
    scale = b.mul(scalar(n, 1, SINGLE), units)
    scale = scale if alpha == 1 else times(b, scale, alpha)
    if n.has(7):
        return _requantised(n, sums, scale, 7)
    return b.mul(b.cast(sums, "f32"), scale)


def _integer_to_float(n: Node) -> SSAValue:
    """A B of what the numbers stand for, plus a bias, as floats.

    Refused: vectors.
    """
    _check_matrices(n, 0, 1)
    b = n.b
    sums = integer_matmul(b, *_numbers(n, 0, 4, ROWS), *_numbers(n, 1, 5, COLUMNS))
    scale = b.mul(_scale(n, 0, 2, ROWS), _scale(n, 1, 3, COLUMNS))
    return n.plus(b.mul(b.cast(sums, "f32"), scale), 6)


def _dynamic_matmul(n: Node) -> SSAValue:
    """A, quantised by its own range as DynamicQuantizeLinear does it, times what B stands for, plus
    a bias.

    Refused: vectors.
    """
    _check_matrices(n, 0, 1)
    weights, zero = _numbers(n, 1, 3, COLUMNS)
    y = dynamic_matmul(n.b, n.x(0, SINGLE), weights, _scale(n, 1, 2, COLUMNS), zero)
    return n.plus(y, 4)


def _quantised_attention(n: Node) -> Sequence[Result]:
    """com.microsoft.Attention of numbers and of weights of numbers, whose product is exact.

    Refused: what com.microsoft.Attention refuses.
    """
    check_training(n)
    b = n.b
    sums = integer_matmul(b, *_numbers(n, 0, 6, ROWS), *_numbers(n, 1, 7, COLUMNS))
    scale = b.mul(scalar(n, 3, SINGLE), _scale(n, 1, 4, COLUMNS))
    together = n.plus(b.mul(b.cast(sums, "f32"), scale), 2)
    return attended_parts(n, together, mask=5, past_at=8, bias=None)


@record
class _WholeStacked(Stacked):
    """W and R as i8 [directions, 4H, I], their scales and zero points [directions] or with 4H."""

    scales: Sequence[SSAValue] = ()
    zeros: Sequence[Zero] = ()

    def of(self, b: Builder, index: int, biases: Sequence[SSAValue]) -> CellWeights:
        w_scale, r_scale = (row(b, scale, index) for scale in self.scales)
        w_zero, r_zero = (None if zero is None else row(b, zero, index) for zero in self.zeros)
        w, r = row(b, self.w, index), row(b, self.r, index)
        return IntegerWeights(w, r, biases, scales=(w_scale, r_scale), zeros=(w_zero, r_zero))


def _stacked(n: Node, index: int, scale: int) -> tuple[SSAValue, SSAValue, Zero]:
    """[directions, I, 4H] numbers as [directions, 4H, I], their scales and zero points."""
    x, factors = n.numbers(index), n.numbers(scale).astype(np.float32)
    zero = n.numbers(scale + 1) if n.has(scale + 1) else np.zeros(factors.shape, np.int8)
    shapes = [] if x.ndim != 3 else [(), (x.shape[0],), (x.shape[0], x.shape[2])]
    if factors.shape not in shapes or x.dtype.kind not in "iu" or factors.shape != zero.shape:
        raise n.error("has weights that are not int8 or uint8 with a scale and a zero point each")
    wide = zero.reshape(zero.shape[0], 1, -1) if zero.ndim else zero
    moved = as_int8(n, x, wide, 2) if zero.any() else x
    numbers = x if moved is None else moved
    held = Value.of(np.ascontiguousarray(numbers.swapaxes(1, 2)), n.op.input[index])
    each = np.broadcast_to(factors, (x.shape[0],)) if factors.ndim == 0 else factors
    far = np.broadcast_to(zero, each.shape).astype(np.int32) if moved is None else None
    return n.scope.ssa(held), n.literal(each), None if far is None else n.literal(far)


def _dynamic_quantize_lstm(n: Node) -> list[SSAValue]:
    """LSTM with integer weights, as ONNX Runtime computes it: X is quantised by its own
    range, that of the steps of the longest sequence, and in each step H by its own, over the whole
    batch; sums are exact.

    Refused: weights that are not constants.
    """
    check_training(n)
    w, r = _stacked(n, 1, 8), _stacked(n, 2, 10)
    weights = _WholeStacked(w[0], r[0], n.maybe(3, SINGLE), scales=(w[1], r[1]), zeros=(w[2], r[2]))
    layer = LstmLayer(n, weights)
    if layer.lengths is not None:
        layer.x = _within_longest(n.b, layer.x, layer.lengths)
    return layer.run()


def _within_longest(b: Builder, x: SSAValue, lengths: SSAValue) -> SSAValue:
    """x [T, N, I] with zeros, which no range leaves out, behind the end of the longest sequence."""
    (steps, *_), longest = dims_of(x), b.reduce("max", lengths, [0])
    within = b.compare("lt", b.iota((steps,), 0), b.broadcast(longest, (steps,), []))
    return b.select(b.reshape(within, (steps, 1, 1)), x, b.fill(0, (), "f32"))


OPERATORS: dict[str, OnnxOperator] = {
    "MatMulInteger": OnnxOperator(_matmul_integer),
    "ConvInteger": OnnxOperator(_conv_integer),
    "QLinearMatMul": OnnxOperator(_qlinear_matmul),
    "QLinearConv": OnnxOperator(_qlinear_conv),
    "com.microsoft.QLinearConv": contributed(
        if_last(_qlinear_conv),
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?",
        "auto_pad:s channels_last:i dilations:ints group:i kernel_shape:ints pads:ints"
        " strides:ints",
    ),
    "com.microsoft.QGemm": contributed(
        _qgemm,
        "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?",
        "alpha:f transA:i transB:i",
    ),
    "com.microsoft.MatMulIntegerToFloat": contributed(
        _integer_to_float, "A B a_scale b_scale a_zero_point? b_zero_point? bias?"
    ),
    "com.microsoft.QAttention": contributed(
        _quantised_attention,
        "input weight bias input_scale weight_scale mask_index? input_zero_point?"
        " weight_zero_point? past?",
        "do_rotary:i mask_filter_value:f num_heads:i! past_present_share_buffer:i scale:f"
        " unidirectional:i",
        outputs=2,
    ),
    "com.microsoft.DynamicQuantizeMatMul": contributed(
        _dynamic_matmul, "A B b_scale b_zero_point? bias?"
    ),
    "com.microsoft.DynamicQuantizeLSTM": contributed(
        _dynamic_quantize_lstm,
        "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale"
        " R_zero_point",
        "activation_alpha:floats activation_beta:floats activations:strings clip:f direction:s"
        " hidden_size:i input_forget:i",
        outputs=3,
    ),
}
