"""Sums, means, products and norms along axes; running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn.arithmetic import power
from rnncc.nn.axes import kept_dims, move_axis
from rnncc.nn.slopes import with_backward_by_result


def reduce_keepdims(b: Builder, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Reduce along axes that stay, with size 1."""
    return b.reshape(b.reduce(kind, x, axes), kept_dims(x, axes))


def count(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """How many elements each sum along some axes has, in x's type."""
    size = product(dims_of(x)[axis] for axis in axes)
    if size.is_static:
        return b.fill(int(size), (), dtype_of(x))
    return b.cast(b.size(size), dtype_of(x))


def total(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The sum; x itself over no axes."""
    return b.reduce("sum", x, axes) if axes else x


def mean(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The mean; of integers rounded towards zero."""
    return b.div(total(b, x, axes), count(b, x, axes))


def mean_keepdims(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The mean along axes that stay, with size 1."""
    return b.div(reduce_keepdims(b, "sum", x, axes), count(b, x, axes))


def centre(b: Builder, x: SSAValue, axes: Sequence[int]) -> tuple[SSAValue, SSAValue]:
    """The mean along axes that stay, and x without it."""
    average = mean_keepdims(b, x, axes)
    return average, b.sub(x, average)


def largest(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The largest element, of bools too; x itself over no axes."""
    return _extremum(b, "max", x, axes)


def smallest(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The smallest element, of bools too; x itself over no axes."""
    return _extremum(b, "min", x, axes)


def picked_largest(b: Builder, x: SSAValue, axes: Sequence[int], of_each: bool = False) -> SSAValue:
    """The largest element; the first of equal ones has its gradient, where `largest` shares it.

    Args:
        of_each: whether each of equal ones has all of the gradient.
    """
    y = b.reduce("max", x, axes)
    if dtype_of(x) not in FLOATS:
        return y

    def backward(b: Builder, dy: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        is_largest = b.compare("eq", x, _spread(b, y, x, axes))
        is_largest = b.logical("or", is_largest, b.compare("ne", x, x))
        is_largest = is_largest if of_each else _first(b, is_largest, axes)
        return b.select(is_largest, _spread(b, dy, x, axes), b.full_like(x, 0.0))

    return with_backward_by_result(b, y, x, backward)


def _first(b: Builder, matches: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Of what is true, the first element along some axes."""
    dims, inside = dims_of(matches), Dim.of(1)
    number = b.fill(0, [Dim.of(1)] * len(dims), "i32")
    for axis in reversed(axes):
        line = [size if i == axis else Dim.of(1) for i, size in enumerate(dims)]
        number = b.add(number, b.mul(b.iota(line, axis, "i32"), b.size(inside, "i32")))
        inside = inside * dims[axis]
    place = b.reduce("min", b.select(matches, number, b.size(inside, "i32")), axes)
    return b.compare("eq", _spread(b, place, matches, axes), number)


def _spread(b: Builder, y: SSAValue, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """What was reduced along some axes, again as x: no reshape keeps a layout from moving on."""
    dims = dims_of(x)
    return b.broadcast(y, dims, [axis for axis in range(len(dims)) if axis not in axes])


def _extremum(b: Builder, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    if not axes:
        return x
    if dtype_of(x) != "i1":
        return b.reduce(kind, x, axes)
    counted = b.cast(x if kind == "max" else b.logical_not(x), "i32")
    any_true = b.cast(b.reduce("sum", counted, axes), "i1")
    return any_true if kind == "max" else b.logical_not(any_true)


def multiplied(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """The product: a loop over the elements."""
    dims = dims_of(x)
    stay = [axis for axis in range(len(dims)) if axis not in axes]
    rest = [dims[axis] for axis in stay]
    rows = b.transpose(x, [*axes, *stay])
    rows = b.reshape(rows, (product(dims[axis] for axis in axes), *rest))

    def step(inner: Builder, _: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        return [inner.mul(carry[0], row[0])], []

    finals, _ = b.scan([], [b.fill(1, rest, dtype_of(x))], [rows], step)
    return finals[0]


def log_sum_exp(b: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """max + ln Σ e^(x - max); the maximum cancels out, so that no gradient goes through it."""
    if not axes:
        return x
    largest = _finite(b, b.reduce("max", x, axes))
    centred = b.sub(x, b.reshape(largest, kept_dims(x, axes)))
    return b.add(b.log(total(b, b.exp(centred), axes)), largest)


def root_of_powers(b: Builder, x: SSAValue, axes: Sequence[int], order: float = 2) -> SSAValue:
    """(Σ |x|ᵖ)^(1/p) for p > 1, flat at 0."""
    return flat_root(b, total(b, power(b, x if order == 2 else b.abs(x), order), axes), order)


def flat_root(b: Builder, x: SSAValue, order: float = 2) -> SSAValue:
    """x^(1/order), flat at 0, where the root itself has no slope."""
    zero = b.full_like(x, 0.0)
    none = b.compare("eq", x, zero)
    return b.select(none, zero, power(b, b.select(none, b.full_like(x, 1.0), x), 1 / order))


def log_add_exp(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """ln(e^x + e^y)"""
    largest = _finite(b, b.maximum(x, y))
    return b.add(b.log(b.add(b.exp(b.sub(x, largest)), b.exp(b.sub(y, largest)))), largest)


def _finite(b: Builder, most: SSAValue) -> SSAValue:
    """A maximum that is to cancel out of exponents, 0 where it is infinite; flat."""
    infinite = b.compare("eq", b.abs(most), b.full_like(most, math.inf))
    return b.stop_gradient(b.select(infinite, b.full_like(most, 0.0), most))


def cumulate(
    b: Builder,
    x: SSAValue,
    axis: int,
    function: Callable[[Builder, SSAValue, SSAValue], SSAValue] = Builder.add,
    start: float = 0,
    exclusive: bool = False,
    reverse: bool = False,
) -> SSAValue:
    """Running sums along an axis, or what another function makes of the total and each row.

    Args:
        start: the first total.
        exclusive: whether a row's own value comes behind it.
    """
    rows = move_axis(b, x, axis, 0)

    def step(inner: Builder, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        total = function(inner, carry[0], row[0])
        return [total], [carry[0] if exclusive else total]

    first = b.fill(start, dims_of(rows)[1:], dtype_of(x))
    _, (totals,) = b.scan([], [first], [rows], step, reverse=reverse)
    return move_axis(b, totals, 0, axis)
