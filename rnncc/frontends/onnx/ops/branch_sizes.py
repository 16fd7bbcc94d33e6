"""Branches whose results have other sizes.

Where sizes decide which of them is taken, the size of a result is a formula too: `x if T >= 8 else
pad(x, 8 - T)` has max(T, 8) rows. Where the run decides, so it does how many of the rows count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.rows import Partial, crossed, parts_of
from rnncc.frontends.onnx.formulas.offsets import formula_of
from rnncc.frontends.onnx.values import Value, varies
from rnncc.ir.dims import Dim
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Compare, Not
from rnncc.ir.ops.shape import Broadcast, Reshape
from rnncc.ir.size_proofs import is_natural, larger, smaller
from rnncc.ir.types import dims_of
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.frontends.onnx.scope import Scope

MOST_COUNTED = 2
"""Axes that a tensor's rows may be counted along."""
Results = tuple["Scope", Sequence[Value]]
"""Of a branch: where it is built, and what it gives."""


@record
class Choice:
    """What holds of sizes where a condition does, and where it does not.

    Attributes:
        facts: formulas that are not negative where it holds.
        otherwise: those where it does not.
        holds: 1 where it does, else 0.
    """

    facts: tuple[Dim, ...]
    otherwise: tuple[Dim, ...]
    holds: Dim

    @property
    def ways(self) -> tuple[tuple[str, tuple[Dim, ...]], ...]:
        """Each branch, and what holds where it is taken."""
        return ("then", self.facts), ("else", self.otherwise)

    @property
    def negated(self) -> Choice:
        """Of the opposite."""
        return Choice(self.otherwise, self.facts, 1 - self.holds)

    def size(self, a: Dim, b: Dim) -> Dim:
        """a where the condition holds, else b: as simple a formula as there is."""
        if a == b or self._are_equal(a, b, self.otherwise):
            return a
        if self._are_equal(a, b, self.facts):
            return b
        for least, most, either in ((b, a, larger), (a, b, smaller)):
            if is_natural(most - least, self.facts) and is_natural(least - most, self.otherwise):
                return either(a, b)
        return b + (a - b) * self.holds

    @staticmethod
    def _are_equal(a: Dim, b: Dim, facts: Sequence[Dim]) -> bool:
        return is_natural(a - b, facts) and is_natural(b - a, facts)


def choice_of(condition: SSAValue | None) -> Choice | None:
    """What a condition says of sizes, if it compares two."""
    if condition is None:
        return None
    op = condition.owner
    while isinstance(op, Reshape | Broadcast | Cast):
        condition = op.x
        op = condition.owner
    if isinstance(op, Not):
        choice = choice_of(op.x)
        return None if choice is None else choice.negated
    if not isinstance(op, Compare):
        return None
    x, y = formula_of(op.a), formula_of(op.b)
    if x is None or y is None or varies(x) or varies(y):
        return None
    return _compared(op.kind.data, x, y)


def _compared(kind: str, x: Dim, y: Dim) -> Choice:
    match kind:
        case "lt":
            return Choice((y - x - 1,), (x - y,), _is_positive(y - x))
        case "gt":
            return _compared("lt", y, x)
        case "eq":
            equal = 1 - _is_positive(x - y) - _is_positive(y - x)
            return Choice((x - y, y - x), (), equal)
        case _:
            opposite = {"ge": "lt", "le": "gt", "ne": "eq"}[kind]
            return _compared(opposite, x, y).negated


def _is_positive(size: Dim) -> Dim:
    """1 from 1 on, else 0."""
    return size.excess() - (size - 1).excess()


def of_one_shape(choice: Choice, one: Results, other: Results) -> tuple[list[Value], list[Value]]:
    """The results of two branches, of which those that differ in sizes alone have the same."""
    pairs = [_fitted(choice, one[0], a, other[0], b) for a, b in zip(one[1], other[1], strict=True)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _fitted(choice: Choice, left: Scope, a: Value, right: Scope, b: Value) -> tuple[Value, Value]:
    if not (a.is_tensor and b.is_tensor) or a.rank != b.rank or a.dims == b.dims:
        return a, b
    sizes = [choice.size(one, other) for one, other in zip(a.dims, b.dims, strict=True)]
    return _of_sizes(left, a, sizes), _of_sizes(right, b, sizes)


def _of_sizes(scope: Scope, value: Value, sizes: Sequence[Dim]) -> Value:
    """A result whose sizes are others by their formulas, though not where its branch is taken."""
    x = scope.ssa(value)
    for axis, size in enumerate(sizes):
        own = dims_of(x)[axis]
        if own != size:  # neither may be more than there is where the branch is not taken
            x = scope.b.slice(scope.b.pad(x, axis, 0, own + size, 0.0), axis, 0, size)
    return Value.computed(x)


def of_one_bound(one: Results, other: Results) -> tuple[list[Value], list[Value]]:
    """The results of two branches, of which those that differ in size along one axis or two, or in
    how many rows along them count, have as many rows as the larger one may: the run decides how
    many of them count."""
    pairs = [_bounded(one[0], a, other[0], b) for a, b in zip(one[1], other[1], strict=True)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _bounded(left: Scope, a: Value, right: Scope, b: Value) -> tuple[Value, Value]:
    axes = _differing_axes(a, b)
    if not 1 <= len(axes) <= MOST_COUNTED or (left.model.training and a.dims != b.dims):
        return a, b
    sizes = list(a.dims)
    for axis in axes:
        sizes[axis] = larger(a.dims[axis], b.dims[axis])
    return _counted(left, a, axes, sizes), _counted(right, b, axes, sizes)


def _differing_axes(a: Value, b: Value) -> list[int]:
    """The axes along which two results differ in size, or may in how many rows count."""
    if a.rank != b.rank or not all(v.is_tensor or parts_of(v) for v in (a, b)):
        return []
    axes = {axis for axis in range(a.rank) if a.dims[axis] != b.dims[axis]}
    return sorted(axes | {rows.axis for value in (a, b) for rows in parts_of(value)})


def _counted(scope: Scope, value: Value, axes: Sequence[int], sizes: Sequence[Dim]) -> Value:
    """A result with rows behind it, of which its own count."""
    own = {rows.axis: rows for rows in parts_of(value)}
    parts = [own.get(axis) or all_counted(scope, value.whole(), axis) for axis in axes]
    wide = _of_sizes(scope, value.whole(), sizes)
    rows = [Partial.counted(wide, part.axis, part.count) for part in parts]
    return rows[0] if len(rows) == 1 else crossed(*rows)


def all_counted(scope: Scope, value: Value, axis: int) -> Partial:
    """A tensor as one whose number of rows along an axis the run decides: all that there are."""
    tensor, size = Value.computed(scope.ssa(value)), scope.b.size(value.dims[axis], "i64")
    return Partial.counted(tensor, axis, size)
