"""Loops over runs of steps: segments are read and written where the sequences are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.builder import Builder as OpBuilder
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.naming import state_name
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.linear import Contract, SumRows
from rnncc.ir.types import dims_of, dtype_of
from rnncc.kern import dialect as kern
from rnncc.lowering.anchors import is_lazy
from rnncc.lowering.items import Item
from rnncc.lowering.maps import Placed, base_of, strip_units

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering


def emit_chunks(lowering: Lowering, op: Chunks) -> None:
    """A loop whose iterations take a run of steps each; buffers inside are as long as a run.

    The carry has one place: an iteration reads it there, and the next one is put there at its end.

    Before:

        for r in 0..T/16 runs of E1, h from h:
            for t in 0..E1, c from h[r-1]:
                v1 = mul(c[t-1], x[r][t])
                c[t] = v1
                v2[t] = v1
            h[r] = c[E1-1]
            v3[r] = h[r-1]
        return h[T/16-1], v3

    After:

        output y: N, stand-in of N
        output saved:state: N*T/16, ring of 1, stand-in of N
        state state: N, ring of 1
        map i in N: y = h
        for t in 0..T in chunks of E1:
            map i in N: saved:state[t1] = y
            for t2 in 0..E1, p from y:
                map i in N: state[t2] = p * x[i + N*t + N*t2]
                p = state[t2]
            map i in N: y = p
    """
    ends = zip(op.inits, op.yields[0], op.finals, strict=True)
    homes = [_home(lowering, init, value, final) for init, value, final in ends]
    first, iteration = lowering.fresh_index(), lowering.fresh_index()
    body, extent, chunk = Block(), op.extent.data, op.chunk.data
    lowering.builders.append(OpBuilder(InsertPoint.at_end(body)))
    _enter(lowering, op, homes, Dim.of(first), Dim.of(iteration))
    # Buffers inside have room for a whole run; the last one may be shorter.
    lowering.bounds[extent] = Dim.of(chunk)
    _emit_body(lowering, op, homes, Dim.of(first), Dim.of(iteration))
    lowering.builder.insert(Yield([]))
    lowering.builders.pop()
    runs = (extent, chunk, Dim.of(1))
    reverse = bool(op.reverse)
    lowering.builder.insert(kern.For(first, ZERO, op.steps, [], body, reverse, runs, iteration))
    lowering.places.update(zip(op.finals, homes, strict=True))
    for final in op.limited:
        lowering.builder.insert(kern.Limit(lowering.pointer(final)))


def _home(lowering: Lowering, init: SSAValue, value: SSAValue, final: SSAValue) -> Placed:
    """The place of a carried value, filled with what it starts as."""
    home = lowering.output_of.get(final)
    if home is None:
        label = state_name(value, final)
        home = lowering.declare(label, "state", dtype_of(final), dims_of(final))
    if lowering.find(init) != home:
        lowering.emit_map([(init, home)], dims_of(init))
    return home


def _enter(lowering: Lowering, op: Chunks, homes: list[Placed], first: Dim, iteration: Dim) -> None:
    """What the body's arguments stand for."""
    consts, carry, segments, marks = op.groups
    lowering.outer.update({a: (v, None) for a, v in zip(consts, op.consts, strict=True)})
    lowering.outer.update({a: (v, iteration) for a, v in zip(marks, op.marks, strict=True)})
    lowering.segments.update({a: (v, first) for a, v in zip(segments, op.xs, strict=True)})
    lowering.places.update(zip(carry, homes, strict=True))


def _emit_body(
    lowering: Lowering, op: Chunks, homes: list[Placed], first: Dim, iteration: Dim
) -> None:
    """One run: segments of ys and rows of marked go to their places, then the carry."""
    carry, ys, marked = op.yields
    shown = [(value, y, first, op.chunk.data) for value, y in zip(ys, op.ys, strict=True)]
    shown += [(value, y, iteration, 1) for value, y in zip(marked, op.marked, strict=True)]
    live_out, rows = list[Item](), list[kern.Row]()
    for value, y, index, most in shown:
        if not y.first_use:
            continue
        rows.append(_row(lowering, y, index, most))
        buffer, bare = rows[-1].y, strip_units(value)
        if not lowering.direct(bare, Placed.densely(buffer, dims_of(bare))):
            live_out.append(Item(value, Placed.densely(buffer, dims_of(value))))
    late: list[tuple[SSAValue, Placed]] = []
    for value, argument, home in zip(carry, op.groups[1], homes, strict=True):
        # It is in its place already.
        if value is argument or _goes_on(lowering, value, argument, home):
            continue
        late.append((value, home))
        base = base_of(value)
        # Computed behind the body, it might read a carry whose place the one before it has taken.
        if is_lazy(base.owner) or isinstance(value.owner, Block):
            live_out.append(Item(base))
    lowering.lower_block(op.body.block, live_out)
    for value, home in late:
        # At the end: the body may still have read the old carry there.
        lowering.emit_map([(value, home)], dims_of(value))
    for row in rows:
        if not row.y.first_use:
            row.detach()
            row.erase()


def _row(lowering: Lowering, y: SSAValue, index: Dim, most: int) -> kern.Row:
    """Where an iteration's part of a result begins, and the most rows that it has.

    Where the result is itself a part, the row is one of the whole: absent, it has those rows alone.
    """
    if y not in lowering.places:
        lowering.places[y] = lowering.output_of.get(y) or lowering.scratch(y)
    buffer, size = lowering.places[y].buffer, product(dims_of(y)[1:])
    outer = buffer.owner
    if isinstance(outer, kern.Row) and get_dim(outer.stride) == size:
        buffer, index = outer.buffer, get_dim(outer.index) + index
    return lowering.builder.insert(kern.Row(buffer, index, size, most))


def _goes_on(lowering: Lowering, value: SSAValue, argument: SSAValue, home: Placed) -> bool:
    """Whether a value is made in place: nothing but its op reads the carry, to start from it."""
    op = value.owner
    match op:
        case Contract() | SumRows():
            init = op.init
        case Chunks() if value in op.finals:
            init = dict[SSAValue, SSAValue](zip(op.finals, op.inits, strict=True))[value]
        case _:
            return False
    alone = argument.has_one_use() and value.has_one_use()
    return init is argument and alone and lowering.direct(value, home)
