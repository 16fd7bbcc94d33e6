"""Sizes known as formulas: `Dim`, an integer polynomial over named symbols such as T and N.

A factor may also be a formula over a number, rounded up, or a formula where that is positive:
`(T + 1)/32` is ⌈(T + 1) / 32⌉, and `max(T - 5, 0)` what it says. Floor and minimum follow:
⌊a / k⌋ = ⌈(a - k + 1) / k⌉ and min(a, b) = a - max(a - b, 0).

Every factor is at least 0 where the symbols are, so that a formula without minus signs is, too.
Formulas are bounded: a few nodes that multiply sizes by themselves would otherwise make some of
millions of terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from math import gcd
from typing import Any, Self

from rnncc_runtime.errors import LoadError
from rnncc_runtime.sizes import Excess as ParsedExcess
from rnncc_runtime.sizes import Quotient as ParsedQuotient
from rnncc_runtime.sizes import Size, Terms

from rnncc.errors import SizeError
from rnncc.ir.monomials import Monomial, Term, divided, in_reading_order, term_text

MOST_PAIRS, MOST_FACTORS, MOST_BITS = 4096, 16, 127
"""Of a product of formulas: pairs of terms, symbols in a term, bits of a number."""
MOST_TERMS = 512
"""Of a sum. What joins so many inputs, each of another size, has as many offsets that are sums:
time and code grow with the square (250 take ten times as long as with one size)."""
MOST_STEPS = 256
"""Terms of a quotient by a sum; one of more is not looked for."""
MOST_DIVISOR, MOST_DEPTH, MOST_TEXT = 1 << 20, 32, 4096
"""Of an atom: the number that it divides by, how deep atoms lie in each other, its characters."""


class Dim:
    """An immutable polynomial with integer coefficients: `Dim.of("T") * 4 + 1`.

    Equal formulas compare and hash equal; a constant one equals the int it holds.
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        kept = ((m, c) for m, c in terms if c)
        self.terms = tuple(sorted(kept, key=lambda term: (-len(term[0]), term[0])))
        # It equals an int, and so must hash as that.
        self._hash = hash(int(self) if self.is_static else self.terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim.parse, (str(self),)  # hashes differ from process to process

    @staticmethod
    def of(value: Dim | int | str) -> Dim:
        """The polynomial of an int or of one symbol's name; an atom's text is that atom."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            is_atom = "/" in value or "(" in value
            return Dim.parse(value) if is_atom else Dim([((value,), 1)])
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
    def is_symbol(self) -> bool:
        """Whether it is one symbol and nothing else."""
        return self.symbols == frozenset({str(self)})

    @property
    def symbols(self) -> frozenset[str]:
        """The names that occur, those in atoms too."""
        names = (name for monomial, _ in self.terms for name in monomial)
        per_name = (name.inner.symbols if isinstance(name, Atom) else (name,) for name in names)
        return frozenset(name for several in per_name for name in several)

    @property
    def atoms(self) -> frozenset[Atom]:
        """The factors that are no symbols."""
        names = (name for monomial, _ in self.terms for name in monomial)
        return frozenset(name for name in names if isinstance(name, Atom))

    def over(self, count: int) -> Dim:
        """⌈self / count⌉; `count` is at least 1.

        What `count` divides is no part of the atom, whose coefficients and constant lie below it.
        So quotients that are equal by simple algebra are equal formulas.
        """
        assert count > 0, f"{self} over {count}"
        whole = Dim((monomial, factor // count) for monomial, factor in self.terms)
        return whole + _quotient(self - whole * count, count)

    def under(self, count: int) -> Dim:
        """⌊self / count⌋; `count` is at least 1."""
        return (self - (count - 1)).over(count)

    def excess(self) -> Dim:
        """max(self, 0)"""
        if self.is_static:
            return _constant(max(int(self), 0))
        factors = [factor for _, factor in self.terms]
        if min(factors) >= 0 or max(factors) <= 0:
            return self if min(factors) >= 0 else _constant(0)
        # Of max(a, 0) = a + max(-a, 0) one side is taken, so that equal formulas are equal.
        if factors[0] < 0:
            return self + (-self).excess()
        common = gcd(*factors)
        if common > 1:
            return Dim((m, factor // common) for m, factor in self.terms).excess() * common
        for atom in self.atoms:
            # max(max(a, 0) - b, 0) = max(a - b, 0) for b from 0 up
            if isinstance(atom, Excess) and self._less(atom):
                return (atom.inner + self - Dim([((atom,), 1)])).excess()
        return Dim([((Excess(self),), 1)])

    def _less(self, atom: Atom) -> bool:
        """Whether it is an atom less something that is not negative."""
        rest = self - Dim([((atom,), 1)])
        return all(factor <= 0 for _, factor in rest.terms)

    def coefficient(self, monomial: Monomial = ()) -> int:
        """The factor of one product of symbols."""
        return dict(self.terms).get(monomial, 0)

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where every symbol has one; raises `KeyError` for a missing symbol."""
        total = 0
        for monomial, factor in self.terms:
            for name in monomial:
                factor *= name.evaluate(env) if isinstance(name, Atom) else env[name]
            total += factor
        return total

    def substitute(self, env: Mapping[str, Dim | int]) -> Dim:
        """Replace some symbols and atoms by formulas, those inside atoms too."""
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
            parts = [divided(term, lead) for term in self.terms]
            quotients = [part for part in parts if part is not None]
            return Dim(quotients) if len(quotients) == len(parts) else None
        rest, quotient = self, list[Term]()
        while rest.terms:
            part = divided(rest.terms[0], lead)
            if part is None or len(quotient) == MOST_STEPS:
                return None
            quotient.append(part)
            rest = rest - Dim([part]) * divisor
        return Dim(quotient)

    def __add__(self, other: Dim | int) -> Dim:
        other = Dim.of(other)
        if self.is_static and other.is_static:  # most are, and need no sorting
            return _constant(int(self) + int(other))
        return _total([*self.terms, *other.terms])

    def __mul__(self, other: Dim | int) -> Dim:
        other, total = Dim.of(other), dict[Monomial, int]()
        if len(self.terms) * len(other.terms) > MOST_PAIRS:
            raise SizeError(f"multiplies size formulas, giving more than {MOST_PAIRS} terms")
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = in_reading_order(left + right)
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
        return _constant(0) - self

    def __sub__(self, other: Dim | int) -> Dim:
        other = Dim.of(other)
        if self.is_static and other.is_static:
            return _constant(int(self) - int(other))
        return _total([*self.terms, *((monomial, -factor) for monomial, factor in other.terms)])

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
        text = " + ".join(term_text(monomial, factor) for monomial, factor in self.terms) or "0"
        return text.replace("+ -", "- ")

    def __repr__(self) -> str:
        return f"Dim({self})"


Dims = tuple[Dim, ...]
"""A shape: the size of each axis."""


class Atom(str, ABC):
    """A factor that is no symbol: its text, and the formula in it."""

    inner: Dim
    depth: int

    def __new__(cls, text: str, inner: Dim) -> Self:
        depth = 1 + max((atom.depth for atom in inner.atoms), default=0)
        if depth > MOST_DEPTH or len(text) > MOST_TEXT:
            what = f"{MOST_DEPTH} quotients in each other, or {MOST_TEXT} characters"
            raise SizeError(f"gives a size formula of more than {what}")
        atom = super().__new__(cls, text)
        atom.inner, atom.depth = inner, depth
        return atom

    @abstractmethod
    def of(self, inner: Dim) -> Dim:
        """The same function of another formula."""

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value where every symbol has one."""
        return int(self.of(_constant(self.inner.evaluate(env))))


class Quotient(Atom):
    """⌈inner / divisor⌉"""

    divisor: int

    def __new__(cls, inner: Dim, divisor: int) -> Self:
        if divisor > MOST_DIVISOR:
            raise SizeError(f"divides a size by {divisor}, more than {MOST_DIVISOR}")
        text = f"{inner}/{divisor}" if inner.is_symbol else f"({inner})/{divisor}"
        atom = super().__new__(cls, text, inner)
        atom.divisor = divisor
        return atom

    def of(self, inner: Dim) -> Dim:
        return inner.over(self.divisor)


class Excess(Atom):
    """max(inner, 0)"""

    def __new__(cls, inner: Dim) -> Self:
        return super().__new__(cls, f"max({inner}, 0)", inner)

    def of(self, inner: Dim) -> Dim:
        return inner.excess()


def _quotient(rest: Dim, count: int) -> Dim:
    """⌈rest / count⌉, the factors of rest being at least 0 and less than `count`."""
    number = rest.coefficient()
    if rest.is_static:
        return _constant(int(number > 0))
    common = gcd(count, *(factor for monomial, factor in rest.terms if monomial))
    if common > 1:
        part = Dim((m, factor // common) for m, factor in rest.terms if m)
        return (part - (-number // common)).over(count // common)
    inner = [a for a in rest.atoms if isinstance(a, Quotient) and rest.coefficient((a,)) == 1]
    if len(inner) == 1:  # ⌈(⌈a / m⌉ + b) / n⌉ = ⌈(a + m·b) / (m·n)⌉
        [atom] = inner
        others = rest - Dim([((atom,), 1)])
        return (atom.inner + others * atom.divisor).over(count * atom.divisor)
    return Dim([((Quotient(rest, count),), 1)])


def _replaced(name: str, env: Mapping[str, Dim | int]) -> Dim:
    if name in env:
        return Dim.of(env[name])
    if isinstance(name, Atom):
        inner = name.inner
        if inner.atoms or not env.keys().isdisjoint(inner.symbols):
            return name.of(inner.substitute(env))
    return Dim([((name,), 1)])


def _total(terms: Iterable[Term]) -> Dim:
    """The sum of terms, of which several may hold one product."""
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        total[monomial] = total.get(monomial, 0) + factor
    if len(total) > MOST_TERMS:
        raise SizeError(f"gives a size formula of more than {MOST_TERMS} terms")
    return Dim(total.items())


def product(dims: Iterable[Dim | int]) -> Dim:
    """The number of elements of a shape."""
    return _product(tuple(dims))


def used_symbols(symbols: Iterable[str], dims: Iterable[Dim]) -> list[str]:
    """Those of some symbols that some formulas have, in their order."""
    used = frozenset[str]().union(*(dim.symbols for dim in dims))
    return [symbol for symbol in symbols if symbol in used]


@lru_cache(maxsize=4096)
def _product(dims: tuple[Dim | int, ...]) -> Dim:
    return reduce(lambda a, b: a * b, dims, _constant(1))


@lru_cache(maxsize=4096)
def _constant(value: int) -> Dim:
    return Dim([((), value)])


@lru_cache(maxsize=4096)
def _parse(text: str) -> Dim:
    try:
        return _sum(Size.parse(text).terms)
    except (LoadError, SizeError) as error:
        raise ValueError(f"{text!r} is not a size formula") from error


def _sum(terms: Terms) -> Dim:
    """What the runtime reads as a formula."""
    total = list[Term]()
    for number, factors in terms:
        total += product([number, *map(_factor, factors)]).terms
    return _total(total)


def _factor(factor: str | ParsedQuotient | ParsedExcess) -> Dim:
    match factor:
        case ParsedQuotient(inner, divisor):
            return _sum(inner).over(divisor)
        case ParsedExcess(inner):
            return _sum(inner).excess()
        case str():
            return Dim([((factor,), 1)])


ZERO, ONE = Dim.of(0), Dim.of(1)
