"""Common subexpression elimination: equal ops over equal operands become one."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Block

from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net
from rnncc.ir.rewriting import NetPass, blocks_of, replace, run_all
from rnncc.records import record


@record
class Cse(NetPass):
    """Within a block, an op that repeats an earlier one is replaced by it.

    Attributes compare by bits, so that 0.0 and -0.0 stay apart. What has a body stays: users
    may have said that each has its own part of a gradient.

    Before:

        v1 = exp(x)
        v2 = exp(x)
        v3 = add(v1, v2)
        return v3

    After:

        v1 = exp(x)
        v2 = add(v1, v1)
        return v2
    """

    name = "rnn-cse"

    def rewrite(self, net: Net) -> bool:
        return run_all(cse(block) for block in blocks_of(net.body.block))


def cse(block: Block, kinds: type[RnnOp] | tuple[type[RnnOp], ...] = RnnOp) -> bool:
    """Replace ops of some kinds by equal earlier ones; whether anything changed."""
    changed, seen = False, dict[Hashable, RnnOp]()
    for op in list(block.ops):
        if not isinstance(op, kinds) or op.regions:
            continue
        first = seen.setdefault(_key(op), op)
        if first is not op:
            replace(op, [first.y])
            changed = True
    return changed


def _key(op: RnnOp) -> Hashable:
    return type(op), tuple(op.operands), op.y.type, *op.properties.items()
