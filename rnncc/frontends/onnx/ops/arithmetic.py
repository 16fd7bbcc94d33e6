"""Arithmetic of two or more tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.formulas import sizes
from rnncc.frontends.onnx.node import FLOATS, INTEGERS, NUMBERS, FoldOne, Node, OnnxOperator
from rnncc.frontends.onnx.values import EXACT, NEAR, Array, as_objects, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.elementwise import BITS
from rnncc.ir.types import NUMPY, dims_of, dtype_of
from rnncc.nn import unsigned
from rnncc.nn.arithmetic import MOST_FACTORS, integer_power, modulo, power

Binary = Callable[[Builder, SSAValue, SSAValue], SSAValue]
OfSizes = Callable[..., Any]


def folded(numpy: Callable[..., Any], of_sizes: OfSizes | None, rounds: bool = True) -> FoldOne:
    """Folding of two operands by NumPy, and of sizes by a function of two.

    Args:
        rounds: whether the result is another number than the operands, which float32 may not hold.
            A function that is not reads sizes whose values are known, too.
    """

    def fold(n: Node, arrays: list[Array]) -> Array | None:
        a, b = arrays
        n.check_broadcast()
        if a.dtype != object and b.dtype != object:
            return np.asarray(numpy(a, b))
        exact = EXACT.get(n.value(0).dtype)
        if of_sizes is None:
            return None
        if exact and rounds:
            return _of_exact_floats(n, of_sizes, a, b, exact)
        if rounds:
            return sizes.by_element(of_sizes, a, b)
        of_known = partial(of_sizes, facts=n.scope.model.known.facts)
        beyond = any(map(_stands_for_the_end, (a, b)))
        folded = None if exact or beyond else sizes.by_element(of_known, a, b)
        if folded is None:
            folded = _within(n, of_known, a, b, exact or NEAR)
        return _of_tensors(n, of_sizes, a, b) if folded is None and not exact else folded

    return fold


def _of_tensors(n: Node, of_sizes: OfSizes, a: Array, b: Array) -> Array | None:
    """A function of sizes, knowing that those of tensors are not negative: T - 1 is not -1."""
    model = n.scope.model
    formulas = model.shapes.intersection([*as_objects(a).flat, *as_objects(b).flat])
    facts = (*model.known.facts, *formulas)
    folded = sizes.by_element(partial(of_sizes, facts=facts), a, b)
    return folded if folded is not None and all(map(model.never_negative, formulas)) else None


def _of_exact_floats(n: Node, of_sizes: OfSizes, a: Array, b: Array, limit: int) -> Array | None:
    """A function of sizes that calls check to be floats without rounding. The result may be rounded
    where it is used as a float; where it decides something, it is checked itself."""
    folded = sizes.by_element(of_sizes, a, b)
    formulas = [*as_objects(a).flat, *as_objects(b).flat]
    return folded if folded is not None and n.scope.model.within(limit, formulas) else None


def _stands_for_the_end(array: Array) -> bool:
    """Whether some number is one that is meant to be beyond all sizes."""
    return any(size.is_static and abs(int(size)) > NEAR for size in as_objects(array).flat)


def _within(n: Node, of_sizes: OfSizes, a: Array, b: Array, limit: int) -> Array | None:
    """A comparison, or the smaller or larger, of sizes that calls check to be within a limit."""
    folded = sizes.by_element(partial(_beside_large, of_sizes, limit), a, b)
    formulas = [*as_objects(a).flat, *as_objects(b).flat]
    return folded if folded is not None and n.scope.model.within(limit, formulas) else None


def _beside_large(of_sizes: OfSizes, limit: int, x: Dim, y: Dim) -> Any:
    """A function of sizes within a limit: beside a number beyond it they are as 0 is."""
    zero = Dim.of(0)
    left, right = (size.is_static and abs(int(size)) > limit for size in (x, y))
    if left == right:
        return of_sizes(x, y)
    folded = of_sizes(x, zero) if left else of_sizes(zero, y)
    if isinstance(folded, Dim) and folded == 0:  # the one of the two that is the size
        return y if left else x
    return folded


def _binary(function: Binary, formula: str, of_bits: Binary | None = None) -> Any:
    def build(n: Node) -> SSAValue:
        if of_bits is not None and n.value(0).dtype == "u64":
            return of_bits(n.b, n.bits(0), n.bits(1))
        return function(n.b, n.x(0, NUMBERS), n.x(1, NUMBERS))

    build.__doc__ = f"{formula}\n\nRefused: elements other than floats, int32, int64."
    return build


def _truncated(a: Array, b: Array) -> Array:
    """A / B, of integers towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    below = np.floor_divide(a, b)
    return np.where(((a < 0) != (b < 0)) & (below * b != a), below + 1, below).astype(a.dtype)


def _fold_div(n: Node, arrays: list[Array]) -> Array | None:
    b = arrays[1]
    if b.dtype != object and b.dtype.kind in "iu" and (b == 0).any():
        raise n.error("divides integers by 0")
    exact = n.value(0).dtype in EXACT
    whole = partial(sizes.divide, facts=n.scope.model.known.facts)
    return folded(_truncated, sizes.exact_quotient if exact else whole)(n, arrays)


def _mod(n: Node) -> SSAValue:
    """A mod B: with the sign of B, or with `fmod` that of A.

    Refused: elements other than floats, int32, int64.
    """
    if n.value(0).dtype == "u64":
        return unsigned.remainder(n.b, n.bits(0), n.bits(1))
    x, y = n.x(0, NUMBERS), n.x(1, NUMBERS)
    return n.b.rem(x, y) if n.flag("fmod") else modulo(n.b, x, y)


def _fold_mod(n: Node, arrays: list[Array]) -> Array | None:
    if n.flag("fmod"):
        return folded(np.fmod, sizes.remainder)(n, arrays)
    return folded(np.mod, partial(_modulo, n))(n, arrays)


def _modulo(n: Node, x: Dim, y: Dim) -> Dim:
    """x mod y; of a number by an open size, such as the -2 mod T of a roll, calls are refused for
    which it is not less than the size."""
    try:
        return sizes.modulo(x, y)
    except sizes.Undecided:
        if not x.is_static or varies(y) or n.scope.model.branches:
            raise
        n.b.require(y - x - 1 if int(x) > 0 else y + x)
        return x if int(x) > 0 else y + x


def _pow(n: Node) -> SSAValue:
    """A to the power of B; of integers towards zero, where 0 to a negative power is their least."""
    x, exponent = n.x(0, NUMBERS), n.value(1)
    numbers = exponent.numbers
    if dtype_of(x) in INTEGERS and (numbers is None or not _is_count(numbers)):
        return _power_of_integers(n.b, x, n.x(1, NUMBERS))
    if numbers is not None and numbers.size == 1:
        rank = max(exponent.rank, len(dims_of(x)))
        shaped = n.b.reshape(x, (*[1] * (rank - len(dims_of(x))), *dims_of(x)))
        return power(n.b, shaped, float(numbers.reshape(-1)[0]))
    return power(n.b, x, n.b.cast(n.x(1), dtype_of(x)))


def _power_of_integers(b: Builder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """x to a power: exact for whole ones, else as float64 towards zero, the least for NaN."""
    if dtype_of(exponent) in INTEGERS:
        return integer_power(b, x, exponent)
    exact = integer_power(b, x, b.cast(exponent, "i64"))
    rounded = power(b, b.cast(x, "f64"), b.cast(exponent, "f64"))
    least = b.full_like(exact, float(np.iinfo(NUMPY[dtype_of(x)]).min))
    number = b.select(b.compare("eq", rounded, rounded), b.cast(rounded, dtype_of(x)), least)
    return b.select(b.compare("eq", b.round("floor", exponent), exponent), exact, number)


def _is_count(numbers: Array) -> bool:
    """Whether it is one number of factors."""
    return numbers.size == 1 and float(numbers.reshape(-1)[0]) in range(MOST_FACTORS + 1)


def _fold_pow(n: Node, arrays: list[Array]) -> Array | None:
    a, b = arrays
    n.check_broadcast()
    if b.dtype == object or (a.dtype.kind in "iu" and (b < 0).any()):
        return None
    if a.dtype == object:
        return _power_of_sizes(n, a, b) if _is_count(b) and b.any() else None
    return np.asarray(np.power(a, b)).astype(a.dtype)


def _several(function: Binary, formula: str, of_bits: Binary | None = None) -> Any:
    def build(n: Node) -> SSAValue:
        if of_bits is not None and n.value(0).dtype == "u64":
            return reduce(partial(of_bits, n.b), map(n.bits, range(len(n.inputs))))
        return reduce(partial(function, n.b), (n.x(i, NUMBERS) for i in range(len(n.inputs))))

    build.__doc__ = f"{formula}\n\nRefused: elements other than floats, int32, int64."
    return build


_minimum = _several(Builder.minimum, "The smallest.", unsigned.minimum)


def _smallest(n: Node) -> SSAValue:
    y = _minimum(n)
    formulas = [value.formulas() for value in n.inputs if value is not None]
    if len(formulas) == 2 and all(len(each) == 1 for each in formulas):
        n.scope.model.minima[y] = formulas[0][0], formulas[1][0]
    return y


_smallest.__doc__ = _minimum.__doc__


def _fold_several(numpy: Callable[..., Any], of_sizes: OfSizes, rounds: bool = True) -> FoldOne:
    fold_two = folded(numpy, of_sizes, rounds)

    def fold(n: Node, arrays: list[Array]) -> Array | None:
        n.check_broadcast()
        total: Array | None = arrays[0]
        for array in arrays[1:]:
            total = None if total is None else fold_two(n, [total, array])
        return total

    return fold


def _mean(n: Node) -> SSAValue:
    """The mean of the inputs.

    Refused: elements other than floats.
    """
    total = reduce(n.b.add, (n.x(i, FLOATS) for i in range(len(n.inputs))))
    return n.b.div(total, n.full(len(n.inputs), total))


def _bitwise(kind: str) -> Any:
    def build(n: Node) -> SSAValue:
        return n.b.bits(kind, n.x(0, INTEGERS), n.x(1, INTEGERS))

    build.__doc__ = f"A {kind} B, bit by bit."
    return build


def _bitwise_not(n: Node) -> SSAValue:
    """not A, bit by bit."""
    x = n.x(0, INTEGERS)
    return n.b.bits("xor", x, n.full(-1, x))


def _fold_not(n: Node, arrays: list[Array]) -> Array | None:
    return None if arrays[0].dtype == object else np.asarray(np.bitwise_not(arrays[0]))


def _bit_shift(n: Node) -> SSAValue:
    """A with its bits moved by B, to the right with copies of the sign behind them; a B that is
    negative, or no smaller than there are bits, moves out all of them."""
    direction, is_unsigned = _direction(n), n.value(0).dtype == "u64"
    x, places = (n.bits(i) if is_unsigned else n.x(i, INTEGERS) for i in (0, 1))
    if is_unsigned and direction == "right":
        return unsigned.shift_right(n.b, x, places)
    return n.b.bits(direction, x, places)


def _fold_bit_shift(n: Node, arrays: list[Array]) -> Array | None:
    return folded(BITS[_direction(n)], None)(n, arrays)


def _direction(n: Node) -> str:
    return n.one_of("direction", ("LEFT", "RIGHT")).lower()


def _power_of_sizes(n: Node, a: Array, exponent: Array) -> Array | None:
    """Sizes times themselves, as in the T ** 2 of a square."""
    product: Array | None = np.ones((1,) * exponent.ndim, np.int64)
    multiply = folded(np.multiply, sizes.multiply)
    for _ in range(int(exponent.reshape(-1)[0])):
        product = None if product is None else multiply(n, [product, a])
    return product


ADD, SUB, MUL = Builder.add, Builder.sub, Builder.mul

OPERATORS: dict[str, OnnxOperator] = {
    "Add": OnnxOperator(_binary(ADD, "A + B."), folded(np.add, sizes.add)),
    "Sub": OnnxOperator(_binary(SUB, "A - B."), folded(np.subtract, sizes.subtract)),
    "Mul": OnnxOperator(_binary(MUL, "A · B."), folded(np.multiply, sizes.multiply)),
    "Div": OnnxOperator(
        _binary(Builder.div, "A / B; of integers towards zero, where A / 0 is 0.", unsigned.divide),
        _fold_div,
    ),
    "Mod": OnnxOperator(_mod, _fold_mod),
    "Pow": OnnxOperator(_pow, _fold_pow),
    "Min": OnnxOperator(
        _smallest,
        _fold_several(np.minimum, sizes.smaller, False),
    ),
    "Max": OnnxOperator(
        _several(Builder.maximum, "The largest.", unsigned.maximum),
        _fold_several(np.maximum, sizes.larger, False),
    ),
    "Sum": OnnxOperator(_several(ADD, "The sum."), _fold_several(np.add, sizes.add)),
    "Mean": OnnxOperator(_mean),
    "BitwiseAnd": OnnxOperator(_bitwise("and"), folded(np.bitwise_and, None)),
    "BitwiseOr": OnnxOperator(_bitwise("or"), folded(np.bitwise_or, None)),
    "BitwiseXor": OnnxOperator(_bitwise("xor"), folded(np.bitwise_xor, None)),
    "BitwiseNot": OnnxOperator(_bitwise_not, _fold_not),
    "BitShift": OnnxOperator(_bit_shift, _fold_bit_shift),
}
