"""Nets inside operators: which blobs of the workspace around them they read and write by name.

The branches of If and the nets of While run in the operator's own workspace, whatever it declares;
the net of Do and a step net see nothing but what is declared.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence

from rnncc.errors import NetError
from rnncc.netdef.checks import copy_of
from rnncc.netdef.files import MAX_NESTING
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

_NETS = {"If": ("then_net", "else_net"), "While": ("cond_net", "loop_net")}
"""The arguments that hold nets of the workspace around, in the order in which they run."""


def nets_by_name(op: OperatorDef) -> list[NetDef]:
    """The nets that resolve names where the operator stands."""
    named = {arg.name: arg.n for arg in op.arg if arg.HasField("n")}
    return [named[name] for name in _NETS.get(op.type, ()) if name in named]


def nets_inside(net: NetDef, depth: int = 0) -> Iterator[NetDef]:
    """The net itself and all nets in arguments, however deep."""
    _check_depth(net, depth)
    yield net
    for op in net.op:
        for arg in op.arg:
            for inner in nets_of(arg):
                yield from nets_inside(inner, depth + 1)


def nets_of(arg: Argument) -> list[NetDef]:
    """The nets that stand in an argument as messages."""
    return [*([arg.n] if arg.HasField("n") else []), *arg.nets]


def holds_nets(op: OperatorDef) -> bool:
    """Whether there are nets in the arguments; a step net may stand there as text."""
    return any(nets_of(arg) or arg.name.endswith("step_net") for arg in op.arg)


def names_in(net: NetDef) -> set[str]:
    """Every blob that the net and the nets inside it name."""
    names: set[str] = set()
    for inner in nets_inside(net):
        names.update(inner.external_input, inner.external_output)
        for op in inner.op:
            names.update(op.input, op.output)
    return names


def expose(net: NetDef) -> NetDef:
    """A copy in which If and While declare all that their nets read and write.

    What is added stands after what was declared, so that positions stay. A blob that is only
    written is read as well if it is there before, because a branch that is not taken leaves it.
    """
    made = copy_of(net)
    known = set(net.external_input)
    for op in made.op:
        if op.type in _NETS:
            reads, writes = _by_name(op)
            again = [name for name in (*op.output, *writes) if name in known]
            _add(op.input, [*reads, *again])
            _add(op.output, writes)
        known.update(op.input)
        known.update(op.output)
    return made


def _check_depth(net: NetDef, depth: int) -> None:
    if depth > MAX_NESTING:
        raise NetError(net.name, f"nets are nested more than {MAX_NESTING} deep")


def _by_name(op: OperatorDef, depth: int = 1) -> tuple[list[str], list[str]]:
    """What the nets of an operator read before they write it, and what they write, in order."""
    reads, writes = dict[str, None](), dict[str, None]()
    for net in nets_by_name(op):
        _check_depth(net, depth)
        # of If one branch runs, of While the condition's net and then the body
        written = set[str]() if op.type == "If" else set(writes)
        for inner in net.op:
            more_reads, more_writes = _by_name(inner, depth + 1)
            read = [*inner.input, *more_reads]
            reads.update(dict.fromkeys(name for name in read if name not in written))
            wrote = dict.fromkeys([*inner.output, *more_writes])
            writes.update(wrote)
            written.update(wrote)
    return list(reads), list(writes)


def _add(field: MutableSequence[str], names: list[str]) -> None:
    present = set(field)
    field.extend(name for name in dict.fromkeys(names) if name not in present)
