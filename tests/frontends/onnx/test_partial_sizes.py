"""Elementwise operators on rows of which the run decides how many count, and of which there may be
one for all of another tensor's, against ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from tests.frontends.onnx.models import assert_close, by_onnxruntime, info, model, node
from tests.frontends.onnx.partial_rows import rows

BOTH = [node("Compress", "x m", "a", axis=0), node("Compress", "x k", "b", axis=0)]
NODES: dict[str, list[Any]] = {
    "two": [*BOTH, node("Add", "a b", "y")],
    "three": [*BOTH, node("Greater", "a zero", "g"), node("Where", "g a b", "y")],
    "all rows": [*BOTH[:1], node("Mul", "a x", "y")],
    "read together": [
        *(*BOTH, node("Sub", "a b", "c"), node("Softmax", "c", "d", axis=0)),
        *(node("Mul", "d a", "e"), node("ReduceSum", "e first", "y", keepdims=0)),
    ],
    "the first one": [*BOTH[:1], node("Slice", "a first next", "f"), node("Sub", "a f", "y")],
    "the first of others": [*BOTH, node("Slice", "b first next", "f"), node("Sub", "f a", "y")],
    "columns": [
        node("Transpose", "x", "t", perm=[1, 0]),
        *(node("Compress", "t m", "a", axis=1), node("Compress", "t k", "b", axis=1)),
        node("Sub", "a b", "y"),
    ],
    "written back": [
        *(*BOTH, node("Mul", "a b", "c"), node("NonZero", "m", "places")),
        *(node("Transpose", "places", "at", perm=[1, 0]), node("ScatterND", "x at c", "y")),
    ],
}
CONSTANTS: dict[str, Any] = {"zero": np.float32(0), "first": np.array([0]), "next": np.array([1])}
COUNTS = [(3, 3), (1, 3), (3, 1), (1, 1), (4, 1), (1, 4), (4, 4), (0, 0), (0, 1), (1, 0), (2, 3)]


def _model(nodes: list[Any]) -> Any:
    inputs = [info("x", ["T", 3]), info("m", ["T"], "i1"), info("k", ["T"], "i1")]
    return model(nodes, inputs, [info("y", None)], CONSTANTS)


@pytest.mark.peers
@pytest.mark.parametrize("name", NODES)
def test_one_row_for_many(name: str) -> None:
    made = _model(NODES[name])
    compiled, rng = rnncc.compile(made), np.random.default_rng(0)
    for one, other in COUNTS:
        masks = [np.isin(np.arange(4), rng.permutation(4)[:count]) for count in (one, other)]
        inputs = {"x": rows(4, 3), "m": masks[0], "k": masks[1]}
        try:
            want = by_onnxruntime(made, inputs)
        except Exception:  # of its own, where shapes do not fit
            with pytest.raises(RunError):
                compiled.run(inputs)
            continue
        assert_close({"y": compiled.run(inputs)["y"]}, want)
