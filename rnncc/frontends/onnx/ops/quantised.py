"""Quantising, and operators on quantised tensors: x = (numbers - zero point) · scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import INTEGERS, SINGLE, TEXT, Node, OnnxOperator, contributed
from rnncc.frontends.onnx.ops.arithmetic import Binary
from rnncc.frontends.onnx.ops.channels_last import if_last
from rnncc.frontends.onnx.ops.elementwise import Unary
from rnncc.frontends.onnx.ops.pooling import averaged
from rnncc.frontends.onnx.signature import stated_signature
from rnncc.frontends.onnx.values import Array, Dequantised, Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, shape_text
from rnncc.nn.activations import leaky_relu
from rnncc.nn.axes import along, kept_dims
from rnncc.nn.normalisation import softmax
from rnncc.nn.quantisation import LIMITS, Zero, dequantise, level, range_of
from rnncc.nn.reduction import mean

QUANTISED = (*LIMITS, "i32")
"""Types that are dequantised at run time."""


EXACT = 1e-30, 1e30
"""Between such scales a number times one, divided by it, rounds to the number again."""


def check_training(n: Node) -> None:
    """Refuse what is rounded in a model that is trained: its gradients are 0 everywhere."""
    if n.scope.model.training:
        raise n.unsupported("rounds to integers, of which there are no gradients")


def _spread(n: Node, values: SSAValue, axis: int, block: int) -> SSAValue:
    """Scales or zero points of a tensor: one for all, one a row along an axis, or one a block."""
    b, dims, own = n.b, n.dims(), dims_of(values)
    if not block:
        fits = len(own) <= 1 and (own in ((), (1,)) or own == dims[axis : axis + 1])
    else:
        rows = n.static()[axis]
        fits = own == (*dims[:axis], -(-rows // block), *dims[axis + 1 :])
    if not fits:
        shapes = ", ".join(shape_text(value.dims) for value in n.inputs if value is not None)
        pairs = zip(own, dims[axis : axis + 1], strict=False) if len(own) == 1 else ()
        raise n.error(f"has data, scale and zero point of shapes {shapes}", differ=pairs)
    if not block:
        return along(b, values, axis, len(dims))
    wide = b.reshape(values, (*own[: axis + 1], 1, *own[axis + 1 :]))
    repeated = (*own[: axis + 1], block, *own[axis + 1 :])
    wide = b.broadcast(wide, repeated, range(len(repeated)))
    whole = b.reshape(wide, (*own[:axis], own[axis] * block, *own[axis + 1 :]))
    return b.slice(whole, axis, 0, dims[axis])


def _layout(n: Node) -> tuple[int, int]:
    """The axis along which scales differ, and the rows of a block; 0 for no blocks."""
    block = n.integer("block_size", 0) if n.opset >= 21 else 0
    rank = len(n.dims())
    return n.axis(n.integer("axis", 1), rank) if n.value(1).rank or block else 0, block


def _quantise(n: Node) -> SSAValue:
    """X / scale + zero point as the nearest integer, ties to even, within the limits of its type.

    Refused: results other than int8, uint8, int16, uint16.
    """
    check_training(n)
    b, kind = n.b, n.integer("output_dtype", 0) if n.opset >= 21 else 0
    dtype = n.value(2).dtype if n.has(2) else dtype_name(kind) if kind else "u8"
    if dtype not in LIMITS:
        raise n.unsupported(f"makes {TEXT.get(dtype, dtype)}, which is not supported")
    if (numbers := _quantised_before(n, dtype)) is not None:
        return numbers
    x, (axis, block) = n.x(0, (*SINGLE, "i32")), _layout(n)
    scale, zero = _spread(n, n.x(1, SINGLE), axis, block), _zeros(n, axis, block)
    return at_level(n, level(b, b.div(b.cast(x, "f32"), scale), zero, dtype), dtype)


def _quantised_before(n: Node, dtype: str) -> SSAValue | None:
    """The numbers that floats come from, by the same scale and zero point."""
    origin = n.scope.model.dequantised.get(n.value(0).made)
    if origin is None or origin.numbers.dtype != dtype:
        return None
    zeros = [origin.zero, n.value(2) if n.has(2) else None]
    numbers = [origin.scale.numbers, n.value(1).numbers]
    numbers += [np.zeros(()) if zero is None else zero.numbers for zero in zeros]
    known = [array.reshape(()).item() for array in numbers if array is not None and array.size == 1]
    if len(known) < len(numbers) or known[0] != known[1] or known[2] != known[3]:
        return None
    return n.scope.ssa(origin.numbers) if EXACT[0] < known[0] < EXACT[1] else None


def at_level(n: Node, number: SSAValue, dtype: str) -> SSAValue:
    """A number within the type's limits; who dequantises it reads the float."""
    stored = n.b.cast(number, dtype)
    n.scope.model.levels[stored] = number
    return stored


def _zeros(n: Node, axis: int, block: int) -> Zero:
    """The zero points in input 2."""
    known = n.value(2).numbers if n.has(2) else np.zeros(())
    if known is not None and not known.any():
        return None
    return _spread(n, n.x(2, INTEGERS), axis, block)


def number_at(n: Node, index: int) -> SSAValue:
    """An input that is dequantised: integers, or the float that they come from."""
    return n.scope.model.levels.get(n.value(index).made) or n.x(index, QUANTISED)


def _dequantise(n: Node) -> SSAValue:
    """(X - zero point) · scale.

    Refused: X other than int8, uint8, int16, uint16, int32, but of constants.
    """
    check_training(n)
    x, (axis, block) = number_at(n, 0), _layout(n)
    scale, zero = _spread(n, n.x(1, SINGLE), axis, block), _zeros(n, axis, block)
    kind = n.integer("output_dtype", 0) if n.opset >= 23 else 0
    dtype = dtype_name(kind) if kind else n.value(1).dtype
    floats = n.b.cast(dequantise(n.b, x, scale, zero), dtype)
    if not block and dtype == "f32":
        n.scope.model.dequantised[floats] = _origin(n, axis)
    return floats


def _origin(n: Node, axis: int) -> Dequantised:
    return Dequantised(n.value(0), n.value(1), n.value(2) if n.has(2) else None, axis)


def _fold_dequantise(n: Node, arrays: list[Array]) -> Value:
    x, scale = arrays[0], arrays[1]
    zero = arrays[2] if len(arrays) > 2 and n.has(2) else np.zeros((), np.int32)
    block = n.integer("block_size", 0) if n.opset >= 21 else 0
    axis = n.axis(n.integer("axis", 1), x.ndim) if x.ndim and scale.size > 1 else 0
    if not _fits(x, scale, axis, block) or zero.shape not in ((), scale.shape):
        shapes = ", ".join(shape_text(value.dims) for value in n.inputs if value is not None)
        raise n.error(f"has data, scale and zero point of shapes {shapes}")
    if block:
        scale, zero = (np.repeat(a, block, axis) if a.ndim else a for a in (scale, zero))
        whole = (*[slice(None)] * axis, slice(x.shape[axis]))
        scale, zero = (a[whole] if a.ndim else a for a in (scale, zero))
    elif scale.ndim == 1 and scale.size != 1:
        wide = [1] * x.ndim
        wide[axis] = scale.size
        scale, zero = (a.reshape(wide) if a.size > 1 else a for a in (scale, zero))
    constant = Value.of(as_floats(x, zero, scale).astype(scale.dtype), n.op.input[0])
    if not block:
        n.scope.model.dequantised[constant] = _origin(n, axis)
    return constant


def _fits(x: Array, scale: Array, axis: int, block: int) -> bool:
    """Whether there is one scale for all, one a row along an axis, or one a block of rows."""
    if block < 0 or (block and scale.ndim not in (0, x.ndim)):
        return False
    if block and scale.ndim:
        rows = -(-x.shape[axis] // block)
        return scale.shape == (*x.shape[:axis], rows, *x.shape[axis + 1 :])
    return scale.size == 1 or (x.ndim > 0 and scale.shape == (x.shape[axis],))


def as_floats(x: Array, zero: Array, scale: Array) -> Array:
    """What numbers stand for."""
    exact = np.float32 if "float" in x.dtype.name else np.int64
    return (x.astype(exact) - zero.astype(exact)).astype(np.float32) * scale


def _dynamic_quantise(n: Node) -> list[SSAValue]:
    """X as uint8, with the scale and zero point for which they reach from its least element to its
    largest and have 0 among them. The scale of zeros alone is 1, as ONNX Runtime has it.
    """
    check_training(n)
    b, x = n.b, n.x(0, SINGLE)
    scale, zero = range_of(b, x)
    numbers = at_level(n, level(b, b.div(x, scale), zero, "u8"), "u8")
    return [numbers, scale, b.cast(zero, "u8")]


# Operators of ONNX Runtime: a tensor, its scale and its zero point


def floats_at(n: Node, index: int) -> SSAValue:
    """The floats that a tensor stands for, whose scale and zero point follow."""
    zero = scalar(n, index + 2, INTEGERS) if n.has(index + 2) else None
    return dequantise(n.b, number_at(n, index), scalar(n, index + 1, SINGLE), zero)


def scalar(n: Node, index: int, dtypes: tuple[str, ...]) -> SSAValue:
    """An input of one element, without axes."""
    value = n.x(index, dtypes)
    if any(d != 1 for d in dims_of(value)):
        raise n.unsupported(f"has {shape_text(dims_of(value))} scales or zero points for a tensor")
    return n.b.reshape(value, ())


def quantised_by(n: Node, y: SSAValue, index: int) -> SSAValue:
    """y by the scale of that number and the zero point behind it."""
    dtype = n.value(index + 1).dtype if n.has(index + 1) else "u8"
    if dtype not in LIMITS:
        raise n.unsupported(f"makes {TEXT.get(dtype, dtype)}, which is not supported")
    return saturated(n, n.b.div(y, scalar(n, index, SINGLE)), index + 1, dtype)


def saturated(n: Node, y: SSAValue, index: int, dtype: str) -> SSAValue:
    """y, rounded, plus the zero point of that number."""
    zero = scalar(n, index, INTEGERS) if n.has(index) else None
    return at_level(n, level(n.b, y, zero, dtype), dtype)


def _binary(function: Binary, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        check_training(n)
        return quantised_by(n, function(n.b, floats_at(n, 0), floats_at(n, 3)), 6)

    build.__doc__ = f"{formula} of what the numbers stand for, quantised."
    return build


def _unary(function: Callable[[Node, SSAValue], SSAValue], formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        check_training(n)
        return quantised_by(n, function(n, floats_at(n, 0)), 3)

    build.__doc__ = f"{formula} of what the numbers stand for, quantised."
    return build


def _plain(function: Unary) -> Callable[[Node, SSAValue], SSAValue]:
    return lambda n, x: function(n.b, x)


def _softmax(n: Node, x: SSAValue) -> SSAValue:
    rank = len(dims_of(x))
    axis, dims = n.axis(n.integer("axis", -1), rank), dims_of(x)
    if n.integer("opset", 13) >= 13:
        return softmax(n.b, x, axis)
    joined = n.b.reshape(x, (product(dims[:axis]), product(dims[axis:])))
    return n.b.reshape(softmax(n.b, joined, 1), dims)


def _pool(n: Node, x: SSAValue) -> SSAValue:
    last = n.flag("channels_last", 0)
    axes = list(range(1, len(dims_of(x)) - 1) if last else range(2, len(dims_of(x))))
    return n.b.reshape(mean(n.b, x, axes), kept_dims(x, axes))


def _means(n: Node, x: SSAValue) -> SSAValue:
    return averaged(n, x)


def _concat(n: Node) -> SSAValue:
    """What the numbers of several tensors stand for, one after another along an axis, quantised."""
    check_training(n)
    parts = [floats_at(n, index) for index in range(2, max(len(n.inputs), 3), 3)]
    axis = n.axis(n.integer("axis"), len(dims_of(parts[0])))
    return quantised_by(n, n.b.concat(parts, axis), 0)


def _where(n: Node) -> SSAValue:
    """What X's numbers stand for where the condition holds, else what Y's do, quantised."""
    check_training(n)
    return quantised_by(n, n.b.select(n.x(0, ("i1",)), floats_at(n, 1), floats_at(n, 4)), 7)


_QUANTISE = OnnxOperator(_quantise)
_DEQUANTISE = OnnxOperator(_dequantise, _fold_dequantise, fixed=(1,))
_ONE = "X X_scale X_zero_point? Y_scale Y_zero_point?"
_BOTH = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
OPERATORS: dict[str, OnnxOperator] = {
    "QuantizeLinear": _QUANTISE,
    "DequantizeLinear": _DEQUANTISE,
    "DynamicQuantizeLinear": OnnxOperator(_dynamic_quantise),
    "com.microsoft.QuantizeLinear": replace(
        _QUANTISE, signature=stated_signature("x y_scale y_zero_point?", "axis:i")
    ),
    "com.microsoft.DequantizeLinear": replace(
        _DEQUANTISE, signature=stated_signature("x x_scale x_zero_point?", "axis:i")
    ),
    "com.microsoft.QLinearAdd": contributed(_binary(Builder.add, "A + B"), _BOTH),
    "com.microsoft.QLinearMul": contributed(_binary(Builder.mul, "A · B"), _BOTH),
    "com.microsoft.QLinearSigmoid": contributed(
        _unary(_plain(Builder.sigmoid), "1 / (1 + e^-X)"), _ONE
    ),
    "com.microsoft.QLinearLeakyRelu": contributed(
        _unary(lambda n, x: leaky_relu(n.b, x, n.real("alpha", 0.01)), "X, below 0 alpha · X"),
        _ONE,
        "alpha:f",
    ),
    "com.microsoft.QLinearSoftmax": contributed(
        _unary(_softmax, "The softmax along an axis"),
        "X X_scale x_zero_point? y_scale y_zero_point",
        "axis:i opset:i!",
    ),
    "com.microsoft.QLinearGlobalAveragePool": contributed(
        _unary(_pool, "The mean of each channel"),
        "X x_scale x_zero_point y_scale y_zero_point",
        "channels_last:i",
    ),
    "com.microsoft.QLinearAveragePool": contributed(
        if_last(_unary(_means, "The mean of each window")),
        _ONE,
        "auto_pad:s ceil_mode:i channels_last:i count_include_pad:i kernel_shape:ints! pads:ints"
        " strides:ints",
    ),
    "com.microsoft.QLinearConcat": contributed(_concat, "Y_scale Y_zero_point inputs*", "axis:i!"),
    "com.microsoft.QLinearWhere": contributed(
        _where,
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point",
    ),
}
