"""The order of a state's axes: the longest innermost, where a step sums over a short one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dims
from rnncc.ir.ops.base import Elementwise, RnnOp
from rnncc.ir.ops.control import Net, Scan, Yield
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Broadcast, Reshape, inverse
from rnncc.ir.ops.source import Fill
from rnncc.ir.rewriting import Carry, Loop, NetPass, run_all, scans_of
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.passes.loops.light_loops import WIDE, is_light
from rnncc.records import record


@record
class TurnStates(NetPass):
    """A light loop's state has its longest axis innermost, where a step sums over the last one.

    Vectors then run along the long axis, and a sum over a few numbers a unit is one of vectors,
    element by element, rather than one across each vector. What the step computes of that shape
    takes the state's order; what it reads of other shapes is broadcast to that. Only where no
    sequence has that shape, as it would be read or written in another order.

    Before:

        for t in 0..T, h from h:
            v1 = broadcast(x[t], dims=[N, 64, 2], axes=[0, 1])
            v2 = mul(h[t-1], v1)
            v3 = reduce(v2, kind=sum, axes=[2])
            h[t] = v2
            v4[t] = v3
        return v4

    After:

        v1 = transpose(h, perm=[0, 2, 1])
        for t in 0..T, v1 from v1:
            v2 = broadcast(x[t], dims=[N, 2, 64], axes=[0, 2])
            v3 = mul(v1[t-1], v2)
            v4 = reduce(v3, kind=sum, axes=[1])
            v1[t] = v3
            v5[t] = v4
        return v5
    """

    name = "rnn-turn-states"

    def rewrite(self, net: Net) -> bool:
        return run_all(_rewrite(scan) for scan in scans_of(net.body.block))


def _rewrite(scan: Scan) -> bool:
    kinds = kinds_of(scan)
    if scan.gate is not None or not is_light(scan, kinds):
        return False
    squeezed = _squeezed(scan)
    for dims in dict.fromkeys(map(dims_of, (*scan.groups[1], *(op.y for op in squeezed)))):
        perm = _order(dims)
        if perm is not None and _gains(scan, dims) and _can_turn(scan, dims, squeezed):
            scan = _unsqueezed(scan, [op for op in squeezed if dims_of(op.y) == dims])
            _Turn(scan, dims, perm, kinds_of(scan)).run()
            return True
    return False


def _squeezed(scan: Scan) -> dict[Reshape, Reshape]:
    """Where a step gives states axes of one element and drops these again, as of a single sequence.

    `Simplify` carries states without such axes.
    """
    squeezed = dict[Reshape, Reshape]()
    for arg, following in zip(scan.groups[1], scan.yields[0], strict=True):
        uses, last = [use.operation for use in arg.uses], following.owner
        first = uses[0] if len(uses) == 1 else None
        if not isinstance(first, Reshape) or not isinstance(last, Reshape):
            continue
        if first.only_units and dims_of(first.y) == dims_of(last.x):
            squeezed[first] = last
    return squeezed


def _unsqueezed(scan: Scan, reshapes: Sequence[Reshape]) -> Scan:
    """The loop with states carried as steps compute with them."""
    loop, outside = Loop(scan), Builder.before(scan)
    for op in reshapes:
        [carry] = [carry for carry in loop.carries if carry.arg is op.x]
        assert isinstance(carry.next.owner, Reshape)
        carry.init = outside.reshape(carry.init, dims_of(op.y))
        carry.next = carry.next.owner.x
        carry.arg = loop.add_arg(op.y.type)
        loop.swap(op.y, carry.arg)
        op.detach()
        op.erase()
    return loop.rebuild() if reshapes else scan


def _order(dims: Dims) -> tuple[int, ...] | None:
    """The axes of a state as it should lie: the longest one and the last change places."""
    *others, last = [int(d) if d.is_static else 0 for d in dims] or [0]
    if not others or not 0 < last < WIDE or max(others) < 2 * last:
        return None  # the last axis fills vectors itself, or none does so much better
    perm, longest = list(range(len(dims))), others.index(max(others))
    perm[longest], perm[-1] = perm[-1], perm[longest]
    return tuple(perm)


def _gains(scan: Scan, dims: Dims) -> bool:
    """Whether a step sums over the last axis, which vectors would run along."""
    sums = (op for op in scan.body.block.ops if isinstance(op, Reduce) and dims_of(op.x) == dims)
    return any(len(dims) - 1 in get_ints(op.axes) for op in sums)


def _can_turn(scan: Scan, dims: Dims, squeezed: Mapping[Reshape, Reshape]) -> bool:
    """Whether all that has the state's shape, or reads it, can be had in another order.

    Args:
        squeezed: what goes as the state is carried as steps compute with it.
    """
    # A sequence of that shape would be read or written across its rows in each step, which costs
    # more than the sums gain.
    if any(dims_of(v) == dims for v in (*scan.groups[2], *scan.yields[1])):
        return False
    for op in scan.body.block.ops:
        if op in squeezed or op in squeezed.values():
            continue
        makes = any(dims_of(v) == dims for v in op.results)
        reads = any(dims_of(v) == dims for v in op.operands)
        # Others would need the state transposed in every step, which is what this is to save.
        if makes and not isinstance(op, Elementwise | Broadcast | Fill):
            return False
        if reads and not makes and not isinstance(op, Reduce | Yield):
            return False
    return True


class _Turn:
    """The rewriting of one loop: `turned` are the values of the state's shape in the new order."""

    def __init__(
        self, scan: Scan, dims: Dims, perm: Sequence[int], kinds: dict[SSAValue, Kind]
    ) -> None:
        self.loop, self.dims, self.perm, self.kinds = Loop(scan), dims, perm, kinds
        self.new_dims = tuple(dims[axis] for axis in perm)
        self.turned: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        loop = self.loop
        carried = {i: c for i, c in enumerate(loop.carries) if dims_of(c.arg) == self.dims}
        for carry in carried.values():
            self.turned[carry.arg] = loop.add_arg(tensor(self.new_dims, dtype_of(carry.arg)))
        for const in [c for c in loop.consts if dims_of(c.arg) == self.dims]:
            outer = Builder.before(loop.scan).transpose(const.outer, self.perm)
            self.turned[const.arg] = loop.add_const(outer)
        for op in list(loop.body.ops):
            self._rewrite(op)
        outside = Builder.before(loop.scan)
        new = {
            i: Carry(outside.transpose(c.init, self.perm), self.turned[c.arg], self.turned[c.next])
            for i, c in carried.items()
        }
        loop.exchange(new, self._final)

    def _final(self, scan: Scan, number: int, last: SSAValue) -> SSAValue:
        assert scan.next_op is not None
        return Builder.before(scan.next_op).transpose(last, inverse(tuple(self.perm)))

    def _rewrite(self, op: Operation) -> None:
        if isinstance(op, Yield) or not isinstance(op, RnnOp):
            return
        if dims_of(op.y) == self.dims:
            self.turned[op.y] = self._turned(op)
            self.turned[op.y].name_hint = op.y.name_hint
        elif isinstance(op, Reduce) and dims_of(op.x) == self.dims:
            self.loop.swap(op.y, self._reduced(op))

    def _turned(self, op: RnnOp) -> SSAValue:
        b = Builder.before(op)
        match op:
            case Fill():
                return b.fill(op.value.value.data, self.new_dims, dtype_of(op.y))
            case Broadcast():
                return self._broadcast(b, op)
            case _:
                return b.like(op, [self.turned[v] for v in op.operands])

    def _broadcast(self, b: Builder, op: Broadcast) -> SSAValue:
        places = [self.perm.index(axis) for axis in get_ints(op.axes)]
        order = sorted(range(len(places)), key=lambda i: places[i])
        return b.broadcast(self._transposed(b, op.x, order), self.new_dims, sorted(places))

    def _transposed(self, b: Builder, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """A value with its axes in another order; of a const, made outside."""
        outer = next((c.outer for c in self.loop.consts if c.arg is value), None)
        if outer is None or list(order) == sorted(order):
            return b.transpose(value, order)
        return self.loop.add_const(Builder.before(self.loop.scan).transpose(outer, order))

    def _reduced(self, op: Reduce) -> SSAValue:
        b = Builder.before(op)
        axes = [self.perm.index(axis) for axis in get_ints(op.axes)]
        reduced = b.reduce(op.kind.data, self.turned[op.x], sorted(axes))
        kept = [self.perm.index(axis) for axis in op.kept]
        return b.transpose(reduced, [sorted(kept).index(axis) for axis in kept])
