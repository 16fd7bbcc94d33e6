"""Which axes of a net's values are time: those of loops' sequences, and what has their rows."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.ops.source import Constant, Param
from rnncc.ir.types import dims_of

Axis = tuple[SSAValue, int]


def time_axes(net: Net, length: Dim) -> set[Axis] | None:
    """The axes along which values have the rows of the loops of a length, or several a row.

    From the loops' sequences on, each op's rule for rows (`operand_axes`) is followed both ways. An
    axis ends where an op has none: a sum over it, a part of it.

    Returns:
        None where one is an axis of a parameter, of a constant or of what a loop reads whole: then
        its size is not the loops' alone.
    """
    loops = [op for op in net.body.block.ops if isinstance(op, Scan) and op.steps == length]
    rows = {(value, 0) for op in loops for value in (*op.xs, *op.ys)}
    axes, work = set[Axis](), list(rows)
    while work:
        value, axis = work.pop()
        size = dims_of(value)[axis]
        if (value, axis) in axes or size == 1:
            continue  # 1: an op repeats it along the axis
        owner = value.owner
        users = [use.operation for use in value.uses]
        is_row = (value, axis) in rows
        if size.divide(length) is None or isinstance(owner, Param | Constant):
            return None
        if not is_row and (isinstance(owner, Scan) or any(isinstance(op, Scan) for op in users)):
            return None
        axes.add((value, axis))
        work += [*_operands(value, axis, length), *_results(value, axis, length)]
    return axes


def _operands(value: SSAValue, axis: int, length: Dim) -> Iterator[Axis]:
    """Axes of what a value is computed from that have its rows."""
    op = value.owner
    if isinstance(op, Reshape):
        yield from _reshaped(value, axis, op.x, length)
    elif isinstance(op, RnnOp):
        axes = op.operand_axes(axis) or ()
        yield from ((v, a) for v, a in zip(op.operands, axes, strict=False) if a is not None)


def _results(value: SSAValue, axis: int, length: Dim) -> Iterator[Axis]:
    """Axes of what is computed from a value that have its rows."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, Reshape):
            yield from _reshaped(value, axis, op.y, length)
        elif isinstance(op, RnnOp):
            places = ((place, op.operand_axes(place)) for place in range(len(dims_of(op.y))))
            yield from ((op.y, place) for place, axes in places if axes and axes[use.index] == axis)


def _reshaped(value: SSAValue, axis: int, other: SSAValue, length: Dim) -> Iterator[Axis]:
    """The one axis of the other shape that is made of this one's elements and can have the rows.

    [N, T, D] joined is [N * T, D], where time is not what the first axis begins with.
    """
    ends = [[product(dims_of(v)[: i + 1]) for i in range(len(dims_of(v)))] for v in (value, other)]
    starts = [[Dim.of(1), *of[:-1]] for of in ends]
    shared = [Dim.of(1), *(end for end in ends[0] if end in ends[1])]
    # the axes between two places where both shapes have as many elements in front
    group = max(i for i, at in enumerate(shared) if at in starts[0][: axis + 1])
    inside, candidates = False, list[Axis]()
    for place, (start, end) in enumerate(zip(starts[1], ends[1], strict=True)):
        inside = inside or start == shared[group]
        if inside and dims_of(other)[place].divide(length) is not None:
            candidates.append((other, place))
        if inside and end in shared[group + 1 :]:
            break
    if len(candidates) == 1:
        yield candidates[0]
