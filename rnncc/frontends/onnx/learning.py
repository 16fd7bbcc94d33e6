"""What operators force sizes to be: symbols that stand for others, formulas that are not negative.

A model is read anew with each thing that is learnt, which calls of the library then check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rnncc.ir.dims import Dim, Excess

MOST_LEARNT = 64
"""How often a model is read anew."""


class Learnt(Exception):
    """Reading a model showed something of its sizes: it is to be read anew, knowing that.

    Attributes:
        symbol, size: the symbol that is another size; None where a fact was found.
        fact: a formula that is not negative.
    """

    def __init__(self, fact: Dim, symbol: str | None = None, size: Dim | None = None) -> None:
        super().__init__(fact, symbol, size)
        self.fact, self.symbol, self.size = fact, symbol, size


@dataclass(frozen=True)
class Known:
    """What has been learnt so far.

    Attributes:
        sizes: symbols that stand for other sizes -> these.
        facts: formulas that are not negative.
    """

    sizes: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    facts: tuple[Dim, ...] = ()

    def more(self, learnt: Learnt) -> Known:
        """With something that was learnt with this known."""
        facts = (*self.facts, learnt.fact)
        if learnt.symbol is None or learnt.size is None:
            return replace(self, facts=facts)
        new = {learnt.symbol: learnt.size}
        sizes = {symbol: size.substitute(new) for symbol, size in self.sizes.items()} | new
        return Known(sizes, tuple(fact.substitute(new) for fact in facts))


def learnt_from(
    pairs: Iterable[tuple[Dim, Dim]], order: Sequence[str], plain: bool, facts: Sequence[Dim] = ()
) -> Learnt | None:
    """What makes the first pair of different sizes equal, if a simple thing does.

    Args:
        order: the symbols; later ones give way to earlier ones.
        plain: whether a symbol may stand for another one alone.
        facts: what is known already, which did not make them equal.
    """
    for one, other in pairs:
        if one != other:
            rest = _without_common_factor(one - other)
            return (None if plain else _fact(rest, facts)) or _symbol(rest, order, plain)
    return None


def _fact(rest: Dim, facts: Sequence[Dim]) -> Learnt | None:
    """Which side of a maximum must be the larger one for a formula to be 0."""
    for atom in sorted(_maxima(rest)):
        for value, fact in ((atom.inner, atom.inner), (Dim.of(0), -atom.inner)):
            if fact not in facts and rest.substitute({atom: value}) == 0:
                return Learnt(fact)
    return None


def _maxima(dim: Dim) -> set[Excess]:
    """The maxima in a formula, those within its quotients too."""
    atoms = dim.atoms
    inside = (_maxima(atom.inner) for atom in atoms)
    return {atom for atom in atoms if isinstance(atom, Excess)}.union(*inside)


def _symbol(rest: Dim, order: Sequence[str], plain: bool) -> Learnt | None:
    """The symbol that has to stand for what else is in a formula, for that to be 0."""
    for symbol in reversed(order):
        factor = rest.coefficient((symbol,))
        others = rest - Dim.of(symbol) * factor
        if abs(factor) != 1 or symbol in others.symbols:
            continue
        size = others * -factor
        if (size.is_static and int(size) < 1) or (plain and not size.is_symbol):
            continue
        return Learnt(size, symbol, size)
    return None


def _without_common_factor(dim: Dim) -> Dim:
    """Divide by the symbols that occur in every term: sizes of which one is 0 say nothing."""
    for symbol in sorted(dim.symbols):
        exact = dim.divide(Dim.of(symbol))
        dim = dim if exact is None or exact.is_static else exact
    return dim
