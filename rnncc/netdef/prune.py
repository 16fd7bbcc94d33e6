"""Leaving out of a net what changes none of its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from rnncc.netdef.checks import check_net, copy_of
from rnncc.netdef.copies import IDENTITIES, REVERSE, without_copies
from rnncc.netdef.flat_shapes import flattens
from rnncc.netdef.liveness import kept, live_ops
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.reshapes import flattenings, without
from rnncc.netdef.versions import results, ssa
from rnncc.records import record

Array = np.ndarray[Any, Any]
Step = tuple[str, NetDef, Collection[int]]
"""Why operators go, the net without them, and which they are."""


@record
class Removed:
    """An operator that went.

    Attributes:
        index: where it stood in the net.
        output: its first output, or its first input where it has none.
        reason: why it was not needed.
    """

    index: int
    type: str
    output: str
    reason: str

    def __str__(self) -> str:
        return f'op {self.index} ({self.type} "{self.output}"): {self.reason}'


def prune(net: NetDef, params: Mapping[str, Array] | None = None) -> tuple[NetDef, list[Removed]]:
    """Leave out pairs of copies, copies on one device, Reshapes before FC and dead operators.

    Every external output is computed as before. A net with gradient operators keeps its copies
    and Reshapes, because a gradient operator finds its own by the blobs that it reads.

    Args:
        params: the arrays of parameters, where a Reshape's shape may depend on them. Those that
            nothing reads any more are no external inputs of the new net.
    Returns:
        The new net, and what went, in the net's order.
    Raises:
        NetError: an external output that the net does not know.
    """
    check_net(net)
    pruned, places = copy_of(net), list(range(len(net.op)))
    reasons: dict[int, str] = {}
    steps = [_without_dead]
    if not any(op.is_gradient_op or op.type.endswith("Gradient") for op in net.op):
        kinds = {op.type for op in net.op}
        steps += [_without_pairs] if kinds & REVERSE.keys() else []
        steps += [_without_identities] if kinds & IDENTITIES else []
        steps += [partial(_without_reshapes, params or {})] if "Reshape" in kinds else []
    before = len(places) + 1
    while len(places) < before:  # a copy that goes may bring a pair of others together
        before = len(places)
        for step in steps:
            reason, pruned, removed = step(pruned)
            reasons |= {places[index]: reason for index in removed}
            dropped = set(removed)
            places = [place for index, place in enumerate(places) if index not in dropped]
    return pruned, [_removed(net, index, reasons[index]) for index in sorted(reasons)]


def _without_dead(net: NetDef) -> Step:
    steps, last = ssa(expose(net))
    live = live_ops(steps, results(net, last))
    dead = set(range(len(net.op))).difference(live)
    return "no external output depends on it", kept(net, live), dead


def _without_pairs(net: NetDef) -> Step:
    return "copies there and back", *without_copies(net, pairs=True)


def _without_identities(net: NetDef) -> Step:
    return "copies what may be read itself", *without_copies(net, pairs=False)


def _without_reshapes(params: Mapping[str, Array], net: NetDef) -> Step:
    steps, _ = ssa(net)
    flat = [f for f in flattenings(net) if flattens(net, steps, f, params)]
    removed = {op for f in flat for op in f.ops}
    return "flattens as FC does by itself", without(net, flat)[0], removed


def _removed(net: NetDef, index: int, reason: str) -> Removed:
    op = net.op[index]
    return Removed(index, op.type, next(iter([*op.output, *op.input]), ""), reason)
