"""Operators that put rows whose number the run decides elsewhere: into a tensor, one behind the
other, or beside copies of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate, pairwise

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import (
    CountedShape,
    counted_shape,
    joined_rows,
    one_that_fits,
    repeated,
    same_count,
)
from rnncc.frontends.onnx.counted.decided import where_equal
from rnncc.frontends.onnx.counted.rows import Crossed, Partial, counting, crossed, first_rows
from rnncc.frontends.onnx.counted_ops.batches import Operands, only
from rnncc.frontends.onnx.counted_ops.copies import einsum, resized, squeezed, tiled
from rnncc.frontends.onnx.counted_ops.shapes import flattened, reshaped
from rnncc.frontends.onnx.counted_ops.sums import contracted, with_others
from rnncc.frontends.onnx.counted_ops.windows import convolved, padded, pooled, transposed
from rnncc.frontends.onnx.lists import PossibleRows, StackedRows
from rnncc.frontends.onnx.node import INTEGERS, Node
from rnncc.frontends.onnx.ops.computed_bounds import (
    HUGE,
    Place,
    backwards,
    counted_rows,
    is_counted,
    is_settled,
    part_of_rows,
)
from rnncc.frontends.onnx.ops.computed_sizes import sum_of
from rnncc.frontends.onnx.ops.indexing import scattered_elements, scattered_rows
from rnncc.frontends.onnx.ops.sequence import list_of
from rnncc.frontends.onnx.ops.slicing import bounds_of, settled_part
from rnncc.frontends.onnx.values import Value
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of
from rnncc.nn.axes import move_axis
from rnncc.nn.indexing import from_front

Moved = Value | None


def build_moved(n: Node, name: str, inputs: Operands) -> list[Value] | None:
    """The outputs of a node that moves such rows; None where it does not."""
    if name == "Split":
        return _parts(n, inputs)
    moved = MOVES[name](n, inputs) if name in MOVES else None
    return None if moved is None else [moved]


def _only_first(inputs: Operands) -> Partial | None:
    """The first input, where it alone is of this kind and its rows lie along the first axis."""
    x, *others = inputs
    alone = not any(isinstance(value, Partial) for value in others)
    return x if isinstance(x, Partial) and x.axis == 0 and alone else None


def _scatter_nd(n: Node, inputs: Operands) -> Moved:
    """Rows put where places say, as many as there are of these; into such rows, too."""
    x, *parts = inputs
    put = [part for part in parts if isinstance(part, Partial)]
    if isinstance(x, Partial) and not _place_among(n, x):
        return None
    if put and not (len(put) == len(parts) and _are_put_together(n, put)):
        return None
    counts = [part.count for part in put if part.count is not None]
    count = reduce(partial(same_count, n.b), counts) if counts else None
    counts_there = None if count is None else counting(n.b, count, n.dims(1)[:-1], put[0].axis)
    scattered = Value.computed(scattered_rows(n, counts_there))
    return x.holding([scattered, *x.tensors()[1:]]) if isinstance(x, Partial) else scattered


def _are_put_together(n: Node, put: list[Partial]) -> bool:
    """Whether places and what is put there count along one axis of the places."""
    axis = put[0].axis
    return all(part.axis == axis for part in put) and axis < len(n.dims(1)) - 1


def _place_among(n: Node, x: Partial) -> bool:
    """Whether places are along the axis of the rows; of these they become such as count."""
    index = n.b.cast(n.x(1, INTEGERS), "i64")
    last = len(dims_of(index)) - 1
    depth = dims_of(index)[last]
    if not depth.is_static or x.axis >= int(depth) or x.count is None:
        return False
    columns = [n.b.slice(index, last, at, 1) for at in range(int(depth))]
    columns[x.axis] = _rows_that_count(n, columns[x.axis], x, x.count)
    n.inputs[1] = Value.computed(n.b.concat(columns, last))
    return True


def _scatter_elements(n: Node, inputs: Operands) -> Moved:
    """Elements put where places say, as many as there are of these; into such rows, too, where a
    place in a row that does not count is an error of the run."""
    x, places, new = inputs
    counts_there = None
    if isinstance(places, Partial) or isinstance(new, Partial):
        if not (isinstance(places, Partial) and isinstance(new, Partial)):
            return None
        if places.axis != new.axis or places.count is None or new.count is None:
            return None
        count = same_count(n.b, places.count, new.count)
        counts_there = counting(n.b, count, places.dims, places.axis)
    if not isinstance(x, Partial):
        return Value.computed(scattered_elements(n, counts_there))
    if not _element_among(n, x):
        return None
    scattered = Value.computed(scattered_elements(n, counts_there))
    return Partial.counted(scattered, x.axis, x.count)


def _element_among(n: Node, x: Partial) -> bool:
    """Whether places of elements are along the axis of the rows; they become such as count."""
    if x.count is None or n.axis(n.integer("axis", 0), x.rank) != x.axis:
        return False
    places = _rows_that_count(n, n.b.cast(n.x(1, INTEGERS), "i64"), x, x.count)
    n.inputs[1] = Value.computed(places)
    return True


def _rows_that_count(n: Node, places: SSAValue, x: Partial, count: SSAValue) -> SSAValue:
    """Places counted from the front: of a row that does not count one that is not there."""
    b, places = n.b, from_front(n.b, places, count)
    below, behind = b.compare("lt", places, n.full(0, places)), b.compare("ge", places, count)
    return b.select(b.logical("or", below, behind), b.size(x.dims[x.axis]), places)


def _expand(n: Node, inputs: Operands) -> Moved:
    """To a shape with as many rows, or with 1 in their place, by axes before or beside them."""
    x = only(inputs)
    shape = None if x is None else _shape_around(n, x)
    return None if x is None or x.made is None or shape is None else repeated(n, x.made, shape)


def _shape_around(n: Node, x: Partial) -> CountedShape | None:
    """The shape that input 1 holds, with the rows of x."""
    shape = None if n.value(1).known is not None else counted_shape(n, 1)
    if x.count is None or (n.value(1).known is None and shape is None):
        return None
    sizes = n.sizes(1) if shape is None else shape.dims
    added = max(len(sizes) - x.rank, 0)
    axis = added + x.axis
    dims = [Dim.of(1)] * (x.rank + added - len(sizes)) + list(sizes)
    if shape is None:
        if dims[axis] != 1:
            return None
        dims[axis] = x.dims[x.axis]
        return CountedShape(dims, axis, x.count)
    if shape.axis + len(dims) - len(sizes) != axis or dims[axis] != x.dims[x.axis]:
        return None
    return CountedShape(dims, axis, same_count(n.b, x.count, shape.count))


def _compress(n: Node, inputs: Operands) -> Moved:
    """Those of the rows for which one of as many conditions holds."""
    x, chosen = inputs
    if not isinstance(chosen, Partial) or chosen.count is None:
        return None
    count = chosen.count
    if isinstance(x, Partial):
        if not n.given("axis") or n.axis(n.integer("axis"), x.rank) != x.axis or x.count is None:
            return None
        count = same_count(n.b, x.count, count)
    n.inputs[1] = with_others(n, Partial.counted(chosen.whole(), 0, count), 0)
    return n.built_as("Compress")


def _slice(n: Node, inputs: Operands) -> Moved:
    """The rows from one bound to another, or all of them from the last one on; of other axes what
    known bounds leave.
    """
    x, bounds = only(inputs), bounds_of(n)
    if x is None or [axis for axis, *_ in bounds].count(x.axis) != 1:
        return None
    rows, [(_, start, end, step)] = n.x(), [cut for cut in bounds if cut[0] == x.axis]
    computed = list[tuple[int, Place, Place, int]]()
    for axis, first, behind, steps in bounds:
        if is_settled(first) and is_settled(behind) and axis != x.axis:
            rows = settled_part(n, rows, axis, first, behind, steps)
        elif axis != x.axis:
            computed.append((axis, first, behind, steps))
    if not all(is_counted(n, *cut[1:]) for cut in computed) or len(computed) > 1:
        return None
    cut = _cut_rows(n, Partial.counted(Value.computed(rows), x.axis, x.count), start, end, step)
    if cut is None or not computed:
        return cut
    return crossed(cut, counted_rows(n, n.scope.ssa(cut.whole()), *computed[0]))


def _cut_rows(n: Node, x: Partial, start: Place, end: Place, step: int) -> Partial | None:
    """The rows from one bound to another, or all of them from the last one on."""
    if step == 1:
        return part_of_rows(n, x, start, end)
    whole = isinstance(end, Dim) and end.is_static and int(end) <= -HUGE
    return backwards(n, x) if step == start == -1 and whole else None


def sliced_along_both(n: Node, x: Crossed) -> Crossed | None:
    """Rows from one bound to another along both axes, and of other axes what known bounds leave."""
    bounds, rows = bounds_of(n), n.x()
    if sorted(axis for axis, *_ in bounds if axis in x.axes) != sorted(x.axes):
        return None
    parts = dict[int, Partial]()
    for axis, start, end, step in bounds:
        if axis in x.axes:
            count = x.counts[x.axes.index(axis)]
            part = _cut_rows(
                n, Partial.counted(Value.computed(rows), axis, count), start, end, step
            )
            if part is None:
                return None
            parts[axis], rows = part, n.scope.ssa(part.whole())
        elif is_settled(start) and is_settled(end):
            rows = settled_part(n, rows, axis, start, end, step)
        else:
            return None
    return x.holding([Value.computed(rows), *(parts[axis].tensors()[1] for axis in x.axes)])


def _gather(n: Node, inputs: Operands) -> Moved:
    """Rows by their places, counted from the end too: one that does not count is an error of the
    run. There may be a computed number of places."""
    x, by = inputs
    if not isinstance(x, Partial) or x.count is None:
        return None
    if n.axis(n.integer("axis", 0), x.rank) != x.axis:
        return None
    places = _rows_that_count(n, n.b.cast(n.x(1, INTEGERS), "i64"), x, x.count)
    if isinstance(by, Partial):
        places = n.scope.ssa(_first_places(n, by, places))
    rows = n.scope.value(n, 0, n.b.gather(n.x(), places, x.axis))
    return Partial.counted(rows, x.axis + by.axis, by.count) if isinstance(by, Partial) else rows


def _gather_elements(n: Node, inputs: Operands) -> Moved:
    """The same of elements."""
    x, by = inputs
    if not isinstance(x, Partial) or not _element_among(n, x):
        return None
    if not isinstance(by, Partial):
        return n.built_as("GatherElements")
    n.inputs[1] = _first_places(n, by, n.x(1, ("i64",)))
    return Partial.counted(n.built_as("GatherElements"), by.axis, by.count)


def _gather_nd(n: Node, inputs: Operands) -> Moved:
    """The same of places over several axes, that of the rows among them."""
    x, by = inputs
    if not isinstance(x, Partial) or n.integer("batch_dims", 0) or not _place_among(n, x):
        return None
    if not isinstance(by, Partial):
        return n.built_as("GatherND")
    if by.axis == by.rank - 1:
        return None
    n.inputs[1] = _first_places(n, by, n.x(1, ("i64",)))
    return Partial.counted(n.built_as("GatherND"), by.axis, by.count)


def _first_places(n: Node, by: Partial, places: SSAValue) -> Value:
    """Places of which so many count; behind them stand such as exist."""
    return with_others(n, Partial.counted(Value.computed(places), by.axis, by.count), 0)


def _joined(n: Node, inputs: Operands) -> Moved:
    """One behind the other along the axis of the rows."""
    parts = [value for value in inputs if value is not None]
    axis = n.axis(n.integer("axis"), parts[0].rank)
    if any(isinstance(part, Partial) and part.axis != axis for part in parts):
        return None
    return joined_rows(n, parts, [n.x(index) for index in range(len(parts))], axis)


def _parts(n: Node, inputs: Operands) -> list[Value] | None:
    """The rows in parts of known or computed sizes, one behind the other: if one is negative, or
    they are not all that count, the run fails."""
    x, has_sizes = only(inputs), n.has(1) if n.opset >= 13 else n.given("split")
    if x is None or x.count is None or not has_sizes:
        return None
    if n.axis(n.integer("axis", 0), x.rank) != x.axis:
        return None
    sizes: list[Place] = [*(n.places(1) if n.opset >= 13 else map(Dim.of, n.integers("split")))]
    if len(sizes) < len(n.op.output):
        raise n.error(f"has {len(n.op.output)} outputs for {len(sizes)} parts")
    return _cut(n, x, sizes)


def _cut(n: Node, x: Partial, sizes: Sequence[Place]) -> list[Value]:
    """The rows in parts of some sizes, which must be all that count."""
    assert x.count is not None
    b, ends = n.b, [*accumulate(sizes, partial(sum_of, n))]
    fits = b.compare("eq", n.scope.number(ends[-1]), x.count)
    for size in sizes:
        natural = b.compare("ge", n.scope.number(size), n.full(0, x.count))
        fits = b.logical("and", fits, natural)
    rows = Partial.counted(x.whole(), x.axis, one_that_fits(b, x.count, fits))
    parts = [part_of_rows(n, rows, first, end) for first, end in pairwise([Dim.of(0), *ends])]
    return [_of_size(n, part, size) for part, size in zip(parts, sizes, strict=True)]


def _of_size(n: Node, part: Partial, size: Place) -> Value:
    """A part as a tensor of so many rows, where that is known and there is room for them: one that
    has others is an error of the run, whether something reads their number or not."""
    count = part.count
    if count is None or not isinstance(size, Dim) or not is_natural(part.dims[part.axis] - size):
        return part
    rows = n.b.slice(n.scope.ssa(part.whole()), part.axis, 0, size)
    return Value.computed(where_equal(n.b, rows, n.b.reshape(count, (1,)), [size]))


def _split(n: Node, inputs: Operands) -> Moved:
    """The rows as elements of a list."""
    x = _only_first(inputs)
    if x is None or x.count is None:
        return None
    axis = n.axis(n.integer("axis", 0), x.rank)
    if n.has(1) and axis == x.axis and len(n.dims(1)) == 1 and n.dims(1)[0].is_static:
        return list_of(n, _cut(n, x, n.places(1)))
    if n.has(1) or axis:
        return None
    size, *dims = x.dims
    kept = [1, *dims] if n.flag("keepdims", 1) else dims
    rows = n.b.reshape(n.scope.ssa(x.whole()), (size, *kept))
    return StackedRows.listing(stacked=first_rows(n.b, rows, x.count))


def _inserted(n: Node, inputs: Operands) -> Moved:
    """The rows along an axis as elements of one row each, behind those of a list to which a loop
    appends that is not unrolled."""
    rows, x = inputs[:2]
    if not (isinstance(rows, StackedRows) and rows.earlier is not None) or n.has(2):
        return None
    if n.scope.model.unrolled:
        return None
    if not isinstance(x, Partial) or x.count is None:
        return None
    axis, turned = x.axis, move_axis(n.b, n.scope.ssa(x.whole()), x.axis, 0)
    size, *dims = dims_of(turned)
    each = n.b.reshape(turned, (size, *dims[:axis], 1, *dims[axis:]))
    exist = n.b.compare("lt", n.b.iota((size,), 0, "i64"), n.b.broadcast(x.count, (size,), []))
    pair = Value.computed(each), Value.computed(exist)
    chunks = n.scope.model.chunks.get(x.count)
    return rows.appended(PossibleRows.pairing(*pair, pieces=axis, chunks=chunks))


MOVES: dict[str, Callable[[Node, Operands], Moved]] = {
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Expand": _expand,
    "Reshape": reshaped,
    "Flatten": flattened,
    "Slice": _slice,
    "Compress": _compress,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "SplitToSequence": _split,
    "SequenceInsert": _inserted,
    "MatMul": contracted,
    "Einsum": einsum,
    "Tile": tiled,
    "Squeeze": squeezed,
    **dict.fromkeys(("Resize", "Upsample"), resized),
    "Concat": _joined,
    **{
        name: convolved(name)
        for name in ("Conv", "com.microsoft.FusedConv", "ConvInteger", "QLinearConv")
    },
    **dict.fromkeys(("MaxPool", "AveragePool"), pooled),
    "ConvTranspose": transposed,
    "Pad": padded,
}
