"""Random models of loops and branches, one inside the other."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import helper

from tests.frontends.onnx.models import graph, info, node
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow
from tests.fuzz.random_nodes import BODY, NODES
from tests.fuzz.random_onnx import finished

DEPTH = 2
"""How deep graphs lie inside of each other."""


def _grown(g: Growing, inside: Growing, count: int) -> None:
    """Nodes in a graph inside, loops and branches among them where it is not too deep."""
    deep = inside.prefix.count("_") > 2 * DEPTH
    inside.values += g.rng.sample(g.values, min(len(g.values), g.rng.randint(0, 2)))
    grow(inside, count, [*BODY, *([] if deep else CONTROL)])


def _ends(g: Growing, inside: Growing, wanted: Tensor, name: str) -> Any:
    """A node that gives the graph's result: some value of the shape wanted, kept small."""
    fitting = [v for v in inside.values if v.dims == wanted.dims and v.dtype == wanted.dtype]
    if not fitting:
        raise NotPossibleError
    kind = g.one_of("Tanh", "Identity", "Sigmoid") if wanted.dtype == "f32" else "Identity"
    return node(kind, g.rng.choice(fitting).name, name)


def branch(g: Growing) -> None:
    """An If on an input, on a sum, or on a size."""
    x = g.pick(0, 3)
    flags = [v for v in g.values if v.dtype == "i1" and v.dims == ()]
    match g.rng.randrange(3):
        case 0 if flags:
            chosen = g.rng.choice(flags)
        case 1 if x.rank and g.opset >= 9:
            size = g.squeezed(Tensor(g.size_of(x, 0).name, (1,), "i64"), 0)
            limit = g.constant(np.array(g.rng.randint(0, 5), np.int64))
            chosen = g.add("Greater", [size, limit], (), "i1")
        case _:
            axes = list(range(x.rank))
            total = x
            if axes:
                total = g.listed("ReduceSum", x, {"axes": axes}, 13, (), keepdims=0)
            chosen = g.add("Greater", [total, g.floats()], (), "i1")
    count = g.one_of(1, 1, 2)
    parts: list[Any] = []
    for i in range(2):
        inside = g.inner(x)
        inside.prefix += f"{i}_"
        _grown(g, inside, g.rng.randint(0, 3))
        names = [f"{inside.prefix}out{j}" for j in range(count)]
        ends = [_ends(g, inside, x, name) for name in names]
        made = graph([*inside.nodes, *ends], [], [info(n, None) for n in names], inside.constants)
        parts.append(made)
    results = [(x.dims, "f32")] * count
    g.add_all("If", [chosen], results, then_branch=parts[0], else_branch=parts[1])


def loop(g: Growing) -> None:
    """A Loop: counted, by a size, by a counter that is compared, or until data ends it."""
    x = g.pick(0, 3)
    inside = g.inner(Tensor("", x.dims))
    name = inside.prefix
    states = [Tensor(f"{name}s", x.dims)]
    inside.values = list(states)
    _grown(g, inside, g.rng.randint(1, 4))
    kind = g.one_of("counted", "counted", "size", "compared", "data")
    nodes, count = list(inside.nodes), ""
    nodes.append(_ends(g, inside, states[0], f"{name}out"))
    go, more = f"{name}c", list[Any]()
    if kind == "counted":
        count = g.constant(np.array(g.rng.randint(0, 4), np.int64))
    elif kind == "size" and x.rank:
        count = g.squeezed(Tensor(g.size_of(x, 0).name, (1,), "i64"), 0).name
    elif kind == "data":
        count = g.constant(np.array(g.rng.randint(1, 5), np.int64))
        axes = list(range(x.rank))
        total = Tensor(f"{name}out", x.dims)
        if axes:
            total = inside.listed("ReduceSum", total, {"axes": axes}, 13, (), keepdims=0)
            nodes.append(inside.nodes[-1])
        limit = inside.floats()
        more.append(node("Less", f"{total.name} {limit}", f"{name}d"))
        go = ""
    else:
        limit = inside.constant(np.array(g.rng.randint(0, 4), np.int64))
        more.append(node("Less", f"{name}i {limit}", f"{name}d"))
        go = ""
    nodes += more or [node("Identity", go, f"{name}d")]
    rows = [v for v in inside.values if v.dtype == "f32" and _is_new(v, inside)]
    stacked = g.rng.sample(rows, min(len(rows), g.one_of(0, 1, 2))) if kind != "data" else []
    named = [f"{name}y{i}" for i in range(len(stacked))]
    nodes += [node("Identity", v.name, n) for v, n in zip(stacked, named, strict=True)]
    inputs = [info(f"{name}i", [], "i64"), info(f"{name}c", [], "i1")]
    inputs.append(info(states[0].name, None))
    outputs = [info(f"{name}d", [], "i1"), info(f"{name}out", None)]
    outputs += [info(n, None) for n in named]
    made = graph(nodes, inputs, outputs, inside.constants)
    yes = g.constant(np.array(True)) if kind != "counted" or g.rng.random() < 0.5 else ""
    rows_of = f"{g.fresh()}?r"
    results = [(x.dims, "f32"), *(((rows_of, *v.dims), "f32") for v in stacked)]
    g.add_all("Loop", [count, yes, x], results, body=made)


def _is_new(value: Tensor, inside: Growing) -> bool:
    """Whether a value is computed inside and of a shape that can be told."""
    known = all(isinstance(d, int) or "?" not in d for d in value.dims)
    return known and any(value.name in n.output for n in inside.nodes)


def scan(g: Growing) -> None:
    """A Scan over one or two sequences, along any axis, either way."""
    if g.opset < 9:
        raise NotPossibleError
    x = g.pick(1, 3)
    axis = g.axis(x)
    row = (*x.dims[:axis], *x.dims[axis + 1 :])
    others = [v for v in g.values if v.dims == x.dims and v.dtype == "f32" and v != x]
    xs = [x, *others[: g.rng.randint(0, 1)]]
    inside = g.inner()
    name = inside.prefix
    given = [Tensor(f"{name}x{i}", row) for i in range(len(xs))]
    held = [v for v in g.values if v.dtype == "f32" and v.rank < 3]
    start = g.rng.choice(held) if held and g.rng.random() < 0.7 else None
    state = [Tensor(f"{name}s", start.dims)] if start else []
    inside.values = [*state, *given]
    _grown(g, inside, g.rng.randint(1, 4))
    nodes = list(inside.nodes)
    nodes += [_ends(g, inside, s, f"{name}out") for s in state]
    rows = [v for v in inside.values if v.dtype == "f32" and _is_new(v, inside)]
    stacked = g.rng.sample(rows, min(len(rows), g.one_of(1, 2)))
    if not stacked and not state:
        raise NotPossibleError
    named = [f"{name}y{i}" for i in range(len(stacked))]
    nodes += [node("Identity", v.name, n) for v, n in zip(stacked, named, strict=True)]
    inputs = [info(v.name, None) for v in (*state, *given)]
    outputs = [info(f"{name}out", None) for _ in state] + [info(n, None) for n in named]
    made = graph(nodes, inputs, outputs, inside.constants)
    more: dict[str, Any] = {"num_scan_inputs": len(xs), "scan_input_axes": [axis] * len(xs)}
    more["scan_input_directions"] = [g.rng.randrange(2) for _ in xs]
    if stacked:
        more["scan_output_axes"] = [0] * len(stacked)
        more["scan_output_directions"] = [g.rng.randrange(2) for _ in stacked]
    results = [(start.dims, "f32")] if start else []
    results += [((x.dims[axis], *v.dims), "f32") for v in stacked]
    given_names = [*([start] if start else []), *xs]
    g.add_all("Scan", given_names, results, body=made, **more)


def listed(g: Growing) -> None:
    """A loop that appends to a list, joined behind it."""
    x = g.pick(1, 3)
    if g.opset < 13 or x.dims[0] == 0:
        raise NotPossibleError
    name = f"{g.fresh()}_"
    at = g.one_of("i", "last")
    place = f"{name}i" if at == "i" else f"{name}k"
    constants = {f"{name}k": np.array(-1, np.int64)}
    nodes = [
        node("Gather", f"{x.name} {place}", f"{name}r", axis=0),
        node("Tanh", f"{name}r", f"{name}t"),
        node("SequenceInsert", f"{name}l {name}t", f"{name}m"),
        node("Identity", f"{name}c", f"{name}d"),
    ]
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None))
    inputs = [info(f"{name}i", [], "i64"), info(f"{name}c", [], "i1")]
    inputs.append(helper.make_value_info(f"{name}l", sequence))
    outputs = [info(f"{name}d", [], "i1"), helper.make_value_info(f"{name}m", sequence)]
    made = graph(nodes, inputs, outputs, constants)
    count = g.squeezed(Tensor(g.size_of(x, 0).name, (1,), "i64"), 0)
    empty = g.add("SequenceEmpty", [], (), "list")
    full = g.add("Loop", [count, "", empty], (), "list", body=made)
    g.add("ConcatFromSequence", [full], x.dims, axis=0, new_axis=1)


CONTROL: list[Maker] = [branch, loop, scan, loop, scan, listed]
MAKERS: list[Maker] = [*CONTROL, *CONTROL, *NODES]


def control_model(rng: random.Random) -> Any:
    """Sequences, a flag and a state through loops, branches and what stands between."""
    g = Growing(rng, opset=rng.randint(8, 25))
    batch: int | str = rng.choice(["N", "N", 1, 3])
    steps: int | str = rng.choice(["T", "T", 1, 4])
    width = rng.choice([1, 2, 5, 8])
    shapes: list[Dims] = [(steps, batch, width), (batch, width), (width,)]
    g.values = [Tensor(f"x{i}", rng.choice(shapes)) for i in range(rng.randint(1, 2))]
    if rng.random() < 0.4:
        g.values.append(Tensor("flag", (), "i1"))
    inputs = list(g.values)
    grow(g, 1, CONTROL)
    grow(g, rng.randint(1, 5), MAKERS)
    g.values = [v for v in g.values if v.dtype != "list"]
    return finished(g, inputs)
