"""Operators of other domains that a user's functions of numbers are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("numba")

import rnncc  # noqa: E402
from rnncc import CompileError  # noqa: E402
from tests.frontends.onnx.models import info, model, node  # noqa: E402


@rnncc.elementwise
def bent(x: float, a: float) -> float:
    return math.log1p(x) if x > 0 else a * x


def with_own_operator() -> Any:
    made = model(
        [node("Bent", "x a", "y", domain="my.own"), node("Neg", "y", "z")],
        [info("x", ["N", 3]), info("a", [3])],
        [info("z", ["N", 3])],
    )
    made.opset_import.append(onnx.helper.make_opsetid("my.own", 1))
    return made


def test_own_operators() -> None:
    x = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]], np.float32)
    a = np.array([0.5, 0.25, 2.0], np.float32)
    got = rnncc.compile(with_own_operator(), functions={"my.own.Bent": bent}).run({"x": x, "a": a})
    np.testing.assert_allclose(got["z"], -bent(x, a), 1e-6)


def test_without_the_function() -> None:
    with pytest.raises(CompileError, match=r"operator my\.own\.Bent is not supported"):
        rnncc.compile(with_own_operator())


def test_functions_in_a_circle() -> None:
    """The error names the node that calls them, not each of their nodes."""
    text = """
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    net (float[2] x) => (float[2] y) { y = own.first (x) }
    <domain: "own", opset_import: ["own" : 1]> first (v) => (w) { w = own.other (v) }
    <domain: "own", opset_import: ["own" : 1]> other (v) => (w) { w = own.first (v) }
    """
    with pytest.raises(CompileError, match=r"node 'y' \(first\): calls functions .* first among"):
        rnncc.compile(onnx.parser.parse_model(text))
