"""Makes a scan's groups as small as they can be: what is dead, equal or invariant leaves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim, get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose, squeezed
from rnncc.ir.ops.source import Constant, Fill, Iota, Size
from rnncc.ir.rewriting import (
    Carry,
    Loop,
    LoopSequence,
    NetPass,
    Yielded,
    blocks_of,
    dce,
    is_used,
    run_all,
    scans_of,
)
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.batching import spread
from rnncc.passes.cleanup.rows_by_number import find_rows
from rnncc.records import record

CHEAP = (Constant, Fill, Iota, Size, Broadcast)
"""Made from nothing, or from less: a step computes them faster than it reads them. `Hoist` leaves
them in bodies, to which they are moved here: else the two would undo each other."""


@record
class SimplifyScans(NetPass):
    """Per scan, innermost first:

    - ys nobody uses and carries that neither a used final nor a live row needs are dropped;
    - a carry that never changes, and a sequence of equal rows, become consts;
    - a row of a const whose number is that of the step, or lies a number behind it, is a row of xs;
    - equal consts, xs, carries and ys are merged; those nobody uses are dropped;
    - the last row of ys that are states is the final state, whose gradient is no sequence of zeros
      before a row;
    - consts that are cheap to make (fills, broadcasts, ...) are made in the body;
    - leading axes of size 1 of carries and rows stay outside;
    - states that steps reshape first and last are carried, and yielded, in the shape between.

    Before:

        for t in 0..T, h from h, c from c:
            v1 = mul(x[t], c[t-1])
            v2 = add(v1, h[t-1])
            h[t] = v2
            c[t] = c[t-1]
        return h[T-1]

    After:

        for t in 0..T, h from h:
            v1 = mul(x[t], c)
            v2 = add(v1, h[t-1])
            h[t] = v2
        return h[T-1]
    """

    name = "rnn-simplify-scans"

    def rewrite(self, net: Net) -> bool:
        changed = False
        for scan in scans_of(net.body.block):
            if not any(is_used(result) for result in scan.results):
                continue  # dead: `dce` removes all of it
            loop = Loop(scan)
            steps = (_drop_dead, _find_invariants, find_rows, _merge, _take_finals, _sink)
            steps = (*steps, _unflatten, _squeeze, Loop.drop_unused)
            if run_all(step(loop) for step in steps):
                loop.rebuild()
                changed = True
        return changed


def drop_dead(block: Block) -> None:
    """Drop what nobody needs of the scans in a block, and of the block itself."""
    dce(block)
    for scan in scans_of(block):
        loop = Loop(scan)
        if run_all((_drop_dead(loop), loop.drop_unused())):
            loop.rebuild()
    for inner in blocks_of(block):
        dce(inner)


def _drop_dead(loop: Loop) -> bool:
    ys = [y for y in loop.ys if _is_live(y.result)]
    # A gate that nothing reads still says how often the loop runs.
    live = [c for c in loop.carries if _is_live(c.final) or c.arg is loop.gate]
    needed = _needed(loop, [*(c.arg for c in live), *(y.row for y in ys)])
    carries = [c for c in loop.carries if c.arg in needed]
    if len(carries) == len(loop.carries) and len(ys) == len(loop.ys):
        return False
    loop.ys, loop.carries = ys, carries
    _trim(loop, needed)
    return True


def _is_live(result: SSAValue | None) -> bool:
    return result is not None and is_used(result)


def _trim(loop: Loop, needed: set[SSAValue]) -> None:
    """Erase what only the dropped results needed, so that dropped carries have no uses."""
    loop.yields.operands = [*(c.next for c in loop.carries), *(y.row for y in loop.ys)]
    for op in reversed(list(loop.body.ops)):
        if not isinstance(op, Yield) and not needed.intersection(op.results):
            op.detach()
            op.erase()


def _needed(loop: Loop, values: Iterable[SSAValue]) -> set[SSAValue]:
    """Everything in the body that some values are computed from, themselves included."""
    needed, work = set[SSAValue](), list(values)
    # A carry that is needed needs what its next value is made of.
    nexts = {c.arg: c.next for c in loop.carries}
    while work:
        value = work.pop()
        if value not in needed:
            needed.add(value)
            if not isinstance(value.owner, Block):
                work += value.owner.operands
            elif value in nexts:
                work.append(nexts[value])
    return needed


def _find_invariants(loop: Loop) -> bool:
    """Carries that never change and sequences of equal rows become consts."""
    outer = {const.arg: const.outer for const in loop.consts}
    # Unchanged, or set in each step to the const that it starts as.
    still = [c for c in loop.carries if c.next is c.arg or outer.get(c.next) is c.init]
    still = [c for c in still if c.arg is not loop.gate]  # never ends by itself
    loop.carries = [c for c in loop.carries if c not in still]
    for carry in still:
        loop.swap(carry.arg, loop.add_const(carry.init))
        if carry.final is not None:
            carry.final.replace_all_uses_with(carry.init)
    equal = [x for x in loop.xs if x.arg is not loop.gate and _is_one_row(loop, x)]
    loop.xs = [x for x in loop.xs if x not in equal]
    return bool(still or equal)


def _is_one_row(loop: Loop, x: LoopSequence) -> bool:
    """Whether all rows are equal; that row is then computed in the body."""
    owner, b = x.outer.owner, Builder.before(loop.first)
    if isinstance(owner, Fill):
        row = b.fill(owner.value.value.data, dims_of(x.arg), dtype_of(x.arg))
    elif isinstance(owner, Broadcast) and 0 not in get_ints(owner.axes):
        axes = [axis - 1 for axis in get_ints(owner.axes)]
        row = b.broadcast(loop.add_const(owner.x), dims_of(x.arg), axes)
    else:
        return False
    loop.swap(x.arg, row)
    return True


def _merge(loop: Loop) -> bool:
    """One entry for each distinct value."""
    before = _size(loop)
    consts = {c.outer: c for c in reversed(loop.consts)}
    for const in loop.consts:
        loop.swap(const.arg, consts[const.outer].arg)
    loop.consts = [c for c in loop.consts if consts[c.outer] is c]
    xs = {x.outer: x for x in reversed(loop.xs)}
    for x in loop.xs:
        loop.swap(x.arg, xs[x.outer].arg)
    loop.xs = [x for x in loop.xs if xs[x.outer] is x]
    carries = {(c.init, c.next): c for c in reversed(loop.carries)}
    same = [(c, carries[c.init, c.next]) for c in loop.carries]
    loop.carries = [c for c, first in same if first is c]
    for carry, first in same:
        loop.swap(carry.arg, first.arg)
        if carry.final is not None and first.final is not None:
            carry.final.replace_all_uses_with(first.final)
    _merge_ys(loop)
    return before != _size(loop)


def _merge_ys(loop: Loop) -> None:
    """Equal rows are yielded once; rows of xs exist already, and consts are broadcast.

    Behind a gate bools are left alone: they are false in steps that do not run, a broadcast is not.
    """
    rows = {y.row for y in loop.ys if loop.gate is None or dtype_of(y.row) != "i1"}
    outside, kept = {x.arg: x.outer for x in loop.xs if x.arg in rows}, list[Yielded]()
    for const in (c for c in loop.consts if c.arg in rows):
        outside[const.arg] = spread(Builder.before(loop.scan), const.outer, loop.steps)
    for y in loop.ys:
        assert y.result is not None
        if y.row in outside:
            y.result.replace_all_uses_with(outside[y.row])
        else:
            outside[y.row] = y.result
            kept.append(y)
    loop.ys = kept


def _take_finals(loop: Loop) -> bool:
    """Read the final state where the last row of states is read."""
    if loop.gate is not None:
        return False  # rows of steps that do not run are zeros
    finals = {c.next: c.final for c in loop.carries}
    last = Dim.of(0) if bool(loop.scan.reverse) else loop.steps - 1
    changed = False
    for y in loop.ys:
        if y.result is not None and (final := finals.get(y.row)) is not None:
            for op, perms in _rows_at(last, y.result):
                b = Builder.before(op)
                row = b.reshape(final, (1, *dims_of(final)))
                for perm in perms:
                    row = b.transpose(row, perm)
                op.y.replace_all_uses_with(row)
                changed = True
    return changed


def _rows_at(number: Dim, ys: SSAValue) -> Iterator[tuple[Slice, list[tuple[int, ...]]]]:
    """The used slices of a row of a sequence, and how what they are of was transposed before."""
    work: list[tuple[SSAValue, int, list[tuple[int, ...]]]] = [(ys, 0, [])]
    while work:
        x, axis, perms = work.pop()
        for op in _users_of(x):
            match op:
                case Transpose():
                    perm = get_ints(op.perm)
                    work.append((op.y, perm.index(axis), [*perms, perm]))
                case Slice() if op.axis.data == axis and is_used(op.y):
                    if get_dim(op.start) == number and get_dim(op.size) == 1:
                        yield op, perms
                case _:
                    pass


def _size(loop: Loop) -> int:
    return len(loop.consts) + len(loop.carries) + len(loop.xs) + len(loop.ys)


def _sink(loop: Loop) -> bool:
    """Make cheap consts in the body."""
    cheap = [c for c in loop.consts if isinstance(c.outer.owner, CHEAP) and is_used(c.arg)]
    # A gate has to be an argument of its body.
    cheap = [c for c in cheap if c.arg is not loop.gate]
    for const in cheap:
        owner = const.outer.owner
        assert isinstance(owner, CHEAP)
        clone = owner.clone({x: loop.add_const(x) for x in owner.operands})
        loop.body.insert_op_before(clone, loop.first)
        loop.swap(const.arg, clone.y)
    return bool(cheap)


def _squeeze(loop: Loop) -> bool:
    """Carries and rows of shape [1, N, H] become [N, H], reshaped where they are used."""
    changed, outside = False, Builder.before(loop.scan)
    for part in (*loop.carries, *loop.xs):
        old = dims_of(part.arg)
        new = _without_units(old)
        if new == old:
            continue
        arg = loop.add_arg(tensor(new, dtype_of(part.arg)))
        loop.swap(part.arg, Builder.before(loop.first).reshape(arg, old))
        part.arg = arg
        if isinstance(part, Carry):
            part.init = outside.reshape(part.init, new)
            part.next = Builder.before(loop.yields).reshape(part.next, new)
        else:
            part.outer = outside.reshape(part.outer, [loop.steps, *new])
        changed = True
    for y in loop.ys:
        new = _without_units(dims_of(y.row))
        changed |= new != dims_of(y.row)
        y.row = Builder.before(loop.yields).reshape(y.row, new)
    return changed


def _unflatten(loop: Loop) -> bool:
    """Passes see axes of states that a step computes with, not of what it makes of them at its end.

    Axes of size 1 are left to `_squeeze`.
    """
    changed, outside = False, Builder.before(loop.scan)
    for carry in loop.carries:
        shape, flat = _shape_in_steps(loop, carry), carry.next
        if shape is None:
            continue
        arg = loop.add_arg(tensor(shape, dtype_of(carry.arg)))
        loop.swap(carry.arg, Builder.before(loop.first).reshape(arg, dims_of(carry.arg)))
        carry.arg, carry.init = arg, outside.reshape(carry.init, shape)
        carry.next = Builder.before(loop.yields).reshape(flat, shape)
        for y in loop.ys:
            y.row = carry.next if y.row is flat else y.row
        changed = True
    return changed


def _shape_in_steps(loop: Loop, carry: Carry) -> tuple[Dim, ...] | None:
    """What a step reshapes a state to, and computes the next one in; None where it does neither.

    `Canonicalize` moves reshapes up: elementwise ops before the last one have the carried shape.
    """
    shapes, work, joined = set[tuple[Dim, ...]](), [carry.next], dict[Operation, SSAValue]()
    while work:
        value = work.pop()
        match value.owner:
            case Reshape() as op if not op.only_units:
                shapes.add(dims_of(op.x))
            case Elementwise() as op:
                work += () if op in joined else op.operands
                joined[op] = value
            case Fill() | Block():
                pass
            case _:
                return None
    users = _users_of(carry.arg)
    for value in joined.values():
        users += [op for op in _users_of(value) if value is not carry.next or op is not loop.yields]
    shared = sum(c.next is carry.next for c in loop.carries) > 1
    if len(shapes) != 1 or (joined and shared):
        return None
    [shape] = shapes
    if not all(op in joined or _makes(op, shape) for op in users) or product(shape) == 0:
        return None
    # Always more axes: else another round might undo it.
    return shape if len(squeezed(shape)) > len(squeezed(dims_of(carry.arg))) else None


def _makes(op: Operation, shape: tuple[Dim, ...]) -> bool:
    return isinstance(op, Reshape) and dims_of(op.y) == shape


def _users_of(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses]


def _without_units(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Without leading axes of size 1; two axes stay, rows and columns of a product."""
    while len(dims) > 2 and dims[0] == 1:
        dims = dims[1:]
    return dims
