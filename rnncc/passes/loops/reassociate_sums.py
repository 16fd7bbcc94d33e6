"""Sums in a loop, regrouped so that what does not depend on the carry is added outside of it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.rewriting import NetPass, dce, replace, run_all, scans_of
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.records import record


@record
class ReassociateSums(NetPass):
    """(h·U + b) + x → h·U + (x + b), for each chain of adds of floats.

    Terms are ordered by how often they change: those that depend on the carry, on rows of xs, on
    consts; at top level: on inputs, on parameters alone. The only pass that changes rounding.

    Before:

        for t in 0..T, h from h:
            v1 = matmul(h[t-1], u)
            v2 = add(x[t], v1)
            v3 = broadcast(bias, dims=[N, 4], axes=[1])
            v4 = add(v2, v3)
            h[t] = v4
        return h[T-1]

    After:

        for t in 0..T, h from h:
            v1 = matmul(h[t-1], u)
            v2 = broadcast(bias, dims=[N, 4], axes=[1])
            v3 = add(x[t], v2)
            v4 = add(v1, v3)
            h[t] = v4
        return h[T-1]
    """

    name = "rnn-reassociate-sums"

    def rewrite(self, net: Net) -> bool:
        in_loops = run_all(
            _regroup_block(scan.body.block, kinds_of(scan)) for scan in scans_of(net.body.block)
        )
        return _regroup_block(net.body.block, kinds_of(net)) or in_loops


def _regroup_block(block: Block, kinds: dict[SSAValue, Kind]) -> bool:
    changed = False
    for op in list(block.ops):
        if not isinstance(op, Add) or dtype_of(op.y) not in FLOATS or _inside_sum(op.y):
            continue
        new = _regroup(op, kinds)
        if new is not None:
            kinds[new] = kinds[op.y]
            replace(op, [new])
            changed = True
    return dce(block) or changed  # old partial sums would count as readers of their terms


def _inside_sum(value: SSAValue) -> bool:
    """Whether a value is an add that only another add uses."""
    user = value.get_user_of_unique_use()
    return isinstance(value.owner, Add) and isinstance(user, Add)


def _terms(op: Add) -> list[SSAValue]:
    """What a chain of adds sums, from left to right."""
    return [*_terms_of(op.a), *_terms_of(op.b)]


def _terms_of(x: SSAValue) -> list[SSAValue]:
    """What an operand of an add contributes: its own terms, or itself."""
    terms, pending = list[SSAValue](), [x]
    while pending:
        value = pending.pop()
        op = value.owner
        if isinstance(op, Add) and _inside_sum(value):
            pending += [op.b, op.a]
        else:
            terms.append(value)
    return terms


def _regroup(op: Add, kinds: dict[SSAValue, Kind]) -> SSAValue | None:
    """The sum in its new order; None where nothing would leave the loop by it."""
    groups: dict[Kind, list[SSAValue]] = {kind: [] for kind in Kind}
    for term in _terms(op):
        groups[kinds[term]].append(term)
    steps, rows, consts = groups[Kind.STEP], groups[Kind.ROW], groups[Kind.CONST]
    # one term alone has nothing to be added to outside; what is grouped already would only have its
    # terms change places, run after run
    gains = len(rows) + len(consts) > 1 if steps else len(consts) > 1
    if not gains or not (steps or rows) or _is_grouped(op, kinds):
        return None
    b = Builder.before(op)
    outside = [_sum(b, group) for group in (rows, consts) if group]
    return _sum(b, [*steps, _sum(b, outside)])


def _is_grouped(op: Add, kinds: dict[SSAValue, Kind]) -> bool:
    """Whether every inner sum is of one kind, or is the right one of a kind that changes more."""
    inner = [x for x in op.operands if isinstance(x.owner, Add) and _inside_sum(x)]
    if kinds[op.a] == kinds[op.b]:
        return not inner or len({kinds[term] for term in _terms(op)}) == 1
    low = op.a if kinds[op.a] < kinds[op.b] else op.b
    high = op.b if low is op.a else op.a
    mixed = len({kinds[term] for term in _terms_of(high)}) > 1
    return not mixed and (not isinstance(low.owner, Add) or _is_grouped(low.owner, kinds))


def _sum(b: Builder, terms: Sequence[SSAValue]) -> SSAValue:
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    return total
