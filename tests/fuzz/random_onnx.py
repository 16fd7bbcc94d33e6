"""Random ONNX models that the standard allows: a few nodes over inputs with open sizes.

Shapes are followed while the model grows, so that most of what comes out is accepted.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.frontends.onnx.models import graph, info, model, node
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow
from tests.fuzz.random_nodes import BODY, NODES

LONGEST = 9


def recurrent(g: Growing) -> None:
    """A layer over a sequence [T, N, I], its directions joined."""
    x = g.pick(3, 3)
    kind, hidden = g.rng.choice(["LSTM", "GRU", "RNN"]), g.rng.choice([1, 3, 8])
    if not isinstance(x.dims[2], int):
        raise NotPossibleError
    direction = g.rng.choice(["forward", "reverse", "bidirectional"])
    count, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    w = g.floats(count, gates * hidden, x.dims[2])
    r = g.floats(count, gates * hidden, hidden)
    b = g.rng.choice(["", g.floats(count, 2 * gates * hidden)])
    more = {"hidden_size": hidden, "direction": direction}
    dims = (x.dims[0], count, x.dims[1], hidden)
    y = g.add(kind, [x, w, r, b], dims, **more)
    if count == 1:
        g.squeezed(y, 1)


def scan(g: Growing) -> None:
    """A loop over the first axis with a state of a row's shape."""
    x = g.pick(1, 3)
    row = x.dims[1:]
    if any(isinstance(d, str) for d in row):
        raise NotPossibleError
    body = g.inner()
    body.values = [Tensor(f"{body.prefix}s", row), Tensor(f"{body.prefix}x", row)]
    grow(body, g.rng.randint(1, 4), BODY)
    states = [v for v in body.values[2:] if v.dims == row and v.dtype == "f32"]
    if not states:
        raise NotPossibleError
    state, y = g.rng.choice(states), g.rng.choice(body.values[2:])
    if any(isinstance(d, str) for d in y.dims) or y.dtype == "i1":
        raise NotPossibleError
    closed = [
        node("Tanh", state.name, f"{body.prefix}out"),
        node("Identity", y.name, f"{body.prefix}y"),
    ]
    inputs = [info(v.name, list(row)) for v in body.values[:2]]
    outputs = [info(f"{body.prefix}out", list(row)), info(f"{body.prefix}y", list(y.dims), y.dtype)]
    made = graph([*body.nodes, *closed], inputs, outputs, body.constants)
    zeros = g.constant(np.zeros([int(d) for d in row], np.float32))
    last, ys = g.fresh() + "l", g.fresh() + "y"
    more = {"num_scan_inputs": 1, "scan_input_directions": [g.rng.randrange(2)]}
    g.nodes.append(node("Scan", f"{zeros} {x.name}", f"{last} {ys}", body=made, **more))
    g.values += [Tensor(last, row), Tensor(ys, (x.dims[0], *y.dims), y.dtype)]


def branch(g: Growing) -> None:
    """One of two graphs, as a sum decides."""
    x = g.pick(0, 3)
    total = g.add("ReduceSum", [x], (), keepdims=0)
    chosen = g.add("Greater", [total, g.floats()], (), "i1")
    parts: list[Any] = []
    for i in range(2):
        inside = g.inner(x)
        inside.prefix += f"{i}_"
        grow(inside, g.rng.randint(1, 3), BODY)
        fitting = [v for v in inside.values if v.dims == x.dims and v.dtype == "f32"]
        name = f"{inside.prefix}out"
        end = node("Identity", g.rng.choice(fitting).name, name)
        made = graph([*inside.nodes, end], [], [info(name, None)], inside.constants)
        parts.append(made)
    g.add("If", [chosen], x.dims, then_branch=parts[0], else_branch=parts[1])


def loop(g: Growing) -> None:
    """A counted loop that carries a value."""
    x = g.pick(0, 3)
    body = g.inner()
    carried = Tensor(f"{body.prefix}s", x.dims)
    body.values = [carried]
    grow(body, g.rng.randint(1, 4), BODY)
    fitting = [v for v in body.values if v.dims == x.dims and v.dtype == "f32"]
    end = [
        node("Tanh", g.rng.choice(fitting).name, f"{body.prefix}out"),
        node("Identity", f"{body.prefix}c", f"{body.prefix}d"),
    ]
    inputs = [info(f"{body.prefix}i", [], "i64"), info(f"{body.prefix}c", [], "i1")]
    inputs.append(info(carried.name, list(x.dims)))
    outputs = [info(f"{body.prefix}d", [], "i1"), info(f"{body.prefix}out", None)]
    made = graph([*body.nodes, *end], inputs, outputs, body.constants)
    count = g.constant(np.array(g.rng.randint(0, 4), np.int64))
    g.add("Loop", [count, "", x], x.dims, body=made)


MAKERS: list[Maker] = [*NODES, recurrent, scan, scan, branch, loop]


def random_model(rng: random.Random) -> Any:
    """A model of one to three inputs, up to nine families of nodes and a few outputs."""
    g = Growing(rng)
    width = rng.choice([1, 2, 3, 4, 8, 16, 17])
    rows: int | str = rng.choice(["N", "N", 1, 2, 5])
    steps: int | str = rng.choice(["T", "T", 3])
    shapes: list[Dims] = [(steps, rows, width), (rows, width), (width,), (rows, 2, width, 3)]
    g.values = [Tensor(f"x{i}", rng.choice(shapes)) for i in range(rng.randint(1, 3))]
    inputs = list(g.values)
    grow(g, rng.randint(1, LONGEST), MAKERS)
    return finished(g, inputs)


def finished(g: Growing, inputs: list[Tensor]) -> Any:
    """What has grown as a model: its last value and perhaps others are the outputs."""
    made = [v for v in g.values if v not in inputs]
    if not made:
        floats = next(v for v in inputs if v.dtype == "f32")
        made = [g.add("Tanh", [floats], floats.dims)]
    others = g.rng.sample(made, min(len(made), g.rng.randint(0, 2)))
    outputs = {v.name: v for v in [made[-1], *others]}
    # declared ranks would be checked against what we follow here, so nothing is declared
    declared = [info(name, None, v.dtype) for name, v in outputs.items()]
    given = [info(v.name, list(v.dims), v.dtype) for v in inputs]
    domains = {"com.microsoft": 1} if any(n.domain for n in g.nodes) else {}
    return model(g.nodes, given, declared, g.constants, opset=g.opset, domains=domains)
