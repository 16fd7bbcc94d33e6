"""Removes ops whose results nobody uses."""

from __future__ import annotations

from dataclasses import dataclass

from rnncc.ir.ops.control import Net
from rnncc.ir.rewriting import NetPass, blocks_of, remove_dead, run_all


@dataclass(frozen=True)
class RemoveDead(NetPass):
    """Every op of the dialect is pure: one whose results are unused goes, last ops first.

    Before:

        v1 = exp(x)
        v2 = neg(x)
        return v2

    After:

        v1 = neg(x)
        return v1
    """

    name = "rnn-remove-dead"

    def rewrite(self, net: Net) -> bool:
        return run_all(remove_dead(block) for block in blocks_of(net.body.block))
