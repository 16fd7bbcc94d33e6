"""Elementwise functions of one float: roots, exponentials, angles.

`codegen/llvm/math.py` has the code of each, docs/math.md its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.ops.base import Array, Cost, Elementwise, Grads, Slopes, Unary, elementwise

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

FARTHEST = 2.0**63
"""Below it code computes the sine of float64, and of float32 that of all."""
_ERF = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _erf(x: Array) -> Array:
    return _ERF(x).astype(x.dtype)


def _of_near_angles(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: np.where((np.abs(x) >= FARTHEST) & (x.dtype == np.float64), np.nan, f(x))


@elementwise("sqrt", np.sqrt, Cost.ROOT)
class Sqrt(Unary):
    """y = √x; NaN below zero"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.div(b.mul(dy, b.full_like(dy, 0.5)), self.y)]


@elementwise("exp", np.exp, Cost.FUNCTION)
class Exp(Unary):
    """y = eˣ"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.mul(dy, self.y)]


@elementwise("log", np.log, Cost.FUNCTION)
class Log(Unary):
    """y = ln x; -∞ at zero, NaN below"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.div(dy, self.x)]


@elementwise("log1p", np.log1p, Cost.FUNCTION)
class Log1p(Unary):
    """y = ln(1 + x), accurate near 0; -∞ at -1, NaN below"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.div(dy, b.add(self.x, b.full_like(dy, 1.0)))]


@elementwise("expm1", np.expm1, Cost.FUNCTION)
class Expm1(Unary):
    """y = eˣ - 1, accurate near 0"""

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dy · (y + 1)"""
        return [b.mul(dy, b.add(self.y, b.full_like(dy, 1.0)))]


@elementwise("tanh", np.tanh, Cost.FUNCTION)
class Tanh(Unary):
    """y = tanh x"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dy · (1 - y²)"""
        return [b.mul(dy, b.sub(b.full_like(dy, 1.0), b.mul(self.y, self.y)))]


@elementwise("sigmoid", _sigmoid, Cost.FUNCTION)
class Sigmoid(Unary):
    """y = 1 / (1 + e⁻ˣ)"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dy · y · (1 - y)"""
        return [b.mul(dy, b.mul(self.y, b.sub(b.full_like(dy, 1.0), self.y)))]


@elementwise("erf", _erf, Cost.FUNCTION)
class Erf(Unary):
    """y = 2/√π ∫₀ˣ e^(-t²) dt"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        """dy · 2/√π · e^(-x²)"""
        slope = b.mul(b.exp(b.neg(b.mul(self.x, self.x))), b.full_like(dy, 2 / math.sqrt(math.pi)))
        return [b.mul(dy, slope)]


@elementwise("sin", _of_near_angles(np.sin), Cost.FUNCTION)
class Sin(Unary):
    """y = sin x; of float64 NaN from |x| = 2⁶³ on"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.mul(dy, b.cos(self.x))]


@elementwise("cos", _of_near_angles(np.cos), Cost.FUNCTION)
class Cos(Unary):
    """y = cos x; of float64 NaN from |x| = 2⁶³ on"""

    SLOPES: ClassVar[Slopes] = Slopes.BOUNDED

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [b.neg(b.mul(dy, b.sin(self.x)))]


OPS: list[type[Elementwise]] = [Sqrt, Exp, Log, Log1p, Expm1, Tanh, Sigmoid, Erf, Sin, Cos]
