"""Sequences that a body reads by number, as exporters write loops over time: x[t], x[t + 1]."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.control import row_type
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.indexing import Gather
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.ops.source import Fill, Iota, Size
from rnncc.ir.rewriting import Loop, LoopSequence
from rnncc.ir.types import dims_of, dtype_of


def find_rows(loop: Loop) -> bool:
    """Rows of a scan's consts that are read by the step's number become rows of xs; whether any do.

    Those too that lie a number of rows behind it, where the formulas of sizes show that they are
    there.

    Before:

        v1 = iota(axis=0)
        for t in 0..T, h from h:
            v2 = gather(x, v1[t], axis=0)
            v3 = mul(h[t-1], v2)
            h[t] = v3
        return h[T-1]

    After:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]
    """
    outer, changed = {const.arg: const.outer for const in loop.consts}, False
    for op in [op for op in loop.body.ops if isinstance(op, Gather) and op.x in outer]:
        x, axis, first = outer[op.x], op.axis.data, _row_number(loop, op.index)
        spare = None if first is None else dims_of(x)[axis] - first - loop.steps
        # A row that might lie outside stays a gather, which reports such an index at run time.
        if first is None or spare is None or not (_is_natural(first) and _is_natural(spare)):
            continue
        b = Builder.before(loop.scan)
        order = [axis, *(a for a in range(len(dims_of(x))) if a != axis)]
        rows = b.transpose(b.slice(x, axis, first, loop.steps), order)
        arg = loop.add_arg(row_type(rows))
        loop.xs.append(LoopSequence(rows, arg))
        loop.swap(op.y, Builder.before(op).reshape(arg, dims_of(op.y)))
        changed = True
    return changed


def _row_number(loop: Loop, index: SSAValue) -> Dim | None:
    """How far an index lies behind the step's number; None for any other index."""
    if any(x.arg is index and isinstance(x.outer.owner, Iota) for x in loop.xs):
        # A row with axes is one of an iota that may count along these.
        return Dim.of(0) if not dims_of(index) else None
    op = index.owner
    if isinstance(op, Cast):
        # As a bool, say, or a byte, it may be another number.
        same = {dtype_of(op.x), dtype_of(op.y)} == {"i32", "i64"}
        return _row_number(loop, op.x) if same else None
    if isinstance(op, Reshape) and product(dims_of(index)) == 1:
        return _row_number(loop, op.x)
    if not isinstance(op, Add):
        return None
    for number, added in ((op.a, op.b), (op.b, op.a)):
        first, further = _row_number(loop, number), _integer(added)
        if first is not None and further is not None:
            return first + further
    return None


def _integer(value: SSAValue) -> Dim | None:
    """The integer that a size or a fill is."""
    if isinstance(value.owner, Fill):
        return Dim.of(int(value.owner.value.value.data))
    return get_dim(value.owner.dim) if isinstance(value.owner, Size) else None


def _is_natural(size: Dim) -> bool:
    return all(factor >= 0 for _, factor in size.terms)
