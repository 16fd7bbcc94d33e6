"""Shapes with symbols: the formulas of a model's metadata, solved from the shapes of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rnncc_runtime.errors import ArrayError, LoadError

_FACTOR = r"(?:\d+|[A-Za-z_]\w*(?:/[1-9]\d*)?)"
_TERM = re.compile(rf"\s*([+-]?)\s*({_FACTOR}(?:\s*\*\s*{_FACTOR})*)\s*")


@dataclass(frozen=True)
class Size:
    """One dimension: a sum of products, such as `T*N + 1`, or `T/2 + 1`, T/2 being rounded up.

    Attributes:
        text: as the metadata has it.
        terms: the number and the factors, (symbol, divisor), of every product.
    """

    text: str
    terms: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]

    @staticmethod
    def parse(text: int | str) -> Size:
        """Read an int or a formula; raises `LoadError` on anything else."""
        text, position, terms = str(text), 0, list[tuple[int, tuple[tuple[str, int], ...]]]()
        while position < len(text) or not terms:
            match = _TERM.match(text, position)
            if match is None or (terms and not match.group(1)):
                raise LoadError(f"{text!r} is not a size")
            number, factors = -1 if match.group(1) == "-" else 1, list[tuple[str, int]]()
            for part in re.split(r"\s*\*\s*", match.group(2)):
                if part.isdigit():
                    number *= int(part)
                else:
                    symbol, _, divisor = part.partition("/")
                    factors.append((symbol, int(divisor or 1)))
            terms.append((number, tuple(factors)))
            position = match.end()
        return Size(text, tuple(terms))

    @property
    def symbols(self) -> set[str]:
        """The names that occur."""
        return {symbol for _, factors in self.terms for symbol, _ in factors}

    @property
    def is_symbol(self) -> bool:
        """Whether it is one symbol and nothing else."""
        return self.terms == ((1, ((self.text, 1),)),)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number, where every symbol has one."""
        total = 0
        for product, factors in self.terms:
            for symbol, divisor in factors:
                product *= -(-values[symbol] // divisor)
            total += product
        return total

    def solve(self, symbol: str, extent: int, values: Mapping[str, int]) -> int | None:
        """The symbol's value for which the size is `extent`, if the size is linear in it."""
        at_zero = self.evaluate({**values, symbol: 0})
        slope = self.evaluate({**values, symbol: 1}) - at_zero
        if slope == 0 or (extent - at_zero) % slope:
            return None
        value = (extent - at_zero) // slope
        return value if self.evaluate({**values, symbol: value}) == extent else None


def parse_largest(text: str) -> list[Size]:
    """The formulas of `max(a, b, ...)`, or the one that stands alone; raises `LoadError`."""
    inner = text[4:-1] if text.startswith("max(") and text.endswith(")") else text
    return [Size.parse(part.strip()) for part in inner.split(",")]


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
