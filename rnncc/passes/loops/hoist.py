"""Moves work out of loops: once before the loop, or for all time steps at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.base import Cost, Elementwise, RnnOp, cost_of
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.shape import Reshape, Slice
from rnncc.ir.rewriting import Loop, LoopSequence, NetPass, dce, run_all, scans_of
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.batching import can_batch
from rnncc.passes.cleanup.simplify_scans import CHEAP
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.passes.loops.light_loops import is_light
from rnncc.passes.loops.materialise_outside import Outside
from rnncc.records import record

MASKS = (ew.Compare, ew.Select, ew.Logical, ew.Not)
"""Not worth a sequence of their own, unless they spare rows of a product: see `MaskRows`."""


@record
class Hoist(NetPass):
    """Work of a scan's body that does not depend on the carry leaves the loop, innermost first.

    - What depends on consts alone is computed once before it, whole loops too, but for sources and
      broadcasts, which are cheaper to repeat than to read.
    - What depends on consts and rows of xs is computed for all steps at once where it pays:
      products with a const matrix, exp, log, tanh, sigmoid, erf, and what leads to them; and
      arithmetic that is the only reader of such a result, or of a sequence computed outside for
      this loop alone: then the loop reads one sequence as before. What merely leads to hoisted
      work and is needed in the loop too (slices, masks) is repeated there.

    Behind a gate, nothing is done for steps that may not run: rows stay, and so does all of a
    conditional.

    Before:

        for t in 0..T, h from h:
            v1 = matmul(x[t], w)
            v2 = matmul(h[t-1], u)
            v3 = add(v1, v2)
            v4 = tanh(v3)
            h[t] = v4
        return h[T-1]

    After:

        v1 = matmul(x, w)
        for t in 0..T, h from h:
            v2 = matmul(h[t-1], u)
            v3 = add(v1[t], v2)
            v4 = tanh(v3)
            h[t] = v4
        return h[T-1]
    """

    name = "rnn-hoist"
    functions: bool = True
    """Whether exp, tanh and such pay by themselves; products always do."""

    def rewrite(self, net: Net) -> bool:
        return run_all(_hoist(scan, self.functions) for scan in scans_of(net.body.block))


def _hoist(scan: Scan, functions: bool) -> bool:
    # A conditional: its body may not run at all, and what is outside of it always does.
    if scan.gate is not None and scan.steps == 1:
        return False
    choice = _choose(scan, functions)
    if not choice.leaving:
        return False
    loop = Loop(scan)
    kinds, consts = choice.kinds, {c.arg: c.outer for c in loop.consts}
    outside = Outside(scan, loop.steps, kinds, consts, {x.arg: x.outer for x in loop.xs})
    hoisted = {
        value: outside.const(value) if kinds[value] == Kind.CONST else outside.all_steps(value)
        for value in choice.leaving
    }
    for value, outer in hoisted.items():
        if kinds[value] == Kind.CONST:
            loop.swap(value, loop.add_const(outer))
        else:
            arg = loop.add_arg(value.type)
            loop.xs.append(LoopSequence(outer, arg))
            loop.swap(value, arg)
    dce(loop.body)
    loop.drop_unused()
    loop.rebuild()
    return True


@dataclass
class _Choice:
    """What to hoist of a body: `leaving` are the values that the rest of the body reads."""

    kinds: dict[SSAValue, Kind]
    functions: bool
    gated: bool
    able: set[SSAValue] = field(default_factory=set[SSAValue])
    chosen: set[SSAValue] = field(default_factory=set[SSAValue])
    costly: set[SSAValue] = field(default_factory=set[SSAValue])
    leaving: list[SSAValue] = field(default_factory=list[SSAValue])


def _choose(scan: Scan, functions: bool) -> _Choice:
    kinds = kinds_of(scan)
    # A loop without products keeps its functions: ahead of it, they would be written to memory and
    # read again, which takes longer than the step that they are in.
    choice = _Choice(kinds, functions and not is_light(scan, kinds), scan.gate is not None)
    consts, _, rows = scan.groups
    # behind a gate rows stay: in bulk they would be computed for steps that do not run
    choice.able.update(consts if scan.gate is not None else (*consts, *rows))
    ready = {row for row, x in zip(rows, scan.xs, strict=True) if _is_made_for(x, scan)}
    ops, loops = list[RnnOp](), list[Scan]()
    for op in scan.body.block.ops:
        if isinstance(op, RnnOp):
            _mark_able(choice, op)
            ops.append(op)
        elif isinstance(op, Scan) and _is_invariant(choice, op):
            choice.able.update(op.results)
            choice.chosen.update(op.results)
            loops.append(op)
    for op in reversed(ops):
        _mark_chosen(choice, op)
    for op in ops:
        _follow(choice, op, ready)
    for op in ops:
        # what only leads to a costly value is computed outside for that, and not read from there
        worth = op.y in choice.costly or choice.kinds[op.y] == Kind.CONST
        if op.y in choice.chosen and worth:
            _leave(choice, op.y)
    for result in (result for op in loops for result in op.results):
        _leave(choice, result)
    return choice


def _leave(choice: _Choice, value: SSAValue) -> None:
    """Let a value be read from outside, if what stays reads it."""
    if not _users(value) <= _owners(choice.chosen):
        choice.leaving.append(value)


def _is_invariant(choice: _Choice, op: Scan) -> bool:
    """Whether a loop within the loop does the same at each step, and always runs to its end."""
    if choice.gated or op.gate is not None or not choice.able.issuperset(op.operands):
        return False
    return all(choice.kinds[operand] == Kind.CONST for operand in op.operands)


def _mark_able(choice: _Choice, op: RnnOp) -> None:
    kind = choice.kinds[op.y]
    if kind == Kind.STEP or not choice.able.issuperset(op.operands):
        return
    if choice.gated and op.CAN_FAIL:
        return  # the step that it belongs to might not run
    if kind == Kind.CONST or can_batch(op, choice.kinds):
        choice.able.add(op.y)


def _mark_chosen(choice: _Choice, op: RnnOp) -> None:
    """Users come first: an op is chosen for itself or for leading to one that is."""
    if op.y not in choice.able:
        return
    if choice.kinds[op.y] == Kind.CONST:
        # A fill or a broadcast in the body costs nothing; outside it would be a buffer that every
        # step reads.
        if not isinstance(op, CHEAP):
            choice.chosen.add(op.y)
        return
    # a product with a matrix that changes from step to step gains nothing from more rows
    product = isinstance(op, Matmul) and choice.kinds[op.b] == Kind.CONST
    pays = product or (choice.functions and cost_of(op) == Cost.FUNCTION)
    leads = any(isinstance(user, RnnOp) and user.y in choice.chosen for user in _users(op.y))
    if pays or leads:
        choice.chosen.add(op.y)
    if pays:
        choice.costly.add(op.y)


def _follow(choice: _Choice, op: RnnOp, ready: set[SSAValue]) -> None:
    """Operands come first: mark what costly values lead to, and choose their only readers."""
    rows = {v for v in op.operands if choice.kinds[v] == Kind.ROW}
    if not rows or op.y not in choice.able:
        return
    if op.y in choice.chosen:
        choice.costly.update([op.y] if rows & choice.costly else [])
        return
    arithmetic = isinstance(op, (Elementwise, Reduce)) and not isinstance(op, MASKS)
    if not arithmetic or dtype_of(op.y) not in FLOATS or not rows <= choice.costly | ready:
        return
    # with another reader left in the loop, the operand's sequence would be read there all the same,
    # and the result would be one more sequence that is written and read
    if all(_users(v) - _owners(choice.chosen) == {op} for v in rows):
        choice.chosen.add(op.y)
        choice.costly.add(op.y)


def _is_made_for(x: SSAValue, scan: Scan) -> bool:
    """Whether a sequence is the result of arithmetic that only this scan reads.

    Then its kernel can take in further arithmetic, before it writes the rows.
    """
    while _users(x) == {scan} or isinstance(x.owner, (Slice, Reshape)):
        if isinstance(x.owner, (Matmul, Elementwise)):
            return dtype_of(x) in FLOATS
        if not isinstance(x.owner, (Slice, Reshape)):
            return False
        x = x.owner.x
    # Its other readers read other slices, which are other slots of the product's kernel.
    return isinstance(x.owner, Matmul)


def _users(value: SSAValue) -> set[Operation]:
    return {use.operation for use in value.uses}


def _owners(values: Iterable[SSAValue]) -> set[Operation]:
    return {v.owner for v in values if not isinstance(v.owner, Block)}
