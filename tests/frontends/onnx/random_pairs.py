"""Random chains of operators over scores between rows whose number the run decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.frontends.onnx.models import info, model, node
from tests.frontends.onnx.partial_rows import rows

CONSTANTS: dict[str, Any] = {
    **{"half": np.float32(0.5), "first": np.array([0]), "single": np.array([1])},
    **{"-1": np.array([-1]), "-2": np.array([-2]), "w": rows(4, 4)},
}
BEGIN = [
    *(node("Compress", "x m", "r", axis=0), node("MatMul", "r w", "rw")),
    *(node("Transpose", "rw", "c", perm=[1, 0]), node("MatMul", "r c", "s0")),
]
"""Rows r [R, 4] and their scores s0 [R, R]."""

Step = Callable[[random.Random, str, str, int], list[Any]]
"""From s, the name of the result, and how many axes s has: what makes this."""


def _one(kind: str, others: str = "", **attributes: Any) -> Step:
    return lambda rng, s, y, rank: [node(kind, f"{s} {others}", y, **attributes)]


def _turned(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    order = [*range(rank - 2), rank - 1, rank - 2]
    return [node("Transpose", s, y, perm=order)]


def _less_its_own(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    kind, axis = rng.choice(("Max", "Mean", "Sum", "Min")), rng.choice((-1, -2))
    more: Any = {} if kind == "Sum" else {"axes": [axis]}
    reduced = node(f"Reduce{kind}", f"{s} {axis}" if kind == "Sum" else s, f"{y}a", **more)
    return [reduced, node("Sub", f"{s} {y}a", y)]


def _product(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    letters = "abcd"[: rank - 2]
    by_letters = node("Einsum", f"{s} s0", f"{y}a", equation=f"{letters}ij,kj->{letters}ik")
    made = rng.choice((node("MatMul", f"{s} s0", f"{y}a"), by_letters))
    return [made, node("Tanh", f"{y}a", y)]


def _with_rows(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    kept = rng.randrange(2)
    return [node("ReduceSum", "r -1", f"{y}u", keepdims=kept), node("Add", f"{s} {y}u", y)]


def _chosen(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    return [node("Greater", f"{s} half", f"{y}g"), node("Where", f"{y}g {s} half", y)]


def _joined(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    made = [node("Unsqueeze", f"{s} first", f"{y}a"), node("Neg", f"{y}a", f"{y}b")]
    return [*made, node("Concat", f"{y}a {y}b", f"{y}c", axis=0), node("Softmax", f"{y}c", y)]


STEPS: list[Step] = [
    *(_one("Relu"), _one("Mul", "half"), _one("Softmax", axis=-1), _one("Softmax", axis=-2)),
    *(_one("LogSoftmax", axis=-1), _turned, _less_its_own, _product, _with_rows, _chosen, _joined),
]
ENDS: list[Step] = [
    _one("ReduceSum", "-1", keepdims=0),
    _one("ReduceMean", axes=[-2], keepdims=0),
    _one("MatMul", "r"),
    lambda rng, s, y, rank: [
        *(node("Shape", s, "sizes"), node("Concat", "single sizes", "shape", axis=0)),
        *(node("Reshape", f"{s} shape", "z"), node("ReduceMax", "z", y, axes=[-1], keepdims=0)),
    ],
]


def pair_model(rng: random.Random) -> Any:
    """y of x [T, 4], of which m [T] chooses rows."""
    nodes, s, rank = [*BEGIN], "s0", 2
    for number in range(1, rng.randint(3, 8)):
        step, y = rng.choice(STEPS), f"s{number}"
        nodes += step(rng, s, y, rank)
        s, rank = y, rank + (step is _joined)
    nodes += rng.choice(ENDS)(rng, s, "y", rank)
    read = {name for made in nodes for name in made.input}
    constants = {name: array for name, array in CONSTANTS.items() if name in read}
    inputs = [info("x", ["T", 4]), info("m", ["T"], "i1")]
    return model(nodes, inputs, [info("y", None)], constants)
