"""Renaming what an operator reads and writes, in its arguments and the nets in them too."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import text_format

from rnncc.errors import Location, NetError
from rnncc.netdef.arguments import Arguments
from rnncc.netdef.files import parse_text
from rnncc.netdef.nested import BY_NAME
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

Names = Mapping[str, str]


def rename_operator(
    op: OperatorDef, read: Names, written: Names, location: Location, nested: bool
) -> None:
    """Rename an operator's blobs in place.

    Args:
        read, written: new names of inputs and of outputs.
        nested: follow names into the nets of If and While.
    Raises:
        NetError: a gradient is found by these names.
    """
    if not read and not written:
        return
    if op.type in ("RecurrentNetwork", "RecurrentNetworkGradient"):
        _rename_recurrent(op, read, written, location)
    op.input[:] = [read.get(name, name) for name in op.input]
    op.output[:] = [written.get(name, name) for name in op.output]
    if nested:
        for arg in op.arg:
            if arg.name in BY_NAME.get(op.type, ()):
                _rename_net(arg, {**read, **written}, location)


def _rename_all(net: NetDef, names: Names, location: Location) -> None:
    for field in (net.external_input, net.external_output):
        field[:] = [names.get(name, name) for name in field]
    for op in net.op:
        read = {name: names[name] for name in op.input if name in names}
        written = {name: names[name] for name in op.output if name in names}
        if op.type in BY_NAME:
            read = written = dict(names)
        rename_operator(op, read, written, location, nested=True)


def _rename_recurrent(op: OperatorDef, read: Names, written: Names, location: Location) -> None:
    """A RecurrentNetwork's arguments name its own inputs and outputs, as does its step net."""
    is_gradient = op.type == "RecurrentNetworkGradient"
    if is_gradient and not read:
        return
    args = Arguments(op, location)
    backward = args.net("backward_step_net")
    if is_gradient or (backward if isinstance(backward, str) else backward and backward.op):
        blob = next(iter([*read, *written]))
        what = f'the gradient knows "{blob}" by its name, so that it cannot be renamed'
        raise NetError(location, what)
    states = set(args.strings("recurrent_states"))
    hidden = {*args.strings("link_internal"), args.str("timestep", "timestep")}
    for arg in op.arg:
        if arg.name == "link_external":
            _rename_strings(arg, {old: new for old, new in read.items() if old not in states})
        elif arg.name == "alias_dst":
            _rename_strings(arg, written)
        elif arg.name == "step_net":
            names = {old: new for old, new in read.items() if old not in hidden}
            _rename_net(arg, names, location)


def _rename_strings(arg: Argument, names: Names) -> None:
    encoded = {old.encode(): new.encode() for old, new in names.items()}
    arg.strings[:] = [encoded.get(text, text) for text in arg.strings]


def _rename_net(arg: Argument, names: Names, location: Location) -> None:
    """Rename all through a net, which may stand there as text."""
    if arg.HasField("n"):
        _rename_all(arg.n, names, location)
    elif arg.s.strip():
        net = parse_text(arg.s.decode(errors="replace"), location)
        _rename_all(net, names, location)
        arg.s = text_format.MessageToString(net).encode()
