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
    *(_one("LogSoftmax", axis=-1), _turned, _less_its_own, _chosen, _joined),
]
WITH_ROWS: list[Step] = [*STEPS, _product, _with_rows]
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
        step, y = rng.choice(WITH_ROWS), f"s{number}"
        nodes += step(rng, s, y, rank)
        s, rank = y, rank + (step is _joined)
    nodes += rng.choice(ENDS)(rng, s, "y", rank)
    read = {name for made in nodes for name in made.input}
    constants = {name: array for name, array in CONSTANTS.items() if name in read}
    inputs = [info("x", ["T", 4]), info("m", ["T"], "i1")]
    return model(nodes, inputs, [info("y", None)], constants)


AXES = {"first": np.array([0]), "-1": np.array([-1]), "-2": np.array([-2]), "one": np.array([1])}
BOUNDS: dict[str, Any] = {
    **{**AXES, "both": np.array([-1, -2]), "end": np.array([2**62]), "half": np.float32(0.5)},
    **{"flat": np.array([-1]), "two": np.array([2]), "back": np.array([-(2**62)])},
}
MOST = [
    *(node("ReduceMax", "a", "ma", keepdims=1), node("ReduceMax", "b", "mb", keepdims=1)),
    *(node("Min", "ma mb", "least"), node("Sub", "ma one", "less")),
]
"""Numbers of rows, as vectors of one."""


def _cut(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    """Along one axis or both; along the last two again."""
    bounds = ("first ma", "first mb", "first least", "one end", "less end", "first -1", "one ma")
    one, other = rng.choice(bounds), rng.choice(bounds)
    if rng.random() < 0.5:
        (start, end), (start2, end2) = one.split(), other.split()
        made = [node("Concat", f"{start} {start2}", f"{y}s", axis=0)]
        made.append(node("Concat", f"{end} {end2}", f"{y}e", axis=0))
        return [*made, node("Slice", f"{s} {y}s {y}e both", y)]
    return [node("Slice", f"{s} {one} -1", f"{y}a"), node("Slice", f"{y}a {other} -2", y)]


def _squared(rng: random.Random, s: str, y: str, rank: int) -> list[Any]:
    """Products of the rows, or of the columns."""
    turned = _turned(rng, s, f"{y}t", rank)
    pair = rng.choice((f"{s} {y}t", f"{y}t {s}"))
    return [*turned, node("MatMul", pair, f"{y}m"), node("Tanh", f"{y}m", y)]


CUTS: list[Step] = [*STEPS, _cut, _squared]
CUT_ENDS: list[Step] = [
    *ENDS[:2],
    *(_one(f"Reduce{kind}", axes=[-1, -2], keepdims=1) for kind in ("Max", "Mean", "L2")),
    _one("ReduceSum", "both"),
    _one("ReduceMin", keepdims=0),
    _one("Reshape", "flat"),
    *(_one("Flatten", axis=axis) for axis in (0, 1, -2)),
    lambda rng, s, y, rank: [node("Reshape", f"{s} flat", "z"), node("Softmax", "z", y, axis=0)],
]


def cut_model(rng: random.Random) -> Any:
    """y of x [N, T, U], which is cut where the largest of a and of b say."""
    nodes, s, rank = [*MOST, *_cut(rng, "x", "s0", 3)], "s0", 3
    for number in range(1, rng.randint(2, 7)):
        step, y = rng.choice(CUTS), f"s{number}"
        nodes += step(rng, s, y, rank)
        s, rank = y, rank + (step is _joined)
    nodes += rng.choice(CUT_ENDS)(rng, s, "y", rank)
    inputs = [info("x", ["N", "T", "U"]), info("a", ["N"], "i64"), info("b", ["N"], "i64")]
    return model(nodes, inputs, [info("y", None)], BOUNDS)
