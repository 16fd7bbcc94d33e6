"""The clean-up between the other passes: a net in its smallest equal form."""

from __future__ import annotations

from rnncc.errors import InternalError
from rnncc.ir.ops.control import Net
from rnncc.ir.rewriting import NetPass, run_all
from rnncc.passes.cleanup.canonicalize import Canonicalize
from rnncc.passes.cleanup.cse import Cse
from rnncc.passes.cleanup.dce import Dce
from rnncc.passes.cleanup.simplify_scans import SimplifyScans
from rnncc.records import record

PASSES = (Dce(), Canonicalize(), Cse(), SimplifyScans())
MAX_ROUNDS = 1000
"""Two rules that undo each other would never settle: an error of ours, not a hang."""


@record
class Simplify(NetPass):
    """Local rewrites, common subexpressions, dead code and dead parts of scans, until none is left.

    Values are kept bit for bit.

    Before:

        for t in 0..T, h from h, g from g:
            v1 = neg(h[t-1])
            v2 = neg(v1)
            v3 = add(v2, x[t])
            v4 = exp(g[t-1])
            v5 = tanh(v3)
            h[t] = v3
            g[t] = v4
            v6[t] = v5
        v7 = exp(h[T-1])
        v8 = exp(h[T-1])
        v9 = mul(v7, v8)
        return v9

    After:

        for t in 0..T, h from h:
            v1 = add(h[t-1], x[t])
            h[t] = v1
        v2 = exp(h[T-1])
        v3 = mul(v2, v2)
        return v3
    """

    name = "rnn-simplify"

    def rewrite(self, net: Net) -> bool:
        for done in range(MAX_ROUNDS):
            if not run_all(a_pass.rewrite(net) for a_pass in PASSES):
                return done > 0
        raise InternalError(f"simplify has not settled after {MAX_ROUNDS} rounds")
