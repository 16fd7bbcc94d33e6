"""Nets inside operators: where they stand, and which arguments name blobs."""

from __future__ import annotations

from collections.abc import Iterator

from rnncc.errors import CompileError, Location
from rnncc.netdef.files import check_text, parse_text
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef

_RECURRENT = frozenset(
    "alias_dst alias_src backward_link_external backward_link_internal link_external link_internal"
    " param_grads recompute_blobs_on_backward recurrent_states timestep".split()
)
_NAMING = {
    "RecurrentNetwork": _RECURRENT,
    "RecurrentNetworkGradient": _RECURRENT,
    "Do": frozenset({"inner_blobs", "saved_fwd_blobs"}),
}


def names_blobs(op: OperatorDef, argument: Argument) -> bool:
    """Whether an argument's strings are names of blobs."""
    renames = argument.name.endswith(".rename") and op.type in _NAMING
    return renames or argument.name in _NAMING.get(op.type, ())


def holds_text(argument: Argument) -> bool:
    """Whether the argument is a step net in text form, as older nets hold it."""
    return argument.HasField("s") and bool(argument.s) and argument.name.endswith("step_net")


def nets_in(op: OperatorDef) -> list[tuple[str, NetDef]]:
    """The nets in an operator's arguments, each with its argument's name.

    Raises:
        CompileError: a step net in text form with a syntax error.
    """
    nets: list[tuple[str, NetDef]] = []
    for argument in op.arg:
        if holds_text(argument):
            nets.append((argument.name, parse_step_net(op, argument)))
        elif argument.HasField("n"):
            nets.append((argument.name, argument.n))
        nets += [(argument.name, net) for net in argument.nets]
    return nets


def naming_strings(op: OperatorDef, argument: Argument) -> list[str]:
    """The names of blobs in an argument."""
    if not names_blobs(op, argument):
        return []
    texts = [*argument.strings, *([argument.s] if argument.HasField("s") else [])]
    names = [text.decode(errors="replace") for text in texts]
    if argument.name.endswith(".rename"):
        return [argument.name.removesuffix(".rename"), *names]
    return names


def visible_names(net: NetDef) -> Iterator[str]:
    """Every name in a net and in those inside that run in its workspace or see it: not in the nets
    of Do, which see only what is bound."""
    yield from (*net.external_input, *net.external_output)
    for op in net.op:
        yield from (*op.input, *op.output)
        if op.type != "Do":
            for argument in op.arg:
                yield from naming_strings(op, argument)
            for _, inner in nets_in(op):
                yield from visible_names(inner)


def parse_step_net(op: OperatorDef, argument: Argument) -> NetDef:
    """The net that an argument holds as text; raises `CompileError` with a syntax error's line."""
    blob = next(iter([*op.output, *op.input]), "")
    location = Location(node=f'{op.type} "{blob[:80]}": argument {argument.name!r}')
    try:
        net = parse_text(argument.s.decode(), location)
    except UnicodeDecodeError as error:
        raise CompileError(location, "is not UTF-8") from error
    check_text(net, location)
    return net
