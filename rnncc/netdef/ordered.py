"""A net in a form in which equal nets have equal texts."""

from __future__ import annotations

from rnncc.netdef.checks import copy_of
from rnncc.netdef.inner import holds_text, parse_step_net
from rnncc.netdef.nested import nets_of
from rnncc.netdef.netdef_pb2 import Argument, NetDef


def ordered(net: NetDef) -> NetDef:
    """A copy with arguments in the order of their names, and step nets in text form as nets.

    Raises:
        CompileError: a step net in text form with a syntax error.
    """
    copy = copy_of(net)
    _order(copy)
    return copy


def _order(net: NetDef) -> None:
    for op in net.op:
        for arg in op.arg:
            if holds_text(arg):
                arg.n.CopyFrom(parse_step_net(op, arg))
                arg.ClearField("s")
            for inner in nets_of(arg):
                _order(inner)
        arguments = sorted(op.arg, key=lambda arg: arg.name)
        copies = [Argument.FromString(arg.SerializeToString()) for arg in arguments]
        del op.arg[:]
        op.arg.extend(copies)
