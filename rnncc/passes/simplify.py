"""The clean-up between the other passes: a net in its smallest equal form."""

from __future__ import annotations

from dataclasses import dataclass

from rnncc.errors import InternalError
from rnncc.ir.ops.control import Net
from rnncc.ir.rewriting import NetPass, run_all
from rnncc.passes.canonicalize import Canonicalize
from rnncc.passes.cse import Cse
from rnncc.passes.dce import Dce
from rnncc.passes.simplify_scans import SimplifyScans

PASSES = (Dce(), Canonicalize(), Cse(), SimplifyScans())
MAX_ROUNDS = 1000


@dataclass(frozen=True)
class Simplify(NetPass):
    """Local rewrites, common subexpressions, dead code and dead parts of scans, until none is left.

    Values are kept bit for bit.
    """

    name = "rnn-simplify"

    def rewrite(self, net: Net) -> bool:
        for done in range(MAX_ROUNDS):
            if not run_all(a_pass.rewrite(net) for a_pass in PASSES):
                return done > 0
        raise InternalError(f"simplify has not settled after {MAX_ROUNDS} rounds")
