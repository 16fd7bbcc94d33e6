"""Lists to which the iterations of a loop append, some elements under a condition.

What an iteration appends are rows of the loop's outputs; where a condition that the run decides
chooses among them, each goes with a bool, and behind the loop those that exist are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.rows import first_rows
from rnncc.frontends.onnx.lists import PossibleRows, StackedRows, types_in
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.ops.indexing import reversed_along
from rnncc.frontends.onnx.values import Dims, Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.nn.indexing import first_places
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.frontends.onnx.scope import Scope


@record
class Appended:
    """What each iteration appends to a list.

    Attributes:
        rows: the elements [k, ...]; of a single one that always exists, the element.
        exist: which of the elements exist [k]; None where all do.
        single: whether `rows` is one element.
        in_front: whether each element is put before all others.
        pieces: the axis of which `rows` are, of one element; None of elements by themselves.
        covered: how many rows those of all iterations are, where there are less than these make.
    """

    rows: SSAValue
    exist: SSAValue | None = None
    single: bool = False
    in_front: bool = False
    pieces: int | None = None
    covered: Dim | None = None

    @staticmethod
    def of(scope: Scope, items: Sequence[Value], step: str | None) -> Appended:
        """Elements of equal shapes, in the body.

        Args:
            step: the symbol of the iteration's number, if it is known how many there are.
        """
        if len(items) == 1 and items[0].is_tensor:
            return Appended(scope.ssa(items[0]), single=True)
        chunks = items[0].chunks if isinstance(items[0], PossibleRows) else None
        if len(items) == 1 and chunks is not None and chunks[0] == step:
            assert isinstance(items[0], PossibleRows)
            return Appended(scope.ssa(items[0].rows), pieces=items[0].pieces, covered=chunks[1])
        blocks = [_possible(scope, item) for item in items]
        rows = scope.b.concat([scope.ssa(block.rows) for block in blocks], 0)
        if all(item.is_tensor for item in items):
            return Appended(rows)
        exist = scope.b.concat([scope.ssa(block.exist) for block in blocks], 0)
        [pieces, *_] = [*(b.pieces for b in blocks if b.pieces is not None), None]
        return Appended(rows, exist, pieces=pieces)

    @property
    def outputs(self) -> list[SSAValue]:
        """What the loop stacks of it."""
        return [self.rows] if self.exist is None else [self.rows, self.exist]

    def behind(
        self, n: Node, start: StackedRows, ys: Iterator[SSAValue], iterations: SSAValue | None
    ) -> Value:
        """The list behind the loop, of the elements that it began with and of all iterations'.

        Args:
            ys: what the loop has stacked.
            iterations: how many there were; None where they are as many as rows of `ys`.
        """
        b, rows = n.b, self._all_rows(n, next(ys))
        total = dims_of(rows)[0]
        if self.in_front:
            return self._before(n, start, rows, iterations and self._row_count(n, iterations))
        exist = None if self.exist is None else b.reshape(next(ys), (total,))
        if start.earlier is None and exist is None:
            extended = _extended(n, start, rows, iterations and self._row_count(n, iterations))
            if self.pieces is None:
                return extended
            each = self._chunk_rows() if start.is_empty and iterations is None else None
            return replace(extended, in_pieces=self.pieces, chunk=each)
        if iterations is not None:
            count = b.broadcast(self._row_count(n, iterations), (total,), [])
            ran = b.compare("lt", b.iota((total,), 0, "i64"), count)
            exist = ran if exist is None else b.logical("and", exist, ran)
        if start.earlier is not None:
            exist = b.fill(1, (total,), "i1") if exist is None else exist
            pair = Value.computed(rows), Value.computed(exist)
            return start.appended(PossibleRows.pairing(*pair, self.pieces))
        if n.scope.model.training:
            what = "appends elements under a condition to a list, whose length the run decides"
            raise n.unsupported(what, "for inference that is supported")
        assert exist is not None
        places, count = first_places(b, exist)
        extended = _extended(n, start, b.gather(rows, places, 0), count)
        return extended if self.pieces is None else replace(extended, in_pieces=self.pieces)

    def _chunk_rows(self) -> int | None:
        """The rows of each element of a list of chunks, but of the last."""
        rows = dims_of(self.rows)[0]
        return int(rows) if self.covered is not None and rows.is_static else None

    def _before(self, n: Node, start: StackedRows, rows: SSAValue, count: SSAValue | None) -> Value:
        """The list with rows, of which the first count, the last of them first."""
        size = dims_of(rows)[0]
        if count is None:
            return _extended(n, start, reversed_along(n, rows, 0), None, in_front=True)
        if not start.is_empty:
            what = "puts elements in front of those of a list, and the run decides how many"
            raise n.unsupported(what, "in front of none that is supported")
        last = n.b.sub(count, n.b.fill(1, (), "i64"))
        places = n.b.sub(last, n.b.iota((size,), 0, "i64"))
        backwards = n.b.gather(rows, n.b.maximum(places, n.b.fill(0, (), "i64")), 0)
        return StackedRows.listing(stacked=first_rows(n.b, backwards, count))

    def _all_rows(self, n: Node, stacked: SSAValue) -> SSAValue:
        """The rows of all iterations, one after another."""
        if self.single:
            return stacked
        iterations, each, *dims = dims_of(stacked)
        rows = n.b.reshape(stacked, (iterations * each, *dims))
        return rows if self.covered is None else n.b.slice(rows, 0, 0, self.covered)

    def _row_count(self, n: Node, iterations: SSAValue) -> SSAValue:
        """How many rows so many iterations have."""
        if self.single:
            return iterations
        return n.b.mul(iterations, n.b.size(dims_of(self.rows)[0], "i64"))


def appended_by(
    scope: Scope, start: Value, old: Value, new: Value, grows: bool, step: str | None
) -> Appended | None:
    """What an iteration appends to a list that may grow; None where it does something else.

    Args:
        step: as of `Appended.of`.
    """
    if not (grows and isinstance(old, StackedRows) and isinstance(new, StackedRows)):
        return None
    assert isinstance(start, StackedRows)
    if new.stacked is not None or new.earlier is not old.earlier:
        return None
    if new.front and (new.items or start.earlier is not None):
        return None
    items = new.items or new.front[::-1]
    kinds = {(item.dtype, item.dims) for item in items} | set(_kinds(start))
    pieces = {item.pieces for item in items if isinstance(item, PossibleRows)}
    several = len((pieces | {start.in_pieces}) - {None}) > 1
    if not items or len(kinds) > 1 or several or not all(item.is_tensor for item in new.front):
        return None
    return replace(Appended.of(scope, items, step), in_front=bool(new.front))


def _kinds(rows: StackedRows) -> list[tuple[str, Dims]]:
    """Types and shapes of a list's elements."""
    first = [] if rows.stacked is None else [(rows.stacked.dtype, rows.stacked.dims[1:])]
    return [*first, *((item.dtype, item.dims) for item in (*rows.front, *rows.items))]


def _extended(
    n: Node, start: StackedRows, rows: SSAValue, count: SSAValue | None, in_front: bool = False
) -> StackedRows:
    """A list of the elements that it began with and of rows, of which the first count."""
    blocks = [
        [n.b.reshape(n.scope.ssa(v), (1, *v.dims)) for v in items]
        for items in (start.front, start.items)
    ]
    held = [] if start.stacked is None else [n.scope.ssa(start.stacked)]
    first = [*blocks[0], *held, *blocks[1]]
    joined = n.b.concat([rows, *first] if in_front else [*first, rows], 0) if first else rows
    if count is None:
        return StackedRows.listing((), Value.computed(joined), start.in_pieces)
    before = dims_of(joined)[0] - dims_of(rows)[0]
    together = n.b.add(count, n.b.size(before, "i64"))
    return StackedRows.listing((), first_rows(n.b, joined, together), start.in_pieces)


def _possible(scope: Scope, item: Value) -> PossibleRows:
    """An element as rows of which one exists."""
    if isinstance(item, PossibleRows):
        return item
    row = scope.b.reshape(scope.ssa(item), (1, *item.dims))
    exists = scope.b.fill(1, (1,), "i1")
    return PossibleRows.pairing(Value.computed(row), Value.computed(exists))


def aligned(
    one: tuple[Scope, list[Value]], other: tuple[Scope, list[Value]]
) -> tuple[list[Value], list[Value]]:
    """The results of two branches, of which lists that a loop appends to have equal forms.

    Where a branch appends an element and the other does not, it may exist in both.
    """
    pairs = [_aligned(one[0], a, other[0], b) for a, b in zip(one[1], other[1], strict=True)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _aligned(scope_a: Scope, a: Value, scope_b: Scope, b: Value) -> tuple[Value, Value]:
    if not (isinstance(a, StackedRows) and isinstance(b, StackedRows)):
        return a, b
    if a.earlier is None or a.earlier is not b.earlier or types_in([a]) == types_in([b]):
        return a, b
    pairs = list[tuple[Value, Value]]()
    for own, its in zip_longest(a.items, b.items):
        if own is not None and its is not None and types_in([own]) == types_in([its]):
            pairs.append((own, its))
            continue
        if own is not None:
            pairs.append((_possible(scope_a, own), _absent(scope_b, own)))
        if its is not None:
            pairs.append((_absent(scope_a, its), _possible(scope_b, its)))
    return a.holding_items([x for x, _ in pairs]), b.holding_items([y for _, y in pairs])


def _absent(scope: Scope, like: Value) -> PossibleRows:
    """Elements of which none exists, where another branch has some."""
    dims = like.rows.dims if isinstance(like, PossibleRows) else (1, *like.dims)
    rows, exist = scope.b.fill(0, dims, like.dtype), scope.b.fill(0, dims[:1], "i1")
    pieces = like.pieces if isinstance(like, PossibleRows) else None
    return PossibleRows.pairing(Value.computed(rows), Value.computed(exist), pieces)
