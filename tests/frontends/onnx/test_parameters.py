"""What training changes: the floats of a model's initialisers, however few, and what reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from tests.frontends.onnx.models import info, model

onnx: Any = pytest.importorskip("onnx")

W = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
SMALL: dict[str, Any] = {
    "w": W,
    "bias": np.zeros(8, np.float32),
    "log_scale": np.linspace(-1, 1, 8, dtype=np.float32),
    "one": np.array([0.5], np.float32),
    "number": np.float32(3),
}
"""Sixteen elements, all the same ones, few, one, and a number without axes."""
NODES = [
    onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
    onnx.helper.make_node("Add", ["product", "bias"], ["hidden"]),
    onnx.helper.make_node("Exp", ["log_scale"], ["scale"]),
    onnx.helper.make_node("Mul", ["scale", "number"], ["larger"]),
    onnx.helper.make_node("Mul", ["hidden", "larger"], ["scaled"]),
    onnx.helper.make_node("Transpose", ["w"], ["back"], perm=[1, 0]),
    onnx.helper.make_node("MatMul", ["scaled", "back"], ["decoded"]),
    onnx.helper.make_node("Add", ["decoded", "one"], ["y"]),
]
"""y = (x·W + b) ∘ 3 e^s · Wᵀ + 1, with tied weights."""


def test_every_initialiser_with_axes_is_trained() -> None:
    made = model(NODES, [info("x", ["N", 2])], [info("y", ["N", 2])], SMALL)
    trained = rnncc.compile(made, train=True)
    assert {*trained.parameters} == {*SMALL} - {"number"}
    rng = np.random.default_rng(1)
    x, slope = (rng.normal(size=(3, 2)).astype(np.float32) for _ in range(2))
    outputs, tape = trained.forward({"x": x})
    hidden, scale = x @ W + SMALL["bias"], 3 * np.exp(SMALL["log_scale"])
    np.testing.assert_allclose(outputs["y"], hidden * scale @ W.T + 0.5, 1e-5, 1e-5)
    back = slope @ W
    want = {
        "w": x.T @ (back * scale) + slope.T @ (hidden * scale),
        "bias": (back * scale).sum(0),
        "log_scale": (back * hidden * scale).sum(0),
        "one": slope.sum().reshape(1),
    }
    grads = trained.backward(tape, {"y": slope})
    for name, gradient in want.items():
        np.testing.assert_allclose(grads[name], gradient, 1e-4, 1e-4, err_msg=name)


def test_what_is_made_of_parameters_may_decide_shapes() -> None:
    """Readers that must know numbers take those of the file."""
    nodes = [
        onnx.helper.make_node("Mul", ["factors", "number"], ["more"]),
        onnx.helper.make_node("Neg", ["more"], ["less"]),
        onnx.helper.make_node("Abs", ["less"], ["scales"]),
        onnx.helper.make_node("Resize", ["x", "", "scales"], ["y"]),
    ]
    constants = {"factors": np.array([1, 2], np.float32), "number": np.float32(1)}
    made = model(nodes, [info("x", ["N", 3])], [info("y", ["N", 6])], constants)
    trained = rnncc.compile(made, train=True)
    outputs, _ = trained.forward({"x": np.ones((2, 3), np.float32)})
    assert outputs["y"].shape == (2, 6)
