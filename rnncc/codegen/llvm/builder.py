"""An IR builder that leaves out what constants decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import TextBuilder


class FoldingBuilder(TextBuilder):
    """Knows x + 0, x - 0, x · 1, x · 0, x / 1, and what two constants make.

    So no code is written for loops that are known to have no iterations.
    """

    def add(self, lhs: Any, rhs: Any, *more: Any, **named: Any) -> Any:
        a, b = _number(lhs), _number(rhs)
        if a is not None and b is not None:
            return lhs.type(a + b)
        if a == 0:
            return rhs
        return lhs if b == 0 else super().add(lhs, rhs, *more, **named)

    def sub(self, lhs: Any, rhs: Any, *more: Any, **named: Any) -> Any:
        a, b = _number(lhs), _number(rhs)
        if a is not None and b is not None:
            return lhs.type(a - b)
        return lhs if b == 0 else super().sub(lhs, rhs, *more, **named)

    def mul(self, lhs: Any, rhs: Any, *more: Any, **named: Any) -> Any:
        a, b = _number(lhs), _number(rhs)
        if a is not None and b is not None:
            return lhs.type(a * b)
        if a == 0 or b == 1:
            return lhs
        return rhs if b == 0 or a == 1 else super().mul(lhs, rhs, *more, **named)

    def sdiv(self, lhs: Any, rhs: Any, *more: Any, **named: Any) -> Any:
        a, b = _number(lhs), _number(rhs)
        if a is not None and b:
            return lhs.type(_quotient(a, b))
        return lhs if b == 1 else super().sdiv(lhs, rhs, *more, **named)

    def srem(self, lhs: Any, rhs: Any, *more: Any, **named: Any) -> Any:
        a, b = _number(lhs), _number(rhs)
        if a is not None and b:
            return lhs.type(a - b * _quotient(a, b))
        return super().srem(lhs, rhs, *more, **named)

    def trunc(self, value: Any, typ: Any, *more: Any, **named: Any) -> Any:
        number = _number(value)
        if number is not None and -(1 << typ.width - 1) <= number < 1 << typ.width - 1:
            return typ(number)
        return super().trunc(value, typ, *more, **named)

    def sext(self, value: Any, typ: Any, *more: Any, **named: Any) -> Any:
        number = _number(value)
        return super().sext(value, typ, *more, **named) if number is None else typ(number)


def written_once(
    module: ir.Module,
    name: str,
    type_: ir.FunctionType,
    write: Callable[[FoldingBuilder, ir.Function], None],
) -> ir.Function:
    """A function of a module's own, written when it is first asked for."""
    symbol = f"{module.name}_{name}"
    function: Any = module.globals.get(symbol)
    if function is None:
        function = ir.Function(module, type_, symbol)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        write(FoldingBuilder(function.append_basic_block("entry")), function)
    return function


def _quotient(a: int, b: int) -> int:
    """Towards zero, as machines divide."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


def _number(value: Any) -> int | None:
    """What a constant of an integer is; None for anything else, vectors among it."""
    if isinstance(value, ir.Constant) and isinstance(value.type, ir.IntType):
        return value.constant if isinstance(value.constant, int) else None
    return None
