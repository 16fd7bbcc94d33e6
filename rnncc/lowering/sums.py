"""Sums: reductions, products of two computed tensors, and sums over rows with an initial value."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Mul
from rnncc.ir.ops.linear import Contract, Matmul, OrderedSum, Reduce, SumRows
from rnncc.ir.ops.shape import Broadcast, Reshape, Shift, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.kern import kernels
from rnncc.kern.access import FAR, Access, are_near
from rnncc.kern.access import dense as row_major
from rnncc.lowering.compute import active_rows
from rnncc.lowering.maps import AxisIndex, Placed, identity, is_view, merged

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering

LARGE = 1 << 10
"""An open size, to tell steps along axes apart."""
WIDE = 4
"""An axis of fewer elements fills too little of a vector."""
LANES, COPIES = 16, 4
"""Of a full vector; terms of a sum that take as long as copying what it reads and gives."""
OFTEN = 8
"""How often an element is read that is worth a copy."""
Strides = Sequence[Dim]


def emit_reduce(lowering: Lowering, op: Reduce) -> None:
    """One kernel; the reduced axes come last in its domain.

    Before:

        v1 = exp(x)
        v2 = reduce(v1, kind=sum, axes=[1])
        return v2

    After:

        reduce i in N: y = sum j in 3 exp(x)
    """
    axes = set(get_ints(op.axes))
    dims = dims_of(op.x)
    kept = [a for a in range(len(dims)) if a not in axes]
    # Vectors run along the last axis that is kept, so that it must not be one of size 1.
    kept_order, reduced = [a for a in kept if dims[a] != 1], _reduced_order(lowering, op)
    copied = _copied(lowering, op, kept_order, reduced)
    order, turned = _turned(lowering, op, kept_order, reduced)
    domain = [dims[a] for a in order]
    at = dict(zip(order, identity(domain), strict=True))
    region = lowering.region(len(domain))
    value = region.value(op.x, tuple(at.get(a, AxisIndex()) for a in range(len(dims))))
    dest = lowering.alone(op.y) if turned is None else turned
    out = (dest.buffer, dest.over(tuple(at.get(a, AxisIndex()) for a in kept), len(domain)))
    body = region.finish([value])
    listing = active_rows(lowering, op.y, domain)
    kernel = kernels.Reduce(op.kind.data, len(axes), domain, region.ins, out, body, some=listing)
    lowering.builder.insert(kernel)
    for value in copied:
        del lowering.places[value]
    lowering.places[op.y] = dest
    if turned is not None and (output := lowering.output_of.get(op.y)) is not None:
        lowering.emit_map([(op.y, output)], dims_of(op.y))


def _copied(
    lowering: Lowering, op: Reduce, kept: Sequence[int], reduced: Sequence[int]
) -> list[SSAValue]:
    """Give what a reduction reads places where vectors are neighbours, if that is worth it."""
    copied = list[SSAValue]()
    if len(kept) > 1 and not lowering.target.waits_are_dear:
        for rule in (_strided, _narrow):
            emitted = rule(lowering, op, kept, reduced)
            lowering.places.update({value: lowering.dense(value) for value in emitted})
            copied += emitted
    return copied


def _neighbours(
    lowering: Lowering, op: Reduce, kept: Sequence[int], reduced: Sequence[int]
) -> tuple[Sequence[Strides], list[int]]:
    """The strides of what a reduction reads, and the axes along which vectors may run rather than
    along the last one that is kept; none where that one is better."""
    dims = dims_of(op.x)
    # Where some rows are listed these axes lead the domain: their order stays.
    if len(kept) < 2 or op.y in lowering.needed:
        return [], []
    region = lowering.region(len(dims))
    region.value(op.x, identity(dims))
    reads = [access.strides for _, access in region.ins]

    def near(axis: int, most: int = FAR) -> bool:
        steps = [strides[axis] for strides in reads]
        return are_near(steps, most) and any(s != 0 for s in steps)

    wide = [a for a in kept if near(a) and not (dims[a].is_static and int(dims[a]) < WIDE)]
    return reads, [] if kept[-1] in wide or near(reduced[-1], 1) else wide


def _narrow(
    lowering: Lowering, op: Reduce, kept: Sequence[int], reduced: Sequence[int]
) -> list[SSAValue]:
    """What is read by windows whose rows fill no vector, where the last axis that is kept fills
    one: in a copy elements are neighbours along that axis."""
    dims, windowed = dims_of(op.x), _below(lowering, op, Windows)
    if not windowed:
        return []
    _, wide = _neighbours(lowering, op, kept, reduced)
    sizes = [dims[axis] for axis in (kept[-1], *wide[-1:], *reduced)]
    if not wide or not all(size.is_static for size in sizes):
        return []
    channels, row, *taps = map(int, sizes)
    # Each term is a vector of a row; copies there and back take as long as some terms.
    worth = math.prod(taps) * (LANES - row) >= COPIES * row
    return windowed if channels >= LANES and worth else []


def _strided(
    lowering: Lowering, op: Reduce, kept: Sequence[int], _: Sequence[int]
) -> list[SSAValue]:
    """Views of few elements that are read again and again, such as weights turned round: vectors
    along the last axis that is kept are worth a copy."""
    dims, repeated = dims_of(op.x), _below(lowering, op, Broadcast)
    often, last = _at_large(product(dims)), (dims[kept[-1]],)
    along = (v for v in repeated if is_view(v.owner) and dims_of(v)[-1:] == last)
    sizes = ((v, product(dims_of(v))) for v in along)
    few = (v for v, size in sizes if size.is_static and int(size) * OFTEN <= often)
    return [v for v in few if lowering.place(v).access.strides[-1] != 1]


def _below(lowering: Lowering, op: Reduce, kind: type[Operation]) -> list[SSAValue]:
    """What a reduction reads through views of a kind, where that is no buffer yet."""
    bases, seen, queue = dict[SSAValue, None](), set[SSAValue](), [op.x]
    while queue:
        value, base = queue.pop(), None
        if value in seen:
            continue
        seen.add(value)
        while is_view(view := value.owner) and lowering.find(value) is None:
            value = view.x
            base = value if isinstance(view, kind) else base
        if base is not None and lowering.find(base) is None and base.owner.parent is op.parent:
            bases[base] = None
        elif isinstance(below := value.owner, Elementwise) and lowering.find(value) is None:
            queue += below.operands
    return list(bases)


def _turned(
    lowering: Lowering, op: Reduce, kept: Sequence[int], reduced: Sequence[int]
) -> tuple[list[int], Placed | None]:
    """The axes of a reduction's domain, and where its results lie if not as its axes stand.

    Where the last axis that is kept is short, or elements are neighbours along another one, as in
    windows over planes of channels, vectors run along that one, and so do the results.
    """
    dims, (reads, wide) = dims_of(op.x), _neighbours(lowering, op, kept, reduced)
    if not wide:
        return [*kept, *reduced], None
    widest = max(reads, key=lambda strides: sum(s != 0 for s in strides))
    order = sorted(kept, key=lambda a: (a == wide[-1], -_at_large(widest[a])))
    steps = dict(zip(order, row_major([dims[a] for a in order]), strict=True))
    whole = [a for a in range(len(dims)) if a not in get_ints(op.axes)]
    access = Access(ZERO, tuple(steps.get(axis, ZERO) for axis in whole))
    return [*order, *reduced], Placed(lowering.scratch(op.y).buffer, access)


def _at_large(step: Dim) -> int:
    """A step where open sizes are large."""
    return step.evaluate(dict.fromkeys(step.symbols, LARGE))


def _reduced_order(lowering: Lowering, op: Reduce) -> list[int]:
    """The reduced axes, that along which elements are neighbours last, where any order is exact."""
    axes, dims = sorted(get_ints(op.axes)), dims_of(op.x)
    # Another order of a float sum would be another result.
    if len(axes) < 2 or (op.kind.data == "sum" and dtype_of(op.x) in FLOATS):
        return axes
    region = lowering.region(len(dims))
    region.value(op.x, identity(dims))
    widest = max(region.ins, key=lambda read: sum(s != 0 for s in read[1].strides), default=None)
    if widest is None or widest[1].strides[axes[-1]] == 1:
        return axes
    near = next((axis for axis in axes if widest[1].strides[axis] == 1), axes[-1])
    return [*(axis for axis in axes if axis != near), near]


def emit_batched(lowering: Lowering, op: Matmul) -> None:
    """A product of two computed tensors: a sum of products, element by element.

    Before:

        v1 = matmul(q, k, transpose_b=true)
        return v1

    After:

        reduce i in N, j in 2, k in S: y = sum l in 3 q[6*i + 3*j + l] * k[3*S*i + 3*k + l]
    """
    *_, n = dims_of(op.y)
    rows = dims_of(op.y)[:-1]
    depth = dims_of(op.a)[-2 if op.transpose_a else -1]
    domain = [*rows, n, depth]
    at = identity(domain)
    m, column, k = at[len(rows) - 1], at[-2], at[-1]
    left = (*at[: len(rows) - 1], *((k, m) if op.transpose_a else (m, k)))
    batch = at[: len(rows) - 1] if len(dims_of(op.b)) > 2 else ()
    right = (*batch, *((column, k) if op.transpose_b else (k, column)))
    region = lowering.region(len(domain))
    factors = [region.value(op.a, left), region.value(op.b, right)]
    if dtype_of(op.y) != dtype_of(op.a):
        kind = StringAttr(dtype_of(op.y))
        # Before they are multiplied: a product of two bytes does not fit into one.
        factors = [region.insert(Cast(factor, dtype=kind)) for factor in factors]
    _set_place(lowering, op.y)
    dest = lowering.alone(op.y)
    out = (dest.buffer, dest.over(at[:-1], len(domain)))
    body = region.finish([region.insert(Mul(*factors))])
    listing, fused = active_rows(lowering, op.y, domain), dtype_of(op.y) in FLOATS
    kernel = kernels.Reduce("sum", 1, domain, region.ins, out, body, some=listing, fused=fused)
    lowering.builder.insert(kernel)


def _set_place(lowering: Lowering, value: SSAValue) -> None:
    """Let a product be where its one reader would copy it to: as that turns it round to join axes.

    So the heads of attention stand side by side in a row, as the next product reads them.
    """
    turned = _reader(value)
    if value in lowering.output_of or not isinstance(turned, Transpose):
        return
    joined, perm = _reader(turned.y), get_ints(turned.perm)
    # Vectors run along the last axis.
    if not isinstance(joined, Reshape) or perm[-1] != len(perm) - 1:
        return
    strides = row_major(dims_of(value))
    access = Access(ZERO, tuple(strides[source] for source in perm))
    if merged(access, dims_of(turned.y), dims_of(joined.y)) is None:
        room = lowering.scratch(turned.y)
        own = tuple(room.access.strides[perm.index(axis)] for axis in range(len(perm)))
        lowering.output_of[value] = Placed(room.buffer, Access(ZERO, own))


def _reader(value: SSAValue) -> Operation | None:
    """The one op that reads a value, once and where it is defined."""
    user = value.get_user_of_unique_use()
    return user if user is not None and user.parent is value.owner.parent else None


def emit_sum_rows(lowering: Lowering, op: SumRows) -> None:
    """A reduction in the order of the rows.

    Before:

        v1 = sum_rows(db, dy)
        return v1

    After:

        reduce i in 4: y = db + sum j in N dy[i + 4*j]
    """
    steps, *kept = dims_of(op.x)
    domain = [*kept, steps]
    at = identity(domain)
    region = lowering.region(len(domain))
    value = region.value(op.x, (at[-1], *at[:-1]))
    init, dest = _start(lowering, op), lowering.alone(op.y)
    out = (dest.buffer, dest.over(at[:-1], len(domain)))
    body, order = region.finish([value]), "down" if op.reverse else "up"
    kernel = kernels.Reduce("sum", 1, domain, region.ins, out, body, order, init)
    lowering.builder.insert(kernel)


def emit_contract(lowering: Lowering, op: Contract) -> None:
    """The sum of the rows' products; one shifted operand is read where it is.

    Before:

        v1 = contract(0, x, dy)
        return v1

    After:

        scratch packed: 1024
        contract m in 3, n in 4: y = sum k in N x[k, m] * dy[k, n]
    """
    (depth, rows), columns = dims_of(op.a), dims_of(op.b)[1]
    dtype = dtype_of(op.y)
    rounded = lowering.weights.rounds(dtype)
    room = lowering.target.of(dtype).contract_room(int(rows), int(columns), rounded)
    factors, first = list[tuple[SSAValue, Access]](), None
    for of_b, value in enumerate((op.a, op.b)):
        # The states before each step are those after it, shifted by one: they are read from the one
        # sequence, and stored once. The kernel has room for one such operand.
        shift = _shift_of(value)
        if shift is None or first is not None:
            factors.append(_rows(lowering, value))
            continue
        factors.append(_joined_rows(lowering, shift.x))
        count, start = product(dims_of(shift.init)[:-1]), lowering.pointer(shift.init)
        first = kernels.ShiftedRows(start, count, bool(shift.reverse), bool(of_b))
    a, b = factors
    init = _start(lowering, op)
    scratch = lowering.declare("packed", "scratch", dtype, [Dim.of(room)]).buffer
    dest = lowering.alone(op.y).buffer
    sizes, reverse = (depth, rows, columns), bool(op.reverse)
    where = dest, (scratch, room), init
    kernel = kernels.Contract(sizes, a, b, *where, reverse, first, rounded)
    lowering.builder.insert(kernel)


def _start(lowering: Lowering, op: OrderedSum) -> SSAValue | None:
    return None if op.starts_at_zero else lowering.pointer(op.init)


def _rows(lowering: Lowering, value: SSAValue) -> tuple[SSAValue, Access]:
    """A matrix whose rows are dense, if only by a copy."""
    placed = lowering.place(value)
    if placed.access.strides[1] != 1 and dims_of(value)[1] != 1:
        placed = lowering.dense(value)
    return placed.buffer, placed.access


def _joined_rows(lowering: Lowering, value: SSAValue) -> tuple[SSAValue, Access]:
    """The same of a tensor, all axes but the last joined."""
    *lead, columns = dims = dims_of(value)
    access = merged(lowering.place(value).access, dims, (product(lead), columns))
    if access is not None and (access.strides[1] == 1 or columns == 1):
        return lowering.place(value).buffer, access
    return lowering.pointer(value), Placed.densely(value, (product(lead), columns)).access


def _shift_of(value: SSAValue) -> Shift | None:
    """The shifted sequence that a matrix is, row by row."""
    op = value.owner
    if isinstance(op, Reshape) and dims_of(op.x)[-1] == dims_of(value)[-1]:
        op = op.x.owner
    return op if isinstance(op, Shift) and len(dims_of(op.y)) > 1 else None


EMITTERS: dict[type[Operation], Callable[[Lowering, Any], None]] = {
    Reduce: emit_reduce,
    Matmul: emit_batched,
    SumRows: emit_sum_rows,
    Contract: emit_contract,
}
