"""Removes ops whose results nobody uses."""

from __future__ import annotations

from rnncc.ir.ops.control import Net
from rnncc.ir.rewriting import NetPass, blocks_of, dce, run_all
from rnncc.records import record


@record
class Dce(NetPass):
    """Every op of the dialect is pure: one whose results are unused goes, last ops first.

    Before:

        v1 = exp(x)
        v2 = neg(x)
        return v2

    After:

        v1 = neg(x)
        return v1
    """

    name = "rnn-dce"

    def rewrite(self, net: Net) -> bool:
        return run_all(dce(block) for block in blocks_of(net.body.block))
