"""Shapes with symbols: the formulas of a model's metadata, solved from the shapes of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeVar

from rnncc_runtime.errors import ArrayError, LoadError

TIME, BATCH = "T", "N"
"""The symbols of the steps of a sequence and of its rows."""

_TOKEN = re.compile(r"\s*([0-9]{1,40}|[A-Za-z_]\w*|[-+*/(),])\s*")
_DEEPEST = 64
"""How deep parentheses of a formula may lie in each other."""


@dataclass(frozen=True)
class Quotient:
    """⌈dividend / divisor⌉"""

    dividend: Terms
    divisor: int


@dataclass(frozen=True)
class Excess:
    """max(of, 0)"""

    of: Terms


Factor = str | Quotient | Excess
Terms = tuple[tuple[int, tuple[Factor, ...]], ...]
"""A sum: the number and the factors of every product."""


@dataclass(frozen=True)
class Size:
    """One dimension: a sum of products, such as `T*N + 1`.

    A factor may be a quotient, rounded up: `T/2` or `(T + 1)/2`; or `max(T - 5, 0)`.

    Attributes:
        text: as the metadata has it.
        terms: what it says.
    """

    text: str
    terms: Terms

    @staticmethod
    def parse(text: int | str) -> Size:
        """Read an int or a formula; raises `LoadError` on anything else."""
        reader = _Reader(str(text))
        return reader.end(Size(str(text), reader.sum()))

    @property
    def symbols(self) -> set[str]:
        """The names that occur."""
        return _symbols(self.terms)

    @property
    def is_symbol(self) -> bool:
        """Whether it is one symbol and nothing else."""
        return self.terms == ((1, (self.text,)),)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number, where every symbol has one."""
        return _value(self.terms, values)

    def solve(self, symbol: str, extent: int, values: Mapping[str, int]) -> int | None:
        """The symbol's value for which the size is `extent`, if the size is linear in it."""
        inside = (factor for _, factors in self.terms for factor in factors)
        if any(symbol in _symbols(((1, (f,)),)) for f in inside if not isinstance(f, str)):
            return None  # several values may be rounded to one
        at_zero = self.evaluate({**values, symbol: 0})
        slope = self.evaluate({**values, symbol: 1}) - at_zero
        if slope == 0 or (extent - at_zero) % slope:
            return None
        value = (extent - at_zero) // slope
        return value if self.evaluate({**values, symbol: value}) == extent else None


def as_size(value: object, name: str) -> int:
    """An integer that a caller gave, of NumPy's too; raises `ArrayError` for anything else."""
    try:
        number = index(value)  # type: ignore[arg-type]  # that is what is asked
    except TypeError:
        line = " ".join(repr(value).split())  # an array's has several
        raise ArrayError(f"{name} is {line[:40]}, expected an integer") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ArrayError(f"{name} is no number of 64 bits")
    return number


def parse_largest(text: str) -> list[Size]:
    """The formulas of `max(a, b, ...)`, or the one that stands alone; raises `LoadError`."""
    return [Size.parse(formula) for formula in split_largest(text)]


def split_largest(text: str) -> list[str]:
    """The texts of the formulas of `max(a, b, ...)`, or the one that stands alone."""
    several = text.startswith("max(") and _closes(text) == len(text) - 1
    return [part.strip() for part in _parts(text[4:-1] if several else text)]


def _closes(text: str) -> int:
    """Where the first parenthesis is closed; -1 where it is not."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ")" and depth == 0:
            return place
    return -1


def _parts(text: str) -> list[str]:
    """A list, at the commas that stand in no parentheses."""
    if "(" not in text:
        return text.split(",")
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _symbols(terms: Terms) -> set[str]:
    symbols = set[str]()
    for factor in (factor for _, factors in terms for factor in factors):
        match factor:
            case Quotient(inner, _) | Excess(inner):
                symbols |= _symbols(inner)
            case str():
                symbols.add(factor)
    return symbols


def _value(terms: Terms, values: Mapping[str, int]) -> int:
    total = 0
    for product, factors in terms:
        for factor in factors:
            match factor:
                case Quotient(inner, divisor):
                    product *= -(-_value(inner, values) // divisor)
                case Excess(inner):
                    product *= max(_value(inner, values), 0)
                case str():
                    product *= values[factor]
        total += product
    return total


_T = TypeVar("_T")


class _Reader:
    """Reads a formula, part by part; everything raises `LoadError` where the text is none."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def sum(self) -> Terms:
        """Products with signs between them."""
        terms = [self._product(self._one_of("+", "-") or "+")]
        while sign := self._one_of("+", "-"):
            terms.append(self._product(sign))
        return tuple(terms)

    def end(self, parsed: _T) -> _T:
        """What is made of all of the text."""
        if self.at < len(self.text):
            raise self._error()
        return parsed

    def _product(self, sign: str) -> tuple[int, tuple[Factor, ...]]:
        number, factors = -1 if sign == "-" else 1, list[Factor]()
        while True:
            factor = self._factor()
            if isinstance(factor, int):
                number *= factor
            else:
                factors.append(factor)
            if not self._one_of("*"):
                return number, tuple(factors)

    def _factor(self) -> int | Factor:
        token = self._next()
        if token.isdigit():
            return int(token)
        if token == "(":
            inner = self._inside()
            self._require(")")
            self._require("/")
            return Quotient(inner, self._divisor())
        if token == "max" and self._one_of("("):
            inner = self._inside()
            for part in ",0)":
                self._require(part)
            return Excess(inner)
        if not token.isidentifier():
            raise self._error()
        return Quotient(((1, (token,)),), self._divisor()) if self._one_of("/") else token

    def _inside(self) -> Terms:
        """The sum in parentheses."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._error()
        inner = self.sum()
        self.depth -= 1
        return inner

    def _divisor(self) -> int:
        token = self._next()
        if not token.isdigit() or int(token) == 0:
            raise self._error()
        return int(token)

    def _next(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self._error()
        self.at = match.end()
        return match.group(1)

    def _one_of(self, *tokens: str) -> str:
        """The next token if it is one of these, else nothing."""
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.group(1) not in tokens:
            return ""
        self.at = match.end()
        return match.group(1)

    def _require(self, token: str) -> None:
        if not self._one_of(token):
            raise self._error()

    def _error(self) -> LoadError:
        return LoadError(f"{self.text!r} is not a size")


Shapes = Sequence[tuple[str, tuple[Size, ...], tuple[int, ...]]]
"""Of every array: its name, what its shape should be, and what it is."""


def solve(shapes: Shapes, needed: Iterable[str]) -> dict[str, int]:
    """Give every symbol the value that the arrays' shapes imply.

    Args:
        shapes: the arrays at hand.
        needed: symbols that must get a value.

    Raises:
        ArrayError: a rank or an extent is wrong, two arrays disagree, or a symbol stays open.
    """
    values: dict[str, int] = {}
    found_in: dict[str, str] = {}
    for name, sizes, shape in shapes:
        if len(sizes) != len(shape):
            raise ArrayError(f"{name} has shape {_show(shape)}, expected {_show(sizes)}")
        for size, extent in zip(sizes, shape, strict=True):
            if size.is_symbol:
                symbol = size.text
                if values.setdefault(symbol, extent) != extent:
                    was = f"{symbol} is {values[symbol]} in {found_in[symbol]}"
                    raise ArrayError(f"{was} but {extent} in {name}")
                found_in.setdefault(symbol, name)
    _solve_formulas(shapes, values)
    for name, sizes, shape in shapes:
        _verify(name, sizes, shape, values)
    missing = [symbol for symbol in needed if symbol not in values]
    if missing:
        raise ArrayError(f"no array given has a shape that determines {', '.join(missing)}")
    return values


def _solve_formulas(shapes: Shapes, values: dict[str, int]) -> None:
    """Solve the formulas that have one open symbol, until no more can be solved."""
    open_sizes = [
        (size, extent)
        for _, sizes, shape in shapes
        for size, extent in zip(sizes, shape, strict=True)
        if size.symbols - values.keys()
    ]
    progress = True
    while progress:
        progress = False
        for size, extent in open_sizes:
            unknown = size.symbols - values.keys()
            if len(unknown) == 1:
                symbol = unknown.pop()
                value = size.solve(symbol, extent, values)
                if value is not None and value >= 0:
                    values[symbol], progress = value, True


def _verify(
    name: str, sizes: tuple[Size, ...], shape: tuple[int, ...], values: Mapping[str, int]
) -> None:
    for axis, (size, extent) in enumerate(zip(sizes, shape, strict=True)):
        if size.symbols <= values.keys() and size.evaluate(values) != extent:
            known = ", ".join(f"{s} = {values[s]}" for s in sorted(size.symbols))
            expected = size.text + (f" = {size.evaluate(values)} ({known})" if known else "")
            raise ArrayError(
                f"{name} has shape {_show(shape)}: axis {axis} is {extent}, expected {expected}"
            )


def _show(shape: Iterable[Size | int]) -> str:
    return f"[{', '.join(s.text if isinstance(s, Size) else str(s) for s in shape)}]"
