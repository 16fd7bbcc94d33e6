"""Sums along axes that stay, counts of what is summed, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.ir.build import Build, Values
from rnncc.ir.dims import product
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.axes import kept_dims, move_axis


def reduce_keepdims(b: Build, kind: str, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Reduce along axes that stay, with size 1."""
    return b.reshape(b.reduce(kind, x, axes), kept_dims(x, axes))


def count(b: Build, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """How many elements each sum along some axes has, in x's type."""
    size = product(dims_of(x)[axis] for axis in axes)
    if size.is_static:
        return b.fill(int(size), (), dtype_of(x))
    return b.cast(b.size(size), dtype_of(x))


def cumulate(
    b: Build,
    x: SSAValue,
    axis: int,
    function: Callable[[Build, SSAValue, SSAValue], SSAValue] = Build.add,
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

    def step(inner: Build, consts: Values, carry: Values, row: Values) -> tuple[Values, Values]:
        total = function(inner, carry[0], row[0])
        return [total], [carry[0] if exclusive else total]

    first = b.fill(start, dims_of(rows)[1:], dtype_of(x))
    _, (totals,) = b.scan([], [first], [rows], step, reverse=reverse)
    return move_axis(b, totals, 0, axis)
