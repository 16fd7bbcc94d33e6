"""Rewrites ONNX models into others that the standard allows, if it allowed the first ones.

What they compute changes little or not at all; how it is written does: nodes stand in branches,
loops and functions, sizes are open, elements are of another type.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, helper, numpy_helper

from tests.fuzz.fuzz_onnx import graphs

Rewriting = Callable[[random.Random, Any], None]
FLOAT, INT64, BOOL = 1, 7, 9
OTHER_TYPES = {1: [11, 10, 16], 11: [1], 7: [6], 6: [7], 10: [1], 3: [2, 6], 2: [3]}
INSERTED: list[tuple[str, dict[str, Any]]] = [
    *(("Identity", {}), ("Neg", {}), ("Relu", {}), ("Shape", {}), ("Transpose", {})),
    *(("NonZero", {}), ("Flatten", {"axis": 1}), ("Softmax", {"axis": -1}), ("ArgMax", {})),
    *(("Cast", {"to": kind}) for kind in (1, 2, 3, 6, 7, 9, 10, 11)),
]


def open_sizes(rng: random.Random, model: Any) -> None:
    """Numbers in the shapes of inputs become symbols: one for all that are equal, or each its
    own."""
    same, count = rng.random() < 0.6, 0
    for info in model.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and rng.random() < 0.6:
                count += 1
                dim.dim_param = f"S{dim.dim_value}" if same else f"D{count}"
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


def change_all_types(rng: random.Random, model: Any) -> None:
    """One type becomes another wherever it stands."""
    given = {info.type.tensor_type.elem_type for info in model.graph.input}
    if not given & OTHER_TYPES.keys():
        return
    old = rng.choice(sorted(given & OTHER_TYPES.keys()))
    new = rng.choice(OTHER_TYPES[old])
    for graph in graphs(model):
        attributes = [a for node in graph.node for a in node.attribute]
        for tensor in [*getattr(graph, "initializer", ()), *(a.t for a in attributes if a.t.dims)]:
            if tensor.data_type == old:
                array = numpy_helper.to_array(tensor)
                array = array.astype(helper.tensor_dtype_to_np_dtype(new))
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        for attribute in attributes:
            if attribute.name == "to" and attribute.i == old:
                attribute.i = new
        if not isinstance(graph, FunctionProto):
            for info in (*graph.input, *graph.output, *graph.value_info):
                if info.type.tensor_type.elem_type == old:
                    info.type.tensor_type.elem_type = new


def insert_node(rng: random.Random, model: Any) -> None:
    """An operator of one operand between a value and a node that reads it."""
    nodes = model.graph.node
    place = rng.randrange(len(nodes))
    read = [k for k, name in enumerate(nodes[place].input) if name]
    if read:
        k, (kind, attributes) = rng.choice(read), rng.choice(INSERTED)
        new = helper.make_node(kind, [nodes[place].input[k]], [_fresh(rng)], **attributes)
        nodes[place].input[k] = new.output[0]
        nodes.insert(place, new)


class _Some:
    """Some nodes that follow each other, and what becomes of them.

    Attributes:
        made: what they write.
        needed: of this, what others read or the model gives.
        free: what they read of others.
    """

    def __init__(self, rng: random.Random, model: Any) -> None:
        self.graph, self.rng, self._tag = model.graph, rng, _fresh(rng)
        count = len(self.graph.node)
        self.place = rng.randrange(count)
        end = min(count, self.place + rng.choice([1, 1, 2, 3, count]))
        self.nodes = [deepcopy(node) for node in self.graph.node[self.place : end]]
        self._rest = [*self.graph.node[: self.place], *self.graph.node[end:]]
        self.made = [name for node in self.nodes for name in node.output if name]
        read = _read_by(self._rest) | {info.name for info in self.graph.output}
        self.needed = [name for name in self.made if name in read]
        self.free = sorted(_read_by(self.nodes) - {*self.made})

    @property
    def possible(self) -> bool:
        """Whether they can stand elsewhere: lists have other types, graphs inside keep names."""
        lists = ("Sequence", "Optional")
        held = any(word in node.op_type for node in self.nodes for word in lists)
        nested = any(a.type == AttributeProto.GRAPH for n in self.nodes for a in n.attribute)
        return bool(self.needed) and not held and not nested

    def inner(self, name: str) -> str:
        """What a value is called where they stand then."""
        return f"{name}.{self._tag}"

    def renamed(self, names: Iterable[str]) -> list[Any]:
        """Copies in which some values have their inner names."""
        new = {name: self.inner(name) for name in names}
        copies = [deepcopy(node) for node in self.nodes]
        for node in copies:
            node.input[:] = [new.get(name, name) for name in node.input]
            node.output[:] = [new.get(name, name) for name in node.output]
        return copies

    def infos(self) -> list[Any]:
        """What the graph that they are in then gives."""
        known = {info.name: info for info in (*self.graph.output, *self.graph.value_info)}
        found = list[Any]()
        for name in self.needed:
            info = helper.make_tensor_value_info(name, FLOAT, None)
            info.CopyFrom(known.get(name, info))
            info.name = self.inner(name)
            found.append(info)
        return found

    def constant(self, number: int | list[int] | bool) -> str:
        """An initialiser's name."""
        name = _fresh(self.rng)
        array = np.array(number, bool if isinstance(number, bool) else np.int64)
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def replace_with(self, nodes: Sequence[Any]) -> None:
        """Put others in their place."""
        nodes = [*self._rest[: self.place], *nodes, *self._rest[self.place :]]
        del self.graph.node[:]
        self.graph.node.extend(nodes)


def into_branches(rng: random.Random, model: Any) -> None:
    """Both branches of an If are some nodes; an input of the model decides, or a constant."""
    some = _Some(rng, model)
    if some.possible:
        then = helper.make_graph(some.renamed(some.made), "then", [], some.infos())
        chosen = some.constant(rng.random() < 0.5)
        if rng.random() < 0.5:
            chosen = _fresh(rng)
            model.graph.input.append(helper.make_tensor_value_info(chosen, BOOL, []))
        branches: dict[str, Any] = {"then_branch": then, "else_branch": then}
        some.replace_with([helper.make_node("If", [chosen], some.needed, **branches)])


def into_loop(rng: random.Random, model: Any) -> None:
    """Some nodes are computed by each iteration of a loop, and those of the last are read."""
    some = _Some(rng, model)
    if not some.possible:
        return
    number, going, still = (_fresh(rng) for _ in range(3))
    count = rng.choice([1, 1, 2, 3])
    body = helper.make_graph(
        [helper.make_node("Identity", [going], [still]), *some.renamed(some.made)],
        "body",
        [helper.make_tensor_value_info(n, t, []) for n, t in ((number, INT64), (going, BOOL))],
        [helper.make_tensor_value_info(still, BOOL, []), *some.infos()],
    )
    rows = [f"{some.inner(name)}.rows" for name in some.needed]
    loop = helper.make_node("Loop", [some.constant(count), ""], rows, body=body)
    some.replace_with([loop, *_last(some, rows, count)])


def into_scan(rng: random.Random, model: Any) -> None:
    """Some nodes are computed by a Scan over an axis of one or two equal rows of the inputs."""
    some = _Some(rng, model)
    infos = {info.name: info for info in model.graph.input}
    read = [name for name in some.free if name in infos]
    if not some.possible or not read:
        return
    count, axes = rng.choice([1, 2]), some.constant([0])
    nodes, rows = list[Any](), list[str]()
    inputs = [deepcopy(infos[name]) for name in read]
    for name, info in zip(read, inputs, strict=True):
        info.name, one = some.inner(name), _fresh(rng)
        rows.append(_fresh(rng))
        nodes.append(helper.make_node("Unsqueeze", [name, axes], [one]))
        nodes.append(helper.make_node("Concat", [one] * count, rows[-1:], axis=0))
    body = helper.make_graph(some.renamed([*some.made, *read]), "body", inputs, some.infos())
    made = [f"{some.inner(name)}.rows" for name in some.needed]
    scan = helper.make_node("Scan", rows, made, body=body, num_scan_inputs=len(read))
    some.replace_with([*nodes, scan, *_last(some, made, count)])


def into_function(rng: random.Random, model: Any) -> None:
    """Some nodes are a function of the model."""
    some = _Some(rng, model)
    if not some.possible:
        return
    kind, given = _fresh(rng), [some.inner(name) for name in some.free]
    inside = some.renamed([*some.made, *some.free])
    made = [some.inner(name) for name in some.needed]
    function = helper.make_function("own", kind, given, made, inside, model.opset_import)
    model.functions.append(function)
    if all(opset.domain != "own" for opset in model.opset_import):
        model.opset_import.add(domain="own", version=1)
    model.ir_version = max(model.ir_version, 8)
    some.replace_with([helper.make_node(kind, some.free, some.needed, domain="own")])


REWRITINGS: list[Rewriting] = [
    *(open_sizes, change_all_types, insert_node, insert_node),
    *(into_branches, into_loop, into_scan, into_function),
]


def rewritten(rng: random.Random, model: Any) -> bytes:
    """A model after one to three of them."""
    made = deepcopy(model)
    for _ in range(rng.choice([1, 2, 3])):
        if made.graph.node:
            rng.choice(REWRITINGS)(rng, made)
    return made.SerializeToString()


def _last(some: _Some, rows: Sequence[str], count: int) -> list[Any]:
    """Nodes that read the last row of each."""
    at = some.constant(count - 1)
    pairs = zip(rows, some.needed, strict=True)
    return [helper.make_node("Gather", [row, at], [name], axis=0) for row, name in pairs]


def _read_by(nodes: Iterable[Any]) -> set[str]:
    """What nodes read, and the graphs inside them."""
    found = set[str]()
    for node in nodes:
        found |= {name for name in node.input if name}
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found |= _read_by(attribute.g.node) | {o.name for o in attribute.g.output}
    return found


def _fresh(rng: random.Random) -> str:
    return f"r{rng.randrange(1 << 40)}"
