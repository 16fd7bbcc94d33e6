"""Weights in the order in which `kern.gemm` reads them: what `kern.pack` does, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnncc.ir.ops.base import Array


def pack(matrices: Sequence[Array], panel: int, slack: int) -> Array:
    """One [units, depth] matrix a slot, cut into panels of units.

    A panel holds, for each k, for each slot, its units side by side; the last panel is as wide
    as what is left. `slack` zeros follow. Returns a flat array of the matrices' type.
    """
    weights = np.stack(matrices)
    slots, units, depth = weights.shape
    assert panel > 0, f"a panel of {panel} units"
    whole = units - units % panel
    panels = weights[:, :whole].reshape(slots, whole // panel, panel, depth)
    parts = [panels.transpose(1, 3, 0, 2), weights[:, whole:].transpose(2, 0, 1)]
    return np.concatenate([*(p.ravel() for p in parts), np.zeros(slack, weights.dtype)])


def unpack(flat: Array, slots: int, units: int, depth: int, panel: int) -> list[Array]:
    """The inverse of `pack`: one [units, depth] matrix a slot; what follows them is not read."""
    whole = units - units % panel
    border, end = slots * whole * depth, slots * units * depth
    assert flat.size >= end, f"{flat.size} packed elements, expected at least {end}"
    panels = flat[:border].reshape(whole // panel, depth, slots, panel)
    rest = flat[border:end].reshape(depth, slots, units - whole)
    front = panels.transpose(2, 0, 3, 1).reshape(slots, whole, depth)
    matrices: Array = np.concatenate([front, rest.transpose(1, 2, 0)], axis=1)
    return list(matrices)
