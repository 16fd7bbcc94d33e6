"""Slices whose bounds the run decides, or the iteration of a loop."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.formulas.learning import Fork, Learnt
from rnncc.frontends.onnx.formulas.offsets import distance
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.values import NEAR, Value, is_step, varies
from rnncc.ir.dims import Dim, Excess
from rnncc.ir.size_proofs import is_natural, larger, smaller
from rnncc.ir.types import dims_of
from rnncc.nn.axes import strided
from rnncc.nn.indexing import from_front

Place = Dim | SSAValue
"""A bound of a slice: known, or computed as an int64."""


HUGE = (1 << 31) - 1
"""From here on a bound of a slice means the end; no size is larger."""
LARGE = 1 << 16
"""Sizes for which a bound has the sign that it has for all but small ones."""


def is_settled(place: Place) -> TypeGuard[Dim]:
    """Whether a bound is known, and the same in each iteration of the loops around it."""
    return isinstance(place, Dim) and not varies(place)


def beyond_axis(n: Node, end: Place, size: Dim) -> Place:
    """An end as it is before the size of the axis limits it, which a slice does by itself."""
    pair = n.scope.model.minima.get(end) if isinstance(end, SSAValue) else None
    if pair is None or size not in pair:
        return end
    other = pair[1] if pair[0] == size else pair[0]
    return other if is_natural(other) else end


def is_counted(n: Node, start: Place, end: Place, step: int) -> bool:
    """Whether the run decides how many rows lie between two bounds, or the iteration of a loop,
    which is not unrolled."""
    model, bounds = n.scope.model, (start, end)
    computed = any(isinstance(place, SSAValue) for place in bounds)
    varying = not model.unrolled and _span_varies(start, end)
    return (computed or varying) and step > 0 and not model.training


def ends_early(n: Node, size: Dim, start: Place, end: Place, step: int) -> bool:
    """Whether a slice that begins elsewhere in each iteration of a loop has fewer rows in the last
    ones, as `x[i:i + 16]` has, unless 16 divides the axis.

    Raises:
        Fork: it is to be tried whether the model can be built so, else that all rows are there.
    """
    model = n.scope.model
    if step < 1 or model.training or model.unrolled:
        return False
    if not (isinstance(start, Dim) and isinstance(end, Dim) and is_natural(start)):
        return False
    span = end - start
    # of every other element of an odd number of them the last one, as of `x[i:i + 4:2]`, is none
    unread = (int(span) - 1) % step if span.is_static and int(span) > 0 else 0
    behind = size - end + unread
    short = [one for one in model.unsure(behind) or () if _is_often_negative(one)]
    if not short or model.known.facts_hold(short):
        return False
    if not model.branches and behind not in model.known.shortened:
        raise Fork(None, Learnt(shortened=behind), Learnt(*short))
    return True


def may_end(n: Node, size: Dim, span: Dim) -> bool:
    """Whether a slice of several rows that begins at a computed place in a loop, as `x[i:i + 16]`
    of a loop that data may end, may have fewer.

    Raises:
        Fork: as of `ends_early`; a call in which rows are missing is an error of the run then.
    """
    model, behind = n.scope.model, size - span
    inside = model.net is not None and n.b.block is not model.net.block
    if not (inside and span.is_static and int(span) > 1) or model.training or model.unrolled:
        return False
    if behind not in model.known.shortened | model.known.whole:
        raise Fork(None, Learnt(shortened=behind), Learnt(whole=behind))
    return behind in model.known.shortened


def _is_often_negative(formula: Dim) -> bool:
    """Whether a formula is negative for large sizes, too, or would be if something did not limit a
    loop, such as to `min(chunks, 4)` iterations: below the limit it is."""
    unlimited = formula.substitute({a: 0 for a in formula.atoms if isinstance(a, Excess)})
    return any(
        one.evaluate(dict.fromkeys(one.symbols, LARGE + more)) < 0
        for one in (formula, unlimited)
        if one is formula or one.symbols
        for more in range(8)
    )


def _span_varies(start: Place, end: Place) -> bool:
    """Whether there are other numbers of rows in each iteration."""
    return isinstance(start, Dim) and isinstance(end, Dim) and varies(end - start)


def counted_rows(
    n: Node, x: SSAValue, axis: int, start: Place, end: Place, step: int = 1
) -> Partial:
    """The rows from one bound to another, or some of them in steps, of which there are as many as
    these leave."""
    if step > 1:
        rows = counted_rows(n, x, axis, start, end)
        return _in_steps(n, rows, step)
    b, size = n.b, dims_of(x)[axis]
    first, behind = (_known_row(n, place, size) for place in (start, end))
    whole, most = b.size(size), size if behind is None else behind
    if first is None:
        most = _longest(n, start, end, most)
        x = _rows_behind(n, x, axis, _row(n, start, whole), most)
    else:
        most = larger(most - first, Dim.of(0))
        x = b.slice(x, axis, first, most)
    start_row, end_row = (
        _row(n, place, whole) if known is None else b.size(known)
        for place, known in ((start, first), (end, behind))
    )
    if (length := _length_between(n, size, start, end)) is not None:
        count = n.scope.number(length)
        n.scope.model.lengths[count] = length
    else:
        count = end_row if first == 0 else _between(n, start_row, end_row, behind == size)
    if (loop := _step_of_chunks(n, start, end, most, size)) is not None:
        n.scope.model.chunks[count] = loop, size
    return Partial.counted(Value.computed(x), axis, count)


def _length_between(n: Node, size: Dim, start: Place, end: Place) -> Dim | None:
    """How many rows lie between bounds, another number in each iteration of a loop, if it is known
    that all of them are there."""
    if not (isinstance(start, Dim) and isinstance(end, Dim)):
        return None
    behind = size if end.is_static and int(end) >= HUGE else end
    facts = (start, behind - start, size - behind)
    known = varies(behind - start) and all(n.scope.model.unsure(fact) == [] for fact in facts)
    return behind - start if known else None


def _in_steps(n: Node, rows: Partial, step: int) -> Partial:
    """The first of the rows that count, and every one so many behind another."""
    b, size, count = n.b, rows.dims[rows.axis], rows.count
    assert count is not None
    kept = strided(b, n.scope.ssa(rows.whole()), rows.axis, Dim.of(0), size.over(step), step)
    more = b.add(count, n.full(step - 1, count))
    count = b.div(more, n.full(step, more))
    return Partial.counted(Value.computed(kept), rows.axis, count)


def _longest(n: Node, start: Place, end: Place, most: Dim) -> Dim:
    """The most rows that lie between two bounds: a number if one is known, as of `i:min(i + 8, T)`,
    else so many."""
    if not (isinstance(start, Dim) and isinstance(end, Dim)):
        return span_of(n, start, end) or most
    span = end - start
    for atom in span.atoms:
        more = span.substitute({atom: 0}) if isinstance(atom, Excess) else span
        span = more if is_natural(more - span) else span
    return span if span.is_static and int(span) > 0 else most


def _step_of_chunks(n: Node, start: Place, end: Place, length: Dim, size: Dim) -> str | None:
    """The number of a loop's iteration, each of which takes the rows behind those of the one
    before, so many, of which the last one takes those that are left."""
    if not (isinstance(start, Dim) and isinstance(end, Dim) and length.is_static):
        return None
    trips, over = n.scope.model.trip_counts, larger(start + length - size, Dim.of(0))
    if end - start not in (length, length - over) or int(length) < 1:
        return None
    for step in filter(is_step, start.symbols):
        if start != length * Dim.of(step) or step not in trips:
            continue
        left = trips[step] * length - size
        if is_natural(left) and is_natural(length - 1 - left):
            return step
    return None


def part_of_rows(n: Node, x: Partial, start: Place, end: Place) -> Partial:
    """The same of rows of which the run decides how many count."""
    rows, count = n.scope.ssa(x.whole()), x.count
    assert count is not None
    first, behind = (_row(n, place, count) for place in (start, end))
    most = _most_between(n, x.dims[x.axis], start, end)
    if start == 0:
        rows = n.b.slice(rows, x.axis, 0, most)
        return Partial.counted(Value.computed(rows), x.axis, behind)
    rows = _rows_behind(n, rows, x.axis, first, most)
    return Partial.counted(
        Value.computed(rows), x.axis, _between(n, first, behind, behind is count)
    )


def backwards(n: Node, x: Partial) -> Partial:
    """The rows that count, last first."""
    assert x.count is not None
    b, size = n.b, x.dims[x.axis]
    last = b.broadcast(b.sub(x.count, n.full(1, x.count)), (size,), [])
    places = b.sub(last, b.iota((size,), 0, "i64"))
    rows = b.gather(n.scope.ssa(x.whole()), b.maximum(places, n.full(0, places)), x.axis)
    return Partial.counted(Value.computed(rows), x.axis, x.count)


def _most_between(n: Node, size: Dim, start: Place, end: Place) -> Dim:
    """The most rows that lie between two bounds where at most so many count, which are some."""
    if not (isinstance(start, Dim) and isinstance(end, Dim) and start.is_static and end.is_static):
        return size
    none, facts = Dim.of(0), (size - 1,)
    if int(start) < 0 <= int(end) < HUGE:  # of fewer rows there may be more
        return smaller(size, Dim.of(min(-int(start), int(end))), facts)
    first, behind = (
        smaller(larger(place_of(n, place, size), none, facts), size, facts)
        for place in (start, end)
    )
    return larger(behind - first, none, facts)


def _rows_behind(n: Node, x: SSAValue, axis: int, first: SSAValue, most: Dim) -> SSAValue:
    """So many rows from a computed one on; behind the last one it stands again."""
    b, last = n.b, dims_of(x)[axis] - 1
    at = b.add(b.iota((most,), 0, "i64"), b.broadcast(first, (most,), []))
    return b.gather(x, b.minimum(at, b.broadcast(b.size(last), (most,), [])), axis)


def _between(n: Node, first: SSAValue, behind: SSAValue, to_end: bool) -> SSAValue:
    """How many rows lie between two, of which the first is none behind the last of all."""
    count = n.b.sub(behind, first)
    return count if to_end else n.b.maximum(count, n.full(0, count))


def _known_row(n: Node, place: Place, size: Dim) -> Dim | None:
    """Which row a bound means, or one of the ends of the axis, where it is known."""
    if not is_settled(place):
        return None
    return smaller(larger(place_of(n, place, size), Dim.of(0)), size)


def _row(n: Node, place: Place, count: SSAValue) -> SSAValue:
    """The same of a computed bound, of so many rows."""
    if isinstance(place, Dim) and place.is_static and int(place) >= HUGE:
        return count
    b, at = n.b, from_front(n.b, n.scope.number(place), count)
    return b.maximum(b.minimum(at, count), n.full(0, at))


def place_of(n: Node, at: Dim, size: Dim) -> Dim:
    """Which element a bound means: one below 0 counts from the end, one that is huge is the end."""
    if not at.is_static:
        if is_natural(at):
            return at
        fact = sign_of(at, size)  # calls for which it has the other sign are refused
        n.b.require(fact)
        return at if fact == at else size + at
    if abs(int(at)) >= HUGE:
        return size if int(at) > 0 else Dim.of(-1)
    if int(at) > NEAR and not size.is_static:
        n.scope.model.bounds[at - size] = None
        return size
    return at if int(at) >= 0 else size + at


def sign_of(at: Dim, size: Dim) -> Dim:
    """What is 0 or more where a bound that is a formula has the sign that it is taken to have: that
    which it has for large sizes. On an axis of known size a bound that is not negative for sizes
    that are small beside it is not: a table of positions is cut around its middle,
    `table[2000 - T:1999 + T]`.
    """
    tried = [LARGE, max(int(size) // 4, 1)] if size.is_static else [LARGE]
    values = [at.evaluate(dict.fromkeys(at.symbols, one)) for one in tried]
    return -at - 1 if max(values) < 0 else at


def moving_rows(n: Node, size: Dim, start: Place, end: Place, step: int) -> SSAValue:
    """The numbers of as many elements in each iteration of a loop, all of which are there."""
    if step > 0 and isinstance(start, Dim) and isinstance(end, Dim) and (end - start).is_static:
        count = -(-int(end - start) // step)
        behind = size - start - step * (count - 1) - 1
        if count > 0 and all(map(n.scope.model.never_negative, (start, behind))):
            steps = n.b.iota((Dim.of(count),), 0, "i64")
            steps = steps if step == 1 else n.b.mul(steps, n.full(step, steps))
            return n.b.add(steps, n.scope.number(start))
    for index in (1, 2):
        n.known(index)
    raise n.unsupported(f"takes another part of an axis of {size} in each iteration of a loop")


def span_of(n: Node, start: Place, end: Place) -> Dim | None:
    """How many elements lie between computed bounds, if that is known; None of formulas."""
    if isinstance(start, Dim) and isinstance(end, Dim):
        return None
    span = distance(n.scope.number(start), n.scope.number(end))
    return None if span is None or varies(span) or not is_natural(span) else span


def rows_from(n: Node, size: Dim, start: Place, span: Dim) -> SSAValue:
    """The numbers of so many elements from a computed one on: one that is not there is an error of
    the run."""
    b, first = n.b, n.scope.number(start)
    first = b.select(b.compare("lt", first, n.full(0, first)), b.size(size), first)
    return b.add(b.iota((span,), 0, "i64"), first)


def only_row(n: Node, size: Dim, start: Place, end: Place, step: int) -> SSAValue:
    """The number of the one element that is chosen, as a vector; one that is not there is an error
    of the run."""
    b, bounds = n.b, n.scope.model.bounds
    bounds[step - size] = None
    if isinstance(start, Dim) and is_natural(start):
        index = n.scope.number(start)
    else:
        index = from_front(b, n.scope.number(start), size)
    if isinstance(end, Dim) and end.is_static and int(end) > NEAR:
        bounds[end - size] = None
    elif not (isinstance(end, Dim) and isinstance(start, Dim) and is_natural(end - start - 1)):
        inside = b.compare("gt", from_front(b, n.scope.number(end), size), index)
        index = b.select(inside, index, b.size(size))
    return b.reshape(index, (1,))
