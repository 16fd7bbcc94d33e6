"""Lists of tensors and optional values: what they hold is known at import, as are their lengths.

An optional value is the value itself, or `Nothing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from xdsl.ir import SSAValue

from rnncc.errors import Location
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.errors import NeedsValue, Unsupported
from rnncc.frontends.onnx.values import Value
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.nn.axes import move_axis
from rnncc.records import record

PARTIAL_LISTS = "its length, and all elements put together, may be read"
MAX_LISTED = 1024
"""Elements of a list, but for those that are rows of one tensor."""

Names = str | list[str] | None
"""The names of what an input or output holds: of a tensor, of a list's elements, or of nothing."""


@record(eq=False)
class StackedRows(Value):
    """A list of tensors.

    Attributes:
        stacked: elements that are rows of one tensor.
        items: those behind them; all, where there are no rows.
        earlier: in the body of a loop, the list to which iterations append, whose elements so far
            nobody reads there; in the place of rows.
        front: the elements before rows or that list.
        latest: the last elements of that list, where the body reads them.
        before: how many elements that list has, by the iteration's number; None where it is open
            how many an iteration appends.
        in_pieces: where elements stand for rows of longer ones, of which the run decides how many
            there are, the axis of these rows: all that may be done is to put them together along
            it.
        chunk: of such elements, how many rows each stands for where the last alone may stand for
            fewer: they are the parts of an axis.
    """

    stacked: Value | None = None
    items: tuple[Value, ...] = ()
    earlier: object = None
    front: tuple[Value, ...] = ()
    latest: tuple[Value, ...] = ()
    before: Dim | None = None
    in_pieces: int | None = None
    chunk: int | None = None

    @staticmethod
    def listing(
        items: Sequence[Value] = (), stacked: Value | None = None, in_pieces: int | None = None
    ) -> StackedRows:
        """A list of these elements."""
        return StackedRows("list", (), stacked=stacked, items=tuple(items), in_pieces=in_pieces)

    @property
    def form(self) -> tuple[Any, ...]:
        """What must be equal for two lists to differ in their numbers alone."""
        parts = self.front, self.items, self.latest
        forms = (tuple(item.form for item in items) for items in parts)
        stacked = None if self.stacked is None else self.stacked.form
        return "list", self.earlier, self.in_pieces, self.chunk, stacked, *forms

    @property
    def held(self) -> list[Value]:
        """Its elements in their order, those in rows as one."""
        return [*self.front, *([] if self.stacked is None else [self.stacked]), *self.items]

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no elements."""
        return self.stacked is None and self.earlier is None and not self.items

    @staticmethod
    def may_grow(value: Value) -> bool:
        """Whether a value is a list to which a loop may append: one without elements."""
        return isinstance(value, StackedRows) and value.is_empty

    @staticmethod
    def may_grow_on(value: Value) -> bool:
        """The same of a list that has elements already, which the loop does not read."""
        return isinstance(value, StackedRows)

    @staticmethod
    def has_last(value: Value) -> bool:
        """Whether a value is a list whose last element is known."""
        return isinstance(value, StackedRows) and bool(value.items)

    @property
    def length(self) -> Dim | None:
        """How many elements it has; None where that is open, or the run decides it."""
        if isinstance(self.stacked, Partial) or (self.earlier is not None and self.before is None):
            return None
        if any(isinstance(item, PossibleRows) for item in (*self.front, *self.items)):
            return None
        rows = Dim.of(0) if self.stacked is None else self.stacked.dims[0]
        return (self.before or Dim.of(0)) + rows + len(self.front) + len(self.items)

    def parts(self, b: Builder) -> SplitAxis | None:
        """Its elements as parts of an axis; None where they are others."""
        if self.chunk is None or self.in_pieces is None or self.front or self.items:
            return None
        assert self.stacked is not None and self.stacked.made is not None
        axis, (count, *dims) = self.in_pieces, self.stacked.dims
        rows = b.reshape(self.stacked.made, (count, *dims[:axis], *dims[axis + 1 :]))
        return SplitAxis.cut(Value.computed(move_axis(b, rows, 0, axis)), axis, self.chunk)

    @property
    def ends(self) -> tuple[Value, ...]:
        """The elements that are known to be its last ones."""
        return (*self.latest, *self.items)

    def tensors(self) -> list[Value]:
        """The tensors that it holds."""
        return [tensor for value in (*self.held, *self.latest) for tensor in value.tensors()]

    def holding(self, tensors: Sequence[Value]) -> StackedRows:
        """The same list of other tensors."""
        waiting = iter(tensors)
        front = tuple(_refilled(self.front, waiting))
        stacked = None if self.stacked is None else next(waiting)
        items, latest = (tuple(_refilled(values, waiting)) for values in (self.items, self.latest))
        return replace(self, front=front, stacked=stacked, items=items, latest=latest)

    def holding_items(self, items: Sequence[Value]) -> StackedRows:
        """The same list with other elements behind its rows."""
        return replace(self, items=tuple(items))

    def appended(self, value: Value) -> StackedRows:
        """With one more at the end."""
        return replace(self, items=(*self.items, value))

    def put_in_front(self, value: Value) -> StackedRows:
        """With one more before its rows."""
        return replace(self, front=(value, *self.front))

    def __str__(self) -> str:
        length = str(len(self.items)) if self.stacked is None else "rows"
        return f"a list of {length}" if self.earlier is None else f"a list with {length} appended"


@record(eq=False)
class SplitAxis(Value):
    """A list of the parts of an axis of open size, of as many rows each, the last of those left.

    Its type and shape are those of all rows.

    Attributes:
        axis: that is cut.
        rows: of each part.
    """

    axis: int = 0
    rows: int = 1

    @staticmethod
    def cut(x: Value, axis: int, rows: int) -> SplitAxis:
        """A computed tensor in parts."""
        return SplitAxis(x.dtype, x.dims, made=x.made, axis=axis, rows=rows)

    @property
    def form(self) -> tuple[Any, ...]:
        """No tensor's."""
        return "parts", self.axis, self.rows

    @property
    def length(self) -> Dim:
        """How many parts there are."""
        return self.dims[self.axis].over(self.rows)

    def tensors(self) -> list[Value]:
        """All rows."""
        return [self.uncut()]

    def holding(self, tensors: Sequence[Value]) -> SplitAxis:
        """Other rows."""
        return SplitAxis.cut(tensors[0], self.axis, self.rows)

    def uncut(self) -> Value:
        """All rows."""
        return Value(self.dtype, self.dims, made=self.made)

    def __str__(self) -> str:
        return "a list of parts of an axis of open size"


@record(eq=False)
class PossibleRows(Value):
    """Elements of a list in a loop, of each of which the run decides whether it exists.

    Their type and shape are those of one element.

    Attributes:
        rows: the elements [k, ...].
        exist: a bool for each [k].
        pieces: the axis of which they are the rows, of one element; None of elements by themselves.
        chunks: of rows that all iterations of a loop together cut an axis into, the symbol of the
            iteration's number, and the size of the axis.
    """

    rows: Value = field(kw_only=True)
    exist: Value = field(kw_only=True)
    pieces: int | None = None
    chunks: tuple[str, Dim] | None = None

    @staticmethod
    def pairing(
        rows: Value,
        exist: Value,
        pieces: int | None = None,
        chunks: tuple[str, Dim] | None = None,
    ) -> PossibleRows:
        """Rows, and which of them exist."""
        dtype, dims = rows.dtype, rows.dims[1:]
        return PossibleRows(dtype, dims, rows=rows, exist=exist, pieces=pieces, chunks=chunks)

    @property
    def form(self) -> tuple[Any, ...]:
        """No tensor's."""
        return "possible rows", self.pieces

    def tensors(self) -> list[Value]:
        """The rows, and the bools."""
        return [self.rows, self.exist]

    def holding(self, tensors: Sequence[Value]) -> PossibleRows:
        """Other rows and bools."""
        rows, exist = tensors
        return PossibleRows.pairing(rows, exist, self.pieces)

    def __str__(self) -> str:
        return "elements that may exist"


@record(eq=False)
class Nothing(Value):
    """An optional value without an element."""

    dtype: str = "nothing"
    dims: tuple[()] = ()

    @property
    def form(self) -> tuple[Any, ...]:
        """There is only one."""
        return ("nothing",)

    def tensors(self) -> list[Value]:
        """It holds none."""
        return []

    def holding(self, tensors: Sequence[Value]) -> Nothing:
        """Itself."""
        return self

    def __str__(self) -> str:
        return "nothing"


def refilled(values: Iterable[Value], tensors: Iterable[SSAValue]) -> list[Value]:
    """Values of the same forms that hold other tensors."""
    return _refilled(values, map(Value.computed, tensors))


def _refilled(values: Iterable[Value], waiting: Iterator[Value]) -> list[Value]:
    return [v.holding([next(waiting) for _ in v.tensors()]) for v in values]


def types_in(values: Sequence[Value]) -> list[tuple[Any, ...]]:
    """What must not change of values that a loop or branch passes on."""
    return [(v.form, *((t.dtype, t.dims) for t in v.tensors())) for v in values]


def check_readable(b: Builder, rows: StackedRows) -> None:
    """Raise `NeedsValue` if a list is one that the iterations of a loop append to, or if elements
    of it are there row by row."""
    check_whole(b.loc, rows, lambda value: [])
    if rows.earlier is not None:
        what = "reads a list that the iterations of a loop append to"
        raise NeedsValue(b.loc, what, "a loop of up to 64 known iterations may", [])
    if isinstance(rows.stacked, Partial):
        raise Unsupported(b.loc, "reads a list whose length the run decides", PARTIAL_LISTS)


def check_whole(
    location: Location, rows: StackedRows, inputs_behind: Callable[[Value], list[str]]
) -> None:
    """Raise `NeedsValue` if elements of a list are there row by row."""
    if rows.in_pieces is not None and rows.stacked is not None:
        what = "reads a list of elements of which the run decides how many rows they have"
        needed = inputs_behind(rows.stacked.tensors()[-1])
        hint = f"put together along axis {rows.in_pieces} they may be"
        raise NeedsValue(location, what, hint, needed)


def elements(b: Builder, rows: StackedRows) -> list[Value]:
    """The elements of a list, each by itself.

    Raises:
        Unsupported: how many there are is open, or they are too many.
    """
    check_readable(b, rows)
    if rows.stacked is None:
        return list(rows.items)
    stacked, (count, *dims) = rows.stacked, rows.stacked.dims
    if not count.is_static:
        what = f"takes a list of {count} elements apart, whose length is open"
        raise Unsupported(b.loc, what, "--shape gives an input's sizes")
    if int(count) > MAX_LISTED:
        what = f"takes a list of {count} elements apart"
        raise Unsupported(b.loc, what, f"up to {MAX_LISTED} are supported")
    assert stacked.made is not None, "rows of one tensor are computed"
    parts = [b.slice(stacked.made, 0, at, 1) for at in range(int(count))]
    return [*rows.front, *(Value.computed(b.reshape(p, dims)) for p in parts), *rows.items]


def element_names(name: str, count: int) -> list[str]:
    """The names of a list's elements as inputs or outputs of what is compiled."""
    return [f"{name}.{at}" for at in range(count)]


def flat_names(names: Names) -> list[str]:
    """Names in a row."""
    return [names] if isinstance(names, str) else names or []
