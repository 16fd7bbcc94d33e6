"""Shape inference by unification: sizes are `Dim`s, unknown ones hold variables named `?1`, `?2`.

Operators state equations again and again (`expect`, `equal`) until nothing new follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rnncc.errors import CompileError, Location
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.ir.dims import Dim, Dims, product

_VARIABLE = re.compile(r"\?\d+")

MAX_ELEMENTS = 1 << 31
"""How many elements a tensor of static shape may have."""


class Shapes:
    """What is known so far of sizes; `version` grows with every new fact."""

    def __init__(self) -> None:
        self.version = 0
        self.location = Location()
        self._bound: dict[str, Dim] = {}
        self.groups_types = False
        """Whether to note which blobs have one element type while nothing shows it."""
        self._one_type: dict[Blob, Blob] = {}
        self._count = 0
        self._old = 0

    def enter(self, location: Location) -> None:
        """Before a rule runs: errors are at this place, and variables it makes say nothing new."""
        self.location = location
        self._old = self._count

    def fresh(self) -> Dim:
        """A new variable."""
        self._count += 1
        return Dim.of(f"?{self._count}")

    def bind(self, variable: str, dim: Dim) -> None:
        """Give a variable its value."""
        self._bound[variable] = dim
        # A variable that the same rule has just made says nothing new; counted, rules that make one
        # each time would never settle.
        self.version += int(variable[1:]) <= self._old

    def resolve(self, dim: Dim) -> Dim:
        """The size with everything known put in."""
        while not self._bound.keys().isdisjoint(dim.symbols):
            dim = dim.substitute(self._bound)
        return dim

    def dims(self, blob: Blob) -> Dims | None:
        """A blob's shape as far as known; None while not even its rank is."""
        if blob.shape is None:
            return None
        blob.shape = tuple(self.resolve(d) for d in blob.shape)
        return blob.shape

    def known(self, blob: Blob) -> Dims:
        """A blob's shape after inference."""
        dims = self.dims(blob)
        assert dims is not None, f"{blob.name} has no shape"
        return dims

    def value(self, blob: Blob) -> Dims | None:
        """The content of a vector of sizes, where known at compile time."""
        return None if blob.value is None else tuple(self.resolve(d) for d in blob.value)

    def expect(self, blob: Blob, dims: Sequence[Dim | int], dtype: str | None = None) -> None:
        """State that a blob has this shape (and type)."""
        expected = tuple(Dim.of(d) for d in dims)
        if dtype is not None:
            self.expect_dtype(blob, dtype)
        if blob.shape is None:
            blob.shape = expected
            self.version += 1
            return
        actual = blob.shape
        ok = len(actual) == len(expected)
        if not ok or not all(self.equal(a, b) for a, b in zip(actual, expected, strict=True)):
            what = f'"{blob.name}" has shape {self.text(actual)}, expected {self.text(expected)}'
            raise CompileError(self.location, what)

    def expect_dtype(self, blob: Blob, dtype: str) -> None:
        """State a blob's element type."""
        if blob.dtype is None:
            blob.dtype = dtype
            self.version += 1
        elif blob.dtype != dtype:
            raise CompileError(
                self.location, f'"{blob.name}" has elements of type {blob.dtype}, expected {dtype}'
            )

    def expect_dtypes(self, dtype: str, *blobs: Blob) -> None:
        """State the element type of several blobs."""
        for blob in blobs:
            self.expect_dtype(blob, dtype)

    def expect_value(self, blob: Blob, value: Sequence[Dim | int], dtype: str) -> None:
        """State the content of a vector of sizes."""
        self.expect(blob, (len(value),), dtype)
        if blob.value is None:
            blob.value = tuple(Dim.of(v) for v in value)
            self.version += 1

    def same_shape(self, *blobs: Blob) -> None:
        """State that all have one shape."""
        known = next((dims for b in blobs if (dims := self.dims(b)) is not None), None)
        if known is not None:
            for blob in blobs:
                self.expect(blob, known)

    def same_dtype(self, *blobs: Blob) -> None:
        """State that all have one element type."""
        dtype = next((b.dtype for b in blobs if b.dtype is not None), None)
        if dtype is not None:
            for blob in blobs:
                self.expect_dtype(blob, dtype)
        elif self.groups_types:
            leader = self.leader(blobs[0])
            for blob in blobs[1:]:
                self._one_type[self.leader(blob)] = leader

    def untyped(self) -> list[Blob]:
        """The blobs whose type was said to be that of others, and which still have none."""
        return [blob for blob in self._one_type if blob.dtype is None]

    def leader(self, blob: Blob) -> Blob:
        """The blob that stands for all of one element type, while nothing shows that type."""
        above = self._one_type
        while above.setdefault(blob, blob) is not blob:
            above[blob] = blob = above[above[blob]]  # half the way for the next one
        return blob

    def equal(self, a: Dim, b: Dim) -> bool:
        """State a = b; False where that cannot be, True where it holds or stays open."""
        if a == b:
            return True
        a, b = self.resolve(a), self.resolve(b)
        difference = _without_common_factor(a - b)
        variables = [name for name in difference.symbols if name.startswith("?")]
        if not difference.terms:
            return True
        # The youngest first: one that this rule has just made may have any value.
        for name in sorted(variables, key=lambda v: -int(v[1:])):
            solution = _solve(difference, name)
            if solution is not None:
                if solution.is_static and int(solution) < 0:
                    return False
                self.bind(name, solution)
                return True
        unsolvable = len(variables) == 1 and _is_linear(difference, variables[0])
        return bool(variables) and not unsolvable

    def is_open(self, dim: Dim) -> bool:
        """Whether a size still holds a variable."""
        return any(name.startswith("?") for name in self.resolve(dim).symbols)

    def text(self, dims: Sequence[Dim]) -> str:
        """A shape as messages show it: `[T, N, 24]`, unknown sizes as `?`."""
        return "[" + ", ".join(self.size_text(d) for d in dims) + "]"

    def size_text(self, dim: Dim) -> str:
        """A size as messages show it."""
        return _VARIABLE.sub("?", str(self.resolve(dim)))

    def check(self, blob: Blob) -> None:
        """Raise `CompileError` for sizes that no tensor has."""
        dims = self.known(blob)
        static = product(d for d in dims if d.is_static)
        huge = int(static) > MAX_ELEMENTS or any(
            abs(c) > MAX_ELEMENTS for d in dims for _, c in d.terms
        )
        negative = any(d.is_static and int(d) < 0 for d in dims)
        if huge or negative or static == 0:
            what = "is too large" if huge else "has a negative size" if negative else "is empty"
            raise CompileError(self.location, f'"{blob.name}" of shape {self.text(dims)} {what}')


def _solve(difference: Dim, name: str) -> Dim | None:
    """The variable's value that makes the difference zero, None where it has no linear one."""
    factor = difference.coefficient((name,))
    rest = difference - Dim.of(name) * factor
    return None if not factor or name in rest.symbols else (-rest).divide(factor)


def _is_linear(difference: Dim, name: str) -> bool:
    """Whether the variable is the only symbol: then an equation that has no solution is false."""
    return difference.symbols == frozenset({name}) and all(len(m) < 2 for m, _ in difference.terms)


def _without_common_factor(dim: Dim) -> Dim:
    """Divide by the symbols that occur in every term: sizes are not zero in general."""
    for name in dim.symbols:
        if all(name in monomial for monomial, _ in dim.terms) and not name.startswith("?"):
            dim = dim.divide(Dim.of(name)) or dim
    return dim
