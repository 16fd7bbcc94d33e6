"""Sizes of results that the run decides: how many elements are the largest, the parts of an axis,
what is put around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import most_seen, one_that_fits
from rnncc.frontends.onnx.counted.decided import where_equal
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.offsets import formula_of, parted
from rnncc.frontends.onnx.node import INTEGERS, NUMBERS, Node
from rnncc.frontends.onnx.ops.computed_bounds import HUGE, Place, counted_rows, rows_from
from rnncc.frontends.onnx.values import Value, varies
from rnncc.ir.dims import Dim
from rnncc.ir.ops.elementwise import Sub
from rnncc.ir.size_proofs import is_natural, larger, smaller
from rnncc.ir.types import dims_of, dtype_of, shape_text


def is_computed(n: Node, index: int, floats: bool = False) -> bool:
    """Whether the run decides the integers of an input, or floats that stand for some, in
    inference."""
    value = n.value(index)
    model, types = n.scope.model, NUMBERS if floats else INTEGERS
    computed = value.made is not None and model.numbers_behind(value) is None
    return computed and value.dtype in types and not model.training


def computed_number(n: Node, index: int, size: Dim) -> tuple[SSAValue, Dim]:
    """A computed number of elements, int64 without axes, and the most that it may be: if it is
    negative, or more than there are, the run fails."""
    value = n.value(index)
    if any(d != 1 for d in value.dims):
        raise n.error(f"has {shape_text(value.dims)} numbers for one")
    number = n.b.reshape(n.b.cast(n.x(index), "i64"), ())
    most = _most_allowed(n, number)
    return _up_to(n, number, size if most is None else smaller(most, size))


def bounded_number(n: Node, number: SSAValue) -> tuple[SSAValue, Dim] | None:
    """The same of a number that something bounds; None where nothing does."""
    most = _most_allowed(n, number)
    return None if most is None else _up_to(n, number, most)


def _up_to(n: Node, number: SSAValue, most: Dim) -> tuple[SSAValue, Dim]:
    return one_that_fits(n.b, number, _fits(n, number, most)), most


def _fits(n: Node, number: SSAValue, most: Dim) -> SSAValue:
    """Whether a number is from 0 to the most that it may be."""
    b = n.b
    return b.logical("and", _is_natural(n, number), b.compare("le", number, b.size(most, "i64")))


def _most_allowed(n: Node, number: SSAValue) -> Dim | None:
    """The most that a number may be, or what the user gives as the most."""
    most = most_of(n, number)
    return n.most_given() if most is None else most


def most_of(n: Node, number: SSAValue) -> Dim | None:
    """The most that a computed number may be, where it is made of what counts."""
    base, more = parted(number)
    if base is None:
        return more
    op = base.owner
    if isinstance(op, Sub) and (whole := formula_of(op.a)) is not None:
        # of what is subtracted, only what counts is known not to be negative
        return None if most_seen(n, op.b) is None else larger(whole + more, Dim.of(0))
    most = most_seen(n, base)
    return None if most is None else larger(most + more, Dim.of(0))


def _is_natural(n: Node, number: SSAValue) -> SSAValue:
    return n.b.compare("ge", number, n.full(0, number))


def computed_parts(n: Node, axis: int) -> list[Value]:
    """X cut along an axis into parts of sizes that the run decides, one behind the other: if one is
    negative, or they are not all of the axis, the run fails."""
    x, places = n.x(), [_unless_varying(n, place) for place in n.places(1)]
    if len(places) < len(n.op.output):
        raise n.error(f"has {len(n.op.output)} outputs for {len(places)} parts")
    x, places, checked = _of_whole(n, x, n.dims()[axis], places)
    parts, start = list[Value](), Dim.of(0)
    first: Place = start
    for place in places:
        end = Dim.of(HUGE) if len(parts) == len(places) - 1 else sum_of(n, first, place)
        if isinstance(place, SSAValue):
            part: Value = counted_rows(n, x, axis, first, end)
        elif isinstance(first, SSAValue):
            rows = rows_from(n, dims_of(x)[axis], first, place)
            part = Value.computed(n.b.gather(x, rows, axis))
        else:
            part = Value.computed(checked(n.b.slice(x, axis, first, place)))
        parts.append(part)
        first = end
    return parts


def _of_whole(
    n: Node, x: SSAValue, size: Dim, places: Sequence[Place]
) -> tuple[SSAValue, list[Place], Callable[[SSAValue], SSAValue]]:
    """x and the sizes of its parts, where none is negative and they are all of an axis: else the
    run fails. Then what has the run fail likewise where a part is read that reads none of them."""
    b, numbers = n.b, [place for place in places if isinstance(place, SSAValue)]
    left = size - sum((place for place in places if isinstance(place, Dim)), Dim.of(0))
    if len(numbers) == 1:  # it is what the others leave
        x = where_equal(b, x, b.reshape(numbers[0], (1,)), [left])
        return x, [left if place is numbers[0] else place for place in places], lambda part: part
    fits = b.compare("eq", reduce(b.add, numbers), b.size(left, "i64"))
    fits = reduce(partial(b.logical, "and"), (_is_natural(n, one) for one in numbers), fits)
    first = one_that_fits(b, numbers[0], fits)
    total = b.reshape(reduce(b.add, [first, *numbers[1:]]), (1,))
    places = [first if place is numbers[0] else place for place in places]
    return x, places, lambda part: where_equal(b, part, total, [left])


def _unless_varying(n: Node, place: Place) -> Place:
    """A size, computed where it is another one in each iteration of a loop."""
    return n.scope.number(place) if isinstance(place, Dim) and varies(place) else place


def sum_of(n: Node, one: Place, other: Place) -> Place:
    """The sum of two places, a formula where both are."""
    if isinstance(one, Dim) and isinstance(other, Dim):
        return one + other
    numbers = map(n.scope.number, (one, other))
    return reduce(n.b.add, numbers)


def put_around(
    n: Node, rows: Partial, before: Place, behind: Place, number: float | SSAValue | None
) -> Partial | None:
    """Rows with so many of one number before those that count, and behind them, or with some cut
    off where these are negative, of one number maybe more than there are rows; None where nothing
    bounds how many there are then.

    Args:
        number: None for the first and the last of the rows in its place.
    """
    b, count, x = n.b, rows.count, rows.made
    assert count is not None and x is not None
    around = [n.scope.number(place) for place in (before, behind)]
    total = reduce(b.add, around, count)
    most = _most_allowed(n, total)
    if most is None:
        return None
    fits = _fits(n, total, most)
    if number is None:  # what is cut off is there, and a row to repeat
        lasting = [_is_natural(n, b.add(count, each)) for each in around]
        repeated = b.compare("gt", count, n.full(0, count))
        needed = b.logical("or", repeated, b.compare("eq", total, n.full(0, total)))
        fits = reduce(partial(b.logical, "and"), (*lasting, needed), fits)
    total = one_that_fits(b, total, fits)
    size = dims_of(x)[rows.axis]
    if not is_natural(size - 1):  # so that there is a row to read for those that are none of x
        x = b.pad(x, rows.axis, 0, size + 1, 0)

    def everywhere(one: SSAValue) -> SSAValue:
        return b.broadcast(one, (most,), [])

    at = b.sub(b.iota((most,), 0, "i64"), everywhere(around[0]))
    last = everywhere(b.maximum(b.sub(count, n.full(1, count)), n.full(0, count)))
    y = b.gather(x, b.maximum(b.minimum(at, last), b.full_like(at, 0)), rows.axis)
    if number is not None:
        below = b.compare("lt", at, b.full_like(at, 0))
        behind_all = b.compare("ge", at, everywhere(count))
        dims, dtype = dims_of(y), dtype_of(y)
        other = number if isinstance(number, SSAValue) else b.fill(number, (), dtype)
        outside = b.broadcast(b.logical("or", below, behind_all), dims, [rows.axis])
        y = b.select(outside, b.broadcast(other, dims, []), y)
    return Partial.counted(Value.computed(y), rows.axis, total)
