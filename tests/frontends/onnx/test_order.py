"""The order of nodes and outputs in a graph."""

from __future__ import annotations

import numpy as np

import rnncc
from tests.frontends.onnx.models import (
    graph,
    info,
    interpreted,
    model,
    node,
)


def test_nodes_in_any_order() -> None:
    """As ONNX Runtime's conversion to float16 writes them; a graph inside reads a later result."""
    inner = graph([node("Add", "late x", "inside")], [], [info("inside", None)])
    other = graph([node("Neg", "x", "outside")], [], [info("outside", None)])
    nodes = [
        node("If", "flag", "y", then_branch=inner, else_branch=other),
        node("Mul", "early early", "late"),
        node("Exp", "x", "early"),
    ]
    made = model(nodes, [info("x", [2]), info("flag", [], "i1")], [info("y", None)])
    x = np.array([0.5, -1], np.float32)
    got = interpreted(made, {"x": x, "flag": np.array(True)})["y"]
    np.testing.assert_allclose(got, np.exp(x) ** 2 + x, 1e-6)


def test_an_output_that_is_listed_twice_is_one() -> None:
    """As tf2onnx writes states that a TFLite model reads and returns."""
    twice = [info("y", ["N", 3]), info("y", ["N", 3])]
    found = rnncc.compile(model([node("Neg", "x", "y")], [info("x", ["N", 3])], twice))
    assert list(found.outputs) == ["y"]
    assert found.run({"x": np.ones((2, 3), np.float32)})["y"].tolist() == [[-1] * 3] * 2
