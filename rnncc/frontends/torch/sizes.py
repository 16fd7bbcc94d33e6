# pyright: basic, reportMissingImports=false
"""Sizes of exported graphs: expressions over symbols, as `Dim`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

import sympy
import torch

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural, larger, smaller


class Sizes:
    """Reads the sizes of fake tensors.

    Args:
        names: what some symbols are called; others keep PyTorch's names.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = dict(names or {})

    def __call__(self, size: Any) -> Dim:
        """The formula of a size; raises `CompileError` where there is none."""
        if not isinstance(size, torch.SymInt):
            return Dim.of(int(size))
        return self.read(size.node.expr)

    def read(self, expression: Any) -> Dim:
        """The formula of an expression of SymPy's; errors as of a call."""
        match expression:
            case sympy.Integer():
                return Dim.of(int(expression))
            case sympy.Symbol():
                return Dim.of(self.names.get(str(expression), str(expression)))
            case sympy.Add():
                return sum(map(self.read, expression.args), Dim.of(0))
            case sympy.Mul():
                total = Dim.of(1)
                for factor in expression.args:
                    total = total * self.read(factor)
                return total
            case sympy.Pow() if expression.exp.is_Integer and expression.exp > 0:
                return self.read(
                    sympy.Mul(*[expression.base] * int(expression.exp), evaluate=False)
                )
            case _ if (rounded := self._rounded(expression)) is not None:
                return rounded
            case _:
                raise CompileError("", f"the size {expression} has no formula")

    def _rounded(self, expression: Any) -> Dim | None:
        """A quotient, remainder, maximum or minimum, or a product with a float, rounded."""
        name = type(expression).__name__
        if name in _OF_FLOATS:
            return self._of_float(expression.args[0], _OF_FLOATS[name])
        function = FUNCTIONS.get(name)
        if function is None:
            return None
        return reduce(function, map(self.read, expression.args))

    def _of_float(self, product: Any, rounded: Callable[[Dim, Dim], Dim]) -> Dim | None:
        """A size over an integer or times a float, rounded.

        None for floats such as 0.7: its product with 10 is rounded to 7, though 0.7 is less.
        """
        if type(product).__name__ == "IntTrueDiv" and product.args[1].is_Integer:
            size, by = self.read(product.args[0]), int(product.args[1])
            return rounded(size, Dim.of(by)) if is_natural(size) and by > 0 else None
        factor, inner = product.as_coeff_Mul()
        over = Fraction(float(factor)).limit_denominator(_LARGEST)
        if type(inner).__name__ != "ToFloat" or float(factor) != over or over < 0:
            return None
        if over.denominator & (over.denominator - 1):
            return None
        size = self.read(inner.args[0]) * over.numerator
        return rounded(size, Dim.of(over.denominator)) if is_natural(size) else None


def floor_divide(size: Dim, by: Dim) -> Dim:
    """⌊size / by⌋

    Raises:
        CompileError: by 0, or by a size that is open, if what is left over is not known to be less
            than it, or it is not known to be positive.
    """
    if by.is_static and int(by) != 0:
        return size.under(int(by)) if int(by) > 0 else (-size).under(-int(by))
    if (exact := size.divide(by)) is not None:
        return exact
    whole = sum((part for term in size.terms if (part := Dim([term]).divide(by))), Dim.of(0))
    rest, facts = size - whole * by, [by - 1]
    if not is_natural(rest, facts):
        whole, rest = whole - 1, rest + by
    less = is_natural(rest, facts) and is_natural(by - 1 - rest, facts)
    if by.is_static or not less or not is_natural(by):
        raise CompileError("", f"a size is {size} over {by}, rounded: there is no formula for it")
    return whole


def remainder(size: Dim, by: Dim) -> Dim:
    """size - by · ⌊size / by⌋; errors as of `floor_divide`."""
    return size - by * floor_divide(size, by)


def ceiling_divide(size: Dim, by: Dim) -> Dim:
    """⌈size / by⌉; errors as of `floor_divide`."""
    return -floor_divide(-size, by)


_LARGEST = 1024
"""The largest denominator of a float that sizes are multiplied by."""
_OF_FLOATS = {
    "TruncToInt": floor_divide,
    "FloorToInt": floor_divide,
    "CeilToInt": ceiling_divide,
}
"""Conversions to integers, of floats that are not negative."""
FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    **dict.fromkeys(("FloorDiv", "CleanDiv"), floor_divide),
    **dict.fromkeys(("Mod", "PythonMod"), remainder),
    "CeilDiv": ceiling_divide,
    "Max": larger,
    "Min": smaller,
}
"""Functions of sizes, by the names of PyTorch's and SymPy's classes."""


def symbols_of(size: Any) -> set[str]:
    """PyTorch's symbols in a size."""
    symbols = size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()
    return {str(symbol) for symbol in symbols}
