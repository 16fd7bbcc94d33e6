"""What a RecurrentNetwork's arguments say, checked: states, links, aliases, the step net."""

from __future__ import annotations

from typing import Any

from rnncc.errors import CompileError, NetError
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.operator import Operator
from rnncc.netdef import NetDef, check_text, parse_text
from rnncc.netdef.nested import writes_of
from rnncc.records import record

MAX_WINDOW = 64
"""How many rows of an input sequence a step may see."""


@record
class Link:
    """At step t the blob `internal` is the rows t + offset ... of `external`, `window` of them."""

    internal: str
    external: str
    offset: int
    window: int


@record
class Alias:
    """The output `target` is the state's rows from `offset` on; below 0 it counts from the end."""

    state: str
    target: str
    offset: int


@record
class State:
    """A state's name, the blob it starts as, its links; the step net writes row `offset` ahead."""

    name: str
    initial: Blob
    reads: tuple[Link, ...]
    write: Link

    @property
    def rows(self) -> int:
        """How many rows the state starts with: the step must write the one after them."""
        return self.write.offset


@record
class Structure:
    """All of a RecurrentNetwork.

    Attributes:
        sequences: each link to an operator's input with that input.
    """

    step: NetDef
    timestep: str
    states: tuple[State, ...]
    sequences: tuple[tuple[Link, Blob], ...]
    aliases: tuple[Alias, ...]


def read_structure(op: Operator) -> Structure:
    """Read and check the arguments; raises `CompileError` at the operator."""
    step = needed_net(op, "step_net")
    read_net(op, "backward_step_net")
    links = read_links(op, "link")
    written = set(names_written(op, step))
    names = op.args.strings("recurrent_states")
    initials = _initials(op, names)
    states = tuple(
        _state(op, name, blob, links, written) for name, blob in zip(names, initials, strict=True)
    )
    sequences = tuple(_sequences(op, links, set(names), written))
    timestep = op.args.str("timestep", "timestep")
    if timestep in written:
        raise op.error(f'the step net writes the timestep "{timestep}"')
    return Structure(step, timestep, states, sequences, _read_aliases(op, set(names)))


def inputs_of(op: Operator) -> dict[str, Blob]:
    """The operator's inputs by name; where one stands twice, what its name means is the first."""
    return {name: op.xs[i] for i, name in reversed(list(enumerate(op.op.input)))}


def read_net(op: Operator, name: str) -> NetDef | None:
    """A net argument in either form, parsed."""
    net = op.args.net(name)
    if isinstance(net, str):
        net = parse_text(net, f"{op.location}: {name}") if net.strip() else None
        if net is not None:
            check_text(net, op.location)
    return net


def needed_net(op: Operator, name: str) -> NetDef:
    """A net argument that there must be."""
    net = read_net(op, name)
    if net is None:
        raise op.error(f"lacks the argument {name!r}")
    return net


def names_written(op: Operator, net: NetDef) -> list[str]:
    """The names that a net of an operator writes, those that its own control operators do too."""
    try:
        return list(writes_of(net))
    except NetError as error:
        raise op.error(error.what) from error


def _columns(op: Operator, *names: str) -> list[tuple[Any, ...]]:
    """Lists of equal length, row by row."""
    lists = [
        op.args.ints(n) if n.endswith(("offset", "window")) else op.args.strings(n) for n in names
    ]
    if len({len(column) for column in lists}) > 1:
        lengths = ", ".join(f"{n} {len(c)}" for n, c in zip(names, lists, strict=True))
        raise op.error(f"arguments differ in length: {lengths}")
    return list(zip(*lists, strict=True))


def read_links(op: Operator, prefix: str) -> list[Link]:
    """The links in the arguments `<prefix>_internal`, `_external`, `_offset` and `_window`."""
    names = [f"{prefix}_{column}" for column in ("internal", "external", "offset", "window")]
    rows = _columns(op, *(names if names[3] in op.args else names[:3]))
    links = [Link(str(i), str(e), int(o), int(w[0]) if w else 1) for i, e, o, *w in rows]
    seen: set[str] = set()
    for link in links:
        if link.window < 1 or link.offset < 0:
            what = f'links "{link.internal}" at offset {link.offset} with window {link.window}'
            raise op.error(what, "offsets start at 0 and windows at 1")
        if link.internal in seen:
            raise op.error(f'links "{link.internal}" twice')
        seen.add(link.internal)
    return links


def _read_aliases(op: Operator, states: set[str]) -> tuple[Alias, ...]:
    rows = _columns(op, "alias_src", "alias_dst", "alias_offset")
    aliases = tuple(Alias(str(s), str(d), int(o)) for s, d, o in rows)
    outputs, seen = list(op.op.output), set[str]()
    for alias in aliases:
        if alias.state not in states:
            raise op.error(f'the alias "{alias.target}" shows "{alias.state}", which is no state')
        if alias.target not in outputs:
            raise op.error(f'the alias "{alias.target}" is no output of the operator')
        if alias.target in seen:
            raise op.error(f'the output "{alias.target}" is an alias twice')
        seen.add(alias.target)
    return aliases


def _initials(op: Operator, names: list[str]) -> list[Blob]:
    """The operator's input that each state starts as."""
    ids = [int(i) for i in op.args.ints("initial_recurrent_state_ids")]
    if len(ids) != len(names):
        raise op.error(f"has {len(names)} recurrent_states and {len(ids)} initial ids")
    if len(set(names)) != len(names):
        raise op.error("lists a state twice in recurrent_states")
    for index in ids:
        if not 0 <= index < len(op.xs):
            raise op.error(f"initial state id {index} is none of its {len(op.xs)} inputs")
    return [op.xs[index] for index in ids]


def _state(op: Operator, name: str, initial: Blob, links: list[Link], written: set[str]) -> State:
    mine = [link for link in links if link.external == name]
    writes = [link for link in mine if link.internal in written]
    reads = tuple(link for link in mine if link.internal not in written)
    if len(writes) != 1:
        how = "written by no link" if not writes else "linked twice to what the step net writes"
        raise op.error(f'state "{name}" is {how}')
    (write,) = writes
    if write.window != 1 or write.offset < 1:
        what = f'state "{name}" is written at offset {write.offset} with window {write.window}'
        raise op.error(what, "a step writes one row, after the rows the state starts with")
    for link in reads:
        if link.offset + link.window > write.offset + 1:
            what = f'"{link.internal}" reads rows of state "{name}" that are not written yet'
            raise op.error(what)
    return State(name, initial, reads, write)


def _sequences(
    op: Operator, links: list[Link], states: set[str], written: set[str]
) -> list[tuple[Link, Blob]]:
    inputs = inputs_of(op)
    sequences = list[tuple[Link, Blob]]()
    for link in links:
        if link.external in states:
            continue
        if link.external not in inputs:
            what = f'"{link.internal}" is linked to "{link.external}"'
            raise op.error(f"{what}, which is neither a state nor an input (dangling link)")
        if link.internal in written:
            raise op.error(f'the step net writes "{link.internal}", a part of an input sequence')
        if link.window > MAX_WINDOW:
            raise op.error(f'"{link.internal}" has a window of {link.window} rows')
        # The first input has T rows; others have more, by what their windows reach beyond a step.
        if link.external == op.op.input[0] and link.offset + link.window > 1:
            raise CompileError(op.location, f'"{link.internal}" reads past the end of the sequence')
        sequences.append((link, inputs[link.external]))
    return sequences
