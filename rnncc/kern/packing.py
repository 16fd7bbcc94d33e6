"""Weights in the order in which `kern.gemm` reads them: what `kern.pack` does, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rnncc.ir.ops.base import Array
from rnncc.records import record

GROUP = {"f32": 1, "f64": 1, "bf16": 2, "i8": 2, "u8": 4}
"""How many k of a unit stand side by side, by the weights' type: what one instruction takes.

u8 are weights plus `OFFSET`, for instructions that multiply unsigned by signed bytes."""
WORD = 4
"""Bytes that an instruction takes of a row and of a unit: a group of bf16 or u8."""
OFFSET = 128
"""What takes -128..127, the range of i8, to 0..255, that of u8."""


@record
class PackedGeometry:
    """How a product's weights are packed.

    Attributes:
        depth: k of a sum.
        slots: sums of a unit.
        panel: units of a whole panel.
        stripe: columns of a whole panel that stand side by side, as `pack` has it.
    """

    depth: int
    slots: int
    panel: int
    stripe: int = 0

    @property
    def of_scales(self) -> PackedGeometry:
        """How the scales of integers are packed, one a unit and slot."""
        return PackedGeometry(1, self.slots, self.panel)

    @property
    def columns(self) -> int:
        """Columns of a stripe of a whole panel."""
        return self.stripe or self.slots * self.panel

    @property
    def stripes(self) -> int:
        """Stripes of a whole panel."""
        return self.slots * self.panel // self.columns


def pack(
    matrices: Sequence[Array], geometry: PackedGeometry, slack: int = 0, group: int = 1
) -> Array:
    """One [units, depth] matrix a slot, cut into panels of units.

    A panel's columns are its units of the first slot, then those of the second, and so on. It is
    cut into stripes of so many columns, of which each holds, for each `group` of k, its columns
    side by side, each with its k; zeros fill the last group. A stripe of 0 is as wide as the
    panel. The last panel has the units that are left, in one stripe. `slack` zeros follow. Returns
    a flat array of the matrices' type.
    """
    weights, panel = np.stack(matrices), geometry.panel
    slots, units, depth = weights.shape
    assert (slots, depth) == (geometry.slots, geometry.depth), f"{weights.shape} as {geometry}"
    assert panel > 0, f"a panel of {panel} units"
    if depth % group:
        weights = np.pad(weights, ((0, 0), (0, 0), (0, -depth % group)))
    groups = weights.reshape(slots, units, weights.shape[2] // group, group)
    whole = units - units % panel
    panels = groups[:, :whole].reshape(slots, whole // panel, panel, *groups.shape[2:])
    cut = whole // panel, geometry.stripes, geometry.columns
    stripes = panels.swapaxes(0, 1).reshape(*cut, *groups.shape[2:])
    parts = [stripes.swapaxes(2, 3), groups[:, whole:].transpose(2, 0, 1, 3)]
    return np.concatenate([*(p.ravel() for p in parts), np.zeros(slack, weights.dtype)])


def packed_depth(depth: int, group: int) -> int:
    """How many k are packed, with those that fill the last group."""
    return -(-depth // group) * group


def unpack(flat: Array, geometry: PackedGeometry, units: int, group: int = 1) -> list[Array]:
    """The inverse of `pack`: one [units, depth] matrix a slot; what follows them is not read."""
    slots, depth, panel = geometry.slots, geometry.depth, geometry.panel
    whole, full = units - units % panel, packed_depth(depth, group)
    border, end = slots * whole * full, slots * units * full
    assert flat.size >= end, f"{flat.size} packed elements, expected at least {end}"
    cut = whole // panel, geometry.stripes
    stripes = flat[:border].reshape(*cut, full // group, geometry.columns, group)
    panels = stripes.swapaxes(2, 3).reshape(whole // panel, slots, panel, full)
    rest = flat[border:end].reshape(full // group, slots, units - whole, group)
    front = panels.swapaxes(0, 1).reshape(slots, whole, full)
    back = rest.transpose(1, 2, 0, 3).reshape(slots, units - whole, full)
    matrices: Array = np.concatenate([front, back], axis=1)[:, :, :depth]
    return list(matrices)
