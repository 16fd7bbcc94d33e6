"""Models with open sizes of several tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontends.onnx.models import (
    info,
    model,
    node,
)


def vector(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def of_x(op: str, names: str, dims: list[int | str], **constants: Any) -> Any:
    """One node over x of a shape."""
    return model([node(op, f"x {names}", "y")], [info("x", dims)], [info("y", None)], constants)
