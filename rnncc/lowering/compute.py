"""Kernels for values of one shape: a map, or a product with an epilogue; of some rows, or of all.

Where a mask decides for whole rows which branch of a select is taken, two kernels write one place:
one for each branch, for the rows that take it. What nobody reads of other rows is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Block, SSAValue

from rnncc.ir.active_rows import ActiveRows, chosen_by, one_leads, rows_lead, wide_axes
from rnncc.ir.dims import ZERO, Dim
from rnncc.ir.ops.elementwise import Select
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.types import dims_of
from rnncc.kern import kernels
from rnncc.kern.access import Access
from rnncc.kern.active_rows import ListedRows
from rnncc.lowering.active_rows import Ahead, list_of
from rnncc.lowering.items import Group, Item
from rnncc.lowering.maps import Placed, aligned, identity
from rnncc.lowering.region import CannotFuse
from rnncc.lowering.window_rows import left_operand
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering

Outs = Sequence[tuple[SSAValue, Placed]]


def emit(
    lowering: Lowering,
    product: Matmul | None,
    outs: Outs,
    dims: Sequence[Dim],
    ahead: Ahead | None = None,
) -> None:
    """The kernel of a group, or one for each branch; `ahead`: the steps that are computed.

    Before:

        for t in 0..T, h from h:
            v1 = matmul(h[t-1], u)
            v2 = broadcast(mask[t], dims=[N, 4], axes=[0])
            v3 = select(v2, v1, h[t-1])
            h[t] = v3
        return h[T-1]

    After:

        state state: 8*N, ring of 2
        scratch rows: N + 1
        scratch packed: 24
        pack packed = u
        for t in 0..T, p from h:
            list rows = rows where mask[i + N*t]
            gemm i in N, j in 4 of rows: state[t] = p·packed
            map i in N, j in 4 not of rows: state[t] = p
            p = state[t]
        map i in N, j in 4: y = p
    """
    for part in _parts(lowering, product, outs, dims, ahead):
        listing = None if part.rows is None else _list_of(lowering, part.rows, dims, ahead)
        if part.product is None:
            emit_map(lowering, part.outs, dims, ahead, listing)
        else:
            emit_product(lowering, part.product, part.outs, dims, ahead, listing)


def emit_map(
    lowering: Lowering,
    outs: Outs,
    dims: Sequence[Dim],
    ahead: Ahead | None = None,
    listing: ListedRows | None = None,
) -> None:
    """An elementwise kernel."""
    first, domain = _domain(dims, ahead)
    region = lowering.region(len(dims))
    values = [region.value(v, aligned(dims, dims_of(v), first)) for v, _ in outs]
    lowering.builder.insert(
        kernels.Map(domain, region.ins, _stores(outs, dims), region.finish(values), listing)
    )


def emit_product(
    lowering: Lowering,
    op: Matmul,
    outs: Outs,
    dims: Sequence[Dim],
    ahead: Ahead | None = None,
    listing: ListedRows | None = None,
) -> None:
    """A product with its epilogue; apart from each other where they do not fit together."""
    first, domain = _domain(dims, ahead)
    rows = dims_of(op.y)[:-1]
    element = (*aligned(dims[:-1], rows, first), identity(dims)[-1])
    region = lowering.region(len(dims), (op, element))
    try:
        values = [region.value(v, aligned(dims, dims_of(v), first)) for v, _ in outs]
    # The product gets a buffer after all, which the map reads at whatever index it needs.
    except CannotFuse:
        lowering.emit_group(Group(0, dims_of(op.y), [Item(op.y)], op, alone=True))
        emit_map(lowering, outs, dims, ahead, listing)
        return
    stores = _stores(outs, dims)
    place, k_sizes = left_operand(lowering, op)
    axes = len(rows)
    leading, k = place.access.strides[:axes], place.access.strides[axes:]
    if op.transpose_a:
        leading, k = (*leading[:-1], *k), leading[-1:]
    by_row = Placed(place.buffer, Access(place.access.offset, leading))
    row_access = by_row.over(aligned(dims[:-1], rows, first), len(dims) - 1)
    a = (place.buffer, Access(row_access.offset, (*row_access.strides, *k)))
    packed = lowering.weights.packed(op, region.slots, int(dims[-1]))
    body, shape = region.finish(values), (packed.buffer, packed.geometry)
    kernel = kernels.Gemm(
        domain, a, *shape, region.ins, stores, body, packed.converted, listing, k_sizes
    )
    lowering.builder.insert(kernel)


def _stores(outs: Outs, dims: Sequence[Dim]) -> list[tuple[SSAValue, Access]]:
    """Where a kernel over a domain puts its values."""
    return [(d.buffer, d.over(aligned(dims, dims_of(v)), len(dims))) for v, d in outs]


def active_rows(lowering: Lowering, value: SSAValue, dims: Sequence[Dim]) -> ListedRows | None:
    """The rows that are needed of a value, the first axes of a kernel's domain; None for all."""
    rows = lowering.needed.get(value)
    if rows is None or not rows_lead(rows, dims_of(value)) or not _are_axes(rows, dims):
        return None
    return _list_of(lowering, rows, dims, None)


def _are_axes(rows: ActiveRows, dims: Sequence[Dim]) -> bool:
    """Whether a domain, which may lack axes of one row, has the axes that rows run over."""
    return bool(rows.axes) or one_leads(dims)


@record
class _MaskedKernel:
    """A kernel: its product if it has one, what it writes, for which rows."""

    product: Matmul | None
    outs: Outs
    rows: ActiveRows | None = None


def _parts(
    lowering: Lowering,
    product: Matmul | None,
    outs: Outs,
    dims: Sequence[Dim],
    ahead: Ahead | None,
) -> list[_MaskedKernel]:
    """The kernels of a group: one, or one for the rows of each branch."""
    whole = [_MaskedKernel(product, outs)]
    rows = _rows_of(lowering, outs[0][0]) if outs else None
    if rows is None or not _are_axes(rows, dims) or list_of(lowering, rows.mask, ahead) is None:
        return whole
    # A product's kernel computes rows as a whole: a mask along fewer axes than its rows have lists
    # others.
    if product is not None and len(rows.axes) != len(wide_axes(dims_of(product.y)[:-1])):
        return whole
    branches: dict[bool, list[tuple[SSAValue, Placed]]] = {True: [], False: []}
    for value, dest in outs:
        value_rows = _rows_of(lowering, value)
        # Two kernels for two sets of rows write one place: all values must be cut by the same mask.
        if value_rows is None or value_rows.mask != rows.mask:
            return whole
        if lowering.needed.get(value) == value_rows:
            branches[value_rows.where].append((value, dest))
        else:
            op = value.owner
            assert isinstance(op, Select)
            branches[True].append((op.a, dest))
            branches[False].append((op.b, dest))
    readers = [w for w, pairs in branches.items() if product and _reach(lowering, pairs, product.y)]
    # Both branches read the product, or neither by itself: it is computed once, of all rows.
    if product is not None and len(readers) != 1:
        return whole
    return [
        _MaskedKernel(
            product if where in readers else None, pairs, ActiveRows(rows.mask, rows.axes, where)
        )
        for where, pairs in branches.items()
        if pairs
    ]


def _rows_of(lowering: Lowering, value: SSAValue) -> ActiveRows | None:
    """The rows of a value that are needed, or those that a select takes from its first branch."""
    rows, op = lowering.needed.get(value), value.owner
    if rows is None and not isinstance(op, Block):
        rows = chosen_by(op, lowering.masks)
    if rows is None or len(rows.axes) == len(wide_axes(dims_of(value))):
        return None  # a row is one element, too little for a kernel of its own
    return rows if rows_lead(rows, dims_of(value)) else None


def _reach(lowering: Lowering, outs: Outs, target: SSAValue) -> bool:
    """Whether values are computed from another one."""
    todo, seen = [value for value, _ in outs], set[SSAValue]()
    while todo:
        value = todo.pop()
        if value is target:
            return True
        if value in seen or isinstance(value.owner, Block) or lowering.find(value) is not None:
            continue
        seen.add(value)
        todo += value.owner.operands
    return False


def _list_of(
    lowering: Lowering, rows: ActiveRows, dims: Sequence[Dim], ahead: Ahead | None
) -> ListedRows | None:
    """The listed rows of a domain whose first axes are those of rows."""
    listed = list_of(lowering, rows.mask, ahead)
    if listed is None:
        return None
    # a mask of one row is one of the first axis, which has that row alone
    last = wide_axes(dims)[len(rows.axes) - 1] if rows.axes else 0
    return ListedRows(listed, last + 1, rows.where)


def _domain(dims: Sequence[Dim], ahead: Ahead | None) -> tuple[Dim, list[Dim]]:
    """The first index along time, and the domain, of all steps or of some ahead."""
    return (ahead.first, [ahead.steps, *dims[1:]]) if ahead else (ZERO, list(dims))
