"""Sizes known as formulas: `Dim`, an integer polynomial over named symbols such as T and N.

A factor may also be a symbol over a number, rounded up: `T/32` is ⌈T/32⌉.

Products are bounded: a few nodes that multiply sizes by themselves would otherwise make formulas
of millions of terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce

from rnncc.errors import SizeError

Monomial = tuple[str, ...]
"""Symbols of one product, in reading order; `()` is the constant's."""
Term = tuple[Monomial, int]
"""Such a product and its coefficient."""

MOST_PAIRS, MOST_FACTORS, MOST_BITS = 4096, 16, 127
"""Of a product of formulas: pairs of terms, symbols in a term, bits of a number."""
MOST_STEPS = 256
"""Terms of a quotient by a sum; one of more is not looked for."""

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*(?:/\d+)?|[-+*])")


class Dim:
    """An immutable polynomial with integer coefficients: `Dim.of("T") * 4 + 1`.

    Equal polynomials compare and hash equal; a constant one equals the int it holds.
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        kept = ((m, c) for m, c in terms if c)
        self.terms = tuple(sorted(kept, key=lambda term: (-len(term[0]), term[0])))
        self._hash = hash(int(self) if self.is_static else self.terms)

    @staticmethod
    def of(value: Dim | int | str) -> Dim:
        """The polynomial of an int or of one symbol's name."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            return Dim([((value,), 1)])
        return _constant(int(value))

    @staticmethod
    def parse(text: str) -> Dim:
        """The inverse of `str`; raises `ValueError` on anything else."""
        return _parse(text)

    @property
    def is_static(self) -> bool:
        """Whether no symbol occurs."""
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def symbols(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(symbol_of(name) for monomial, _ in self.terms for name in monomial)

    def over(self, count: int) -> Dim:
        """The quotient, rounded up, of a symbol or a number."""
        if count == 1:
            return self
        if self.is_static:
            return _constant(-(-int(self) // count))
        if self != Dim.of(str(self)) or "/" in str(self):
            raise ValueError(f"{self} is no symbol to be divided")
        return Dim.of(f"{self}/{count}")

    def coefficient(self, monomial: Monomial = ()) -> int:
        """The factor of one product of symbols."""
        return dict(self.terms).get(monomial, 0)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where every symbol has one; raises `KeyError` for a missing symbol."""
        total = 0
        for monomial, factor in self.terms:
            for name in monomial:
                factor *= factor_value(name, env)
            total += factor
        return total

    def substitute(self, env: Mapping[str, Dim | int]) -> Dim:
        """Replace some symbols by formulas."""
        terms = list[Term]()
        for monomial, factor in self.terms:
            product = _constant(factor)
            for name in monomial:
                product = product * _replaced(name, env)
            terms += product.terms
        return _total(terms)

    def divide(self, other: Dim | int) -> Dim | None:
        """The exact quotient, or None where there is none."""
        divisor = Dim.of(other)
        if not divisor.terms:
            return None
        lead, *others = divisor.terms
        if not others:
            parts = [_part(term, lead) for term in self.terms]
            found = [part for part in parts if part is not None]
            return Dim(found) if len(found) == len(parts) else None
        rest, quotient = self, list[Term]()
        while rest.terms:
            part = _part(rest.terms[0], lead)
            if part is None or len(quotient) == MOST_STEPS:
                return None
            quotient.append(part)
            rest = rest - Dim([part]) * divisor
        return Dim(quotient)

    def __add__(self, other: Dim | int) -> Dim:
        return _total([*self.terms, *Dim.of(other).terms])

    def __mul__(self, other: Dim | int) -> Dim:
        other, total = Dim.of(other), dict[Monomial, int]()
        if len(self.terms) * len(other.terms) > MOST_PAIRS:
            raise SizeError(f"multiplies size formulas, giving more than {MOST_PAIRS} terms")
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=_reading_order))
                factor = total.get(monomial, 0) + a * b
                if len(monomial) > MOST_FACTORS:
                    what = f"gives a size formula with a product of more than {MOST_FACTORS} sizes"
                    raise SizeError(what)
                if factor.bit_length() > MOST_BITS:
                    what = f"gives a size formula with a number of more than {MOST_BITS} bits"
                    raise SizeError(what)
                total[monomial] = factor
        return Dim(total.items())

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim | int) -> Dim:
        return self + Dim.of(other) * -1

    def __rsub__(self, other: int) -> Dim:
        return Dim.of(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            other = _constant(other)
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __int__(self) -> int:
        if not self.is_static:
            raise TypeError(f"{self} is not a number")
        return self.terms[0][1] if self.terms else 0

    __index__ = __int__

    def __str__(self) -> str:
        text = " + ".join(_term(monomial, factor) for monomial, factor in self.terms) or "0"
        return text.replace("+ -", "- ")

    def __repr__(self) -> str:
        return f"Dim({self})"


class Largest:
    """The largest of several sizes: `max(40*T*N, 16*T*N + 4096)`; of none, 0.

    Args:
        formulas: those that may be the largest.
    """

    __slots__ = ("formulas",)
    formulas: tuple[Dim, ...]

    def __init__(self, formulas: Iterable[Dim] = ()) -> None:
        self.formulas = tuple(dict.fromkeys(formulas))

    @staticmethod
    def parse(text: str) -> Largest:
        """The inverse of `str`; raises `ValueError` on anything else."""
        several = text.startswith("max(") and text.endswith(")")
        texts = text[4:-1].split(", ") if several else [text]
        return Largest(map(Dim.parse, texts))

    @property
    def symbols(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(name for formula in self.formulas for name in formula.symbols)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where every symbol has one."""
        return max((formula.evaluate(env) for formula in self.formulas), default=0)

    def __bool__(self) -> bool:
        return any(formula != 0 for formula in self.formulas)

    def __str__(self) -> str:
        texts = [str(formula) for formula in self.formulas] or ["0"]
        return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"


def symbol_of(name: str) -> str:
    """The symbol in a factor: T in `T/32`."""
    return name.partition("/")[0]


def divisor_of(name: str) -> int:
    """The number in a factor: 32 in `T/32`, 1 in `T`."""
    return int(name.partition("/")[2] or 1)


def factor_value(name: str, env: Mapping[str, int]) -> int:
    """The value of a factor where its symbol has one."""
    return -(-env[symbol_of(name)] // divisor_of(name))


def _replaced(name: str, env: Mapping[str, Dim | int]) -> Dim:
    symbol = symbol_of(name)
    return Dim.of(name) if symbol not in env else Dim.of(env[symbol]).over(divisor_of(name))


def _total(terms: Iterable[Term]) -> Dim:
    """The sum of terms, of which several may hold one product."""
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        total[monomial] = total.get(monomial, 0) + factor
    return Dim(total.items())


def product(dims: Iterable[Dim | int]) -> Dim:
    """The number of elements of a shape."""
    return _product(tuple(dims))


def _reading_order(name: str) -> tuple[bool, str]:
    """Time first: T*N rather than N*T."""
    return name != "T", name


def _term(monomial: Monomial, factor: int) -> str:
    if not monomial:
        return str(factor)
    if factor in (1, -1):
        return ("-" if factor < 0 else "") + "*".join(monomial)
    return "*".join((str(factor), *monomial))


def _part(term: Term, lead: Term) -> Term | None:
    """A term divided by another, None where it does not divide."""
    rest = _without(term[0], lead[0])
    return None if rest is None or term[1] % lead[1] else (rest, term[1] // lead[1])


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """The monomial divided by another, None where it does not divide."""
    rest = list(monomial)
    for name in part:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


@lru_cache(maxsize=4096)
def _product(dims: tuple[Dim | int, ...]) -> Dim:
    return reduce(lambda a, b: a * b, dims, _constant(1))


@lru_cache(maxsize=4096)
def _constant(value: int) -> Dim:
    return Dim([((), value)])


@lru_cache(maxsize=4096)
def _parse(text: str) -> Dim:
    position, terms, term, sign, expects = 0, list[Term](), _constant(1), 1, True
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise ValueError(f"{text!r} is not a size formula")
        token, position = match.group(1), match.end()
        if expects and token in "+-" and term == 1:
            sign = -sign if token == "-" else sign
        elif expects and token not in "+-*":
            term, expects = term * (int(token) if token.isdigit() else Dim.of(token)), False
        elif not expects and token == "*":
            expects = True
        elif not expects and token in "+-":
            terms += (term * sign).terms
            term, expects = _constant(1), True
            sign = -1 if token == "-" else 1
        else:
            raise ValueError(f"{text!r} is not a size formula")
    if expects:
        raise ValueError(f"{text!r} is not a size formula")
    return _total([*terms, *(term * sign).terms])
