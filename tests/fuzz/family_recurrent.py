"""Random recurrent models: layers with all attributes, and what stands around them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.growing import Growing, Maker, NotPossibleError, Tensor, grow
from tests.fuzz.random_nodes import UNARY
from tests.fuzz.random_onnx import finished, scan

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BOUNDED = ("Sigmoid", "Tanh", "HardSigmoid", "Softsign")


def layer(g: Growing) -> None:
    """A layer over [T, N, I]: every option of the operator at random."""
    x = g.pick(3, 3)
    if not isinstance(x.dims[2], int) or x.dims[2] == 0:
        raise NotPossibleError
    kind, hidden = g.one_of("LSTM", "GRU", "RNN"), g.one_of(1, 2, 5, 8, 17)
    more = _attributes(g, kind, hidden)
    count = 2 if more["direction"] == "bidirectional" else 1
    rows = GATES[kind] * hidden
    steps, batch = x.dims[:2]
    if g.opset >= 14 and g.rng.random() < 0.05:
        more["layout"] = 1
        steps, batch = batch, steps
    given: list[str | Tensor] = [
        x,
        g.floats(count, rows, x.dims[2]),
        g.floats(count, rows, hidden),
        g.one_of("", g.floats(count, 2 * rows)),
        _lengths(g, x, steps, batch) if "layout" not in more else "",
    ]
    if "layout" not in more:
        given += [_start(g, x, count, batch, hidden) for _ in range(1 + (kind == "LSTM"))]
        given += [g.one_of("", g.floats(count, 3 * hidden))] if kind == "LSTM" else []
    y = (steps, count, batch, hidden) if "layout" not in more else (batch, steps, count, hidden)
    h = (count, batch, hidden) if "layout" not in more else (batch, count, hidden)
    wanted = [(y, "f32"), (h, "f32"), (h, "f32")][: 2 + (kind == "LSTM")]
    results = [r if g.rng.random() < 0.8 else None for r in wanted]
    if not any(results):
        results[0] = wanted[0]
    made = g.add_all(kind, given, results, **more)
    if results[0] and "layout" not in more:
        _joined(g, made[0], count, hidden)


def _attributes(g: Growing, kind: str, hidden: int) -> dict[str, Any]:
    direction = g.one_of("forward", "reverse", "bidirectional")
    more: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if g.rng.random() < 0.2:
        more["clip"] = g.one_of(0.5, 2.0)
    if kind == "LSTM" and g.rng.random() < 0.3:
        more["input_forget"] = g.rng.randrange(2)
    if kind == "GRU" and g.rng.random() < 0.6:
        more["linear_before_reset"] = g.rng.randrange(2)
    if g.rng.random() < 0.25:
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind] * (1 + (direction == "bidirectional"))
        names = [g.one_of(*BOUNDED) for _ in range(count)]
        more["activations"] = names
        # ONNX Runtime takes one number for each function that has some, in order
        if "HardSigmoid" in names:
            more["activation_alpha"] = [0.2] * names.count("HardSigmoid")
            more["activation_beta"] = [0.5] * names.count("HardSigmoid")
    return more


def _lengths(g: Growing, x: Tensor, steps: int | str, batch: int | str) -> str | Tensor:
    """No lengths, known ones, or computed ones up to the number of steps. None is 0: of those
    ONNX Runtime's last states are zeros, and ours the first ones."""
    if g.rng.random() < 0.6:
        return ""
    if isinstance(steps, int) and isinstance(batch, int) and steps:
        numbers = [g.rng.randint(1, steps) for _ in range(batch)]
        return g.constant(np.array(numbers, np.int32))
    if g.opset < 13 or 0 in x.dims:
        raise NotPossibleError
    one = g.constant(np.ones(1, np.float32))
    numbers = g.listed("ReduceSum", x, {"axes": [0, 2]}, 13, (batch,), keepdims=0)
    part = g.add("Sigmoid", [numbers], (batch,))
    whole = g.add("Mul", [part, g.cast(g.size_of(x, 0), "f32")], (batch,))
    return g.cast(g.add("Max", [g.add("Round", [whole], (batch,)), one], (batch,)), "i32")


def _start(g: Growing, x: Tensor, count: int, batch: int | str, hidden: int) -> str | Tensor:
    """No first state, a known one, zeros of a computed shape, or a value of the model."""
    dims = (count, batch, hidden)
    match g.rng.randrange(4):
        case 0 if isinstance(batch, int):
            return g.floats(count, batch, hidden)
        case 1 if g.opset >= 9:
            sizes = [g.ints(count), g.size_of(x, 1), g.ints(hidden)]
            shape = g.add("Concat", sizes, (3,), "i64", axis=0)
            return g.add("ConstantOfShape", [shape], dims)
        case 2:
            fitting = [v for v in g.values if v.dims == dims and v.dtype == "f32"]
            return g.rng.choice(fitting) if fitting else ""
        case _:
            return ""


def _joined(g: Growing, y: Tensor, count: int, hidden: int) -> None:
    """Directions side by side: [T, N, directions H]."""
    if count == 1 and g.rng.random() < 0.7:
        g.squeezed(y, 1)
        return
    turned = (y.dims[0], y.dims[2], count, hidden)
    y = g.add("Transpose", [y], turned, perm=[0, 2, 1, 3])
    if 0 not in turned:
        g.add("Reshape", [y, g.ints(0, 0, -1)], (*turned[:2], count * hidden))


def dense(g: Growing) -> None:
    """A product with a bias and a function."""
    x, made = g.pick(2, 3), g.one_of(1, 3, 8, 16)
    if not isinstance(x.dims[-1], int):
        raise NotPossibleError
    dims = (*x.dims[:-1], made)
    y = g.add("MatMul", [x, g.floats(x.dims[-1], made)], dims)
    y = g.add("Add", [y, g.floats(made)], dims)
    g.add(g.one_of(*UNARY), [y], dims)


def residual(g: Growing) -> None:
    """A sum or product of two values of one shape."""
    x = g.pick(2, 3)
    y = g.rng.choice([v for v in g.values if v.dims == x.dims and v.dtype == "f32"])
    g.add(g.one_of("Add", "Mul", "Sub", "Max"), [x, y], x.dims)


def normalised(g: Growing) -> None:
    """Layer norm or batch norm."""
    x = g.pick(2, 3)
    size = x.dims[-1]
    if not isinstance(size, int):
        raise NotPossibleError
    if g.rng.random() < 0.5:
        g.add("LayerNormalization", [x, g.floats(size), g.floats(size)], x.dims, axis=-1)
    elif isinstance(channels := x.dims[1], int) and channels:
        ones = g.constant(np.ones(channels, np.float32))
        given = [x, g.floats(channels), g.floats(channels), g.floats(channels), ones]
        g.add("BatchNormalization", given, x.dims)


def pooled(g: Growing) -> None:
    """One row of each sequence: the last, the largest, the mean."""
    x = g.pick(3, 3)
    kind = g.one_of("Gather", "ReduceMean", "ReduceMax", "Slice")
    if x.dims[0] == 0:
        raise NotPossibleError
    if kind == "Gather":
        at = g.constant(np.array(-1 if g.opset >= 11 else 0, np.int64))
        g.add("Gather", [x, at], x.dims[1:], axis=0)
    elif kind == "Slice":
        lists = {"starts": [-1], "ends": [g.one_of((1 << 31) - 1, (1 << 63) - 1)], "axes": [0]}
        g.listed("Slice", x, lists, 10, (1, *x.dims[1:]))
    else:
        g.listed(kind, x, {"axes": [0]}, 18, x.dims[1:], keepdims=0)


def turned(g: Growing) -> None:
    """Other axes in front."""
    x = g.pick(3, 3)
    perm = g.one_of([1, 0, 2], [1, 2, 0], [0, 2, 1])
    g.add("Transpose", [x], tuple(x.dims[i] for i in perm), perm=perm)


def attention(g: Growing) -> None:
    """Each step as a mean of all steps, by products."""
    x = g.pick(3, 3)
    t, n, d = x.dims
    if not isinstance(d, int):
        raise NotPossibleError
    q = g.add("Transpose", [x], (n, t, d), perm=[1, 0, 2])
    k = g.add("Transpose", [x], (n, d, t), perm=[1, 2, 0])
    weights = g.add("Softmax", [g.add("MatMul", [q, k], (n, t, t))], (n, t, t), axis=2)
    g.add("MatMul", [weights, q], (n, t, d))


def embedded(g: Growing) -> None:
    """Rows of a table by computed places."""
    x, size = g.pick(2, 3), g.one_of(1, 4, 8)
    if x.dims[-1] == 0:
        raise NotPossibleError
    places = g.add("ArgMax", [x], x.dims[:-1], "i64", axis=x.rank - 1, keepdims=0)
    rows = x.dims[-1] if isinstance(x.dims[-1], int) else 64
    g.add("Gather", [g.floats(rows, size), places], (*places.dims, size), axis=0)


def reversed_rows(g: Growing) -> None:
    """The first rows of each sequence turned around."""
    x = g.pick(3, 3)
    steps, batch = x.dims[:2]
    if not isinstance(batch, int) or not isinstance(steps, int) or steps == 0:
        raise NotPossibleError
    lengths = g.ints(*(g.rng.randint(1, steps) for _ in range(batch)))
    g.add("ReverseSequence", [x, lengths], x.dims, time_axis=0, batch_axis=1)


def side_by_side(g: Growing) -> None:
    """Two values along the last axis."""
    x = g.pick(2, 3)
    last = x.dims[-1]
    fitting = [
        v for v in g.values if v.dtype == "f32" and v.rank == x.rank and v.dims[:-1] == x.dims[:-1]
    ]
    y = g.rng.choice(fitting)
    if not (isinstance(last, int) and isinstance(y.dims[-1], int)):
        raise NotPossibleError
    g.add("Concat", [x, y], (*x.dims[:-1], last + y.dims[-1]), axis=x.rank - 1)


MAKERS: list[Maker] = [
    *(layer, layer, layer, layer, dense, dense, residual, normalised, pooled, turned, attention),
    *(embedded, reversed_rows, side_by_side, scan),
]


def recurrent_model(rng: random.Random) -> Any:
    """Sequences, perhaps a state and a matrix, through a few layers."""
    g = Growing(rng, opset=rng.randint(7, 25))
    steps, batch = rng.choice(["T", "T", 1, 3, 0]), rng.choice(["N", "N", 1, 2])
    width = rng.choice([1, 2, 5, 8, 16])
    g.values = [Tensor("x", (steps, batch, width))]
    if rng.random() < 0.4:
        g.values.append(Tensor("h", (rng.choice([1, 2]), batch, rng.choice([1, 2, 5, 8, 17]))))
    if rng.random() < 0.3:
        g.values.append(Tensor("z", (steps, batch, rng.choice([1, 3]))))
    inputs = list(g.values)
    grow(g, 1, [layer])
    grow(g, rng.randint(1, 8), MAKERS)
    return finished(g, inputs)
