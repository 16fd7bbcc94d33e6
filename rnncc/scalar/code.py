"""A function of numbers as LLVM IR."""

from __future__ import annotations

import re
from dataclasses import dataclass

MATH = {
    **{f"llvm.{name}.f32": name for name in ("exp", "log", "sin", "cos")},
    **{f"{name}f": name for name in ("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos")},
}
"""What numba calls -> the elementary function of `codegen/math.py` that takes its place."""
KEPT = {f"llvm.{name}.f32" for name in ("sqrt", "fabs", "copysign")}
"""Calls that are instructions."""


@dataclass(frozen=True)
class Code:
    """One function as LLVM IR, `i32 SYMBOL(ptr result, ptr unused, float...)`, which returns 0."""

    symbol: str
    text: str

    @property
    def calls(self) -> set[str]:
        """The elementary functions that it calls, by numba's names."""
        return set(re.findall(r"@([\w.]+)\(", self.text)) - {self.symbol}
