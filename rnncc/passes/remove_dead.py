"""Removes ops whose results nobody uses."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block

from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.rewriting import NetPass, blocks_of, is_used, run_all


@dataclass(frozen=True)
class RemoveDead(NetPass):
    """Every op of the dialect is pure: one whose results are unused goes, last ops first."""

    name = "rnn-remove-dead"

    def rewrite(self, net: Net) -> bool:
        return run_all(_sweep(block) for block in blocks_of(net.body.block))


def _sweep(block: Block) -> bool:
    changed = False
    for op in reversed(list(block.ops)):
        if not isinstance(op, Yield) and not any(is_used(result) for result in op.results):
            op.detach()
            op.erase()
            changed = True
    return changed
