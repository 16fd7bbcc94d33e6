"""A function of numbers as LLVM IR."""

from __future__ import annotations

import re

from rnncc.records import record

_NAMES = ("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos")
_SUFFIXES = {"f32": "f", "f64": ""}
"""Element type -> what the names of its functions in libm end with."""
MATH = {
    dtype: {
        **{f"llvm.{name}.{dtype}": name for name in ("exp", "log", "sin", "cos")},
        **{f"{name}{suffix}": name for name in _NAMES},
    }
    for dtype, suffix in _SUFFIXES.items()
}
"""By element type: what numba calls -> the elementary function of `codegen/llvm` in its place."""
KEPT = {
    dtype: {f"llvm.{name}.{dtype}" for name in ("sqrt", "fabs", "copysign")} for dtype in _SUFFIXES
}
"""By element type: calls that are instructions."""


@record
class FunctionCode:
    """One function as LLVM IR, `i32 SYMBOL(ptr result, ptr unused, float...)`, which returns 0.

    Attributes:
        dtype: of its numbers, f32 or f64: where that is f64, double stands in the place of float.
    """

    symbol: str
    text: str
    dtype: str = "f32"

    @property
    def calls(self) -> set[str]:
        """The elementary functions that it calls, by numba's names."""
        return set(re.findall(r"@([\w.]+)\(", self.text)) - {self.symbol}
