"""Graphs that a session of ONNX Runtime saves after all of its optimisations."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rnncc.errors import CompileError
from rnncc.frontends.onnx.ops import blocked
from tests.frontends.onnx.models import imported, info, model, node
from tests.frontends.onnx.partial_rows import compared

pytestmark = pytest.mark.peers


def _weights(*shape: int) -> Any:
    return 0.2 * np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


INITIAL: dict[str, Any] = {
    **{"w3": _weights(16, 3, 3, 3), "w20": _weights(20, 16, 3, 3), "w1": _weights(20, 1, 3, 3)},
    **{"square": _weights(20, 20, 1, 1), "b16": _weights(16), "b20": _weights(20)},
    **{"halves": _weights(32, 16, 3, 3), "to32": _weights(32, 20, 1, 1)},
    "factors": np.array([1, 1, 2, 2], np.float32),
}
ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric"}
FIRST = [
    node("Conv", "x w3 b16", "c1", pads=[1] * 4, strides=[1, 2]),
    node("Relu", "c1", "r1"),
    node("Conv", "r1 w20 b20", "c2", pads=[1] * 4),
    node("LeakyRelu", "c2", "r2", alpha=0.1),
]
"""3 channels to 20, which fill no whole number of blocks of 8, nor of 16."""
BEHIND: dict[str, list[Any]] = {
    "pools": [
        node("MaxPool", "r2", "m", kernel_shape=[2, 2], strides=[2, 1]),
        node("AveragePool", "m", "y", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
    ],
    "means": [
        node("GlobalAveragePool", "r2", "a"),
        node("GlobalMaxPool", "r2", "b"),
        node("Concat", "a b", "y", axis=1),
    ],
    "one by one": [
        node("Conv", "r2 w1 b20", "d", group=20, pads=[1] * 4),
        node("HardSwish", "d", "h"),
        node("Conv", "h square", "e"),
        *(node("Add", "e h", "f"), node("Sigmoid", "f", "y")),
    ],
    "groups": [node("Conv", "r2 to32", "g"), node("Conv", "g halves", "y", group=2)],
    "larger": [
        node("Conv", "r2 square", "g"),
        node("Resize", "g _ factors", "u", nearest_mode="floor", **ASYMMETRIC),
        node("Conv", "u square", "y"),
    ],
    "channels last": [node("Transpose", "r2", "t", perm=[0, 2, 3, 1]), node("Relu", "t", "y")],
}


def saved(behind: list[Any], folder: Path) -> Any:
    """The graph that a session keeps."""
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    options: Any = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "saved.onnx")
    options.log_severity_level = 4
    plain = model([*FIRST, *behind], [info("x", ["N", 3, 8, "W"])], [info("y", None)], INITIAL)
    onnxruntime.InferenceSession(plain.SerializeToString(), options)
    made = onnx.load(folder / "saved.onnx")
    assert any(op.domain == "com.microsoft.nchwc" for op in made.graph.node)
    return made


def _given(batch: int, width: int) -> dict[str, Any]:
    x = np.random.default_rng(width).standard_normal((batch, 3, 8, width))
    return {"x": x.astype(np.float32)}


@pytest.mark.parametrize("behind", BEHIND)
def test_channels_in_blocks(behind: str, tmp_path: Path) -> None:
    compared(saved(BEHIND[behind], tmp_path), [_given(1, 9), _given(3, 14)])


@pytest.mark.parametrize("shape", [[4], ["N", 16, "T"]])
@pytest.mark.parametrize("kind", ["ReorderInput", "ReorderOutput"])
def test_data_that_is_no_image(kind: str, shape: list[int | str]) -> None:
    attributes = {"channels": 16} if kind == "ReorderOutput" else {}
    op = node(kind, "x", "y", domain="com.microsoft.nchwc", **attributes)
    with pytest.raises(CompileError, match="expected 4 axes"):
        imported(model([op], [info("x", shape)], [info("y", None)], domains={op.domain: 1}))


def test_blocks_of_another_machine_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, own = saved(BEHIND["pools"], tmp_path), blocked.channels_in_block()
    other = blocked.WIDE + blocked.NARROW - own
    monkeypatch.setattr(blocked, "channels_in_block", lambda: other)
    with pytest.raises(CompileError, match="other blocks than this one's"):
        compared(made, [_given(1, 9)])


@pytest.mark.parametrize(("outputs", "warns"), [(16, True), (24, False)])
def test_sizes_that_suit_both_kinds_of_blocks(
    outputs: int, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "channels_in_block", lambda: blocked.NARROW)
    op = node("Conv", "x w", "y", domain="com.microsoft.nchwc")
    inputs, weights = [info("x", [1, 3, 8, "W"])], {"w": _weights(outputs, 3, 3, 3)}
    made = model([op], inputs, [info("y", None)], weights, domains={op.domain: 1})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        imported(made)
    assert [f"{blocked.NARROW} channels a block" in str(each.message) for each in said] == [
        True
    ] * warns
