"""Random arrays that a net is timed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rnncc_runtime import TensorSpec

from rnncc.sizes import TIME

Array = np.ndarray[Any, Any]


def drawn(
    specs: Mapping[str, TensorSpec], sizes: Mapping[str, int], ragged: bool = False
) -> dict[str, Array]:
    """Normal arrays; integers as lengths: all T, or uniform in 1..T; texts are empty."""
    arrays: dict[str, Array] = {}
    most = sizes.get(TIME, 1)
    rng = np.random.default_rng(0)
    for name, spec in specs.items():
        shape = [size.evaluate(sizes) for size in spec.sizes]
        whole = spec.dtype.kind != "f"
        array = lengths(rng, shape, most, ragged) if whole else normal(shape)
        arrays[name] = np.zeros(shape, spec.dtype) if spec.is_text else array.astype(spec.dtype)
    return arrays


def lengths(rng: np.random.Generator, shape: list[int], most: int, ragged: bool) -> Array:
    """Lengths of sequences: all `most`, or uniform in 1..most."""
    return rng.integers(min(1, most) if ragged else most, most, shape, endpoint=True)


def normal(shape: list[int]) -> Array:
    """f32, always the same."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
