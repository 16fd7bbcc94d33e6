"""From a net to the graph that is drawn: an operator is a box, each version of a blob a label.

Weights stand in the boxes of the operators that read them. A blob that is read far from where it
is made is shown again beside its reader, so that arrows are short.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

from rnncc.netdef.drawing.graph import DrawnGraph, DrawnNode, Line, line
from rnncc.netdef.inner import nets_in
from rnncc.netdef.netdef_pb2 import Argument, NetDef, OperatorDef
from rnncc.netdef.versions import Value, ssa
from rnncc.records import record

FAR = 5
"""How many operators long an arrow may be."""

_WEIGHTS = {
    "FC": (1, 2),
    "ElementwiseLinear": (1, 2),
    "LayerNorm": (1, 2),
    "Conv": (1, 2),
    "FCGradient": (1,),
    "ElementwiseLinearGradient": (2,),
    "LayerNormGradient": (5,),
}
"""Which inputs are weights where nothing tells which blobs are parameters."""
_AROUND_NETS = ("RecurrentNetwork", "RecurrentNetworkGradient", "Do", "If", "While")


@record
class Surroundings:
    """What a net inside an operator has of its surroundings.

    Attributes:
        parameters: the blobs that are weights.
        notes: what blobs at its ends are linked to.
        results: the blobs that are read outside.
    """

    parameters: frozenset[str]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    results: frozenset[str] = frozenset()


def read(net: NetDef, parameters: Collection[str]) -> DrawnGraph:
    """The graph of a net; `parameters` are drawn as weights, as are those that operators read as
    weights.

    Raises:
        CompileError: a step net in text form with a syntax error.
    """
    weights = frozenset({*parameters, *_read_as_weights(net)})
    return _GraphReader(net, Surroundings(weights, results=frozenset(net.external_output))).graph


class _GraphReader:
    """Makes the graph of one net."""

    def __init__(self, net: NetDef, around: Surroundings) -> None:
        self.graph = DrawnGraph()
        self._around = around
        self._steps, last = ssa(net)
        self._results = {(name, last.get(name, 0)) for name in around.results}
        self._ranks = _ranks(self._steps)
        self._read = {value for inputs, _ in self._steps for value in inputs}
        self._shown: dict[Value, tuple[int, int]] = {}
        """Where a version of a blob was shown last: its node, and at which rank."""
        for index, op in enumerate(net.op):
            self._operator(index, op)

    def _operator(self, index: int, op: OperatorDef) -> None:
        inputs, outputs = self._steps[index]
        rank = self._ranks[index]
        weights = [v for v in dict.fromkeys(inputs) if self._is_weight(v)]
        sources = [self._source(v, rank) for v in dict.fromkeys(inputs) if v not in weights]
        node = self.graph.add(self._box(index, op, weights))
        self.graph.edges += [(source, node) for source in sources]
        for value in dict.fromkeys(outputs):
            shown = self.graph.add(self._label(value, written=True))
            self._shown[value] = shown, rank
            self.graph.edges.append((node, shown))

    def _source(self, value: Value, rank: int) -> int:
        """The node of a blob that an operator at a rank reads."""
        if value in self._shown:
            node, shown = self._shown[value]
            if rank - shown <= FAR:
                return node
        written = value in self._shown and value[1] > 0
        node = self.graph.add(self._label(value, written=False, again=written))
        self._shown[value] = node, rank
        return node

    def _is_weight(self, value: Value) -> bool:
        return value[1] == 0 and value[0] in self._around.parameters

    def _label(self, value: Value, written: bool, again: bool = False) -> DrawnNode:
        name = value[0]
        if written:
            kind = "output" if value in self._results else "blob"
            kind = kind if kind == "output" or value in self._read else "unread"
        else:
            kind = "again" if again else "input"
        ends = kind in ("input", "output")
        note = self._around.notes.get(name, "") if ends else ""
        tooltip = f"{name}, version {value[1]}" if value[1] else name
        lines = (line(name, "blob"), *([line(note, "note")] if note else []))
        return DrawnNode(kind, lines, tooltip)

    def _box(self, index: int, op: OperatorDef, weights: Collection[Value]) -> DrawnNode:
        parts = tuple(
            (title, _GraphReader(net, self._inside(op, net, title)).graph)
            for title, net in _drawn_nets(op)
        )
        lines: list[Line] = [line(op.type or "no type", "type")]
        lines += [line(op.name, "name")] if op.name else []
        if not parts:
            lines += [line(name, "name") for name, _ in weights]
        return DrawnNode("op", tuple(lines), _tooltip(index, op), parts)

    def _inside(self, op: OperatorDef, net: NetDef, title: str) -> Surroundings:
        if op.type.startswith("RecurrentNetwork"):
            links = _links(op, title)
            results = {name for name in links if any(name in o.output for o in net.op)}
            parameters = self._around.parameters - set(links)
            return Surroundings(parameters, links, frozenset({*net.external_output, *results}))
        if op.type == "Do":
            bound = _bound(op)
            weights = {inner for inner, outer in bound.items() if outer in self._around.parameters}
            notes = {i: f"{o} outside" for i, o in bound.items() if o != i}
            results = {inner for inner, outer in bound.items() if outer in op.output}
            return Surroundings(frozenset(weights), notes, frozenset(results))
        return Surroundings(self._around.parameters, {}, frozenset(op.output))


def _ranks(steps: list[tuple[list[Value], list[Value]]]) -> list[int]:
    """How many operators stand one after the other before each one."""
    ranks: list[int] = []
    rank_of: dict[Value, int] = {}
    for inputs, outputs in steps:
        ranks.append(max((rank_of.get(value, -1) for value in inputs), default=-1) + 1)
        rank_of.update(dict.fromkeys(outputs, ranks[-1]))
    return ranks


def _drawn_nets(op: OperatorDef) -> list[tuple[str, NetDef]]:
    """The nets of an operator; of a gradient of a RecurrentNetwork only what it adds."""
    is_gradient = op.type == "RecurrentNetworkGradient"
    left_out = {"step_net"} if is_gradient else {"backward_step_net"}
    return [(name, net) for name, net in nets_in(op) if name not in left_out]


def _links(op: OperatorDef, title: str) -> dict[str, str]:
    """What a step net's blobs are views of: `states[t+1]`."""
    prefix = "backward_link" if title.startswith("backward") else "link"
    internal, external = (_strings(op, f"{prefix}_{end}") for end in ("internal", "external"))
    offsets = [int(k) for arg in op.arg if arg.name == f"{prefix}_offset" for k in arg.ints]
    offsets += [0] * (len(internal) - len(offsets))
    notes = {
        name: f"{whole}[t{offset:+d}]" if offset else f"{whole}[t]"
        for name, whole, offset in zip(internal, external, offsets, strict=False)
    }
    return {_timestep(op): "t", **notes}


def _timestep(op: OperatorDef) -> str:
    name = next((arg.s for arg in op.arg if arg.name == "timestep"), b"timestep")
    return name.decode(errors="replace")


def _bound(op: OperatorDef) -> dict[str, str]:
    """The blobs in a Do's net by the blobs outside that they are."""
    outer = [*op.input[:-1], *op.output[:-1]]
    places = next((arg.ints for arg in op.arg if arg.name == "outer_blobs_idx"), ())
    pairs = zip(_strings(op, "inner_blobs"), places, strict=False)
    return {name: outer[place] for name, place in pairs if 0 <= place < len(outer)}


def _strings(op: OperatorDef, name: str) -> list[str]:
    argument = next((arg for arg in op.arg if arg.name == name), Argument())
    return [text.decode(errors="replace") for text in argument.strings]


def _read_as_weights(net: NetDef) -> set[str]:
    """The blobs that nothing writes and that operators read as their weights only."""
    weights, others = set[str](), set[str]()
    for op in operators(net):
        others.update(op.output)
        # what an operator with nets inside reads for them is judged by their operators
        places = range(len(op.input)) if op.type not in _AROUND_NETS else _own_inputs(op)
        for place in places:
            is_weight = place in _WEIGHTS.get(op.type, ())
            (weights if is_weight else others).add(op.input[place])
    return weights - others


def _own_inputs(op: OperatorDef) -> set[int]:
    """Which inputs the operator itself reads: a sequence and first states, or a condition."""
    if op.type == "Do":
        return set()
    ids = (arg.ints for arg in op.arg if arg.name == "initial_recurrent_state_ids")
    own = {0, *(int(place) for places in ids for place in places)}
    return {place for place in own if 0 <= place < len(op.input)}


def operators(net: NetDef) -> Iterator[OperatorDef]:
    """The operators of a net and of the nets inside."""
    for op in net.op:
        yield op
        for _, inner in nets_in(op):
            yield from operators(inner)


def _tooltip(index: int, op: OperatorDef) -> str:
    ends = (("reads", op.input), ("writes", op.output))
    lines = [f"{what} {', '.join(names)}" for what, names in ends if names]
    values = [f"{arg.name} = {_value(arg)}" for arg in op.arg]
    return "\n".join([f"op {index}: {op.type}", *lines, *values])


def _value(arg: Argument) -> str:
    """An argument's value, short."""
    if arg.HasField("f") or arg.HasField("i"):
        return f"{arg.f:g}" if arg.HasField("f") else str(arg.i)
    if arg.HasField("s"):
        return line(arg.s.decode(errors="replace"), "note").text
    values = [*arg.floats, *arg.ints, *(s.decode(errors="replace") for s in arg.strings)]
    shown = ", ".join(map(str, values[:8]))
    return f"[{shown}{', …' if len(values) > 8 else ''}]" if values else "a net or a tensor"
