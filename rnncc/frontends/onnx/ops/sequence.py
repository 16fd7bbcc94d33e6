"""Lists of tensors, whose elements are known one by one or are the rows of one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import joined_rows, within_most
from rnncc.frontends.onnx.counted.decided import one_number
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.functions import definition_of, inlined
from rnncc.frontends.onnx.lists import (
    MAX_LISTED,
    SplitAxis,
    StackedRows,
    check_readable,
    check_whole,
    elements,
)
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.ops.computed_sizes import computed_parts, is_computed
from rnncc.frontends.onnx.ops.control import inline
from rnncc.frontends.onnx.ops.indexing import gathered
from rnncc.frontends.onnx.ops.slicing import moving_part, part_at
from rnncc.frontends.onnx.reading import onnx_package
from rnncc.frontends.onnx.signature import schema_of
from rnncc.frontends.onnx.values import Array, Value, size_value
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of
from rnncc.nn.axes import move_axis


def _empty(n: Node) -> Value:
    """A list without elements."""
    return StackedRows.listing()


def _construct(n: Node) -> Value:
    """A list of the inputs."""
    return list_of(n, [_element(n, index) for index in range(len(n.inputs))])


def list_of(n: Node, items: Sequence[Value]) -> StackedRows:
    """A list of tensors of one element type."""
    types = sorted({item.dtype for item in items})
    if len(types) > 1:
        raise n.error(f"makes a list of elements of the types {', '.join(types)}")
    _check_length(n, len(items))
    return StackedRows.listing(items)


def _check_length(n: Node, count: int) -> None:
    if count > MAX_LISTED:
        what = f"makes a list of {count} elements"
        raise n.unsupported(what, f"up to {MAX_LISTED} are supported")


def _element(n: Node, index: int) -> Value:
    value = n.value(index)
    if not value.is_tensor:
        raise n.error(f"puts {value} into a list, which holds tensors")
    return value


def _rows(n: Node, index: int = 0) -> StackedRows:
    value = n.value(index)
    if not isinstance(value, StackedRows):
        raise n.error(f'input "{n.op.input[index]}" is {value}, not a list')
    return value


def _insert(n: Node) -> Value:
    """A list with one more element, at a place or at its end.

    Refused: a place that is computed; one in a list of open length, but in front of it.
    """
    rows, value = _rows(n), _element(n, 1)
    list_of(n, [*rows.held, value])
    if not n.has(2):
        return rows.appended(value)
    if (rows.stacked is not None or rows.earlier is not None) and n.scalar(2) == 0:
        return rows.put_in_front(value)
    items = elements(n.b, rows)
    items.insert(_place(n, 2, len(items), len(items)), value)
    return list_of(n, items)


def _place(n: Node, index: int, count: int, last: int) -> int:
    """A place in a list, counted from its front or, where negative, from its end."""
    place = int(n.scalar(index))
    if not -count <= place <= last:
        raise n.error(f"takes place {place} of a list of {count}")
    return place


def _erase(n: Node) -> Value:
    """A list without one of its elements, by default without the last.

    Refused: a place that is computed; one in a list of open length but its first and last.
    """
    rows = _rows(n)
    if rows.length is not None and not rows.length.is_static and rows.earlier is None:
        place = _from_end(n, rows) if n.has(1) else -1
        if place in (0, -1):
            return _without_end(n, rows, place)
    items = elements(n.b, rows)
    if not items:
        raise n.error("takes an element from an empty list")
    del items[_place(n, 1, len(items), len(items) - 1) if n.has(1) else -1]
    return StackedRows.listing(items)


def _without_end(n: Node, rows: StackedRows, place: int) -> StackedRows:
    """A list of rows without its first element, or without its last."""
    if place and rows.items:
        return replace(rows, items=rows.items[:-1])
    if not place and rows.front:
        return replace(rows, front=rows.front[1:])
    assert rows.stacked is not None
    kept = n.b.slice(n.scope.ssa(rows.stacked), 0, int(not place), rows.stacked.dims[0] - 1)
    return replace(rows, stacked=Value.computed(kept))


def _at(n: Node) -> Value:
    """One element of a list.

    Refused: a place that is computed, unless all elements are rows that a loop appended or that an
    axis was split into; in an open number of iterations that append to the list, other than its
    last elements, of which it had as many before.
    """
    if (parts := _parts(n)) is not None:
        return _part(n, parts)
    rows = _rows(n)
    check_whole(n.location, rows, n.scope.model.inputs_behind)
    if rows.stacked is not None and not (rows.front or rows.items):
        row = gathered(n, n.scope.ssa(rows.stacked), 0)
        return Value.computed(n.b.reshape(row, rows.stacked.dims[1:]))
    place = _from_end(n, rows)
    if -len(rows.ends) <= place < 0 and all(item.is_tensor for item in rows.ends[place:]):
        return rows.ends[place]
    if 0 <= place < len(rows.front):
        return rows.front[place]
    items = elements(n.b, rows)
    return items[_place(n, 1, len(items), len(items) - 1)]


def _parts(n: Node) -> SplitAxis | None:
    """A list that is the parts of an axis."""
    value = n.value(0)
    if isinstance(value, StackedRows):
        return value.parts(n.b)
    return value if isinstance(value, SplitAxis) else None


def _part(n: Node, parts: SplitAxis) -> Value:
    """A part of an axis of open size, by its number, that of a loop's iteration, or a computed
    one."""
    if n.value(1).known is None and not n.scope.model.training:
        place = n.b.reshape(n.x(1, ("i32", "i64")), ())
        return part_at(n, parts.uncut(), parts.axis, n.b.cast(place, "i64"), parts.rows)
    formulas = n.value(1).formulas()
    place = formulas[0] if len(formulas) == 1 else Dim.of(int(n.scalar(1)))
    if place.is_static and int(place) < 0:
        place = parts.length + place
        n.scope.model.never_negative(place)
    elif not is_natural(place):
        raise n.unsupported("takes a part of an axis from the end of a list")
    return moving_part(n, parts.uncut(), parts.axis, place * parts.rows, parts.rows)


def _from_end(n: Node, rows: StackedRows) -> int:
    """The place of an element of a list, counted from its end where it is a formula."""
    length, place = rows.length, n.value(1).formulas()
    if length is not None and len(place) == 1:
        behind = place[0] - length
        if behind.is_static and int(behind) < 0:
            return int(behind)
    return int(n.scalar(1))


def _length(n: Node) -> Value:
    """How many elements a list has."""
    if (parts := _parts(n)) is not None:
        return size_value(parts.length)
    rows = _rows(n)
    check_whole(n.location, rows, n.scope.model.inputs_behind)
    if isinstance(rows.stacked, Partial) and rows.stacked.count is not None:
        others = len(rows.front) + len(rows.items)
        return Value.computed(n.b.add(rows.stacked.count, n.b.fill(others, (), "i64")))
    if rows.length is None:
        check_readable(n.b, rows)
    assert rows.length is not None, "of lists that may be read it is known"
    return size_value(rows.length)


def _split(n: Node) -> Value:
    """The parts of X along an axis: of one row each, of a number of rows, or of given numbers. With
    keepdims = 0 parts of one row lose the axis, as PyTorch writes it and ONNX Runtime reads it.

    Refused: an axis of open size, but where parts are of one size, or sizes are computed; sizes
    that are computed in training.
    """
    x, dims = n.value(0), n.dims(0)
    axis = n.axis(n.integer("axis", 0), len(dims))
    if n.has(1) and n.dims(1) and n.dims(1)[0].is_static and is_computed(n, 1):
        return list_of(n, computed_parts(n, axis))
    all_one = n.has(1) and _are_all_one(n, dims[axis])
    single = not n.has(1) or all_one or (n.numbers(1).ndim == 0 and n.known_integers(1) == [1])
    whole = all_one or not single or n.flag("keepdims", 1)
    if single and x.known is None:
        rows = move_axis(n.b, n.x(0), axis, 0)
        kept = [*dims[:axis], 1, *dims[axis + 1 :]] if whole else dims_of(rows)[1:]
        return StackedRows.listing(stacked=Value.computed(n.b.reshape(rows, (dims[axis], *kept))))
    if not dims[axis].is_static:
        if x.known is None and n.has(1) and n.numbers(1).ndim == 0 and n.scalar(1) > 0:
            return SplitAxis.cut(x, axis, int(n.scalar(1)))
        what = f"splits an axis of {dims[axis]} elements, which is open"
        raise n.unsupported(what, "--shape gives an input's sizes")
    parts, start = list[Value](), 0
    for size in _part_sizes(n, int(dims[axis])):
        if x.known is None:
            parts.append(Value.computed(n.b.slice(n.x(0), axis, start, size)))
        else:
            part = np.take(x.known, range(start, start + size), axis)
            part = part if whole else np.asarray(part.squeeze(axis))
            parts.append(Value.of(part, dtype=x.dtype))
        start += size
    return list_of(n, parts)


def _are_all_one(n: Node, size: Dim) -> bool:
    """Whether there is a part for each row of an axis of open size."""
    sizes = n.value(1).made
    return sizes is not None and dims_of(sizes) == (size,) and one_number(sizes) == 1


def _part_sizes(n: Node, size: int) -> list[int]:
    """How many rows each part has."""
    sizes = n.known_integers(1) if n.has(1) else [1]
    if n.has(1) and n.numbers(1).ndim:
        if min(sizes, default=0) < 0 or sum(sizes) != size:
            raise n.error(f"splits an axis of {size} into {sizes}")
        return sizes
    if sizes[0] < 1:
        raise n.error(f"splits an axis into parts of {sizes[0]}")
    _check_length(n, size // sizes[0])
    return [min(sizes[0], size - start) for start in range(0, size, sizes[0])]


def _concat(n: Node) -> SSAValue | Value:
    """The elements of a list along an axis, or along one of their own.

    Refused: an empty list.
    """
    new, axis_number, parts = n.flag("new_axis", 0), n.integer("axis"), n.value(0)
    if isinstance(parts, SplitAxis) and not new and n.axis(axis_number, parts.rank) == parts.axis:
        return parts.uncut()
    rows = _rows(n)
    if rows.is_empty:
        raise n.unsupported("puts nothing together")
    rows = _without_pieces(n, rows, axis_number, new)
    if isinstance(rows.stacked, Partial) and rows.earlier is None:
        middle = _partial_rows(n, rows.stacked, axis_number, new)
        return _with_singles(n, rows, middle, new) if rows.front or rows.items else middle
    check_readable(n.b, rows)
    singles = [*rows.front, *rows.items]
    axis = n.axis(axis_number, rows.tensors()[-1].rank - (not rows.items) + new)
    known = [item.known for item in singles if item.known is not None]
    if rows.stacked is None and len(known) == len(singles) and _agree(known, axis, new):
        joined = np.stack(known, axis) if new else np.concatenate(known, axis)
        return Value.of(joined, dtype=singles[0].dtype)
    joined_parts = [_as_part(n, item, axis, new) for item in singles]
    if rows.stacked is not None:
        joined_parts.insert(len(rows.front), _side_by_side(n, rows.stacked, axis, new))
    return n.b.concat(joined_parts, axis)


def _without_pieces(n: Node, rows: StackedRows, axis_number: int, new: bool) -> StackedRows:
    """Rows that are pieces of an axis, as such that they are put together along it again."""
    if rows.in_pieces is None or rows.stacked is None:
        return rows
    if new or n.axis(axis_number, rows.stacked.rank - 1) != rows.in_pieces:
        check_whole(n.location, rows, n.scope.model.inputs_behind)
    stacked = rows.stacked
    whole = within_most(n, stacked) if isinstance(stacked, Partial) else stacked
    return replace(rows, in_pieces=None, stacked=whole)


def _side_by_side(n: Node, stacked: Value, axis: int, new: bool) -> SSAValue:
    """Stacked elements along an axis of theirs, or along a new one."""
    count, *dims = stacked.dims
    turned = move_axis(n.b, n.scope.ssa(stacked), 0, axis)
    if new:
        return turned
    return n.b.reshape(turned, [*dims[:axis], count * dims[axis], *dims[axis + 1 :]])


def _with_singles(n: Node, rows: StackedRows, middle: Partial, new: bool) -> Value:
    """The elements around rows of which the run decides how many count, and these."""
    if not all(
        item.is_tensor and not isinstance(item, Partial) for item in (*rows.front, *rows.items)
    ):
        check_readable(n.b, rows)
    front, behind = (
        [Value.computed(_as_part(n, item, middle.axis, new)) for item in items]
        for items in (rows.front, rows.items)
    )
    parts = [*front, middle, *behind]
    return joined_rows(n, parts, [n.scope.ssa(part.whole()) for part in parts], middle.axis)


def _as_part(n: Node, item: Value, axis: int, new: bool) -> SSAValue:
    """An element of a list, or one row of a new axis."""
    value, dims = n.scope.ssa(item), list(item.dims)
    return n.b.reshape(value, [*dims[:axis], 1, *dims[axis:]]) if new else value


def _partial_rows(n: Node, stacked: Partial, axis_number: int, new: bool) -> Partial:
    """The elements of a list whose length the run decides, as rows of an axis: one each of a new
    one, else as many as each has."""
    axis, (count, *dims) = n.axis(axis_number, stacked.rank - (not new)), stacked.dims
    each = Dim.of(1) if new else dims[axis]
    joined = [*dims[:axis], count * each, *dims[axis + (not new) :]]
    rows = n.b.reshape(move_axis(n.b, n.scope.ssa(stacked.whole()), 0, axis), joined)
    assert stacked.count is not None
    number = stacked.count if each == 1 else n.b.mul(stacked.count, n.b.size(each, "i64"))
    return Partial.counted(Value.computed(rows), axis, number)


def _agree(arrays: Sequence[Array], axis: int, new: bool) -> bool:
    """Whether arrays may be joined along an axis, which is a new one or one of their own."""
    shapes = [(*a.shape[:axis], *a.shape[axis if new else axis + 1 :]) for a in arrays]
    return len(set(shapes)) == 1 and len({a.ndim for a in arrays}) == 1


def _map(n: Node) -> list[Value]:
    """Lists of what a graph gives for each element of a list, those of other lists and tensors."""
    graph, length = n.graph("body"), (_parts(n) or _rows(n)).length
    if length is None or not length.is_static:
        return _as_loop(n)
    first = elements(n.b, _rows(n))
    lists = list[list[Value]]()
    for index in range(len(n.inputs)):
        value = n.value(index)
        items = elements(n.b, value) if isinstance(value, StackedRows) else [value] * len(first)
        if len(items) != len(first):
            raise n.error(f"goes through lists of {len(first)} and {len(items)} elements")
        lists.append(items)
    if len(graph.input) != len(lists):
        raise n.error(f"has {len(lists)} inputs, its body {len(graph.input)}")
    names, results_by_item = [info.name for info in graph.input], list[list[Value]]()
    for items in zip(*lists, strict=True):
        results_by_item.append(inline(n, graph, dict(zip(names, items, strict=True))))
    return [
        list_of(n, [results[index] for results in results_by_item])
        for index in range(len(graph.output))
    ]


def _as_loop(n: Node) -> list[Value]:
    """The loop that the standard defines it by, which appends to its lists."""
    function = definition_of(n, schema_of("SequenceMap", n.opset, ""))
    graph = onnx_package().GraphProto()
    graph.node.extend(inlined(n.op, function))
    for name in function.output:
        graph.output.add().name = name
    return inline(n, graph, {name: n.value(at) for at, name in enumerate(function.input)})


OPERATORS: dict[str, OnnxOperator] = {
    "SequenceEmpty": OnnxOperator(_empty),
    "SequenceConstruct": OnnxOperator(_construct),
    "SequenceInsert": OnnxOperator(_insert),
    "SequenceErase": OnnxOperator(_erase),
    "SequenceAt": OnnxOperator(_at),
    "SequenceLength": OnnxOperator(_length),
    "SequenceMap": OnnxOperator(_map),
    "SplitToSequence": OnnxOperator(_split),
    "ConcatFromSequence": OnnxOperator(_concat),
}
