"""Loops that carry tensors to which each iteration appends rows, as `y = torch.cat([y, row])`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import KINDS, body, info, model, node
from tests.frontends.onnx.partial_rows import compared, rows

pytestmark = pytest.mark.peers

NAMED = {"last": np.array([-1]), "half": np.float32(0.5), "yes": np.array(True)}
HALVED = [node("Gather", "v last", "row", axis=0), node("Mul", "row half", "less")]


def until_small(trips: str, front: bool = False) -> Any:
    """Half of the last row is appended, or put in front, until its sum is small."""
    order = "less v" if front else "v less"
    nodes = [*HALVED, node("Concat", order, "v2", axis=0), node("Abs", "less", "size")]
    nodes += [node("ReduceSum", "size", "sum", keepdims=0), node("Greater", "sum limit", "on")]
    loop = node("Loop", f"{trips} yes x", "y", body=body(nodes, condition="on"))
    constants = {**NAMED, "limit": np.float32(0.5), "eight": np.array(8)}
    return model([loop], [info("x", ["N", 4])], [info("y", None)], constants)


@pytest.mark.parametrize("front", [False, True])
def test_until_data_ends_it(front: bool) -> None:
    """After one iteration, after some, and after as many as there may be."""
    calls = [{"x": rows(2) * size} for size in (0.01, 1, 20, 1e6)]
    compared(until_small("eight", front), [*calls, {"x": rows(1)}])


def test_rows_of_half_precision() -> None:
    """As converters to float16 write it: the state stays one of float16."""
    nodes = [*HALVED, node("Concat", "v less", "v2", axis=0), node("Cast", "less", "wide", to=1)]
    nodes += [node("ReduceMax", "wide", "most", keepdims=0), node("Greater", "most limit", "on")]
    loop = node("Loop", "eight yes x", "y", body=body(nodes, condition="on"))
    constants = {**NAMED, "limit": np.float32(0.5), "eight": np.array(8), "half": np.float16(0.5)}
    made = model([loop], [info("x", ["N", 4], "f16")], [info("y", None, "f16")], constants)
    for declared in (made.graph.node[0].attribute[0].g.input[2], *loop_outputs(made)):
        declared.type.tensor_type.elem_type = KINDS["f16"]
    compared(made, [{"x": (np.abs(rows(2)) * size).astype(np.float16)} for size in (0.01, 1, 20)])


def loop_outputs(made: Any) -> list[Any]:
    """What the body of the first node says of the states."""
    return list(made.graph.node[0].attribute[0].g.output[1:])


def test_without_a_bound() -> None:
    made = until_small("_")
    with pytest.raises(CompileError, match="--max-iterations bounds it"):
        rnncc.compile(made)
    compared(made, [{"x": rows(2)}], max_iterations=6)
    with pytest.raises(RunError):
        rnncc.compile(made, max_iterations=6).run({"x": rows(2) * 1e6})


def each_step() -> Any:
    """The iterations read all rows that there are: the weights of as many are a softmax."""
    nodes = [node("Gather", "xs i", "x", axis=0), node("Unsqueeze", "x axis", "row")]
    nodes += [node("ReduceSum", "v last", "sums"), node("Softmax", "sums", "weights", axis=0)]
    nodes += [node("Mul", "v weights", "parts"), node("ReduceSum", "parts axis", "mean")]
    nodes += [node("Add", "mean row", "new"), node("Concat", "v new", "v2", axis=0)]
    nodes.append(node("Identity", "go", "on"))
    count = [node("Shape", "xs", "s", end=1), node("Squeeze", "s", "n")]
    loop = node("Loop", "n yes x0", "y", body=body(nodes, condition="on"))
    inputs = [info("xs", ["T", 4]), info("x0", [2, 4])]
    return model([*count, loop], inputs, [info("y", None)], {**NAMED, "axis": np.array([0])})


@pytest.mark.parametrize("steps", [1, 5])
def test_a_row_for_each_step(steps: int) -> None:
    compared(each_step(), [{"xs": rows(steps), "x0": rows(2)}])
    assert rnncc.compile(each_step()).outputs["y"].shape == ("T + 2", 4)


def test_gradients_of_a_row_for_each_step() -> None:
    """By differences of the sum of all rows' squares."""
    trained: Any = rnncc.compile(each_step(), train=True)
    inputs = {"xs": rows(3), "x0": rows(2)}
    y, tape = trained.forward(inputs)
    grads = trained.backward(tape, {"y": 2 * y["y"]})
    for name, x in inputs.items():
        moved = np.zeros_like(x)
        moved[1, 2] = 1e-2
        more, less = (
            np.sum(np.square(trained.run(inputs | {name: x + by})["y"], dtype=np.float64))
            for by in (moved, -moved)
        )
        np.testing.assert_allclose(grads[name][1, 2], (more - less) / 2e-2, rtol=1e-3)


@pytest.mark.parametrize("way", ["doubled", "cut"])
def test_rows_that_are_not_added_evenly(way: str) -> None:
    """Two rows of two become four at first, as do rows of which some are cut off later."""
    nodes = [node("Identity", "go", "on")]
    if way == "doubled":
        nodes.append(node("Concat", "v v", "v2", axis=0))
    else:
        nodes += [node("Slice", "v three end", "w"), node("Concat", "w row", "v2", axis=0)]
    count = [node("Shape", "xs", "s", end=1), node("Squeeze", "s", "n")]
    loop = node("Loop", "n yes x0", "y", body=body(nodes, condition="on"))
    constants = {**NAMED, "three": np.array([-3]), "end": np.array([2**62]), "row": rows(1)}
    inputs = [info("xs", ["T", 4]), info("x0", [2, 4])]
    made = model([*count, loop], inputs, [info("y", None)], constants)
    with pytest.raises(CompileError, match="carries values whose shapes"):
        rnncc.compile(made)
