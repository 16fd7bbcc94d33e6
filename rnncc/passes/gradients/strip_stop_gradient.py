"""Removes `rnn.stop_gradient` and `rnn.with_gradient`: they mean something to gradients alone."""

from __future__ import annotations

from rnncc.ir.ops.control import Net
from rnncc.ir.ops.elementwise import StopGradient
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.rewriting import NetPass, replace
from rnncc.records import record


@record
class StripStopGradient(NetPass):
    """Stop_gradient(x), with_gradient(x, ...) → x: they only matter to gradients.

    That is where none are asked for, and where they are there already.

    Before:

        v1 = stop_gradient(x)
        v2 = mul(v1, x)
        return v2

    After:

        v1 = mul(x, x)
        return v1
    """

    name = "rnn-strip-stop-gradient"

    def rewrite(self, net: Net) -> bool:
        stops = [op for op in net.walk() if isinstance(op, (StopGradient, WithGradient))]
        for op in reversed(stops):  # those in bodies before these go
            replace(op, [op.x])
        return bool(stops)
