"""Formulas of sizes as values of generated code."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from llvmlite import ir

from rnncc.codegen.llvm.machine import Machine
from rnncc.codegen.llvm.values import I64, Value
from rnncc.ir.dims import Dim, Excess, Quotient
from rnncc.ir.monomials import Term
from rnncc.kern.largest import Largest
from rnncc.platforms import word_bits

Key = TypeVar("Key")


class SizeEmit:
    """What computes sizes, in a function for one machine.

    Attributes:
        b: appends instructions.
        symbols: a value for each name in formulas, loops' indices included.
    """

    def __init__(self, target: Machine, builder: ir.IRBuilder) -> None:
        self.b = builder
        self._machine = target
        self.symbols: dict[str, Value] = {}
        self._written: dict[Any, Value] | None = None

    @property
    def target(self) -> Machine:
        """The machine that the function is for."""
        return self._machine

    def dim(self, dim: Dim) -> Value:
        """A size formula as an i64."""
        total: Value = I64(dim.coefficient())
        for monomial, factor in dim.terms:
            if monomial:
                term = self._once((monomial, factor), self._term)
                total = term if is_zero(total) else self.b.add(total, term)
        return total

    def _term(self, term: Term) -> Value:
        monomial, factor = term
        if factor != 1:
            return self.b.mul(self._once((monomial, 1), self._term), I64(factor))
        product = self._factor(monomial[0])
        for name in monomial[1:]:
            product = self.b.mul(product, self._factor(name))
        return product

    def _once(self, key: Key, write: Callable[[Key], Value]) -> Value:
        """A value; in straight-line code, the one that was written before."""
        if self._written is None:
            return write(key)
        if key not in self._written:
            self._written[key] = write(key)
        return self._written[key]

    @contextmanager
    def straight_line(self) -> Generator[None]:
        """Where all code is behind all that was written before: formulas are written once."""
        self._written = {}
        yield
        self._written = None

    def _factor(self, name: str) -> Value:
        match name:
            case Quotient():
                upper = self.b.add(self.dim(name.inner), I64(name.divisor - 1))
                return self.b.sdiv(upper, I64(name.divisor))
            case Excess():
                value = self.dim(name.inner)
                return self.b.select(self.b.icmp_signed(">", value, I64(0)), value, I64(0))
            case _:
                return self.symbols[name]

    def divided(self, size: Dim, by: int) -> tuple[Value, Value]:
        """Quotient and remainder; known where the size is."""
        if size.is_static:
            whole, rest = divmod(int(size), by)
            return I64(whole), I64(rest)
        count = self.dim(size)
        return self.quotient(count, I64(by)), self.remainder(count, I64(by))

    def parts(self, count: Value, size: Value) -> Value:
        """How many parts of a size there are of a count, the last one perhaps smaller."""
        return self.quotient(self.b.add(count, self.b.sub(size, I64(1))), size)

    @property
    def native(self) -> ir.IntType:
        """The integers that the machine computes with: wide enough for numbers of elements."""
        return ir.IntType(word_bits(self.target.triple))

    def quotient(self, count: Value, size: Value) -> Value:
        """A number of elements divided, towards zero."""
        if self.native == I64 or (isinstance(size, ir.Constant) and size.constant == 1):
            return self.b.sdiv(count, size)
        # Of 64 bits it would be a call of a function of the compiler's.
        short = self.b.sdiv(self.b.trunc(count, self.native), self.b.trunc(size, self.native))
        return self.b.sext(short, I64)

    def remainder(self, count: Value, size: Value) -> Value:
        """What is left of a number of elements."""
        if self.native == I64:
            return self.b.srem(count, size)
        return self.b.sub(count, self.b.mul(self.quotient(count, size), size))

    @contextmanager
    def symbols_set(self, values: Mapping[str, Value]) -> Generator[None]:
        """Loop indices as symbols, within a loop's body."""
        before = self.symbols
        self.symbols = {**before, **values}
        yield
        self.symbols = before

    def largest(self, sizes: Largest) -> Value:
        """The largest of several formulas as an i64."""
        return self._once(sizes.formulas, self._largest)

    def _largest(self, formulas: tuple[Dim, ...]) -> Value:
        values = [self.dim(formula) for formula in formulas] or [I64(0)]
        total = values[0]
        for value in values[1:]:
            total = self.b.select(self.b.icmp_signed(">", value, total), value, total)
        return total


def is_zero(value: Value) -> bool:
    """Whether it is known to be."""
    return isinstance(value, ir.Constant) and value.constant == 0
