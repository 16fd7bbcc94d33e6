"""Parts of a tensor that an iteration of a Loop takes by its number, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    assert_close,
    body,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)
from tests.frontends.onnx.partial_rows import compared

W = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.3, 0.0, 0.6]], np.float32)
H = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]], np.float32)


def sliced(start: str, end: str, steps: str, *, count: tuple[str, str] = ("Sub", "t one")) -> Any:
    """A loop over all rows but the last along axis 1 of x, of which each iteration takes a part."""
    part = [
        *[node("Add", "k one", "k2"), node("Add", "k two", "k3")],
        *[node("Add", "k t", "kt"), node("Mod", "kt t", "km")],
        *[node("Mul", "k two", "e"), node("Add", "e two", "e2"), node("Add", "e2 one", "e3")],
        *[node("Unsqueeze", f"{name} zero0", f"{name}_") for name in "k k2 k3 km e e2 e3".split()],
        node("Slice", f"x {start} {end} one0 {steps}", "part"),
        node("ReduceSum", "part one0", "row", keepdims=0),
        *[node("MatMul", "v w", "p"), node("Add", "p row", "q"), node("Tanh", "q", "v2")],
        *[node("Identity", "q", "r"), node("Identity", "go", "go2")],
    ]
    inside = body(part, "k v", "r", condition="go2")
    inside.input[2].type.tensor_type.elem_type = inside.output[1].type.tensor_type.elem_type = 7
    nodes = [
        *[node("Shape", "x", "s"), node("Gather", "s one", "t"), node(*count, "n")],
        node("Loop", "n yes first h", "k9 y ys", body=inside),
    ]
    numbers = {
        **{"zero0": np.array([0]), "one0": np.array([1]), "two0": np.array([2]), "w": W},
        **{"one": np.array(1), "two": np.array(2), "first": np.array(0), "yes": np.array(True)},
        **{"far": np.array([10**9]), "end": np.array([2**31 - 1])},
    }
    inputs = [info("x", [2, "T", 3]), info("h", [2, 3])]
    return model(nodes, inputs, [info("y", None), info("ys", None)], numbers)


@pytest.mark.peers
@pytest.mark.parametrize(
    ("bounds", "count"),
    [
        pytest.param("k_ k2_ one0", ("Sub", "t one"), id="a row"),
        pytest.param("k_ k3_ one0", ("Sub", "t one"), id="two rows"),
        pytest.param("e_ e2_ one0", ("Div", "t two"), id="the next two rows"),
        pytest.param("k_ far far", ("Sub", "t one"), id="by a long step"),
        pytest.param("k2_ end far", ("Sub", "t one"), id="to the end"),
        pytest.param("k_ k2_ far", ("Sub", "t one"), id="to the next"),
        pytest.param("km_ k2_ far", ("Sub", "t one"), id="by data"),
    ],
)
def test_parts_by_the_number_of_the_turn(bounds: str, count: tuple[str, str]) -> None:
    pytest.importorskip("onnxruntime")
    made = sliced(*bounds.split(), count=count)
    compiled = rnncc.compile(made)
    for steps in (2, 5):
        x = np.random.default_rng(steps).standard_normal((2, steps, 3)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x, "h": H})
        assert_close(interpreted(made, {"x": x, "h": H}), want)
        assert_close(compiled.run({"x": x, "h": H}), want)


@pytest.mark.peers
@pytest.mark.parametrize(("bounds", "least"), [("e_ e2_ one0", 4), ("e_ e3_ two0", 5)])
def test_parts_that_short_sequences_do_not_have(bounds: str, least: int) -> None:
    """Two iterations, whatever the length."""
    pytest.importorskip("onnxruntime")
    made = sliced(*bounds.split(), count=("Identity", "two"))
    compiled = rnncc.compile(made)
    for steps in (least, least + 2):
        x = np.random.default_rng(steps).standard_normal((2, steps, 3)).astype(np.float32)
        assert_close(compiled.run({"x": x, "h": H}), by_onnxruntime(made, {"x": x, "h": H}))
    with pytest.raises(Exception, match=rf"T - {least} would be -1"):
        compiled.run({"x": np.zeros((2, least - 1, 3), np.float32), "h": H})


OF_OTHER_SIZES = {"longer": "zero0 k2_ one0", "shorter": "k_ end one0", "by data": "km_ k2_ one0"}


@pytest.mark.peers
@pytest.mark.parametrize("name", OF_OTHER_SIZES)
def test_parts_of_sizes_that_the_turn_decides(name: str) -> None:
    """Each iteration adds up another number of rows."""
    pytest.importorskip("onnxruntime")
    made = sliced(*OF_OTHER_SIZES[name].split())
    compiled: Any = rnncc.compile(made)
    for steps in (5, 9):
        x = np.random.default_rng(steps).standard_normal((2, steps, 3)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x, "h": H})
        assert_close(compiled.run({"x": x, "h": H}), want)
        assert_close(interpreted(made, {"x": x, "h": H}), want)
    with pytest.raises(CompileError, match=r"\(Slice\): .* and must be known"):
        rnncc.compile(made, train=True)


@pytest.mark.peers
def test_frames_added_where_they_overlap() -> None:
    """`cat([y[:, :s], y[:, s:s + 4] + frame, y[:, s + 4:]])`, as long as before."""
    inside = [
        *(node("Gather", "x k", "frame", axis=1), node("Mul", "k two", "s")),
        *(node("Add", "s four", "e"), node("Unsqueeze", "s axis0", "start")),
        *(node("Unsqueeze", "e axis0", "behind"), node("Slice", "v start behind axis1", "part")),
        *(node("Add", "part frame", "sum"), node("Slice", "v axis0 start axis1", "head")),
        node("Slice", "v behind end axis1", "tail"),
        *(node("Concat", "head sum tail", "v2", axis=1), node("Identity", "go", "go2")),
    ]
    nodes = [
        *(node("Shape", "x", "sizes"), node("Gather", "sizes one", "t"), node("Add", "t one", "n")),
        *(node("Mul", "n two", "length"), node("Unsqueeze", "length axis0", "last")),
        *(node("Concat", "batch last", "whole", axis=0), node("ConstantOfShape", "whole", "zeros")),
        node("Loop", "t yes zeros", "y", body=body(inside, condition="go2", first="k go")),
    ]
    numbers = {
        **{"axis0": np.array([0]), "axis1": np.array([1]), "end": np.array([2**62])},
        **{"one": np.array(1), "two": np.array(2), "four": np.array(4), "yes": np.array(True)},
        "batch": np.array([2]),
    }
    made = model(nodes, [info("x", [2, "T", 4])], [info("y", [2, "L"])], numbers)
    frames = [np.random.default_rng(t).standard_normal((2, t, 4)) for t in (1, 2, 6)]
    compared(made, [{"x": each.astype(np.float32)} for each in frames])
