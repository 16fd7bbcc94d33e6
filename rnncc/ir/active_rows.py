"""Which rows of a value anything reads: where a mask selects, the other branch's rows are unread.

In: a block of `rnn` ops. Out: its values of which only some rows are read. A mask is one bool a
row; a loop's body sees a row of it, and outside of the loop it is a sequence. A mask of one element
is one of all that there is: a value's one row along its first axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp, View
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.elementwise import Select
from rnncc.ir.ops.shape import Broadcast, Reshape, Transpose
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record

Axes = tuple[int, ...]


@record
class ActiveRows:
    """Rows of a value: those for which `mask` is `where`.

    Attributes:
        axes: of the value, one for each axis of the mask that is not of size 1, in order; none of a
            mask of one element.
    """

    mask: SSAValue
    axes: Axes
    where: bool = True


Needed = dict[SSAValue, ActiveRows]


def row_masks(scan: Scan) -> list[SSAValue]:
    """The arguments of a loop's body that tell one bool a row."""
    if scan.gate is not None:
        return []
    rows = scan.groups[2]
    return [row for row in rows if dtype_of(row) == "i1" and len(wide_axes(dims_of(row))) <= 1]


def active_rows(block: Block, masks: Iterable[SSAValue]) -> Needed:
    """The values of a block of which only some rows are read.

    Args:
        masks: values of the block, one bool a row, whose choices count.
    """
    active, flags, inner = Needed(), set(masks), dict[Scan, Needed]()
    if not flags and not any(isinstance(op, Scan) and row_masks(op) for op in block.ops):
        return active
    results = [v for op in reversed(list(block.ops)) for v in op.results]
    for value in (*results, *block.args):
        shares = {_share(use.operation, use.index, active, flags, inner) for use in value.uses}
        # Readers of different rows are taken to need all.
        share = shares.pop() if len(shares) == 1 else None
        if share is not None:
            active[value] = share
    return active


def chosen_by(op: Operation, masks: Iterable[SSAValue]) -> ActiveRows | None:
    """The rows of a select's result that come from its first branch, where a mask tells."""
    rows = _mask_of(op.condition) if isinstance(op, Select) else None
    return rows if rows is not None and rows.mask in masks else None


def wide_axes(dims: Sequence[Dim]) -> Axes:
    """The axes that are not of size 1."""
    return tuple(axis for axis, size in enumerate(dims) if size != 1)


def _share(
    op: Operation, number: int, active: Needed, masks: set[SSAValue], inner: dict[Scan, Needed]
) -> ActiveRows | None:
    """What an op reads of its operand of that number; None for all of it."""
    if isinstance(op, Scan):
        return _share_of_scan(op, number, inner)
    # Operand 0 is the condition, of which all rows are read.
    if number > 0 and (rows := chosen_by(op, masks)) is not None:
        return ActiveRows(rows.mask, rows.axes, number == 1)
    rows = active.get(op.results[0]) if len(op.results) == 1 else None
    if rows is None:
        return None
    moved = _axes_of_operand(op, number, rows.axes)
    return None if moved is None else ActiveRows(rows.mask, moved, rows.where)


def _share_of_scan(scan: Scan, number: int, inner: dict[Scan, Needed]) -> ActiveRows | None:
    """Of a sequence whose rows a loop reads: a row of the mask tells of a row of the sequence."""
    number -= len(scan.consts) + len(scan.inits)
    if number < 0 or not (masks := row_masks(scan)):
        return None
    if scan not in inner:
        inner[scan] = active_rows(scan.body.block, masks)
    args = list(scan.groups[2])
    rows = inner[scan].get(args[number])
    if rows is None or rows.mask not in args or scan.steps == 1:  # a step may compute a mask itself
        return None
    axes = (0, *(axis + 1 for axis in rows.axes))
    return ActiveRows(scan.xs[args.index(rows.mask)], axes, rows.where)


def _mask_of(condition: SSAValue) -> ActiveRows | None:
    """The value that a condition repeats, and where its axes are."""
    views = list[View]()
    while isinstance(op := condition.owner, Broadcast | Reshape | Transpose):
        views.append(op)
        condition = op.x
    axes: Axes | None = wide_axes(dims_of(condition))
    for view in reversed(views):
        axes = None if axes is None else _axes_of_result(view, axes)
    return None if axes is None else ActiveRows(condition, axes)


def _axes_of_result(view: View, axes: Axes) -> Axes | None:
    """Where axes of a view's operand are in its result."""
    places = {_same_axis(view, 0, axis): axis for axis in wide_axes(dims_of(view.y))}
    mapped = tuple(places[axis] for axis in axes if axis in places)
    return mapped if len(mapped) == len(axes) else None


def _axes_of_operand(op: Operation, number: int, axes: Axes) -> Axes | None:
    """Where rows of a result are in an operand of which nothing else is needed for them."""
    # An error of the run may be in a row that nobody reads.
    if not isinstance(op, RnnOp) or op.CAN_FAIL:
        return None
    mapped = tuple(source for axis in axes if (source := _same_axis(op, number, axis)) is not None)
    return mapped if len(mapped) == len(axes) else None


def _same_axis(op: RnnOp, number: int, axis: int) -> int | None:
    """The axis of an operand whose row i alone a result's row i is computed from."""
    sources = op.operand_axes(axis)
    source = None if sources is None else sources[number]
    if source is None or dims_of(op.operands[number])[source] != dims_of(op.results[0])[axis]:
        return None
    return source


def rows_lead(rows: ActiveRows, dims: Sequence[Dim]) -> bool:
    """Whether the axes of rows are a value's first ones."""
    return wide_axes(dims)[: len(rows.axes)] == rows.axes if rows.axes else one_leads(dims)


def one_leads(dims: Sequence[Dim]) -> bool:
    """Whether the first axis of a value, or of a kernel's domain, has one row of more than one
    element: where a mask of one element tells of that row."""
    return len(dims) > 1 and dims[0] == 1
