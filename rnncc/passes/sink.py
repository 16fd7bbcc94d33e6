"""Moves work behind loops: what steps merely add up, or only hand out, is done for all at once.

The mirror of `hoist`, made for the loops that `differentiate` writes: a weight's gradient becomes
one product over all steps' rows, and so does the gradient of an input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.ops.base import get_ints
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.ops.source import Fill
from rnncc.ir.rewriting import Loop, Made, NetPass, run_all, scans_of
from rnncc.ir.types import dims_of
from rnncc.passes.dependence import kinds_of
from rnncc.passes.outside import Outside
from rnncc.passes.sink_plan import VIEWS, plan_sink


@dataclass(frozen=True)
class Sink(NetPass):
    """Work of a scan's body that the loop does not wait for leaves it, innermost loops first.

    - W += Σ aᵀ·b, in a carry that nothing else reads → one product over T·N rows; a and b become
      sequences;
    - v += Σ over rows of r, likewise → one reduction, where all steps' r is there anyway;
    - y = a·W with a W that does not change, and what follows it, where nothing but ys comes of
      it → the same for all steps at once.

    Sums change their order. What the loop then still does for nothing is simplify's to drop.
    """

    name = "rnn-sink"

    def rewrite(self, net: Net) -> bool:
        return run_all(_sink(scan) for scan in scans_of(net.body.block))


def _sink(scan: Scan) -> bool:
    plan = plan_sink(scan)
    if not plan.sums and not plan.rows:
        return False
    loop = Loop(scan)
    there = {made.row for made in loop.ys} | {x.arg for x in loop.xs}
    loop.ys += [Made(value) for value in plan.leaving if value not in there]
    scan = loop.rebuild()
    consts, _, rows = scan.groups
    known = dict(zip(scan.yields[1], scan.ys, strict=True)) | dict(zip(rows, scan.xs, strict=True))
    for index in plan.rows:
        known.pop(scan.yields[1][index], None)
    assert scan.next_op is not None
    fixed = dict(zip(consts, scan.consts, strict=True))
    outside = Outside(scan.next_op, scan.steps, kinds_of(scan), fixed, known)
    for index, terms in plan.sums.items():
        total = _total(outside, scan.inits[index], terms)
        scan.finals[index].replace_all_uses_with(total)
    for index in plan.rows:
        every = outside.all_steps(scan.yields[1][index])
        scan.ys[index].replace_all_uses_with(every)
    return True


def _total(outside: Outside, init: SSAValue, terms: Sequence[SSAValue]) -> SSAValue:
    """The carry at the end: what it starts with and the sum of each term over all steps."""
    parts = [_summed(outside, term) for term in terms]
    if not (isinstance(init.owner, Fill) and init.owner.value.value.data == 0):
        parts.insert(0, init)
    total, *others = parts
    for part in others:
        total = outside.build().add(total, part)
    return total


def _summed(outside: Outside, term: SSAValue) -> SSAValue:
    """The sum of a term over all steps."""
    op = term.owner
    if isinstance(op, VIEWS):
        return outside.build(op).like(op, [_summed(outside, op.x)])
    if isinstance(op, Matmul):
        return _product(outside, op)
    assert isinstance(op, Reduce)
    rows = outside.all_steps(op.x)
    return outside.build(op).reduce("sum", rows, [0, *(axis + 1 for axis in get_ints(op.axes))])


def _product(outside: Outside, op: Matmul) -> SSAValue:
    """Σ_t a_t · b_t as one product: the steps join the axis that is summed over."""
    a, b, build = outside.all_steps(op.a), outside.all_steps(op.b), outside.build(op)
    a = _steps_inside(build, a, 2 if op.transpose_a else 1)
    b = _steps_inside(build, b, 1 if op.transpose_b else 2)
    return build.matmul(a, b, transpose_a=True)


def _steps_inside(b: Build, x: SSAValue, back: int) -> SSAValue:
    """[T, ..., k and m] → [..., T·k, m], where k is the `back`-th axis from the end."""
    rank = len(dims_of(x))
    k, m = (rank - 2, rank - 1) if back == 2 else (rank - 1, rank - 2)
    moved = b.transpose(x, [*range(1, rank - 2), 0, k, m])
    *lead, steps, inner, columns = dims_of(moved)
    return b.reshape(moved, [*lead, steps * inner, columns])
