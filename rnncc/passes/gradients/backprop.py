"""Reverse mode over straight-line code and scans: the work of `differentiate`.

The gradient of a scan is a scan the other way, behind the same gate. What its body uses of the
forward step comes from outside: consts as consts, rows of xs as the same xs, all else as sequences
that the forward scan yields for it. An input of the backward scan that is a y of the forward one
is a **saved value**.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.elementwise import MultiplyAdd
from rnncc.ir.order import post_order
from rnncc.ir.rewriting import Loop, LoopSequence, Yielded, dce
from rnncc.ir.types import dims_of
from rnncc.passes.gradients.concat_slice_grads import concat_slice_grads
from rnncc.records import record

Map = dict[SSAValue, SSAValue]
Values = Sequence[SSAValue]


class Backprop:
    """The gradients of one block's values, built with `b`; only of `active` values."""

    def __init__(self, b: Builder, active: set[SSAValue]) -> None:
        self._b, self._active = b, active
        self._shares: dict[SSAValue, list[SSAValue]] = {}

    def add(self, value: SSAValue, gradient: SSAValue | None) -> None:
        """Add one use's share of a value's gradient."""
        if gradient is not None and value in self._active:
            self._shares.setdefault(value, []).append(gradient)

    def take(self, value: SSAValue) -> SSAValue | None:
        """The sum of all shares; None where there is none."""
        shares = concat_slice_grads(self._b, self._shares.pop(value, []))
        if not shares:
            return None
        total, *others = shares
        for share in others:
            total = self._b.add(total, share)
        return total

    def take_or_zeros(self, value: SSAValue) -> SSAValue:
        """The sum of all shares; zeros where there is none."""
        total = self.take(value)
        return self._b.full_like(value, 0.0) if total is None else total

    def run(self, ops: Iterable[Operation]) -> None:
        """Carry the gradients from the results of ops, in their order, back to what they read."""
        for op in reversed(list(ops)):
            self._b.loc = Builder.before(op).loc
            if isinstance(op, Scan):
                self._through_scan(op)
            elif isinstance(op, RnnOp) and op.operands:
                dy = self.take(op.y)
                if dy is not None:
                    for value, share in self._shares_of(op, dy):
                        self.add(value, share)

    def _shares_of(self, op: RnnOp, dy: SSAValue) -> Iterable[tuple[SSAValue, SSAValue | None]]:
        """What each value that an op reads gets of the gradient of its result."""
        if isinstance(op, MultiplyAdd) and (product := op.product) in self._active:
            # With what others who read the product give it, so that factors get theirs at once.
            assert product is not None
            of_product, of_c = op.shares(self._b, dy)
            return [(product, of_product), (op.c, of_c)]
        return zip(op.operands, op.vjp(self._b, dy), strict=True)

    def _through_scan(self, scan: Scan) -> None:
        """The carry's gradient runs back; the gradients of consts accumulate in the carry."""
        parts = _Parts.of(scan, self._active)
        gradients = [(row, self.take(y)) for row, y in zip(scan.yields[1], scan.ys, strict=True)]
        dys = [(row, dy) for row, dy in gradients if dy is not None]
        ends = [self.take_or_zeros(final) for final in parts.finals]
        sums = [self._begin_sum(scan, const) for const in parts.consts]
        targets = [*parts.inits, *parts.consts, *parts.xs]
        if not targets:
            return  # nothing active goes into the loop
        inits, xs = [*ends, *sums], [dy for _, dy in dys]
        body = self._step_back(scan, parts, [row for row, _ in dys])
        backward = Scan([], inits, xs, body, scan.steps, not bool(scan.reverse))
        self._b.place(backward)
        backward = _connect(scan, backward)
        rows = [_where_it_ran(self._b, backward, y) for y in backward.ys]
        for value, gradient in zip(targets, [*backward.finals, *rows], strict=True):
            self.add(value, gradient)

    def _begin_sum(self, scan: Scan, const: SSAValue) -> SSAValue:
        """The start of a const's gradient, which behind a gate may be all there is."""
        # A conditional that does not run then hands the total on as it is; from zeros it would give
        # a gradient as large as the const, to be added.
        if scan.gate is not None:
            return self.take_or_zeros(const)
        return self._b.full_like(const, 0.0)

    def _step_back(self, scan: Scan, parts: _Parts, rows: Values) -> Block:
        """The gradient of one step; it still names values of the forward body."""
        seeds = [*parts.nexts, *parts.consts, *rows]
        block = Block(arg_types=[value.type for value in seeds])
        split, end = len(parts.nexts), len(parts.nexts) + len(parts.consts)
        carry, sums, dys = block.args[:split], block.args[split:end], block.args[end:]
        b = Builder(block, self._b.loc)
        inner = Backprop(b, self._active)
        for value, gradient in zip([*parts.nexts, *rows], [*carry, *dys], strict=True):
            inner.add(value, gradient)
        inner.run(scan.body.block.ops)
        before = [inner.take_or_zeros(arg) for arg in parts.carry_args]
        shares = [inner.take_or_zeros(arg) for arg in parts.const_args]
        gathered = [b.add(total, share) for total, share in zip(sums, shares, strict=True)]
        ys = [inner.take_or_zeros(arg) for arg in parts.row_args]
        block.add_op(Yield([*before, *gathered, *ys]))
        return block


@record
class _Parts:
    """The parts of a scan that have gradients; those of one group correspond by position."""

    consts: Values
    const_args: Values
    inits: Values
    carry_args: Values
    nexts: Values
    finals: Values
    xs: Values
    row_args: Values

    @staticmethod
    def of(scan: Scan, active: set[SSAValue]) -> _Parts:
        fixed, carried, read = ([v in active for v in group] for group in scan.groups)
        const_args, carry_args, row_args = scan.groups
        return _Parts(
            consts=_only(scan.consts, fixed),
            const_args=_only(const_args, fixed),
            inits=_only(scan.inits, carried),
            carry_args=_only(carry_args, carried),
            nexts=_only(scan.yields[0], carried),
            finals=_only(scan.finals, carried),
            xs=_only(scan.xs, read),
            row_args=_only(row_args, read),
        )


def _only(values: Values, chosen: list[bool]) -> list[SSAValue]:
    return [value for value, keep in zip(values, chosen, strict=True) if keep]


def _connect(forward: Scan, backward: Scan) -> Scan:
    """Hand a backward body what it uses of the forward one."""
    # First, so that nothing is saved for gradients that nobody asks for.
    dce(backward.body.block)
    used = _foreign(backward.body.block)
    # What consts alone decide is computed again once, at the start of backward's body, and hoisted
    # from there: no rows are kept of it.
    fixed = _invariant(forward)
    forward = _save(forward, [v for v in used if v not in fixed])
    loop, known = Loop(backward), dict[SSAValue, SSAValue]()
    forward = _share_gate(forward, loop)
    consts, _, rows = forward.groups
    outside = dict(zip(consts, forward.consts, strict=True))
    sequences = dict(zip(forward.yields[1], forward.ys, strict=True))
    sequences |= dict(zip(rows, forward.xs, strict=True))
    sequences |= _before_each_step(forward, _foreign(backward.body.block), sequences)
    first = loop.first
    for value in _foreign(loop.body):
        # A body may yield a const as it is; that is still a const, and no sequence of it has to be
        # kept.
        if value in sequences and value not in outside:
            known[value] = loop.add_arg(value.type)
            known[value].name_hint = value.name_hint
            loop.xs.append(LoopSequence(sequences[value], known[value]))
        else:
            _remake(loop, value, outside, known, first)
        value.replace_uses_with_if(known[value], lambda use: use.operation.parent is loop.body)
    return loop.rebuild()


def _share_gate(forward: Scan, backward: Loop) -> Scan:
    """Run the steps that ran; what a carried gate was is a sequence of flags."""
    consts, carry, _ = forward.groups
    gate = forward.open
    if gate is None:
        return forward
    if gate in consts:
        backward.gate = backward.add_const(forward.consts[consts.index(gate)])
        return forward
    if gate in carry:
        loop = Loop(forward)
        # a step that runs yields true; bools of steps that do not run are false by definition
        ran = Builder.before(loop.yields).fill(1, (), "i1")
        ran.name_hint = "ran"
        loop.ys.append(Yielded(ran))
        forward = loop.rebuild()
        flags = forward.sequence_of(ran)
    else:
        flags = dict(zip(forward.groups[2], forward.xs, strict=True))[gate]
    backward.gate = backward.add_arg(gate.type)
    backward.xs.append(LoopSequence(flags, backward.gate))
    return forward


def _where_it_ran(b: Builder, scan: Scan, y: SSAValue) -> SSAValue:
    """A sequence that a loop yields, with zeros in the rows of steps that did not run."""
    if scan.open is None:
        return y
    dims = dims_of(y)  # by a select, not a product: rows of steps that did not run may be NaN
    flags = scan.operands[scan.body.block.args.index(scan.open)]
    ran = b.broadcast(flags, dims, range(len(dims_of(flags))))
    return b.select(ran, y, b.full_like(y, 0.0))


def _foreign(body: Block) -> list[SSAValue]:
    """The values of other blocks that the ops of a body use."""
    operands = dict.fromkeys(value for op in body.ops for value in op.operands)
    return [
        v
        for v in operands
        if (v.owner if isinstance(v.owner, Block) else v.owner.parent) is not body
    ]


def _invariant(scan: Scan) -> set[SSAValue]:
    """The values of a body that consts alone decide: backward computes them again."""
    fixed = set(scan.groups[0])
    for op in scan.body.block.ops:
        if isinstance(op, RnnOp) and fixed.issuperset(op.operands):
            fixed.add(op.y)
    return fixed


def _save(forward: Scan, values: list[SSAValue]) -> Scan:
    """Yield some values of a body, beside what it yields already; for a carry, its next value.

    Where steps may be skipped, the carry itself: the step before may have yielded nothing.
    """
    loop = Loop(forward)
    # The state before a step is the one after the step before: a shift of rows that may be yielded
    # anyway, and the same rows for both readers.
    after = {} if forward.skips else {c.arg: c.next for c in loop.carries}
    available = {y.row for y in loop.ys} | {x.arg for x in loop.xs}
    needed = dict.fromkeys(after.get(v, v) for v in values if v not in available)
    new = [Yielded(value) for value in needed if value not in available]
    loop.ys += new
    return loop.rebuild() if new else forward


def _before_each_step(forward: Scan, used: Values, sequences: Map) -> Map:
    """The states before each step of a loop: those after each step, shifted."""
    assert forward.next_op is not None
    b = Builder.before(forward.next_op)
    parts = zip(forward.groups[1], forward.inits, forward.yields[0], strict=True)
    return {
        arg: b.shift(sequences[after], init, bool(forward.reverse))
        for arg, init, after in parts
        if arg in used and arg not in sequences
    }


def _remake(loop: Loop, value: SSAValue, outside: Map, known: Map, first: Operation) -> None:
    """Compute an invariant of the forward body at the start of the backward one."""

    def needs(inner: SSAValue) -> list[SSAValue]:
        if inner in outside:
            return []
        assert isinstance(inner.owner, RnnOp), "an invariant comes from consts"
        return [operand for operand in inner.owner.operands if operand not in known]

    for inner in () if value in known else post_order(value, needs):
        if inner in outside:
            known[inner] = loop.add_const(outside[inner])
            continue
        op = inner.owner
        assert isinstance(op, RnnOp)
        clone = op.clone({operand: known[operand] for operand in op.operands})
        loop.body.insert_op_before(clone, first)
        known[inner] = clone.y
