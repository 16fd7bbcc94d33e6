"""Loops over time: where a scan's state lives, and which work comes along in chunks of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.builder import Builder as OpBuilder
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from rnncc.ir.active_rows import row_masks
from rnncc.ir.attributes import dim_attr
from rnncc.ir.builder import Builder
from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.naming import state_name
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.shape import Broadcast, Transpose
from rnncc.ir.types import dims_of, dtype_of
from rnncc.kern import dialect as kern
from rnncc.kern import kernels
from rnncc.kern.access import Access, buffer_dtype
from rnncc.kern.dialect import Buffer
from rnncc.kern.moves import ContinuedSum
from rnncc.lowering import compute
from rnncc.lowering.active_rows import Ahead
from rnncc.lowering.items import Group, Item
from rnncc.lowering.maps import Placed, copying, strip_units
from rnncc.lowering.rows import distance, set_apart
from rnncc.sizes import TIME

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering


@dataclass(eq=False)
class Home:
    """The buffer that holds a sequence or a state, row by row, `distance` elements apart.

    Where a sequence's rows lie in others', as in an output whose batch comes first, that is None.
    """

    place: Placed
    distance: Dim | None
    row: SSAValue | None = None


def emit_scan(lowering: Lowering, op: Scan, chunked: list[Group]) -> None:
    """A loop over time; groups that only feed its sequences are computed chunk by chunk.

    Before:

        v1 = matmul(x, w)
        for t in 0..T, h from h:
            v2 = matmul(h[t-1], u)
            v3 = add(v2, v1[t])
            v4 = tanh(v3)
            h[t] = v4
            v5[t] = v4
        return v5

    After:

        output y: 4*T*N, ring of 2, stand-in of 8*N
        scratch y.matmul: 4*N + 768
        scratch packed: 20
        scratch packed.1: 24
        pack packed = w
        pack packed.1 = u
        for t in 0..T in chunks of t1, p from h:
            gemm i in t1, j in N, k in 4: y.matmul = x[3*N*i + 3*j + d + 3*N*t]·packed
            for t2 in t..t + t1, q from p:
                gemm i in N, j in 4: y[t2] = tanh(q·packed.1 + y.matmul[4*i + j - 4*N*t + 4*N*t2])
                q = y[t2]
            p = q
    """
    inits = [lowering.pointer(v) for v in op.inits]
    _lay_consts_out(lowering, op)
    sequences = [_sequence(lowering, y) if y.first_use else None for y in op.ys]
    homes = _homes(lowering, op, sequences)
    _clear_flags(lowering, op)
    if chunked:
        first, extent = lowering.fresh_index(), lowering.fresh_index()
        target, rows = _chunk_size(lowering, chunked, op.steps)
        ahead = Ahead(Dim.of(first), Dim.of(extent), target, rows)
        # The outer loop goes from chunk to chunk and carries the state between them.
        inner = Block(arg_types=[v.type for v in inits])
        lowering.builders.append(OpBuilder(InsertPoint.at_end(inner)))
        for group in _masks_first(chunked, op):
            _emit_ahead(lowering, group, ahead)
        steps = ahead.first, ahead.steps
        finals = _emit_steps(lowering, op, homes, sequences, list(inner.args), *steps)
        lowering.builder.insert(Yield(finals))
        lowering.builders.pop()
        chunk = (extent, target, rows)
        loop = kern.For(first, ZERO, op.steps, inits, inner, bool(op.reverse), chunk)
        finals = list(lowering.builder.insert(loop).finals)
    else:
        finals = _emit_steps(lowering, op, homes, sequences, inits, ZERO, op.steps)
    for result, buffer in zip(op.finals, finals, strict=True):
        lowering.places[result] = Placed.densely(buffer, dims_of(result))
    if op.is_limited:
        ends = dict[SSAValue | None, SSAValue](zip(op.groups[1], finals, strict=True))
        lowering.builder.insert(kern.Limit(ends[op.open]))


def _lay_consts_out(lowering: Lowering, op: Scan) -> None:
    """Copy what steps would read across its rows, element by element."""
    for arg, value in zip(op.groups[0], op.consts, strict=True):
        outer = value
        while outer in lowering.outer:
            outer, _ = lowering.outer[outer]
        # Each step would read it against its rows, element by element; one copy before the loop is
        # read along them in all steps.
        turned = isinstance(outer.owner, Transpose) and dims_of(outer)[-1] != 1
        if turned and all(isinstance(use.operation, Broadcast | Elementwise) for use in arg.uses):
            lowering.places[arg] = lowering.dense(value)


def _clear_flags(lowering: Lowering, op: Scan) -> None:
    """Behind a gate, bools of steps that do not run are false."""
    for y in op.ys:
        if op.gate is not None and y.first_use and dtype_of(y) == "i1":
            place, body = lowering.places[y], Block()
            no = Builder(body).fill(0, (), "i1")
            body.add_op(Yield([no]))
            lowering.builder.insert(
                kernels.Map(dims_of(y), [], [(place.buffer, place.access)], body)
            )


def _sequence(lowering: Lowering, y: SSAValue) -> Home:
    place = lowering.output_of.get(y) or set_apart(lowering, y) or lowering.scratch(y)
    lowering.places[y] = place
    return Home(place, distance(place, dims_of(y)))


def _homes(lowering: Lowering, op: Scan, sequences: list[Home | None]) -> list[Home]:
    """Where each carried value lives: in the sequence that shows it, or in a state of its own."""
    carry, rows = ([strip_units(v) for v in group] for group in op.yields)
    homes: list[Home] = []
    for value, final in zip(carry, op.finals, strict=True):
        pairs = zip(sequences, rows, strict=True)
        # A state is read as one dense row, which those of an output with its batch first are not.
        shown = [s for s, row in pairs if s and row == value and s.distance is not None]
        free = [s for s in shown if s not in homes]
        # A state that is shown as it is lives in the sequence that shows it: nothing is copied.
        # What a step hands on unchanged keeps its place in a state of its own.
        if free and value not in op.body.block.args:
            homes.append(free[0])
        else:
            size = product(dims_of(final))
            label = state_name(value, final)
            # Two rows: a product reads all of the old state while the new one is written.
            # `_set_rows` takes one back where no kernel does.
            place = lowering.declare(label, "state", dtype_of(final), [Dim.of(2), size])
            homes.append(Home(place, size))
    return homes


def _chunk_size(lowering: Lowering, groups: list[Group], steps: Dim) -> tuple[int, Dim]:
    """About how many rows to compute ahead so that they stay in cache, and rows a step.

    Where calls are limited there are no more than the loop can have of a batch of 1.
    """
    rows = product(max((g.dims[1:-1] for g in groups), key=len))
    # The target counts elements of 4 bytes, of which a double takes two.
    width = sum(_width(g) * (1 + (dtype_of(i.value) == "f64")) for g in groups for i in g.items)
    matrices = [g.product.b for g in groups if g.product is not None]
    sizes = [product(dims_of(m)) * lowering.weights.item_bytes(m) for m in matrices]
    weights = max((int(size) for size in sizes if size.is_static), default=0)
    target, most = lowering.target.rows_ahead(width, weights), _most_steps(lowering, steps)
    return target if most is None else max(1, min(target, most)), rows


def _most_steps(lowering: Lowering, steps: Dim) -> int | None:
    """As many steps as a loop over time can have, if calls are limited; None of other loops."""
    # Of 10 - T the longest call would not have the most.
    grows = all(factor > 0 for _, factor in steps.terms) and not steps.atoms
    if lowering.max_steps is None or steps.symbols != frozenset({TIME}) or not grows:
        return None
    return int(steps.substitute({TIME: lowering.max_steps}))


def _width(group: Group) -> int:
    return int(group.dims[-1]) if group.dims[-1].is_static else 64


def _masks_first(groups: list[Group], scan: Scan) -> list[Group]:
    """What tells rows apart is known before what has rows; the others' order stays."""
    args, xs = list(scan.groups[2]), list(scan.xs)
    masks = {xs[args.index(mask)] for mask in row_masks(scan)}
    return sorted(groups, key=lambda g: g.level > 0 or masks.isdisjoint(i.value for i in g.items))


def _emit_ahead(lowering: Lowering, group: Group, ahead: Ahead) -> None:
    """A chunk's worth of a group; its buffers hold one chunk, its places count from time 0."""
    outs: list[tuple[SSAValue, Placed]] = []
    for item in group.items:
        room = ahead.room(product(dims_of(item.value)[1:]))
        place = lowering.scratch(item.value, [room])
        outs.append((item.value, Placed.densely(place.buffer, dims_of(item.value))))
    compute.emit(lowering, group.product, outs, group.dims, ahead)
    for value, place in outs:
        strides = place.access.strides
        lowering.places[value] = Placed(place.buffer, Access(-strides[0] * ahead.first, strides))


def _emit_steps(
    lowering: Lowering,
    op: Scan,
    homes: list[Home],
    sequences: list[Home | None],
    inits: list[SSAValue],
    first: Dim,
    count: Dim,
) -> list[SSAValue]:
    """The loop over single steps; returns the buffers of the last state."""
    index = lowering.fresh_index()
    body = Block(arg_types=[v.type for v in inits])
    lowering.builders.append(OpBuilder(InsertPoint.at_end(body)))
    consts, carry, rows = op.groups
    fixed = [pair for pair in zip(consts, op.consts, strict=True) if pair[0] not in lowering.places]
    lowering.outer.update({a: (v, None) for a, v in fixed})
    lowering.outer.update({a: (v, Dim.of(index)) for a, v in zip(rows, op.xs, strict=True)})
    for argument, buffer in zip(carry, body.args, strict=True):
        lowering.places[argument] = Placed.densely(buffer, dims_of(argument))
    if op.open is not None:
        flag = lowering.pointer(op.open)
        lowering.builder.insert(kern.Gate(flag, op.open in carry))
    finals = _emit_body(lowering, op, homes, sequences, Dim.of(index))
    # A single step reads the state where it starts.
    is_short = _most_steps(lowering, op.steps) == 1
    skips = op.open is not None and op.open not in carry
    for home, value, buffer in zip(homes, carry, body.args, strict=True):
        ring = _ring_of(home)
        if ring is None:
            continue
        one_does = is_short or _in_place(home, buffer)
        if skips and not one_does:
            _read_copy(lowering, body, buffer, dims_of(value))
            one_does = True
        _set_rows(ring, home, 1 if one_does else 2)
    lowering.builder.insert(Yield(finals))
    lowering.builders.pop()
    loop = kern.For(index, first, count, inits, body, bool(op.reverse))
    return list(lowering.builder.insert(loop).finals)


def _emit_body(
    lowering: Lowering, op: Scan, homes: list[Home], sequences: list[Home | None], t: Dim
) -> list[SSAValue]:
    """One step: every new state and row of ys goes to its place."""
    carry, rows = op.yields
    shown = [(v, s) for v, s in zip(rows, sequences, strict=True) if s and s not in homes]
    live_out: list[Item] = []
    for yielded, home in [*zip(carry, homes, strict=True), *shown]:
        value = strip_units(yielded)
        if home.distance is None:
            first, *strides = home.place.access.strides
            row = Placed(home.place.buffer, Access(first * t, tuple(strides)))
            live_out.append(Item(value, row.with_units_elsewhere(dims_of(yielded), dims_of(value))))
            continue
        home.row = lowering.builder.insert(kern.Row(home.place.buffer, t, home.distance)).y
        dest = Placed.densely(home.row, dims_of(value))
        if not lowering.direct(value, dest):
            live_out.append(Item(value, dest))
    lowering.lower_block(op.body.block, live_out)
    return [home.row for home in homes if home.row]


def _read_copy(lowering: Lowering, body: Block, previous: SSAValue, dims: Sequence[Dim]) -> None:
    """Let a step read a copy of the state, whose place the next one takes.

    Where steps are skipped, the state may be in either of two rows, also in that of the next one.
    """
    size, gate = [product(dims)], next(op for op in body.ops if isinstance(op, kern.Gate))
    copy = lowering.declare("state", "scratch", buffer_dtype(previous), size)
    for use in list(previous.uses):
        if not isinstance(use.operation, Yield):
            use.operation.operands[use.index] = copy.buffer
    body.insert_op_after(copying(size, Placed.densely(previous, size), copy), gate)


def _ring_of(home: Home) -> Buffer | None:
    """The buffer of a state that has fewer rows than there are steps, or may have."""
    buffer = home.place.buffer.owner
    return buffer if isinstance(buffer, Buffer) and buffer.role.data != "scratch" else None


def _set_rows(buffer: Buffer, home: Home, rows: int) -> None:
    """Keep as many rows of a state: one where it is replaced in place, else two."""
    buffer.properties["ring"] = IntAttr(rows)
    if buffer.role.data == "state":
        assert home.distance is not None
        buffer.properties["size"] = dim_attr(home.distance * rows)


def _in_place(home: Home, previous: SSAValue) -> bool:
    """Whether the state is read only where, and by the kernel by which, it is replaced."""
    for use in previous.uses:
        kernel = use.operation
        if isinstance(kernel, ContinuedSum):
            # A sum that starts at the state and ends in it reads each element before it writes it.
            if use.index != _init_index(kernel) or home.row not in kernel.outs:
                return False
            continue
        if not isinstance(kernel, kernels.Map | kernels.Gemm):
            return False
        read, row = kernel.read_at(use.index), home.row
        places = () if row is None else (u.index for u in row.uses if u.operation is kernel)
        if read is None or all(kernel.written_at(place) != read for place in places):
            return False
    return True


def _init_index(kernel: ContinuedSum) -> int | None:
    """The number of the operand that a sum starts at; each sum reads its own element alone."""
    operands = list(kernel.operands)
    starts = [i for i, v in enumerate(operands) if v is kernel.init]
    return starts[0] if len(starts) == 1 else None
