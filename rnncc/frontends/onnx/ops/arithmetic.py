"""Arithmetic of two or more tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx import sizes
from rnncc.frontends.onnx.node import FLOATS, NUMBERS, FoldOne, Node, Operator
from rnncc.frontends.onnx.values import Array
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger, smaller
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import modulo, power

Binary = Callable[[Builder, SSAValue, SSAValue], SSAValue]
OfSizes = Callable[[Dim, Dim], Any]


def folded(numpy: Callable[..., Any], of_sizes: OfSizes | None) -> FoldOne:
    """Folding of two operands by NumPy, and of sizes by a function of two."""

    def fold(n: Node, arrays: list[Array]) -> Array | None:
        a, b = arrays
        n.check_broadcast()
        if a.dtype == object or b.dtype == object:
            return None if of_sizes is None else sizes.by_element(of_sizes, a, b)
        return np.asarray(numpy(a, b))

    return fold


def _binary(function: Binary, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        return function(n.b, n.x(0, NUMBERS), n.x(1, NUMBERS))

    build.__doc__ = f"{formula}\n\nRefused: elements other than float32, int32, int64."
    return build


def _truncated(a: Array, b: Array) -> Array:
    """A / B, of integers towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)


def _fold_div(n: Node, arrays: list[Array]) -> Array | None:
    b = arrays[1]
    if b.dtype != object and b.dtype.kind in "iu" and (b == 0).any():
        raise n.error("divides integers by 0")
    return folded(_truncated, sizes.divide)(n, arrays)


def _mod(n: Node) -> SSAValue:
    """A mod B: with the sign of B, or with `fmod` that of A.

    Refused: elements other than float32, int32, int64.
    """
    x, y = n.x(0, NUMBERS), n.x(1, NUMBERS)
    return n.b.rem(x, y) if n.flag("fmod") else modulo(n.b, x, y)


def _fold_mod(n: Node, arrays: list[Array]) -> Array | None:
    if n.flag("fmod"):
        return folded(np.fmod, None)(n, arrays)
    return folded(np.mod, sizes.modulo)(n, arrays)


def _pow(n: Node) -> SSAValue:
    """A to the power of B.

    Refused: elements of A other than float32.
    """
    x, exponent = n.x(0, FLOATS), n.value(1)
    numbers = exponent.numbers
    if numbers is not None and numbers.size == 1:
        rank = max(exponent.rank, len(dims_of(x)))
        shaped = n.b.reshape(x, (*[1] * (rank - len(dims_of(x))), *dims_of(x)))
        return power(n.b, shaped, float(numbers.reshape(-1)[0]))
    return power(n.b, x, n.b.cast(n.x(1), "f32"))


def _fold_pow(n: Node, arrays: list[Array]) -> Array | None:
    a, b = arrays
    n.check_broadcast()
    if a.dtype == object or b.dtype == object or (a.dtype.kind in "iu" and (b < 0).any()):
        return None
    return np.asarray(np.power(a, b)).astype(a.dtype)


def _several(function: Binary, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        return reduce(partial(function, n.b), (n.x(i, NUMBERS) for i in range(len(n.inputs))))

    build.__doc__ = f"{formula}\n\nRefused: elements other than float32, int32, int64."
    return build


def _fold_several(numpy: Callable[..., Any], of_sizes: OfSizes) -> FoldOne:
    fold_two = folded(numpy, of_sizes)

    def fold(n: Node, arrays: list[Array]) -> Array | None:
        n.check_broadcast()
        total: Array | None = arrays[0]
        for array in arrays[1:]:
            total = None if total is None else fold_two(n, [total, array])
        return total

    return fold


def _mean(n: Node) -> SSAValue:
    """The mean of the inputs.

    Refused: elements other than float32.
    """
    total = reduce(n.b.add, (n.x(i, FLOATS) for i in range(len(n.inputs))))
    return n.b.div(total, n.full(len(n.inputs), total))


def _bitwise(kind: str) -> Any:
    def build(n: Node) -> SSAValue:
        raise n.unsupported("works on bits of computed integers, which is not supported")

    build.__doc__ = f"A {kind} B, bit by bit, of constants.\n\nRefused: computed operands."
    return build


ADD, SUB, MUL = Builder.add, Builder.sub, Builder.mul

OPERATORS: dict[str, Operator] = {
    "Add": Operator(_binary(ADD, "A + B."), folded(np.add, sizes.add)),
    "Sub": Operator(_binary(SUB, "A - B."), folded(np.subtract, sizes.subtract)),
    "Mul": Operator(_binary(MUL, "A · B."), folded(np.multiply, sizes.multiply)),
    "Div": Operator(
        _binary(Builder.div, "A / B; of integers towards zero, where A / 0 is 0."), _fold_div
    ),
    "Mod": Operator(_mod, _fold_mod),
    "Pow": Operator(_pow, _fold_pow),
    "Min": Operator(_several(Builder.minimum, "The smallest."), _fold_several(np.minimum, smaller)),
    "Max": Operator(_several(Builder.maximum, "The largest."), _fold_several(np.maximum, larger)),
    "Sum": Operator(_several(ADD, "The sum."), _fold_several(np.add, sizes.add)),
    "Mean": Operator(_mean),
    "BitwiseAnd": Operator(_bitwise("and"), folded(np.bitwise_and, None)),
    "BitwiseOr": Operator(_bitwise("or"), folded(np.bitwise_or, None)),
    "BitwiseXor": Operator(_bitwise("xor"), folded(np.bitwise_xor, None)),
}
