"""Front ends with open axes as PyTorch exports them: results as ONNX Runtime's at some sizes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
fronts: Any = pytest.importorskip("tests.frontends.onnx.fronts")
pytestmark = pytest.mark.peers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fronts.FRONTS)
def test_equals_onnxruntime(name: str) -> None:
    front = fronts.FRONTS[name]
    for size, error in fronts.compare(front, fronts.exported(front), 7):
        assert isinstance(error, float) and error < fronts.TOLERANCE, f"size {size}: {error}"
