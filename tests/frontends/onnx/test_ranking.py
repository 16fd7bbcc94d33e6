"""Places and orders of numbers among which there are NaNs: always places that there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from tests.frontends.onnx.models import info, interpreted, model, node

NAN, INF = np.nan, np.inf
X = np.array([[1, NAN, 3, NAN], [NAN] * 4, [-INF, INF, INF, -INF], [2, 2, 0, 2]], np.float32)


def both(made: Any) -> list[dict[str, Any]]:
    """By the interpreter and by machine code."""
    return [interpreted(made, {"x": X}), rnncc.compile(made.SerializeToString()).run({"x": X})]


@pytest.mark.parametrize(("kind", "numpy"), [("ArgMax", np.argmax), ("ArgMin", np.argmin)])
def test_the_first_nan_is_the_extremum(kind: str, numpy: Any) -> None:
    made = model([node(kind, "x", "y", axis=1, keepdims=0)], [info("x", [4, 4])], [info("y", None)])
    for outputs in both(made):
        np.testing.assert_array_equal(outputs["y"], numpy(X, 1))


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_sorted_as_the_largest(largest: int) -> None:
    top = node("TopK", "x k", "y i", axis=1, largest=largest)
    outputs = [info("y", None), info("i", None, "i64")]
    made = model([top], [info("x", [4, 4])], outputs, {"k": np.array([3])})
    number = np.isnan(X)
    keys = (np.where(number, 0, -X), ~number) if largest else (np.where(number, 0, X), number)
    order = np.lexsort(keys, axis=1)
    for results in both(made):
        np.testing.assert_array_equal(results["i"], order[:, :3])
        np.testing.assert_array_equal(results["y"], np.take_along_axis(X, order[:, :3], 1))
