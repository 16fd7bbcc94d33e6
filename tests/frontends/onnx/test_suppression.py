"""NonMaxSuppression, whose rows the run counts, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import info, model, node
from tests.frontends.onnx.partial_rows import compared

pytestmark = pytest.mark.peers


def made(center: int = 0, **numbers: Any) -> Any:
    """Boxes of images of open number, their rows, and classes of the boxes that are kept."""
    given = [name if name in numbers else "_" for name in ("most", "overlap", "least")]
    names = " ".join(["boxes", "scores", *given]).rstrip(" _")
    nodes = [node("NonMaxSuppression", names, "kept", center_point_box=center)]
    nodes.append(node("Gather", "kept one", "classes", axis=1))
    inputs = [info("boxes", ["N", "A", 4]), info("scores", ["N", "C", "A"])]
    outputs = [info("kept", None, "i64"), info("classes", None, "i64")]
    return model(nodes, inputs, outputs, {**numbers, "one": np.array(1)})


def drawn(images: int, classes: int, boxes: int, seed: int = 0) -> Any:
    """Corners in any order, some boxes twice, some without an area, and equal scores."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 8, (images, boxes, 4)).astype(np.float32)
    places[:, ::5, 2] = places[:, ::5, 0]
    scores = rng.integers(0, 20, (images, classes, boxes)).astype(np.float32) / 20
    return {"boxes": places, "scores": scores}


CASES: dict[str, dict[str, Any]] = {
    "all": {"most": np.array([1000])},
    "a few": {"most": np.array([2]), "overlap": np.array([0.3], np.float32)},
    "limited": {"most": np.array(7), "overlap": np.float32(0.5), "least": np.float32(0.4)},
    "none is good enough": {"most": np.array(7), "least": np.float32(2)},
    "without a number": {"overlap": np.float32(0.5)},
}


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("name", CASES)
def test_boxes(name: str, center: int) -> None:
    calls = [drawn(1, 1, 1), drawn(2, 3, 9), drawn(3, 1, 23, 1)]
    compared(made(center, **CASES[name]), calls)


def test_sizes_that_must_be_equal() -> None:
    given = drawn(2, 3, 9)
    with pytest.raises(ArrayError, match="A is 9 in boxes but 8 in scores"):
        rnncc.compile(made(**CASES["all"])).run(given | {"scores": given["scores"][:, :, :8]})


def test_a_computed_number_of_boxes() -> None:
    limited = made(**CASES["all"])
    del limited.graph.initializer[0]
    limited.graph.input.append(info("most", [1], "i64"))
    with pytest.raises(CompileError, match=r'input "most" .* must be known'):
        rnncc.compile(limited)
