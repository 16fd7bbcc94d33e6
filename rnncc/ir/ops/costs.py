"""Which elementwise ops take more than an instruction or two."""

from __future__ import annotations

from rnncc.ir.ops import elementwise as ew
from rnncc.ir.ops.apply import Apply
from rnncc.ir.ops.functions import Cos, Expm1, Log1p, Rem, Sin

FUNCTIONS = (
    *(ew.Exp, ew.Log, Log1p, Expm1, ew.Tanh, ew.Sigmoid, ew.Erf, Sin, Cos, Rem),
    Apply,
)
"""Polynomials of a dozen terms, and what users wrote."""
COSTLY = (*FUNCTIONS, ew.Sqrt, ew.Div)
"""Worth a buffer rather than a second evaluation."""
