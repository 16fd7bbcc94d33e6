"""When a loop's condition fails first: a conjunction of inequalities a + b·i >= 0 as a size.

In: names of bools, and what is known of the numbers that they compare. Out: how many iterations a
loop has that starts if some conditions hold, and goes on after iteration i if others hold then.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from rnncc.frontends.onnx.formulas.sizes import Undecided, decide, divide, smaller
from rnncc.frontends.onnx.node import INTEGERS
from rnncc.frontends.onnx.values import EXACT, NoFormula, Value, as_objects
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import larger

if TYPE_CHECKING:
    from onnx import NodeProto

PASSING = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")
"""Operators that pass a bool on."""
COMPARISONS = {
    **{"Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "Equal": "eq"}
}
OPPOSITES = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


class Unproven(Exception):
    """What ends a loop is no formula of sizes."""


class KnownNames(Protocol):
    """What is known of a graph's names."""

    def value(self, name: str) -> Value | None:
        """What a name stands for."""
        ...

    def writer(self, name: str) -> NodeProto | None:
        """The node that writes a name."""
        ...


@dataclass
class Conditions:
    """Inequalities that must all hold.

    Attributes:
        formulas: these must not be negative.
        rounded: up to which number floats hold every integer, and what was rounded to such floats
            before it was compared.
    """

    formulas: list[Dim] = field(default_factory=list[Dim])
    rounded: list[tuple[int, Dim]] = field(default_factory=list[tuple[int, Dim]])

    def compare(self, kind: str, x: Value | None, y: Value | None) -> None:
        """Add a comparison of two numbers."""
        if x is None or y is None or x.dtype not in (*EXACT, *INTEGERS):
            raise Unproven
        a, b = formula_of(x), formula_of(y)
        one_sided = {"lt": b - a - 1, "le": b - a, "gt": a - b - 1, "ge": a - b}
        self.formulas += [one_sided[kind]] if kind in one_sided else [a - b, b - a]
        self.rounded += [(EXACT[x.dtype], form) for form in (a, b)] if x.dtype in EXACT else []


def conditions_of(names: KnownNames, name: str, comparisons_only: bool = False) -> Conditions:
    """What must hold for a bool to be true.

    Args:
        comparisons_only: leave out what is no comparison of formulas.
    Raises:
        Unproven: it is no conjunction of comparisons of formulas.
    """
    conditions, worklist, seen = Conditions(), [(name, True)], set[tuple[str, bool]]()
    while worklist:
        pending = worklist.pop()
        if pending in seen:
            continue
        seen.add(pending)
        try:
            worklist += _parts(names, *pending, conditions)
        except Unproven:
            if not comparisons_only:
                raise
    return conditions


def _parts(
    names: KnownNames, name: str, outcome: bool, conditions: Conditions
) -> Iterable[tuple[str, bool]]:
    """The bools that decide whether one is as wanted; others are added to `conditions`."""
    value, op = names.value(name), names.writer(name)
    numbers = None if value is None else value.numbers
    if numbers is not None:
        conditions.formulas += [] if bool(numbers.all()) == outcome else [Dim.of(-1)]
        return ()
    kind = op.op_type if op is not None and op.domain in ("", "ai.onnx") else ""
    if op is not None and len(op.input) < (2 if kind in COMPARISONS else 1):
        raise Unproven  # an error of the node, reported where it is built
    if op is not None and kind == "If":
        return _branches(names, op, outcome)
    if op is None or kind not in (*COMPARISONS, *PASSING, "Not", "And" if outcome else "Or"):
        raise Unproven
    if kind not in COMPARISONS:
        inputs = op.input[:1] if kind in PASSING else op.input
        return [(operand, outcome != (kind == "Not")) for operand in inputs]
    compared = COMPARISONS[kind] if outcome else OPPOSITES.get(COMPARISONS[kind])
    if compared is None:
        raise Unproven
    conditions.compare(compared, *(names.value(side) for side in op.input[:2]))
    return ()


def _branches(names: KnownNames, op: NodeProto, outcome: bool) -> list[tuple[str, bool]]:
    """An `If` of which one branch is not as wanted: the other one is taken, and is so.

    Python's `and` and `or` are exported as such.
    """
    results = {a.name: a.g.output[0].name for a in op.attribute if len(a.g.output) == 1}
    if len(results) < 2:
        raise Unproven
    for branch, other in (("then_branch", "else_branch"), ("else_branch", "then_branch")):
        value = names.value(results[branch])
        numbers = None if value is None else value.numbers
        if numbers is not None and bool(numbers.all()) != outcome:
            return [(op.input[0], other == "then_branch"), (results[other], outcome)]
    raise Unproven


def formula_of(value: Value) -> Dim:
    """One known number as a formula.

    Raises:
        Unproven: it is none, or there are several.
    """
    if value.known is None or value.known.size != 1:
        raise Unproven
    try:
        return as_objects(value.known).reshape(-1)[0]
    except NoFormula as error:
        raise Unproven from error


def iterations(
    first: Conditions,
    again: Conditions,
    step: str,
    most: Dim | None,
    bounds: MutableMapping[Dim, None],
) -> Dim | None:
    """How many iterations a loop has; None where nothing ends it.

    Args:
        first: what must hold for the loop to start.
        again: what must hold after iteration `step`, a symbol, for another one.
        most: its trip count.
        bounds: gets formulas that must not be negative for the answer to hold.
    Raises:
        Unproven, Undecided: that is no formula of sizes.
    """
    ends = [end for f in again.formulas if (end := _first_negative(f, step)) is not None]
    unsure = [formula for formula in first.formulas if not _holds(formula)]
    if any(_holds(-1 - formula) for formula in unsure):
        return Dim.of(0)
    last = reduce(smaller, ends) if ends else None
    count = most if last is None else last + 1 if most is None else smaller(most, last + 1)
    if unsure and not _starts_if_any(unsure, count, last):
        counts = _tested_first(unsure, again.formulas, step)
        if counts is None:
            raise Unproven
        return reduce(smaller, counts if most is None else [*counts, most])
    if last is not None and not unsure:
        bounds[last] = None
    return count


def _tested_first(unsure: Sequence[Dim], again: Sequence[Dim], step: str) -> list[Dim] | None:
    """How many iterations each condition allows, where a loop starts if what must hold after each
    iteration does before the first, as that of `while` does; None where it is no such loop.

    Args:
        unsure: formulas of which none is negative where it starts.
        again: formulas of which none is negative where it goes on after an iteration.
    """
    each = [(f, f.substitute({step: -1}), f.substitute({step: 0})) for f in again]
    if not all(one in [before for _, before, _ in each] for one in unsure):
        return None
    counts = list[Dim]()
    for formula, before, start in each:
        fall = before - start
        if before in unsure and fall.is_static and int(fall) > 0:
            counts.append(larger(before + 1, Dim.of(0)).over(int(fall)))
        elif not _holds(start):
            return None
        elif (end := _first_negative(formula, step)) is not None:
            counts.append(end + 1)
    return counts


def _starts_if_any(unsure: Sequence[Dim], count: Dim | None, last: Dim | None) -> bool:
    """Whether a loop starts if its number of iterations is not 0, and then has one at least.

    Args:
        unsure: formulas of which none is negative where it starts.
        count: the number of its iterations where it starts.
        last: the number of the iteration at whose end a condition fails.
    """
    if count is None or not all(_holds(formula - count + 1) for formula in unsure):
        return False
    return last is None or any(_holds(last - formula) for formula in unsure)


def _first_negative(formula: Dim, step: str) -> Dim | None:
    """The first step at which a formula is negative; a negative one stands for the first of all.

    None where it never is.
    """
    start = formula.substitute({step: 0})
    slope = (formula - start).divide(Dim.of(step))
    if slope is None or not slope.is_static:
        raise Unproven
    if int(slope) >= 0:
        if _holds(start):
            return None
        if slope == 0 and _holds(-1 - start):
            return Dim.of(0)
        raise Unproven
    if start.is_static:
        return Dim.of(max(int(start) // -int(slope) + 1, 0))
    return divide(start - int(slope), -slope)


def _holds(formula: Dim) -> bool:
    """Whether a formula is known not to be negative."""
    try:
        return decide("ge", formula, Dim.of(0))
    except Undecided:
        return False
