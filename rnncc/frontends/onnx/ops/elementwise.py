"""Functions of one tensor, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.shapes import narrowed
from rnncc.frontends.onnx.formulas import sizes
from rnncc.frontends.onnx.functions import KINDS
from rnncc.frontends.onnx.inputs import dtype_name
from rnncc.frontends.onnx.node import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    STORED,
    TEXT,
    FoldOne,
    Node,
    OnnxOperator,
)
from rnncc.frontends.onnx.quotients import rounded_quotient
from rnncc.frontends.onnx.reading import onnx_package
from rnncc.frontends.onnx.values import EXACT, Array, Value, as_objects
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import NARROW_FLOATS, NUMPY, WIDE, dtype_of
from rnncc.nn import angles, unsigned
from rnncc.nn.arithmetic import absolute, negative, reciprocal, sign

Unary = Callable[[Builder, SSAValue], SSAValue]
SIZES = ("i32", "i64", *EXACT)
"""The types that formulas of sizes may be of."""
FLOAT_ONLY = "\n\nRefused: elements other than floats."


def of_floats(function: Unary, formula: str) -> Any:
    """An operator on floats."""

    def build(n: Node) -> SSAValue:
        return function(n.b, n.x(0, FLOATS))

    build.__doc__ = formula + FLOAT_ONLY
    return build


def folded(numpy: Callable[[Array], Any]) -> FoldOne:
    """Folding by NumPy, of numbers."""
    return lambda n, arrays: None if arrays[0].dtype == object else np.asarray(numpy(arrays[0]))


def folded_sizes(numpy: Callable[[Array], Any], of_size: Callable[[Dim], Dim]) -> FoldOne:
    """Folding by NumPy, and of sizes by a function of one."""

    def fold(n: Node, arrays: list[Array]) -> Array | None:
        x = arrays[0]
        if x.dtype != object:
            return np.asarray(numpy(x))
        if n.value(0).dtype in EXACT:
            return None
        return sizes.by_element(lambda size, _: of_size(size), x, np.zeros((), np.int64))

    return fold


def rounded(numpy: Callable[[Array], Any]) -> FoldOne:
    """Folding of what leaves integers as they are: sizes are some."""
    return lambda n, arrays: (
        arrays[0] if arrays[0].dtype == object else np.asarray(numpy(arrays[0]))
    )


def _floor(n: Node) -> SSAValue | Array:
    """⌊X⌋.

    Refused: elements other than floats.
    """
    quotient = rounded_quotient(n, sizes.floored)
    return n.b.round("floor", n.x(0, FLOATS)) if quotient is None else quotient


def _ceil(n: Node) -> SSAValue | Array:
    """⌈X⌉.

    Refused: elements other than floats.
    """
    quotient = rounded_quotient(n, sizes.raised)
    return n.b.round("ceil", n.x(0, FLOATS)) if quotient is None else quotient


def _neg(n: Node) -> SSAValue:
    """-X.

    Refused: elements other than floats, int32, int64.
    """
    return negative(n.b, n.x(0, NUMBERS))


def _fold_neg(n: Node, arrays: list[Array]) -> Array:
    x = arrays[0]
    return np.asarray(-as_objects(x) if x.dtype == object else np.negative(x))


def _abs(n: Node) -> SSAValue:
    """|X|.

    Refused: elements other than floats, int32, int64.
    """
    return n.bits(0) if n.value(0).dtype == "u64" else absolute(n.b, n.x(0, NUMBERS))


def _sign(n: Node) -> SSAValue:
    """1, 0 or -1; NaN of NaN.

    Refused: elements other than floats, int32, int64.
    """
    if n.value(0).dtype == "u64":
        bits = n.bits(0)
        return n.b.cast(n.b.compare("ne", bits, n.full(0, bits)), "i64")
    x = n.x(0, NUMBERS)
    y = sign(n.b, x)
    return n.b.select(n.b.compare("ne", x, x), x, y) if dtype_of(x) in FLOATS else y


def _is_nan(n: Node) -> SSAValue:
    """Whether X is no number.

    Refused: elements other than floats.
    """
    x = n.x(0, FLOATS)
    return n.b.compare("ne", x, x)


def _is_inf(n: Node) -> SSAValue:
    """Whether X is infinite; of one sign alone, if the attributes say so.

    Refused: elements other than floats.
    """
    b, x = n.b, n.x(0, FLOATS)
    is_infinite = b.fill(0, (), "i1")
    for name, number in (("detect_positive", math.inf), ("detect_negative", -math.inf)):
        if n.flag(name, 1):
            is_infinite = b.logical("or", is_infinite, b.compare("eq", x, n.full(number, x)))
    return b.broadcast_together(is_infinite, x)[0]


def _cast(n: Node) -> SSAValue | Value:
    """X as another element type; of floats as integers, towards zero.

    Refused: to and from types that are not read, but of constants.
    """
    return _cast_to(n, dtype_name(n.integer("to")))


def _cast_like(n: Node) -> SSAValue | Value:
    """X as the element type of the second input.

    Refused: to and from types that are not read.
    """
    return _cast_to(n, n.value(1).dtype)


def _cast_to(n: Node, dtype: str) -> SSAValue | Value:
    if dtype not in STORED:
        raise n.unsupported(f"casts to {TEXT.get(dtype, dtype)}, which is not supported")
    value = n.value(0)
    if "text" in (dtype, value.dtype) and dtype != value.dtype:
        raise n.unsupported("makes numbers of texts, or texts of numbers")
    if value.numbers is not None:
        return Value.of(_numbers_as(value.numbers, dtype, KINDS[dtype]))
    if value.known is not None and dtype in SIZES:
        exact = EXACT.get(value.dtype)
        if exact is None or n.scope.model.within(exact, value.known.flat):
            return Value.of(value.known, dtype=dtype)
    if value.dtype == "u64" and dtype in (*FLOATS, *NARROW_FLOATS):
        return n.b.cast(unsigned.to_float(n.b, n.bits(0), WIDE.get(dtype, dtype)), dtype)
    if dtype == "u64" and value.dtype in (*FLOATS, *NARROW_FLOATS):
        return n.b.cast(unsigned.of_float(n.b, n.x(0, FLOATS)), "u64")
    if (counted := narrowed(n, dtype)) is not None:
        return counted
    truncated = partial(sizes.divide, facts=n.scope.model.known.facts)
    quotient = rounded_quotient(n, truncated) if dtype in INTEGERS else None
    return n.b.cast(n.x(0), dtype) if quotient is None else Value.of(quotient, dtype=dtype)


def _fold_cast(n: Node, arrays: list[Array]) -> Array | None:
    x, kind = arrays[0], n.integer("to")
    dtype = dtype_name(kind)
    if x.dtype == object:
        return None
    if dtype in ("text", "an unknown type"):
        raise n.unsupported(f"casts to {dtype}, which is not supported")
    cast = _numbers_as(x, dtype, kind)
    return cast if dtype in NUMPY or _are_certain(x, cast) else None


def _are_certain(x: Array, y: Array) -> bool:
    """Whether readers of the format agree that y is x as a type of which nothing is computed: they
    round to integers of few bits and to powers of two, and overflow, in different ways."""
    of, to = x.dtype.name, y.dtype.name
    if "float" not in of + to:
        return True
    back = y.astype(np.float64)
    rounded = "float" in to and to != "float8_e8m0fnu"
    return bool(np.isfinite(back).all() if rounded else np.array_equal(back, x.astype(np.float64)))


WIDTHS = {
    **dict.fromkeys(("f32", "i32", "u32"), "i32"),
    **dict.fromkeys(("f64", "i64", "u64"), "i64"),
    **dict.fromkeys(("i16", "u16"), "i16"),
    **dict.fromkeys(("i8", "u8"), "i8"),
}
"""Element types whose bits may be computed with -> the signed integer of that width."""


def _bit_cast(n: Node) -> SSAValue:
    """X's bits as another element type of the same width.

    Refused: computed elements of float16 and bfloat16, or as bool; of texts.
    """
    b, old, new = n.b, n.value(0).dtype, dtype_name(n.integer("to"))
    if (old, new) == ("i1", "u8"):
        return b.cast(n.x(0), new)
    if old == new:
        return n.x(0)
    if old not in WIDTHS or WIDTHS[old] != WIDTHS.get(new):
        shown = [TEXT.get(dtype, dtype) for dtype in (old, new)]
        raise n.unsupported(f"takes the bits of {shown[0]} for {shown[1]}")
    x = b.bitcast(n.x(0)) if old in FLOATS else b.cast(n.x(0), WIDTHS[old])
    return b.bitcast(x) if new in FLOATS else b.cast(x, new)


def _fold_bit_cast(n: Node, arrays: list[Array]) -> Array | None:
    kind = n.integer("to")
    if arrays[0].dtype == object or dtype_name(kind) not in NUMPY:
        return None
    dtype = np.dtype(onnx_package().helper.tensor_dtype_to_np_dtype(kind))
    if dtype.itemsize != arrays[0].dtype.itemsize:
        raise n.error(f"takes the bits of {arrays[0].dtype} for {dtype}")
    return np.ascontiguousarray(arrays[0]).view(dtype).reshape(arrays[0].shape)


def _numbers_as(x: Array, dtype: str, kind: int) -> Array:
    """Numbers as another element type, which ONNX numbers so."""
    if x.dtype == np.float64 and dtype in NARROW_FLOATS:
        x = x.astype(np.float32)  # rounded twice, as at run time and by ONNX Runtime
    return x.astype(onnx_package().helper.tensor_dtype_to_np_dtype(kind))


def _identity(n: Node) -> Value:
    """X."""
    return n.value(0)


OPERATORS: dict[str, OnnxOperator] = {
    "Identity": OnnxOperator(_identity),
    "Cast": OnnxOperator(_cast, _fold_cast),
    "CastLike": OnnxOperator(_cast_like),
    "BitCast": OnnxOperator(_bit_cast, _fold_bit_cast),
    "Neg": OnnxOperator(_neg, _fold_neg),
    "Abs": OnnxOperator(_abs, folded_sizes(np.abs, sizes.magnitude)),
    "Sign": OnnxOperator(_sign, folded(np.sign)),
    "Sqrt": OnnxOperator(of_floats(Builder.sqrt, "√X."), folded(np.sqrt)),
    "Exp": OnnxOperator(of_floats(Builder.exp, "e^X."), folded(np.exp)),
    "Log": OnnxOperator(of_floats(Builder.log, "ln X."), folded(np.log)),
    "Reciprocal": OnnxOperator(of_floats(reciprocal, "1 / X.")),
    "Floor": OnnxOperator(_floor, rounded(np.floor)),
    "Ceil": OnnxOperator(_ceil, rounded(np.ceil)),
    "Round": OnnxOperator(
        of_floats(lambda b, x: b.round("even", x), "The nearest integer, of two the even one."),
        rounded(np.round),
    ),
    "Sin": OnnxOperator(of_floats(Builder.sin, "sin X; of float64 NaN where |X| > 2⁶³.")),
    "Cos": OnnxOperator(of_floats(Builder.cos, "cos X; of float64 NaN where |X| > 2⁶³.")),
    "Tan": OnnxOperator(of_floats(angles.tan, "sin X / cos X.")),
    "Asin": OnnxOperator(of_floats(angles.asin, "The angle whose sine is X.")),
    "Acos": OnnxOperator(of_floats(angles.acos, "The angle whose cosine is X.")),
    "Atan": OnnxOperator(of_floats(angles.atan, "The angle whose tangent is X.")),
    "Sinh": OnnxOperator(of_floats(angles.sinh, "(e^X - e^-X) / 2.")),
    "Cosh": OnnxOperator(of_floats(angles.cosh, "(e^X + e^-X) / 2.")),
    "Tanh": OnnxOperator(of_floats(Builder.tanh, "tanh X.")),
    "Asinh": OnnxOperator(of_floats(angles.asinh, "ln(X + √(X² + 1)).")),
    "Acosh": OnnxOperator(of_floats(angles.acosh, "ln(X + √(X² - 1)).")),
    "Atanh": OnnxOperator(of_floats(angles.atanh, "ln((1 + X) / (1 - X)) / 2.")),
    "Erf": OnnxOperator(of_floats(Builder.erf, "erf X.")),
    "Sigmoid": OnnxOperator(of_floats(Builder.sigmoid, "1 / (1 + e^-X).")),
    "IsNaN": OnnxOperator(_is_nan),
    "IsInf": OnnxOperator(_is_inf),
}
