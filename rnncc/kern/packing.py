"""Weights in the order in which `kern.gemm` reads them: what `kern.pack` does, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnncc.ir.ops.base import Array

GROUP = {"f32": 1, "f64": 1, "bf16": 2, "i8": 2, "u8": 4}
"""How many k of a unit stand side by side, by the weights' type: what one instruction takes.

u8 are weights plus `OFFSET`, for instructions that multiply unsigned by signed bytes."""
WORD = 4
"""Bytes that an instruction takes of a row and of a unit: a group of bf16 or u8."""
OFFSET = 128
"""What takes -128..127, the range of i8, to 0..255, that of u8."""


def pack(matrices: Sequence[Array], panel: int, slack: int, group: int = 1) -> Array:
    """One [units, depth] matrix a slot, cut into panels of units.

    A panel holds, for each `group` of k, for each slot, its units side by side, each with its k;
    zeros fill the last group. The last panel is as wide as what is left. `slack` zeros follow.
    Returns a flat array of the matrices' type.
    """
    weights = np.stack(matrices)
    slots, units, depth = weights.shape
    assert panel > 0, f"a panel of {panel} units"
    if depth % group:
        weights = np.pad(weights, ((0, 0), (0, 0), (0, -depth % group)))
    groups = weights.reshape(slots, units, weights.shape[2] // group, group)
    whole = units - units % panel
    panels = groups[:, :whole].reshape(slots, whole // panel, panel, *groups.shape[2:])
    parts = [panels.transpose(1, 3, 0, 2, 4), groups[:, whole:].transpose(2, 0, 1, 3)]
    return np.concatenate([*(p.ravel() for p in parts), np.zeros(slack, weights.dtype)])


def packed_depth(depth: int, group: int) -> int:
    """How many k are packed, with those that fill the last group."""
    return -(-depth // group) * group


def unpack(
    flat: Array, slots: int, units: int, depth: int, panel: int, group: int = 1
) -> list[Array]:
    """The inverse of `pack`: one [units, depth] matrix a slot; what follows them is not read."""
    whole, full = units - units % panel, packed_depth(depth, group)
    border, end = slots * whole * full, slots * units * full
    assert flat.size >= end, f"{flat.size} packed elements, expected at least {end}"
    panels = flat[:border].reshape(whole // panel, full // group, slots, panel, group)
    rest = flat[border:end].reshape(full // group, slots, units - whole, group)
    front = panels.transpose(2, 0, 3, 1, 4).reshape(slots, whole, full)
    back = rest.transpose(1, 2, 0, 3).reshape(slots, units - whole, full)
    matrices: Array = np.concatenate([front, back], axis=1)[:, :, :depth]
    return list(matrices)
