"""Formulas of sizes in the languages of files beside a library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rnncc_runtime.sizes import Excess, Factor, Quotient, Size, Terms, parse_largest

from rnncc.records import record


@record
class Language:
    """How a language writes what formulas are made of.

    Attributes:
        symbol: a size by its name.
        number, quotient, excess: with `{}` for the formula inside, `{d}` for the divisor.
    """

    symbol: Callable[[str], str]
    number: str
    quotient: str
    excess: str

    def sum(self, terms: Terms) -> str:
        """A formula."""
        products = [
            " * ".join([self.number.format(n), *map(self._factor, factors)]) for n, factors in terms
        ]
        return " + ".join(products) or "0"

    def _factor(self, factor: Factor) -> str:
        match factor:
            case Quotient(inner, divisor):
                return self.quotient.format(self.sum(inner), d=divisor)
            case Excess(inner):
                return self.excess.format(self.sum(inner))
            case str():
                return self.symbol(factor)


def c_largest(text: str, names: Mapping[str, str]) -> str:
    """The largest of some formulas as a constant expression of C, of macro arguments.

    Args:
        text: as the metadata has it.
        names: symbols -> what they are called in C.
    """
    c = Language(
        lambda symbol: f"({names[symbol]})",
        "{}LL",
        "(({} + {d} - 1) / {d})",
        "(({0}) > 0 ? ({0}) : 0)",
    )
    return _largest([c.sum(size.terms) for size in parse_largest(text)])


def _largest(formulas: Sequence[str]) -> str:
    """Halved and halved again, so that the text grows with the square of their number alone."""
    if len(formulas) == 1:
        return formulas[0]
    middle = len(formulas) // 2
    first, second = _largest(formulas[:middle]), _largest(formulas[middle:])
    return f"(({first}) > ({second}) ? ({first}) : ({second}))"


def shape(sizes: Sequence[int | str], language: Language) -> list[str]:
    """The dimensions of an array."""
    return [language.sum(Size.parse(size).terms) for size in sizes]
