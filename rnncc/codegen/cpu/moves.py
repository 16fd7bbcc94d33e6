"""`kern.pack`, `kern.reverse`, `kern.gather` and `kern.scatter`: kernels that move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.values import I64, Pointer, Value, selection
from rnncc.ir.attributes import get_dim, get_dims
from rnncc.kern.moves import Gather, IndexedMove, Pack, Reverse, Scatter
from rnncc.kern.signatures import BAD_LENGTH

Pair = tuple[Value, Value]
RUN = 32
"""Rows of weights that are packed at a time, for all panels: each is a page or more apart. Where a
unit's weights are neighbours, a panel is packed whole instead, so that each page is met once."""
AHEAD = 128
"""Bytes of a row that are fetched ahead into the second-level cache: processors do not look ahead
along rows so far apart. The next `RUN` elements, or the next panels, read them."""


def emit_pack(emit: CpuEmit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
    """Copy weights into the order in which a product reads them."""
    b, depth = emit.b, op.depth.data
    full, width = divmod(op.units.data, op.panel.data)
    at_once = max(depth, 1) if all(access.strides[1] == 1 for access in op.in_accesses) else RUN
    panels = PanelCopy(emit, op, ins, out)

    def run(k: Value, rows: int) -> None:
        """Some rows of all panels."""

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            panels.copy(i, i, op.panel.data, k, rows)
            return []

        def last() -> None:
            panels.copy(I64(full), I64(full), width, k, rows)

        emit.shared(I64(full), iteration, last=last if width else None)

    def iteration(i: Value, carried: list[Value]) -> list[Value]:
        run(b.mul(i, I64(at_once)), at_once)
        return []

    emit.loop(I64(depth // at_once), iteration)
    if depth % at_once:
        run(I64(depth - depth % at_once), depth % at_once)


class PanelCopy:
    """Copies a panel of weights into the order in which a product reads it."""

    def __init__(self, emit: CpuEmit, op: Pack, ins: list[Pointer], out: Pointer) -> None:
        self.emit, self.op, self.ins, self.out = emit, op, ins, out

    def copy(self, number: Value, place: Value, wide: int, k: Value, rows: int) -> None:
        """Of a panel of `wide` units, `rows` rows from the k-th on.

        Args:
            place: number of the panel in whose place the copy stands.
        """
        emit, b, op = self.emit, self.emit.b, self.op
        slots, depth, panel = len(self.ins), op.depth.data, op.panel.data
        stripe = op.geometry.columns if wide == panel else slots * wide
        start = b.add(b.mul(place, I64(depth * slots * panel)), b.mul(k, I64(stripe)))
        at_once = gcd(stripe, wide)  # units of a slot that are in one stripe
        for s, (source, access) in enumerate(zip(self.ins, op.in_accesses, strict=True)):
            by_unit, by_k = (emit.dim(d) for d in access.strides)
            at = b.add(emit.dim(access.offset), b.mul(number, b.mul(I64(panel), by_unit)))
            at = b.add(at, b.mul(k, by_k))
            steps = ((by_k, by_unit), (I64(stripe), I64(1)))
            for unit in range(0, wide, at_once):
                before, inside = divmod(s * wide + unit, stripe)
                to = emit.at(self.out, b.add(start, I64(before * depth * stripe + inside)))
                here = emit.at(source, b.add(at, b.mul(I64(unit), by_unit)))
                _MatrixCopy(emit, here, to, steps).run(rows, at_once)


def emit_reverse(
    emit: CpuEmit,
    op: Reverse,
    x: Pointer,
    lengths: Pointer,
    out: Pointer,
    fail: Callable[[int], None],
) -> None:
    """Copy columns, the first `length` rows of each from last to first."""
    b, dims = emit.b, get_dims(op.dims)
    steps, columns, inner = (emit.dim(d) for d in dims)
    # One element that is masked out of a vector is slow to store.
    lanes = 1 if dims[2] == 1 else emit.target.lanes

    def length_of(n: Value) -> Value:
        return b.sext(emit.load(emit.at(lengths, n)), I64)

    def check(n: Value, carried: list[Value]) -> list[Value]:
        length = length_of(n)
        # All threads check all lengths: one that ended the call alone would leave the others
        # waiting.
        bad = b.or_(b.icmp_signed("<", length, I64(0)), b.icmp_signed(">", length, steps))
        with emit.when(bad):
            fail(BAD_LENGTH)
        return []

    def copy(indices: list[Value]) -> None:
        t, n = indices
        length = length_of(n)
        mirrored = b.sub(b.sub(length, I64(1)), t)
        source = b.select(b.icmp_signed("<", t, length), mirrored, t)
        read, write = (b.mul(b.add(b.mul(row, columns), n), inner) for row in (source, t))

        def part(start: Value, mask: Value | None) -> None:
            value = emit.load(emit.at(emit.at(x, read), start), lanes, mask)
            emit.store(value, emit.at(emit.at(out, write), start), lanes, mask)

        emit.in_vectors(inner, lanes, part)

    emit.loop(columns, check)
    emit.nest([steps, columns], copy, shared=True)


def emit_gather(
    emit: CpuEmit, op: Gather, x: Pointer, index: Pointer, out: Pointer, fail: Callable[[int], None]
) -> None:
    """Copy rows by number."""
    places = _Places(emit, op, index, fail)
    lanes = places.lanes

    def copy(indices: list[Value]) -> None:
        numbered, row = places.of(*indices)

        def part(start: Value, mask: Value | None) -> None:
            value = emit.load(emit.at(emit.at(x, numbered), start), lanes, mask)
            emit.store(value, emit.at(emit.at(out, row), start), lanes, mask)

        emit.in_vectors(places.inner, lanes, part)

    emit.nest([places.outer, places.count], copy, shared=True)


def emit_scatter(
    emit: CpuEmit,
    op: Scatter,
    x: Pointer,
    index: Pointer,
    out: Pointer,
    init: Pointer | None,
    fail: Callable[[int], None],
) -> None:
    """Fold rows by number; by one thread, as several rows may have one place."""
    places, b, fold = _Places(emit, op, index, fail), emit.b, Folding(emit, op.kind.data, out.dtype)
    lanes, most = places.lanes, emit.target.lanes
    whole = b.mul(places.outer, b.mul(places.size, places.inner))

    def begin(start: Value, mask: Value | None) -> None:
        value = fold.initial(most)
        value = value if init is None else emit.load(emit.at(init, start), most, mask)
        emit.store(value, emit.at(out, start), most, mask)

    def one(indices: list[Value]) -> None:
        numbered, row = places.of(*indices)

        def part(start: Value, mask: Value | None) -> None:
            place = emit.at(emit.at(out, numbered), start)
            term = emit.load(emit.at(emit.at(x, row), start), lanes, mask)
            whole = fold.combined(emit.load(place, lanes, mask), term, lanes)
            emit.store(whole, place, lanes, mask)

        emit.in_vectors(places.inner, lanes, part)

    with emit.alone():
        if init is None:
            emit.in_vectors(whole, most, begin)
        else:
            # In a loop a sum of rows goes on where it is: there is nothing to copy.
            with emit.when(b.icmp_unsigned("!=", init.base, out.base)):
                emit.in_vectors(whole, most, begin)
        emit.nest([places.outer, places.count], one)


class _Places:
    """Where rows are that have numbers, once all numbers are known to be of rows."""

    def __init__(
        self, emit: CpuEmit, op: IndexedMove, index: Pointer, fail: Callable[[int], None]
    ) -> None:
        self.emit, self.index = emit, index
        self.outer, self.count, self.inner = (emit.dim(d) for d in get_dims(op.dims))
        # One element that is masked out of a vector is slow to store, and to load again at once.
        self.lanes = 1 if get_dims(op.dims)[2] == 1 else emit.target.lanes
        self.size = emit.dim(get_dim(op.size))
        b = emit.b

        def check(j: Value, carried: list[Value]) -> list[Value]:
            row = self._number(j)
            # All threads check all numbers: one that ended the call alone would leave the others
            # waiting.
            bad = b.or_(b.icmp_signed("<", row, I64(0)), b.icmp_signed(">=", row, self.size))
            with emit.when(bad):
                fail(op.error)
            return []

        emit.loop(self.count, check)

    def of(self, a: Value, j: Value) -> tuple[Value, Value]:
        """The first element of the row that the j-th number names, and of the j-th row."""
        b = self.emit.b
        numbered = b.add(b.mul(a, self.size), self._number(j))
        row = b.add(b.mul(a, self.count), j)
        return b.mul(numbered, self.inner), b.mul(row, self.inner)

    def _number(self, j: Value) -> Value:
        return self.emit.load_number(self.emit.at(self.index, j))


class _MatrixCopy:
    """A matrix's copy; `steps`: from row to row and from column to column, in source and target.

    The target's columns are neighbours. Where the source's are too, vectors of a row are copied;
    where its rows are, square blocks are turned round in registers; what is left, one by one.
    """

    def __init__(
        self, emit: CpuEmit, source: Pointer, target: Pointer, steps: tuple[Pair, Pair]
    ) -> None:
        self.emit, self.source, self.target = emit, source, target
        (self.down, self.right), (self.below, self.beside) = steps
        self.lanes = emit.target.lanes

    def run(self, rows: int, columns: int) -> None:
        """Copy so many rows and columns."""
        high, wide = rows // self.lanes * self.lanes, columns // self.lanes * self.lanes
        if _is_one(self.right):
            self._blocks((rows, wide), (1, self.lanes), self._vector)
            self._blocks((rows, columns - wide), (1, 1), self._element, (0, wide))
        elif _is_one(self.down):
            self._blocks((high, wide), (self.lanes, self.lanes), self._square)
            self._blocks((rows - high, columns), (1, 1), self._element, (high, 0))
            self._blocks((high, columns - wide), (1, 1), self._element, (0, wide))
        else:
            self._blocks((rows, columns), (1, 1), self._element)

    def _blocks(
        self,
        sizes: tuple[int, int],
        block: tuple[int, int],
        copy: Callable[[Value, Value], None],
        first: tuple[int, int] = (0, 0),
    ) -> None:
        """Copy blocks of rows and columns from a first one on."""
        b = self.emit.b

        def one(indices: list[Value]) -> None:
            parts = zip(indices, block, first, strict=True)
            copy(*(b.add(b.mul(index, I64(size)), I64(at)) for index, size, at in parts))

        self.emit.nest([I64(n // size) for n, size in zip(sizes, block, strict=True)], one)

    def _fetch(self, row: Value, column: Value) -> None:
        """What lies behind an element of the source comes nearer."""
        if not self.emit.target.compact:
            self.emit.fetch(self._at(row, column), I64(AHEAD), 2)

    def _at(self, row: Value, column: Value) -> Pointer:
        b = self.emit.b
        place = b.add(b.mul(row, self.down), b.mul(column, self.right))
        return self.emit.at(self.source, place)

    def _to(self, row: Value, column: Value) -> Pointer:
        b = self.emit.b
        place = b.add(b.mul(row, self.below), b.mul(column, self.beside))
        return self.emit.at(self.target, place)

    def _element(self, row: Value, column: Value) -> None:
        self.emit.store(self.emit.load(self._at(row, column)), self._to(row, column))

    def _vector(self, row: Value, column: Value) -> None:
        value = self.emit.load(self._at(row, column), self.lanes)
        self._fetch(row, column)
        self.emit.store(value, self._to(row, column), self.lanes)

    def _square(self, row: Value, column: Value) -> None:
        emit, lanes = self.emit, self.lanes
        for j in range(lanes):
            self._fetch(row, emit.b.add(column, I64(j)))
        for i, value in enumerate(turned(emit, self._at(row, column), self.right, lanes)):
            emit.store(value, self._to(emit.b.add(row, I64(i)), column), lanes)


def turned(
    emit: CpuEmit,
    pointer: Pointer,
    step: Value,
    lanes: int,
    inside: Sequence[Value] | None = None,
) -> list[Value]:
    """The rows of a square tile whose columns are dense.

    Args:
        step: from column to column.
        inside: how many rows and columns are read; left out, all.
    """
    b, columns = emit.b, list[Value]()
    for j in range(lanes):
        at, mask = b.mul(I64(j), step), None
        if inside is not None:
            in_range = b.icmp_signed(">", inside[1], I64(j))
            mask = emit.first_lanes(b.select(in_range, inside[0], I64(0)), lanes)
            # A load without lanes takes hundreds of cycles where its page is not mapped.
            at = b.select(in_range, at, I64(0))
        columns.append(emit.load(emit.at(pointer, at), lanes, mask))
    return transposed(emit, columns)


def transposed(emit: CpuEmit, rows: list[Value]) -> list[Value]:
    """The columns of a square block: halves, then quarters, ... change places across the middle."""
    n = len(rows)
    distance = n // 2
    while distance:
        new = list(rows)
        for i in (i for i in range(n) if not i & distance):
            a, b = rows[i], rows[i + distance]
            upper = [j if not j & distance else n + j - distance for j in range(n)]
            lower = [j + distance if not j & distance else n + j for j in range(n)]
            for place, lanes in ((i, upper), (i + distance, lower)):
                new[place] = emit.b.shuffle_vector(a, b, selection(*lanes))
        rows, distance = new, distance // 2
    return rows


def _is_one(step: Value) -> bool:
    return isinstance(step, ir.Constant) and bool(step.constant == 1)
