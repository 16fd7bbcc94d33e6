"""What operators force sizes to be: symbols that stand for others, formulas that are equal or not
negative.

A model is read anew with each thing that is learnt, which calls of the library then check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from math import gcd
from typing import TypeVar

from rnncc.errors import CompileError
from rnncc.frontends.onnx.errors import Uneven
from rnncc.frontends.onnx.values import varies
from rnncc.ir.dims import Dim, Excess
from rnncc.ir.size_proofs import is_natural
from rnncc.records import record

MOST_UNEVEN, MOST_UNEVEN_OF_ALL = 16, 256
"""How many results behind an `If` are tried, one behind the other, to make its branches meet; how
many of all: where branches that go on hold others that do, each doubles what is read."""
MOST_LEARNT = 64
"""How often a model is read anew."""
PREFIX = "decided_by_run_"
"""What symbols of sizes begin with that the run decides, until it is known which sizes they are."""
TRIED = (60, 61, 62, 63, 1000, 1001, 1002, 1003)
"""Sizes for which two formulas are compared that may be equal."""
T = TypeVar("T")


class Learnt(Exception):
    """Reading a model showed something of its sizes: it is to be read anew, knowing that.

    Attributes:
        facts: formulas that are not negative.
        symbol, size: the symbol that is another size, if one is.
        same: pairs of formulas of one size; the second gives way to the first.
        counted: the symbol of a size that the run decides, and that no other size tells.
        shortened: the formula of how far an axis goes on behind a slice in a loop, which has fewer
            rows in an iteration for which it is negative; of a slice that begins at a computed
            place, how many places there are for all of its rows but one.
        whole: the latter formula of a slice that has all of its rows in each iteration.
        uneven: the errors of results of an `If` whose branches give them in other ranks or types,
            so that they go on with what reads these.
    """

    def __init__(
        self,
        *facts: Dim,
        symbol: str | None = None,
        size: Dim | None = None,
        same: tuple[tuple[Dim, Dim], ...] = (),
        counted: str | None = None,
        shortened: Dim | None = None,
        whole: Dim | None = None,
        uneven: tuple[Uneven, ...] = (),
    ) -> None:
        super().__init__(facts, symbol, size, same, counted, shortened, whole, uneven)
        self.facts, self.symbol, self.size, self.same = facts, symbol, size, same
        self.counted, self.shortened, self.whole = counted, shortened, whole
        self.uneven = uneven


class Fork(Exception):
    """A model may be read in several ways, as where sizes decide between branches whose results
    differ in shape: it is to be tried what the rest of the model can be built with.

    Attributes:
        error: where that is neither, or both; None where the first way that works is taken, and
            what is wrong with the last one tells what is wrong.
        ways: what is learnt by choosing each.
    """

    def __init__(self, error: CompileError | None, *ways: Learnt) -> None:
        super().__init__(error, ways)
        self.error, self.ways = error, ways


@record
class Known:
    """What has been learnt so far.

    Attributes:
        sizes: symbols that stand for other sizes -> these.
        facts: formulas that are not negative.
        same: pairs of formulas of one size; the second gives way to the first.
        counted: symbols of sizes that the run decides, and that no other size tells.
        shortened: how far axes go on behind slices in loops that may have fewer rows.
        whole: the same of slices at computed places that have all of their rows.
        uneven: the errors of results of which branches give other ranks or types.
    """

    sizes: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    facts: tuple[Dim, ...] = ()
    same: tuple[tuple[Dim, Dim], ...] = ()
    counted: frozenset[str] = frozenset()
    shortened: frozenset[Dim] = frozenset()
    whole: frozenset[Dim] = frozenset()
    uneven: tuple[Uneven, ...] = ()

    def facts_hold(self, facts: Sequence[Dim]) -> bool:
        """Whether all of some facts were learnt."""
        return all(fact in self.facts for fact in facts)

    def is_more(self, size: Dim, other: Dim) -> bool:
        """Whether it was learnt that one size is larger than another one."""
        return size - other - 1 in self.facts

    def goes_on(self, error: CompileError) -> Learnt | None:
        """That branches go on with what reads their results, where the error is that these are
        of other ranks or types, and it is not known yet."""
        if not isinstance(error, Uneven) or error.result in self.uneven_results:
            return None
        few = len(self.uneven) < MOST_UNEVEN_OF_ALL and len(self._before(error)) < MOST_UNEVEN
        return Learnt(uneven=(error,)) if few else None

    def _before(self, error: Uneven) -> list[Uneven]:
        """The errors of results of the same `If`."""
        return [one for one in self.uneven if one.result[0] == error.result[0]]

    @property
    def uneven_results(self) -> set[tuple[str, str]]:
        """The results that branches go on behind: places of an `If`, and names."""
        return {error.result for error in self.uneven}

    def first_uneven(self, error: CompileError) -> CompileError:
        """The error of the results that the file has, where this is of what branches went on to."""
        return next(iter(self._before(error)), error) if isinstance(error, Uneven) else error

    def more(self, learnt: Learnt) -> Known:
        """With something that was learnt with this known."""
        if learnt.counted is not None:
            return replace(self, counted=self.counted | {learnt.counted})
        if learnt.shortened is not None:
            return replace(self, shortened=self.shortened | {learnt.shortened})
        if learnt.whole is not None:
            return replace(self, whole=self.whole | {learnt.whole})
        if learnt.uneven:
            return replace(self, uneven=(*self.uneven, *learnt.uneven))
        facts = (*self.facts, *learnt.facts)
        if learnt.symbol is None or learnt.size is None:
            return replace(self, facts=facts, same=(*self.same, *learnt.same))
        new = {learnt.symbol: learnt.size}
        # What stood for the symbol stands for its size from now on.
        sizes = {symbol: size.substitute(new) for symbol, size in self.sizes.items()} | new
        same = ((one.substitute(new), other.substitute(new)) for one, other in self.same)
        return Known(
            sizes,
            tuple(fact.substitute(new) for fact in facts),
            tuple((one, other) for one, other in same if one != other),
            self.counted,
            *(frozenset(f.substitute(new) for f in held) for held in (self.shortened, self.whole)),
            uneven=self.uneven,
        )


def learning(attempt: Callable[[Known], T], many: CompileError) -> T:
    """What reading a model gives once all is known that it shows of its sizes.

    Args:
        attempt: reads it, or raises what it shows.
        many: raised where it has been read too often.
    """
    left = iter(range(MOST_LEARNT))

    def read(known: Known) -> T:
        for _ in left:
            try:
                return attempt(known)
            except Uneven as error:
                raise known.first_uneven(error) from None
            except Learnt as learnt:
                known = known.more(learnt)
            except Fork as fork:
                return _taken(fork, known, read)
        raise many

    return read(Known())


def _taken(fork: Fork, known: Known, read: Callable[[Known], T]) -> T:
    """What one of several ways to read a model gives."""
    if fork.error is None:
        for way in fork.ways[:-1]:
            with suppress(CompileError):
                return read(known.more(way))
        return read(known.more(fork.ways[-1]))
    results = list[T]()
    for way in fork.ways:
        with suppress(CompileError):
            results.append(read(known.more(way)))
    if len(results) != 1:
        if (learnt := known.goes_on(fork.error)) is not None:
            return read(known.more(learnt))
        raise known.first_uneven(fork.error)
    return results[0]


def learnt_from(
    pairs: Iterable[tuple[Dim, Dim]], order: Sequence[str], plain: bool, known: Known
) -> Learnt | None:
    """What makes the first pair of different sizes equal: a simple thing if one does, else that
    they are, and so are the following pairs that nothing simple makes equal.

    Args:
        order: the symbols; later ones give way to earlier ones.
        plain: whether a symbol may stand for another one alone.
        known: what is known already, which did not make them equal.
    """
    learnt: Learnt | None = None
    for one, other in pairs:
        if one == other:
            continue
        rest = _without_common_factor(one - other)
        if plain:
            return _symbol(rest, order, plain)
        simple = _fact(rest, known.facts) or _symbol(rest, order, plain) or _decided(rest, order)
        same = None if simple else _same(one, other, known)
        if same is None:
            return learnt or simple
        learnt = same if learnt is None else _together(learnt, same)
    return learnt


def _together(one: Learnt, other: Learnt) -> Learnt:
    """Two things of formulas that are equal."""
    same = dict.fromkeys((*one.same, *other.same))
    return Learnt(*dict.fromkeys((*one.facts, *other.facts)), same=tuple(same))


def _same(one: Dim, other: Dim, known: Known) -> Learnt | None:
    """That two formulas are equal, such as 4 ⌊L/64⌋ and ⌊L/16⌋, unless they never are."""
    kept, gone = sorted((one, other), key=lambda size: (not size.is_static, len(str(size))))
    more, less = kept - gone, gone - kept
    never = more.is_static or any(is_natural(d - 1, known.facts) for d in (more, less))
    if never or (kept, gone) in known.same or varies(kept) or varies(gone):
        return None
    return Learnt(more, less, same=((kept, gone),))


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
        return Learnt(size, symbol=symbol, size=size)
    return None


def _decided(rest: Dim, order: Sequence[str]) -> Learnt | None:
    """The size of an input that one which the run decides is, where a formula is then 0 for some
    sizes. In a quotient others would do, too: calls refuse them."""
    for symbol in sorted(rest.symbols):
        for size in map(Dim.of, order) if symbol.startswith(PREFIX) else ():
            left = rest.substitute({symbol: size})
            tried = (left.evaluate(_each_other(order, one)) for one in TRIED)
            if size != Dim.of(symbol) and not any(tried):
                return Learnt(size, symbol=symbol, size=size)
    return None


def _each_other(order: Sequence[str], least: int) -> dict[str, int]:
    """Sizes that differ, from one on."""
    return {symbol: least + 17 * at for at, symbol in enumerate(order)}


def _without_common_factor(dim: Dim) -> Dim:
    """Divide by the symbols that occur in every term, sizes of which one is 0 saying nothing, and
    by the number that divides every factor."""
    for symbol in sorted(dim.symbols):
        exact = dim.divide(Dim.of(symbol))
        dim = dim if exact is None or exact.is_static else exact
    number = gcd(*(factor for _, factor in dim.terms))
    exact = dim.divide(Dim.of(number)) if number > 1 else None
    return dim if exact is None else exact
