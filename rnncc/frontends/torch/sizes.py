# pyright: basic, reportMissingImports=false
"""Sizes of exported graphs: expressions over symbols, as `Dim`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim


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
        return self._read(size.node.expr)

    def _read(self, expression: Any) -> Dim:
        match expression:
            case sympy.Integer():
                return Dim.of(int(expression))
            case sympy.Symbol():
                return Dim.of(self.names.get(str(expression), str(expression)))
            case sympy.Add():
                return sum(map(self._read, expression.args), Dim.of(0))
            case sympy.Mul():
                total = Dim.of(1)
                for factor in expression.args:
                    total = total * self._read(factor)
                return total
            case sympy.Pow() if expression.exp.is_Integer and expression.exp > 0:
                return self._read(
                    sympy.Mul(*[expression.base] * int(expression.exp), evaluate=False)
                )
            case _:
                raise CompileError("", f"the size {expression} has no formula without rounding")


def symbols_of(size: Any) -> set[str]:
    """PyTorch's symbols in a size."""
    found = size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()
    return {str(symbol) for symbol in found}
