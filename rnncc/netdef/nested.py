"""Nets inside operators: which blobs of the workspace around them they read and write by name.

The branches of If and the nets of While run in the operator's own workspace, whatever it declares.
The net of Do sees what is bound, but may write what is declared as an input alone. A step net
sees all of the workspace, and writes nothing but what is declared.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSequence

from rnncc.errors import NetError
from rnncc.netdef.checks import copy_of
from rnncc.netdef.files import MAX_NESTING, parse_text
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

BY_NAME = {"If": ("then_net", "else_net"), "While": ("cond_net", "loop_net")}
"""The arguments that hold nets of the workspace around, in the order in which they run."""

CONTROL = {*BY_NAME, "Do"}
"""The operators in which an input and an output of one name are one blob."""

_STEPS = "RecurrentNetwork"
_SEEING = {*CONTROL, _STEPS}
"""The operators whose nets read the workspace around them."""

_TEXTS = {"step_net", "backward_step_net", *(name for names in BY_NAME.values() for name in names)}
"""Arguments where a net may stand as text."""

Names = dict[str, None]
"""Names in order, as keys."""


def nets_inside(net: NetDef, depth: int = 0) -> Iterator[NetDef]:
    """The net itself and all nets in arguments, however deep."""
    _check_depth(net, depth)
    yield net
    for op in net.op:
        for arg in op.arg:
            for inner in nets_of(arg):
                yield from nets_inside(inner, depth + 1)


def nets_of(arg: Argument) -> list[NetDef]:
    """The nets that stand in an argument, as messages or as text."""
    if arg.name in _TEXTS and arg.s.strip() and not arg.HasField("n"):
        return [parse_text(arg.s.decode(errors="replace"), arg.name)]
    return [*([arg.n] if arg.HasField("n") else []), *arg.nets]


def holds_nets(op: OperatorDef) -> bool:
    """Whether there are nets in the arguments."""
    return any(nets_of(arg) for arg in op.arg)


def names_in(net: NetDef) -> set[str]:
    """Every blob that the net and the nets inside it name."""
    names: set[str] = set()
    for inner in nets_inside(net):
        names.update(inner.external_input, inner.external_output)
        for op in inner.op:
            names.update(op.input, op.output)
    return names


def expose(net: NetDef) -> NetDef:
    """A copy in which If, While, Do and RecurrentNetwork declare all that their nets read, and the
    first three what these write.

    What is added stands after what was declared, so that positions stay. A blob that is only
    written is read as well if it is there before, because a branch that is not taken leaves it.
    """
    copy = copy_of(net)
    outside = set(net.external_input)
    for op in copy.op:
        if op.type in _SEEING:
            reads, writes = _beside(op, 1)
            left = (*op.output, *writes) if op.type in CONTROL else ()
            _add(op.input, [*reads, *(name for name in left if name in outside)])
            _add(op.output, list(writes))
        outside.update(op.input)
        outside.update(op.output)
    return copy


def writes_of(net: NetDef, depth: int = 0) -> Names:
    """What the operators of a net write in its workspace, by name and declared."""
    return _io(net, {}, depth)[1]


def _io(net: NetDef, before: Names, depth: int) -> tuple[Names, Names]:
    """What a net reads before it or anyone `before` it writes it, and what it writes."""
    _check_depth(net, depth)
    reads, writes = Names(), Names()
    for op in net.op:
        more_reads, more_writes = _beside(op, depth + 1) if op.type in _SEEING else ({}, {})
        for name in (*op.input, *more_reads):
            if name not in before and name not in writes:
                reads[name] = None
        writes.update(dict.fromkeys([*op.output, *more_writes]))
    return reads, writes


def _beside(op: OperatorDef, depth: int) -> tuple[Names, Names]:
    """What an operator's nets read and write of its own workspace, declared or not."""
    nets = {arg.name: inner for arg in op.arg for inner in nets_of(arg)}
    reads, writes = Names(), Names()
    if op.type == "Do":
        inner_reads, inner_writes = _io(nets.get("net", NetDef()), {}, depth)
        bound = _bindings(op)
        reads.update(dict.fromkeys(bound[name] for name in inner_reads if name in bound))
        writes.update(dict.fromkeys(bound[name] for name in inner_writes if name in bound))
    if op.type == _STEPS:
        reads = _io(nets.get("step_net", NetDef()), _linked(op), depth)[0]
    for name in BY_NAME.get(op.type, ()):
        if name in nets:
            # of If one branch runs, of While the condition's net and then the body
            before = writes if op.type == "While" else Names()
            more_reads, more_writes = _io(nets[name], before, depth)
            reads.update(more_reads)
            writes.update(more_writes)
    return reads, writes


def _linked(op: OperatorDef) -> Names:
    """What a step net reads that is its own: rows of sequences and states, and the timestep."""
    args = {arg.name: arg for arg in op.arg}
    rows = args["link_internal"].strings if "link_internal" in args else ()
    step = args["timestep"].s if "timestep" in args else b"timestep"
    return dict.fromkeys(name.decode(errors="replace") for name in (*rows, step))


def _bindings(op: OperatorDef) -> dict[str, str]:
    """Inner name -> name outside, of a Do; an index that is wrong binds nothing."""
    args = {arg.name: arg for arg in op.arg}
    if not {"inner_blobs", "outer_blobs_idx"} <= args.keys():
        return {}
    names = [*op.input[:-1], *op.output[:-1]]
    pairs = zip(args["inner_blobs"].strings, args["outer_blobs_idx"].ints, strict=False)
    return {name.decode(errors="replace"): names[i] for name, i in pairs if 0 <= i < len(names)}


def _check_depth(net: NetDef, depth: int) -> None:
    if depth > MAX_NESTING:
        raise NetError(net.name, f"nets are nested more than {MAX_NESTING} deep")


def _add(field: MutableSequence[str], names: list[str]) -> None:
    present = set(field)
    field.extend(name for name in dict.fromkeys(names) if name not in present)
