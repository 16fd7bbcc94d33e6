"""Which operators of a net need not be known: nothing that is asked of it depends on them.

Nets that were trained hold what updates their parameters and reports on the way: an optimiser's
operators, counters, prints.
"""

from __future__ import annotations

from collections.abc import Callable

from rnncc.netdef import NetDef, OperatorDef
from rnncc.netdef.liveness import live_ops
from rnncc.netdef.nested import expose
from rnncc.netdef.versions import ssa


def unused_unknown(net: NetDef, must_be: Callable[[OperatorDef], bool]) -> frozenset[int]:
    """The operators on which no external output depends and that need not be known, and those that
    read what these write; their numbers in the net.

    Args:
        must_be: whether an operator is known, or must be.
    """
    if all(map(must_be, net.op)):
        return frozenset()
    steps, last = ssa(expose(net))
    asked = net.external_output
    live = set(live_ops(steps, [(name, last[name]) for name in asked if name in last]))
    left, gone = set[int](), set[tuple[str, int]]()
    for index, (op, (inputs, outputs)) in enumerate(zip(net.op, steps, strict=True)):
        if index not in live and (not must_be(op) or not gone.isdisjoint(inputs)):
            left.add(index)
            gone.update(outputs)
    return frozenset(left)
