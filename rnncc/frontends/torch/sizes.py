# pyright: basic, reportMissingImports=false
"""Sizes of exported graphs: expressions over symbols, as `Dim`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import sympy
import torch

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger, smaller


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
        """A quotient, remainder, maximum or minimum."""
        function = FUNCTIONS.get(type(expression).__name__)
        if function is None:
            return None
        return reduce(function, map(self.read, expression.args))


def floor_divide(size: Dim, by: Dim) -> Dim:
    """⌊size / by⌋

    Raises:
        CompileError: by a size that is open and does not divide it, or a number below 1.
    """
    if by.is_static and int(by) > 0:
        return size.under(int(by))
    exact = size.divide(by)
    if exact is None:
        raise CompileError("", f"a size is {size} over {by}, rounded: there is no formula for it")
    return exact


def remainder(size: Dim, by: Dim) -> Dim:
    """size - by · ⌊size / by⌋; errors as of `floor_divide`."""
    return size - by * floor_divide(size, by)


def ceiling_divide(size: Dim, by: Dim) -> Dim:
    """⌈size / by⌉; errors as of `floor_divide`."""
    return -floor_divide(-size, by)


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
