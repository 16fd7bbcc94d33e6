# pyright: reportMissingImports=false
"""Whether results are right: fresh random inputs, poisoned outputs, references in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

LIMITS = {"fp32": 2e-5, "tf32": 3e-3, "bf16": 3e-2, "fp16": 5e-3}
"""Of |got - want| / |want|: the rounding of many steps, and nothing more."""
GRADIENT = 10.0
"""How much further off gradients may be: they go back through all steps."""


def poisoned(shape: tuple[int, ...]) -> Any:
    """An output in which nothing was written yet."""
    return torch.full(shape, float("nan"), device="cuda")


def distance(got: Any, want: Any) -> float:
    """|got - want| / |want| in float64; infinite where a value is NaN or missing."""
    if got.shape != want.shape:
        return float("inf")
    got, want = got.detach().double(), want.detach().double()
    found = ((got - want).norm() / want.norm().clamp_min(1e-30)).item()
    return found if found == found else float("inf")


def worst(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The largest distance of several values."""
    return max(distance(got[name], want[name]) for name in want)


def fault(name: str, found: float, limit: float) -> str | None:
    """What is wrong, if it is too far off."""
    return None if found <= limit else f"{name} is off by {found:.1e}, more than {limit:.0e}"
