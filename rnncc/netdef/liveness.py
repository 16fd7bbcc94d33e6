"""Which operators what is wanted of a net depends on: dead ones go, a sub-net is cut out."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net, copy_of
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.versions import Steps, Value, results, ssa


def remove_dead_ops(net: NetDef, nested: bool = False) -> NetDef:
    """Leave out the operators on which no external output depends.

    Args:
        nested: count what the nets of If, While and RecurrentNetwork read, whether the operator
            declares it or not.
    Raises:
        NetError: an external output that the net does not know.
    """
    check_net(net)
    steps, last = ssa(expose(net) if nested else net)
    return kept(net, live_ops(steps, results(net, last)))


def extract(net: NetDef, outputs: Iterable[str]) -> NetDef:
    """The smallest sub-net that computes these blobs.

    Returns:
        A net whose external inputs are the blobs it needs, the declared ones first.
    Raises:
        NetError: no operator writes such a blob and it is no input.
    """
    check_net(net)
    steps, last = ssa(expose(net))
    outputs = list(dict.fromkeys(outputs))
    for name in outputs:
        if name not in last:
            raise NetError(net.name, f'has no blob "{name}"')
    ends = [(name, last[name]) for name in outputs]
    live = live_ops(steps, ends)
    needed = [value for index in live for value in steps[index][0]] + ends
    names = dict.fromkeys(name for name, version in needed if version == 0)
    part = kept(net, live)
    declared = [name for name in dict.fromkeys(net.external_input) if name in names]
    part.external_input[:] = dict.fromkeys([*declared, *names])
    part.external_output[:] = outputs
    return part


def live_ops(steps: Steps, ends: Iterable[Value]) -> list[int]:
    """The operators on which these versions depend, in order."""
    live, needed = list[int](), set(ends)
    for index in range(len(steps) - 1, -1, -1):
        inputs, outputs = steps[index]
        if not needed.isdisjoint(outputs):
            live.append(index)
            needed.update(inputs)
    return live[::-1]


def kept(net: NetDef, ops: Collection[int]) -> NetDef:
    """A copy that holds these operators alone."""
    copy = copy_of(net)
    if len(ops) < len(net.op):
        del copy.op[:]
        copy.op.extend(net.op[index] for index in ops)
    return copy
