"""Operators that compare or count along an axis: the largest, running sums, ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.decided import decided_sizes, settled
from rnncc.frontends.onnx.counted.ranges import counted_range
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.offsets import distance
from rnncc.frontends.onnx.formulas.sizes import may_be_natural
from rnncc.frontends.onnx.node import FLOATS, NUMBERS, Node, OnnxOperator
from rnncc.frontends.onnx.ops.arithmetic import Binary
from rnncc.frontends.onnx.ops.computed_sizes import computed_number, is_computed
from rnncc.frontends.onnx.values import EXACT, Array, NoFormula, Value, as_objects, varies
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.size_proofs import is_natural, larger
from rnncc.ir.types import NARROW_FLOATS, WIDE, dims_of
from rnncc.nn.axes import kept_dims
from rnncc.nn.indexing import extremum_place
from rnncc.nn.ranking import top_k
from rnncc.nn.reduction import cumulate

MAX_COUNTED = 1 << 22
"""Numbers of a known range."""


def _extremum_place(kind: str, order: str) -> Any:
    def build(n: Node) -> SSAValue:
        x, dims = n.x(0, NUMBERS), n.dims()
        axis = n.axis(n.integer("axis", 0), len(dims))
        last = n.flag("select_last_index", 0)
        place = extremum_place(n.b, x, kind, axis, last)
        return n.b.reshape(place, kept_dims(x, [axis])) if n.flag("keepdims", 1) else place

    build.__doc__ = (
        f"The place of the {order} element along an axis: the first of equals, or the last.\n\n"
        "Refused: elements other than floats, int32, int64."
    )
    return build


def _top_k(n: Node) -> tuple[SSAValue | Value, ...]:
    """The k largest elements along an axis, largest first, and their places; or the smallest.

    Refused: k that is computed at run time, in training.
    """
    dims = n.dims()
    axis = n.axis(n.integer("axis", -1), len(dims))
    if n.opset >= 10 and is_computed(n, 1):
        number, most = computed_number(n, 1, dims[axis])
        first = _first(n, axis, most)
        return tuple(
            Partial.counted(n.scope.value(n, at, y), axis, number) for at, y in enumerate(first)
        )
    return _first(n, axis, _size(n, 1) if n.opset >= 10 else Dim.of(n.integer("k")))


def _first(n: Node, axis: int, count: Dim) -> tuple[SSAValue, SSAValue]:
    """So many elements in order, and their places."""
    x, size = n.x(0, NUMBERS), n.dims()[axis]
    if not may_be_natural(count) or not may_be_natural(size - count):
        raise n.error(f"takes {count} of {size} elements")
    n.b.require(size - count)
    return top_k(n.b, x, count, axis, n.flag("largest", 1))


def _cumulative(function: Binary, start: float, formula: str) -> Any:
    def build(n: Node) -> SSAValue:
        x = n.x(0, NUMBERS)
        axis = n.axis(int(n.scalar(1)), len(dims_of(x)))
        exclusive, reverse = (n.flag(name, 0) for name in ("exclusive", "reverse"))
        return cumulate(n.b, x, axis, function, start, exclusive, reverse)

    build.__doc__ = (
        f"{formula}\n\nRefused: an axis that is computed at run time; elements other than floats, "
        "int32, int64."
    )
    return build


def _fold_sums(n: Node, arrays: list[Array]) -> Array | None:
    if n.flag("exclusive", 0) or n.flag("reverse", 0):
        return None
    x = arrays[0]
    axis = n.axis(int(n.scalar(1)), x.ndim)
    return np.cumsum(as_objects(x) if x.dtype == object else x, axis).astype(x.dtype)


def _range(n: Node) -> SSAValue | Value:
    """start, start + delta, ... below limit.

    Refused: bounds that are computed at run time, but integers a known distance apart, a limit that
    counts rows or must be a size of something else, and what `--max-iterations` bounds; a
    computed step that it does not bound; elements other than floats, int32, int64.
    """
    b, dtype = n.b, n.value(0).dtype
    if (moved := _range_from_computed(n)) is not None:
        return moved
    if (counted := counted_range(n)) is not None:
        return counted
    decided = decided_sizes(n, 1) if _starts_whole(n) else None
    if dtype in (*FLOATS, *NARROW_FLOATS) and decided is None and not _counts_sizes(n):
        start, limit, delta = (n.scalar(i) for i in range(3))
        count = _count(n, start, limit, delta)
        number = b.cast(b.iota((count,), 0, "i32"), WIDE.get(dtype, dtype))
        return b.add(b.mul(number, n.full(delta, number)), n.full(start, number))
    start, delta = (_size(n, index) for index in (0, 2))
    limit = _size(n, 1) if decided is None else _only(n, decided)
    wide = WIDE.get(dtype, dtype)
    counted = "i64" if wide in FLOATS else wide
    whole = _steps(n, limit - start, delta)
    number = b.mul(b.iota((whole,), 0, counted), _step(b, delta, counted))
    number = number if decided is None else settled(n, 1, number)
    return b.cast(b.add(number, b.size(start, counted)), wide)


def _range_from_computed(n: Node) -> SSAValue | None:
    """As many numbers as lie between two computed integers, if that is known."""
    b, start, limit = n.b, n.value(0), n.value(1)
    if start.made is None or limit.made is None or n.value(2).known is None:
        return None
    if any(end.dtype != "i64" or product(end.dims) != 1 for end in (start, limit)):
        return None
    span = distance(start.made, limit.made)
    if span is None or varies(span):
        return None
    delta = _size(n, 2)
    number = b.mul(b.iota((_steps(n, span, delta),), 0, "i64"), _step(b, delta, "i64"))
    return b.add(number, b.reshape(start.made, ()))


def _step(b: Builder, delta: Dim, dtype: str) -> SSAValue:
    return b.fill(int(delta), (), dtype) if delta.is_static else b.size(delta, dtype)


def _steps(n: Node, span: Dim, delta: Dim) -> Dim:
    """How many steps a range takes."""
    if not delta.is_static:
        whole = span.divide(delta)
        if whole is None or not is_natural(delta):
            raise n.unsupported(f"has the step {delta}")
        n.b.require(delta - 1)
        return larger(whole, Dim.of(0), n.scope.model.known.facts)
    step = int(delta)
    if step == 0:
        raise n.unsupported("has the step 0")
    span = span if step > 0 else -span
    return larger(span, Dim.of(0), n.scope.model.known.facts).over(abs(step))


def _starts_whole(n: Node) -> bool:
    """Whether a range's start and step are known integers, or sizes."""
    known = [n.value(index).known for index in (0, 2)]
    return all(a is not None and (a.dtype == object or not (a % 1).any()) for a in known)


def _counts_sizes(n: Node) -> bool:
    """Whether the bounds of a range of floats are sizes, open ones among them, and integers."""
    known = [n.known(index) for index in range(3)]
    if all(array.dtype != object for array in known):
        return False
    try:
        formulas = [size for array in known for size in as_objects(array).flat]
    except NoFormula:
        return False
    return n.scope.model.within(EXACT["f32"], formulas)


def _size(n: Node, index: int) -> Dim:
    """One size."""
    return _only(n, as_objects(n.known(index)).reshape(-1).tolist())


def _only(n: Node, numbers: Sequence[Dim]) -> Dim:
    if len(numbers) != 1:
        raise n.error(f"has {len(numbers)} numbers for a bound of its range")
    return numbers[0]


def _count(n: Node, start: float, limit: float, delta: float) -> int:
    """How many numbers a range has."""
    count = (limit - start) / delta if delta else math.nan
    if not (math.isfinite(start) and math.isfinite(delta) and count <= MAX_COUNTED):
        most = f", to {MAX_COUNTED} numbers at most" if count > MAX_COUNTED else ""
        raise n.error(f"counts from {start} to {limit} in steps of {delta}{most}")
    return max(math.ceil(count), 0) if math.isfinite(count) else 0


def _fold_range(n: Node, arrays: list[Array]) -> Array | None:
    if any(a.dtype == object for a in arrays):
        return None
    start, limit, delta = (n.scalar(i) for i in range(3))
    count = _count(n, start, limit, delta)
    return (start + delta * np.arange(count)).astype(arrays[0].dtype)


OPERATORS: dict[str, OnnxOperator] = {
    "ArgMax": OnnxOperator(_extremum_place("max", "largest")),
    "ArgMin": OnnxOperator(_extremum_place("min", "smallest")),
    "TopK": OnnxOperator(_top_k),
    "CumSum": OnnxOperator(_cumulative(Builder.add, 0, "Running sums along an axis."), _fold_sums),
    "CumProd": OnnxOperator(_cumulative(Builder.mul, 1, "Running products along an axis.")),
    "Range": OnnxOperator(_range, _fold_range),
}
