"""Which operators of a net need not be known: nothing that is asked of it depends on them.

Nets that were trained hold what updates their parameters and reports on the way: an optimiser's
operators, counters, prints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rnncc.netdef import NetDef
from rnncc.netdef.liveness import live_ops
from rnncc.netdef.nested import expose
from rnncc.netdef.versions import ssa


def unused_unknown(
    net: NetDef, is_known: Callable[[str], bool], asked: Collection[str]
) -> frozenset[int]:
    """The operators of unknown types, and those that read what they write, that nothing asked for
    depends on.

    Args:
        is_known: whether an operator type is.
        asked: names whose last versions are asked for.
    Returns:
        Their numbers in the net.
    """
    if all(is_known(op.type) for op in net.op):
        return frozenset()
    steps, last = ssa(expose(net))
    live = set(live_ops(steps, [(name, last[name]) for name in asked if name in last]))
    left, gone = set[int](), set[tuple[str, int]]()
    for index, (op, (inputs, outputs)) in enumerate(zip(net.op, steps, strict=True)):
        if index not in live and (not is_known(op.type) or not gone.isdisjoint(inputs)):
            left.add(index)
            gone.update(outputs)
    return frozenset(left)
