"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import COMPUTED, FLOATS, TEXT, Fold, Node, Operator
from rnncc.frontends.onnx.ops.arithmetic import NUMBERS
from rnncc.frontends.onnx.values import Array, Value, as_objects
from rnncc.ir.build import Build
from rnncc.ir.types import NUMPY, dtype_of

Unary = Callable[[Build, SSAValue], SSAValue]
FLOAT_ONLY = "\n\nRefused: elements other than float32."


def one(b: Build, x: SSAValue) -> SSAValue:
    """1 of x's type."""
    return b.fill(1.0, (), dtype_of(x))


def times(b: Build, x: SSAValue, number: float) -> SSAValue:
    """x · number"""
    return b.mul(x, b.fill(number, (), dtype_of(x)))


def plus(b: Build, x: SSAValue, number: float) -> SSAValue:
    """x + number"""
    return b.add(x, b.fill(number, (), dtype_of(x)))


def _unary(function: Unary, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        return function(n.b, n.x(0, FLOATS))

    build.__doc__ = formula + FLOAT_ONLY
    return build


def folded(numpy: Callable[[Array], Any]) -> Fold:
    """Folding by NumPy, of numbers."""
    return lambda n, arrays: None if arrays[0].dtype == object else np.asarray(numpy(arrays[0]))


def _neg(n: Node) -> SSAValue:
    """-X.

    Refused: elements other than float32, int32, int64.
    """
    x = n.x(0, NUMBERS)
    return n.b.neg(x) if dtype_of(x) == "f32" else n.b.sub(n.full(0, x), x)


def _fold_neg(n: Node, arrays: list[Array]) -> Array:
    x = arrays[0]
    return np.asarray(-as_objects(x) if x.dtype == object else np.negative(x))


def _abs(n: Node) -> SSAValue:
    """|X|.

    Refused: elements other than float32, int32, int64.
    """
    x = n.x(0, NUMBERS)
    if dtype_of(x) == "f32":
        return n.b.abs(x)
    return n.b.maximum(x, n.b.sub(n.full(0, x), x))


def _sign(n: Node) -> SSAValue:
    """1, 0 or -1; NaN of NaN.

    Refused: elements other than float32, int32, int64.
    """
    b, x = n.b, n.x(0, NUMBERS)
    zero = n.full(0, x)
    below = b.select(b.compare("lt", x, zero), n.full(-1, x), x)
    return b.select(b.compare("gt", x, zero), n.full(1, x), below)


def _softplus(b: Build, x: SSAValue) -> SSAValue:
    """max(x, 0) + ln(1 + e^-|x|)"""
    return b.add(b.relu(x), b.log(plus(b, b.exp(b.neg(b.abs(x))), 1.0)))


def _sinh(b: Build, x: SSAValue) -> SSAValue:
    return times(b, b.sub(b.exp(x), b.exp(b.neg(x))), 0.5)


def _cosh(b: Build, x: SSAValue) -> SSAValue:
    return times(b, b.add(b.exp(x), b.exp(b.neg(x))), 0.5)


def _asinh(b: Build, x: SSAValue) -> SSAValue:
    """sign(x) · ln(|x| + √(x² + 1))"""
    size = b.abs(x)
    y = b.log(b.add(size, b.sqrt(plus(b, b.mul(x, x), 1.0))))
    return b.select(b.compare("lt", x, b.full_like(x, 0.0)), b.neg(y), y)


def _acosh(b: Build, x: SSAValue) -> SSAValue:
    return b.log(b.add(x, b.sqrt(plus(b, b.mul(x, x), -1.0))))


def _atanh(b: Build, x: SSAValue) -> SSAValue:
    return times(b, b.log(b.div(plus(b, x, 1.0), b.sub(one(b, x), x))), 0.5)


# Odd terms of arctan on [0, tan(π/8)] beyond the first, each the exact 1/(2k + 1) or close to it.
ATAN = (1.0, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11, 1 / 13, -1 / 15)


def _atan(b: Build, x: SSAValue) -> SSAValue:
    """By 1/x above 1, then by arctan x = π/4 + arctan((x - 1)/(x + 1)) above tan(π/8)."""
    size = b.abs(x)
    above = b.compare("gt", size, one(b, x))
    r = b.select(above, b.div(b.full_like(x, 1.0), size), size)
    middle = b.compare("gt", r, b.fill(math.tan(math.pi / 8), ()))
    s = b.select(middle, b.div(plus(b, r, -1.0), plus(b, r, 1.0)), r)
    square = b.mul(s, s)
    total = b.full_like(x, ATAN[-1])
    for term in reversed(ATAN[:-1]):
        total = plus(b, b.mul(total, square), term)
    y = b.mul(total, s)
    y = b.select(middle, plus(b, y, math.pi / 4), y)
    y = b.select(above, b.sub(b.full_like(x, math.pi / 2), y), y)
    return b.select(b.compare("lt", x, b.full_like(x, 0.0)), b.neg(y), y)


def _asin(b: Build, x: SSAValue) -> SSAValue:
    """2 · arctan(x / (1 + √(1 - x²)))"""
    root = b.sqrt(b.mul(b.sub(one(b, x), x), plus(b, x, 1.0)))
    return times(b, _atan(b, b.div(x, plus(b, root, 1.0))), 2.0)


def _acos(b: Build, x: SSAValue) -> SSAValue:
    """2 · arctan(√(1 - x) / √(1 + x))"""
    ratio = b.div(b.sqrt(b.sub(one(b, x), x)), b.sqrt(plus(b, x, 1.0)))
    return times(b, _atan(b, ratio), 2.0)


def _relu(n: Node) -> SSAValue:
    """max(X, 0).

    Refused: elements other than float32, int32, int64.
    """
    x = n.x(0, NUMBERS)
    return n.b.relu(x) if dtype_of(x) == "f32" else n.b.maximum(x, n.full(0, x))


def elu(b: Build, x: SSAValue, alpha: float) -> SSAValue:
    """x where it is positive, else alpha · (e^x - 1)"""
    below = times(b, plus(b, b.exp(b.minimum(x, b.full_like(x, 0.0))), -1.0), alpha)
    return b.select(b.compare("lt", x, b.full_like(x, 0.0)), below, x)


def leaky_relu(b: Build, x: SSAValue, alpha: float) -> SSAValue:
    """x where it is positive, else alpha · x"""
    return b.select(b.compare("lt", x, b.full_like(x, 0.0)), times(b, x, alpha), x)


def thresholded_relu(b: Build, x: SSAValue, alpha: float) -> SSAValue:
    """x where it is above alpha, else 0"""
    zero = b.full_like(x, 0.0)
    return b.select(b.compare("gt", x, b.full_like(x, alpha)), x, zero)


def hard_sigmoid(b: Build, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    """alpha · x + beta, within 0 and 1"""
    line = plus(b, times(b, x, alpha), beta)
    return b.maximum(b.fill(0.0, ()), b.minimum(b.fill(1.0, ()), line))


def softsign(b: Build, x: SSAValue) -> SSAValue:
    """x / (1 + |x|)"""
    return b.div(x, plus(b, b.abs(x), 1.0))


softplus = _softplus


def _elu(n: Node) -> SSAValue:
    """X where it is positive, else alpha · (e^X - 1).

    Refused: elements other than float32.
    """
    return elu(n.b, n.x(0, FLOATS), n.real("alpha", 1.0))


def _selu(n: Node) -> SSAValue:
    """gamma · X where it is positive, else gamma · alpha · (e^X - 1).

    Refused: elements other than float32.
    """
    return times(n.b, elu(n.b, n.x(0, FLOATS), n.real("alpha")), n.real("gamma"))


def _celu(n: Node) -> SSAValue:
    """max(0, X) + min(0, alpha · (e^(X / alpha) - 1)).

    Refused: elements other than float32.
    """
    alpha = n.real("alpha", 1.0)
    return times(n.b, elu(n.b, times(n.b, n.x(0, FLOATS), 1 / alpha), 1.0), alpha)


def _leaky_relu(n: Node) -> SSAValue:
    """X where it is positive, else alpha · X.

    Refused: elements other than float32.
    """
    return leaky_relu(n.b, n.x(0, FLOATS), n.real("alpha", 0.01))


def _thresholded_relu(n: Node) -> SSAValue:
    """X where it is above alpha, else 0.

    Refused: elements other than float32.
    """
    return thresholded_relu(n.b, n.x(0, FLOATS), n.real("alpha", 1.0))


def _hard_sigmoid(n: Node) -> SSAValue:
    """alpha · X + beta, within 0 and 1.

    Refused: elements other than float32.
    """
    return hard_sigmoid(n.b, n.x(0, FLOATS), n.real("alpha", 0.2), n.real("beta", 0.5))


def _hard_swish(b: Build, x: SSAValue) -> SSAValue:
    return b.mul(x, hard_sigmoid(b, x, 1 / 6, 0.5))


def _mish(b: Build, x: SSAValue) -> SSAValue:
    return b.mul(x, b.tanh(_softplus(b, x)))


def _swish(n: Node) -> SSAValue:
    """X · sigmoid(alpha · X).

    Refused: elements other than float32.
    """
    x = n.x(0, FLOATS)
    return n.b.mul(x, n.b.sigmoid(times(n.b, x, n.real("alpha", 1.0))))


def _gelu(n: Node) -> SSAValue:
    """X/2 · (1 + erf(X/√2)), or with `approximate` tanh in the place of erf.

    Refused: elements other than float32.
    """
    b, x = n.b, n.x(0, FLOATS)
    if n.one_of("approximate", ("none", "tanh"), "none") == "tanh":
        cube = times(b, b.mul(b.mul(x, x), x), 0.044715)
        inner = b.tanh(times(b, b.add(x, cube), math.sqrt(2 / math.pi)))
    else:
        inner = b.erf(times(b, x, math.sqrt(0.5)))
    return b.mul(times(b, x, 0.5), plus(b, inner, 1.0))


def _prelu(n: Node) -> SSAValue:
    """X where it is positive, else slope · X.

    Refused: elements other than float32, int32, int64.
    """
    x, slope = n.x(0, NUMBERS), n.x(1, NUMBERS)
    return n.b.select(n.b.compare("lt", x, n.full(0, x)), n.b.mul(x, slope), x)


def _shrink(n: Node) -> SSAValue:
    """X + bias below -lambd, X - bias above lambd, else 0.

    Refused: elements other than float32.
    """
    b, x = n.b, n.x(0, FLOATS)
    limit, bias = n.real("lambd", 0.5), n.real("bias", 0.0)
    above = b.select(b.compare("gt", x, b.fill(limit, ())), plus(b, x, -bias), b.full_like(x, 0.0))
    return b.select(b.compare("lt", x, b.fill(-limit, ())), plus(b, x, bias), above)


def _clip(n: Node) -> SSAValue:
    """X held within min and max, where they are given; max where min is above it.

    Refused: elements other than float32, int32, int64.
    """
    x = n.x(0, NUMBERS)
    if n.opset < 11:
        for name, function in (("min", n.b.maximum), ("max", n.b.minimum)):
            x = function(x, n.full(n.real(name), x)) if n.given(name) else x
        return x
    for index, function in ((1, n.b.maximum), (2, n.b.minimum)):
        limit = n.maybe(index, NUMBERS)
        x = x if limit is None else function(x, limit)
    return x


def _is_nan(n: Node) -> SSAValue:
    """Whether X is no number.

    Refused: elements other than float32.
    """
    x = n.x(0, FLOATS)
    return n.b.compare("ne", x, x)


def _is_inf(n: Node) -> SSAValue:
    """Whether X is infinite; of one sign alone, if the attributes say so.

    Refused: elements other than float32.
    """
    b, x = n.b, n.x(0, FLOATS)
    found = b.fill(0, (), "i1")
    for name, number in (("detect_positive", math.inf), ("detect_negative", -math.inf)):
        if n.integer(name, 1):
            found = b.logical("or", found, b.compare("eq", x, b.fill(number, ())))
    return b.broadcast_together(found, x)[0]


def _cast(n: Node) -> SSAValue | Value:
    """X as another element type; of floats as integers, towards zero.

    Refused: to and from types other than float32, int32, int64, bool, but of constants.
    """
    dtype = dtype_name(n.integer("to"))
    return _cast_to(n, dtype)


def _cast_like(n: Node) -> SSAValue | Value:
    """X as the element type of the second input.

    Refused: to and from types other than float32, int32, int64, bool.
    """
    return _cast_to(n, n.value(1).dtype)


def _cast_to(n: Node, dtype: str) -> SSAValue | Value:
    if dtype not in COMPUTED:
        raise n.unsupported(f"casts to {TEXT.get(dtype, dtype)}, which is not supported")
    return n.b.cast(n.x(0), dtype)


def _fold_cast(n: Node, arrays: list[Array]) -> Array | None:
    from rnncc.frontends.onnx.reading import onnx_package

    x = arrays[0]
    if x.dtype == object:
        integer = dtype_name(n.integer("to")) in ("i32", "i64")
        return x if integer else None
    helper = onnx_package().helper
    dtype = dtype_name(n.integer("to"))
    if dtype == "text":
        raise n.unsupported("casts to text, which is not supported")
    if dtype not in NUMPY and n.given("saturate"):
        return None
    return x.astype(helper.tensor_dtype_to_np_dtype(n.integer("to")))


def _identity(n: Node) -> Value:
    """X."""
    return n.value(0)


def _dropout(n: Node) -> list[Any]:
    """X, and a mask that is all true: nothing is dropped at inference.

    Refused: a training mode with a ratio other than 0.
    """
    if n.has(2) and bool(n.scalar(2)):
        ratio = n.scalar(1) if n.has(1) else 0.5
        if ratio != 0:
            raise n.unsupported("is in training mode with a ratio that is not 0")
    x = n.value(0)
    if len(n.op.output) < 2:
        return [x]
    return [x, n.b.fill(1, x.dims, "i1")]


def _clipped(n: Node, arrays: list[Array]) -> Array | None:
    if n.opset < 11 or any(a.dtype == object for a in arrays):
        return None
    low, high = ((arrays[i] if n.has(i) else None) for i in (1, 2))
    return (
        np.clip(arrays[0], low, high).astype(arrays[0].dtype)
        if low is not None or high is not None
        else arrays[0]
    )


OPERATORS: dict[str, Operator] = {
    "Identity": Operator(_identity),
    "Dropout": Operator(_dropout),
    "Cast": Operator(_cast, _fold_cast),
    "CastLike": Operator(_cast_like),
    "Neg": Operator(_neg, _fold_neg),
    "Abs": Operator(_abs, folded(np.abs)),
    "Sign": Operator(_sign, folded(np.sign)),
    "Sqrt": Operator(_unary(Build.sqrt, "√X."), folded(np.sqrt)),
    "Exp": Operator(_unary(Build.exp, "e^X."), folded(np.exp)),
    "Log": Operator(_unary(Build.log, "ln X."), folded(np.log)),
    "Reciprocal": Operator(_unary(lambda b, x: b.div(b.full_like(x, 1.0), x), "1 / X.")),
    "Floor": Operator(_unary(lambda b, x: b.round("floor", x), "⌊X⌋."), folded(np.floor)),
    "Ceil": Operator(_unary(lambda b, x: b.round("ceil", x), "⌈X⌉."), folded(np.ceil)),
    "Round": Operator(
        _unary(lambda b, x: b.round("even", x), "The nearest whole number, of two the even one.")
    ),
    "Sin": Operator(_unary(Build.sin, "sin X; NaN where |X| > 2²³.")),
    "Cos": Operator(_unary(Build.cos, "cos X; NaN where |X| > 2²³.")),
    "Tan": Operator(_unary(lambda b, x: b.div(b.sin(x), b.cos(x)), "sin X / cos X.")),
    "Asin": Operator(_unary(_asin, "The angle whose sine is X.")),
    "Acos": Operator(_unary(_acos, "The angle whose cosine is X.")),
    "Atan": Operator(_unary(_atan, "The angle whose tangent is X.")),
    "Sinh": Operator(_unary(_sinh, "(e^X - e^-X) / 2.")),
    "Cosh": Operator(_unary(_cosh, "(e^X + e^-X) / 2.")),
    "Tanh": Operator(_unary(Build.tanh, "tanh X.")),
    "Asinh": Operator(_unary(_asinh, "ln(X + √(X² + 1)).")),
    "Acosh": Operator(_unary(_acosh, "ln(X + √(X² - 1)).")),
    "Atanh": Operator(_unary(_atanh, "ln((1 + X) / (1 - X)) / 2.")),
    "Erf": Operator(_unary(Build.erf, "erf X.")),
    "Sigmoid": Operator(_unary(Build.sigmoid, "1 / (1 + e^-X).")),
    "Softplus": Operator(_unary(_softplus, "ln(1 + e^X).")),
    "Softsign": Operator(_unary(softsign, "X / (1 + |X|).")),
    "HardSwish": Operator(_unary(_hard_swish, "X · min(max(X / 6 + 1/2, 0), 1).")),
    "Mish": Operator(_unary(_mish, "X · tanh(ln(1 + e^X)).")),
    "Relu": Operator(_relu, folded(lambda x: np.maximum(x, 0))),
    "Elu": Operator(_elu),
    "Selu": Operator(_selu),
    "Celu": Operator(_celu),
    "LeakyRelu": Operator(_leaky_relu),
    "ThresholdedRelu": Operator(_thresholded_relu),
    "HardSigmoid": Operator(_hard_sigmoid),
    "Swish": Operator(_swish),
    "Gelu": Operator(_gelu),
    "PRelu": Operator(_prelu),
    "Shrink": Operator(_shrink),
    "Clip": Operator(_clip, _clipped),
    "IsNaN": Operator(_is_nan),
    "IsInf": Operator(_is_inf),
}
