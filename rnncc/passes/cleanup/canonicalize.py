"""Local rewrites to fewer or simpler ops, until none applies; the rules are in `rules/`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.ops.control import Net
from rnncc.ir.ops.shape import Reshape
from rnncc.ir.rewriting import NetPass, blocks_of, is_used, replace, run_all
from rnncc.passes.cleanup.rules import reshapes, shapes, values
from rnncc.records import record

RULES: dict[type[Operation], tuple[values.Rule, ...]] = {
    **shapes.RULES,
    **reshapes.RULES,
    **values.RULES,
}
MOST_USERS = 100
"""Users of a value among which a reshape is looked for: each of n users may change it, which
without a bound would take n² steps."""


@record
class Canonicalize(NetPass):
    """Apply the rules of each op, then those of the ops it made and of its users.

    Every rule keeps the value bit for bit, -0.0 and NaN included. A rule returns the value that
    replaces its op's, or None where it does not apply.

    Before:

        v1 = mul(x, 1)
        v2 = transpose(v1, perm=[1, 0])
        v3 = transpose(v2, perm=[1, 0])
        v4 = neg(v3)
        v5 = neg(v4)
        return v5

    After:

        return x
    """

    name = "rnn-canonicalize"

    def rewrite(self, net: Net) -> bool:
        return run_all(_settle(block) for block in blocks_of(net.body.block))


def _settle(block: Block) -> bool:
    changed = False
    work = dict.fromkeys(reversed(list(block.ops)))  # a stack that holds each op once
    while work:
        op, _ = work.popitem()
        # Another op's rewrite may have erased it since it was put there.
        if op.parent is None or not op.results:
            continue
        if not any(is_used(result) for result in op.results):
            work |= dict.fromkeys(_erase(op))
            continue
        new = _apply(op)
        if new is not None:
            # Taken now: `replace` hands these uses to the new value.
            users = [use.operation for use in op.results[0].uses]
            operands = op.operands
            replace(op, [new])
            work |= dict.fromkeys((*users, *_around(operands), *_made(new)))
            changed = True
    return changed


def _erase(op: Operation) -> list[Operation]:
    """Remove a dead op; the ops that may now change."""
    operands = op.operands
    op.detach()
    op.erase()
    return _around(operands)


def _around(values: Sequence[SSAValue]) -> list[Operation]:
    """What makes some values, and of each a reshape: if reshapes to one shape are all that read it
    now, one moves them all."""
    makers = [v.owner for v in values if isinstance(v.owner, Operation)]
    return [*makers, *chain.from_iterable(_reshape_of(maker.results[0]) for maker in makers)]


def _reshape_of(value: SSAValue) -> list[Operation]:
    """A reshape that reads a value, if one of the first readers is one."""
    readers = (use.operation for use in islice(value.uses, MOST_USERS))
    return list(islice((reader for reader in readers if type(reader) is Reshape), 1))


def _apply(op: Operation) -> SSAValue | None:
    for rule in RULES.get(type(op), ()):
        new = rule(op)
        if new is not None:
            return new
    return None


def _made(value: SSAValue) -> list[Operation]:
    """The op of a value and those of its operands, which are the ones that a rule makes."""
    if isinstance(value.owner, Block):
        return []
    owners = [x.owner for x in value.owner.operands]
    return [value.owner, *(owner for owner in owners if isinstance(owner, Operation))]
