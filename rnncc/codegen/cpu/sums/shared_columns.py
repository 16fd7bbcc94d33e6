"""Sums along the lanes of many rows that meet the same columns, such as queries and keys.

Columns are turned round, onto the stack, so that lanes run across them: no lanes are left to be
added up then. Each sum takes its terms in the order that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.moves import turned
from rnncc.codegen.llvm.reductions import Folding
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.kernels import Reduce
from rnncc.records import record

DEEPEST = 128
"""The most terms of a sum, of which the stack holds a panel."""
Terms = Callable[[Value], list[list[Value]]]
"""Writes the terms of a number of several sums: of each a value, or two factors."""


@record
class TileShape:
    """What a tile of results is.

    Attributes:
        height, width: rows, and vectors of columns.
        branch: terms of a branch of a sum's tree, about: a loop over branches keeps what they add
            up to on the stack, and the code short.
        worth: rows that columns are turned round for: fewer fold their lanes.
    """

    height: int
    width: int
    branch: int
    worth: int


MANY_REGISTERS, FEW_REGISTERS = TileShape(4, 1, 32, 4), TileShape(2, 2, 4, 8)
"""Of a core with 32 registers or more, whose sums, branches and common terms stay in them, and of
others (8 heads of 32 units, 200 steps, Zen 4: 1.1 times as fast as two rows by two vectors and
branches of 16 with AVX-512, as one row by two vectors with AVX2)."""


@dataclass
class SharedColumns:
    """Writes such a reduction, whose last axes are rows, columns and terms.

    Args:
        column: the input that does not depend on the row.
        accesses: of the inputs and of the result.
    """

    emit: CpuEmit
    op: Reduce
    folding: Folding
    shape: TileShape
    column: int
    accesses: Sequence[Access]

    @staticmethod
    def of(emit: CpuEmit, op: Reduce, folding: Folding) -> SharedColumns | None:
        """None for others: op is a sum of floats over one axis of known size."""
        reads, rank = op.in_accesses, len(op.dims)
        if rank < 3 or op.init is not None or int(op.dims[-1]) > DEEPEST:
            return None
        by_column = [i for i, a in enumerate(reads) if a.strides[rank - 2] != 0]
        if len(by_column) != 1 or emit.target.compact:
            return None
        [column] = by_column
        steps, rows = reads[column].strides, op.dims[rank - 3]
        shape = MANY_REGISTERS if emit.target.registers >= 32 else FEW_REGISTERS
        few = rows.is_static and int(rows) < shape.worth
        if steps[rank - 3] != 0 or steps[rank - 1] != 1 or few:
            return None
        return SharedColumns(emit, op, folding, shape, column, [*reads, *op.out_accesses])

    @property
    def rows(self) -> Dim:
        return self.op.dims[-3]

    def run(self, ins: Sequence[Pointer], out: Pointer, otherwise: Callable[[], None]) -> None:
        """Write the loops; `otherwise`: those for fewer rows than are worth it."""
        if self.rows.is_static:
            self._many(ins, out)
            return
        b = self.emit.b
        enough = b.icmp_signed(">=", self.emit.dim(self.rows), I64(self.shape.worth))
        with b.if_else(enough) as (many, few):
            with many:
                self._many(ins, out)
            with few:
                otherwise()

    def _many(self, ins: Sequence[Pointer], out: Pointer) -> None:
        emit = self.emit
        height, width = self.shape.height, self.shape.width
        lanes, columns = emit.target.lanes, self.op.dims[-2]
        # As much for sums of all depths: a function has it once.
        panel, sums = DEEPEST * width * lanes, lanes * height * width * lanes
        held = emit.shared_room(panel + sums)
        partial = emit.at(held, I64(panel))

        def body(outer: list[Value]) -> None:
            bases = [self._at(p, i, outer) for i, p in enumerate([*ins, out])]
            tiles = _Tiles(self, bases, outer, held, partial)
            full, rest = emit.divided(columns, width * lanes)

            def block(i: Value, carried: list[Value]) -> list[Value]:
                tiles.run(emit.b.mul(i, I64(width * lanes)), width, height, None)
                return []

            done = emit.b.mul(full, I64(width * lanes))

            def vector(i: Value, carried: list[Value]) -> list[Value]:
                start = emit.b.mul(i, I64(lanes))
                tiles.run(emit.b.add(done, start), 1, height, emit.b.sub(rest, start))
                return []

            def last() -> None:
                emit.loop(emit.parts(rest, I64(lanes)), vector)

            if outer:
                emit.loop(full, block)
                last()
            else:  # threads share the columns
                emit.shared(full, block, last=last)

        emit.nest([emit.dim(d) for d in self.op.dims[:-3]], body, shared=True)

    def _at(self, pointer: Pointer, number: int, indices: Sequence[Value]) -> Pointer:
        """A pointer at some indices of the first axes."""
        first = self.emit.at(pointer, self.emit.dim(self.accesses[number].offset))
        return self.emit.along(first, self.accesses[number].strides, indices)


class _Tiles:
    """Results of all rows, for some columns at a time.

    Args:
        outer: the indices of other axes.
        held, partial: room for columns that are turned round, and for a tile's partial sums.
    """

    def __init__(
        self,
        kernel: SharedColumns,
        bases: list[Pointer],
        outer: list[Value],
        held: Pointer,
        partial: Pointer,
    ) -> None:
        self.kernel, self.emit, self.folding = kernel, kernel.emit, kernel.folding
        self.bases, self.outer, self.held, self.partial = bases, outer, held, partial
        self.lanes, self.terms = kernel.emit.target.lanes, int(kernel.op.dims[-1])
        self.arguments: Sequence[SSAValue] = kernel.op.body.block.args
        self.column_axis = len(kernel.op.dims) - 2
        varying = {self.arguments[kernel.column]}
        block, term = kernel.op.body.block, kernel.op.term
        self.code = RegionCode(self.emit, block, varying, self.column_axis, term)
        self.steps = [[self.emit.dim(s) for s in a.strides[-3:]] for a in kernel.accesses]

    def run(self, first: Value, width: int, height: int, count: Value | None) -> None:
        """Results of so many vectors of columns from the first one on.

        Args:
            height: rows at a time.
            count: columns that are left, of which one vector has some; left out, all count.
        """
        emit, b = self.emit, self.emit.b
        mask = None
        self._turn(first, width, count)
        if count is not None:
            mask = emit.first_lanes(count, self.lanes)
        full, rest = emit.divided(self.kernel.rows, height)

        def block(i: Value, carried: list[Value]) -> list[Value]:
            self._tile(b.mul(i, I64(height)), height, first, width, mask)
            return []

        def single(i: Value, carried: list[Value]) -> list[Value]:
            self._tile(b.add(b.mul(full, I64(height)), i), 1, first, width, mask)
            return []

        emit.loop(full, block)
        emit.loop(rest, single)

    def _turn(self, first: Value, width: int, count: Value | None) -> None:
        """Vectors of columns, onto the stack: one row of them for each term."""
        emit, b, lanes, number = self.emit, self.emit.b, self.lanes, self.kernel.column
        by_column = self.steps[number][1]
        full, rest = divmod(self.terms, lanes)

        def square(vector: Value, k: Value, terms: int) -> None:
            whole = count is None and terms == lanes
            inside = None if whole else (I64(terms), I64(lanes) if count is None else count)
            at = b.mul(b.add(first, b.mul(vector, I64(lanes))), by_column)
            base = emit.at(emit.at(self.bases[number], at), k)
            for j, row in enumerate(turned(emit, base, by_column, lanes, inside)[:terms]):
                emit.store(row, self._held(b.add(k, I64(j)), vector, width), lanes)

        def squares(indices: list[Value]) -> None:
            square(indices[0], b.mul(indices[1], I64(lanes)), lanes)

        def last(indices: list[Value]) -> None:
            square(indices[0], I64(full * lanes), rest)

        emit.nest([I64(width), I64(full)], squares)
        if rest:
            emit.nest([I64(width)], last)

    def _held(self, k: Value, vector: Value, width: int) -> Pointer:
        b = self.emit.b
        at = b.add(b.mul(k, I64(width * self.lanes)), b.mul(vector, I64(self.lanes)))
        return self.emit.at(self.held, at)

    def _tile(self, row: Value, height: int, first: Value, width: int, mask: Value | None) -> None:
        """Some rows by some vectors of columns."""
        emit, b = self.emit, self.emit.b
        rows = [b.add(row, I64(r)) for r in range(height)]
        columns = [b.add(first, I64(v * self.lanes)) for v in range(width)]
        left = [[self._of_row(i, r) for i in range(len(self.arguments))] for r in rows]

        def terms(k: Value) -> list[list[Value]]:
            held = [emit.load(self._held(k, I64(v), width), self.lanes) for v in range(width)]
            return [
                self._term(left[r], held[v], [*self.outer, rows[r], columns[v], k])
                for r in range(height)
                for v in range(width)
            ]

        out = len(self.bases) - 1
        by_row, by_column, _ = self.steps[out]
        sums = self._sums(terms, height * width)
        for r in range(height):
            line = emit.at(self.bases[out], b.mul(rows[r], by_row))
            for v in range(width):
                at = emit.at(line, b.mul(columns[v], by_column))
                emit.store(sums[r * width + v], at, self.lanes, mask)

    def _sums(self, terms: Terms, count: int) -> list[Value]:
        """So many sums of all terms: lanes added up as a vector of terms alone would be."""
        emit, b, folding, lanes = self.emit, self.emit.b, self.folding, self.lanes
        branches = min(1 << max(self.terms // self.kernel.shape.branch, 1).bit_length() - 1, lanes)
        while self.terms % lanes % branches:  # so that all branches have equally many terms
            branches //= 2

        def place(branch: Value, number: int) -> Pointer:
            at = b.add(b.mul(branch, I64(count * lanes)), I64(number * lanes))
            return emit.at(self.partial, at)

        def iteration(j: Value, carried: list[Value]) -> list[Value]:
            for number, value in enumerate(self._branch(terms, j, 0, branches)):
                emit.store(value, place(j, number), lanes)
            return []

        emit.loop(I64(branches), iteration, often=branches)
        parts = [
            [emit.load(place(I64(j), number), lanes) for number in range(count)]
            for j in range(branches)
        ]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [
                [folding.combined(x, y, lanes) for x, y in zip(low, high, strict=True)]
                for low, high in zip(parts[:half], parts[half:], strict=True)
            ]
        # Every sum starts at 0: what is left of that is that no result is -0.
        zero = folding.initial(lanes)
        return [folding.combined(zero, total, lanes) for total in parts[0]]

    def _branch(self, terms: Terms, lane: Value, offset: int, count: int) -> list[Value]:
        """The sums of all terms as `count` lanes, of them that lane, which is so many behind the
        branch's first: each half was added to the other until so few are left. None of a lane
        without terms."""
        folding, b = self.folding, self.emit.b
        if count == self.lanes:
            numbers = range(offset, self.terms, self.lanes)
            if not numbers:
                return []
            totals = [t[0] if len(t) == 1 else b.fmul(*t) for t in terms(lane)]
            for number in numbers[1:]:
                pairs = zip(totals, terms(b.add(lane, I64(number - offset))), strict=True)
                totals = [folding.added(total, term, self.lanes) for total, term in pairs]
            return totals
        low = self._branch(terms, lane, offset, 2 * count)
        high = self._branch(terms, b.add(lane, I64(count)), offset + count, 2 * count)
        if not high:
            return low
        return [folding.combined(x, y, self.lanes) for x, y in zip(low, high, strict=True)]

    def _of_row(self, number: int, row: Value) -> Pointer:
        step = self.steps[number][0]
        return self.emit.at(self.bases[number], self.emit.b.mul(row, step))

    def _term(self, left: Sequence[Pointer], held: Value, indices: list[Value]) -> list[Value]:
        """A vector of terms; `indices`: of the first one's axes."""
        emit = self.emit
        known: dict[SSAValue, Value] = {self.arguments[self.kernel.column]: held}
        scalars = {
            argument: emit.load(emit.at(left[i], emit.b.mul(indices[-1], self.steps[i][2])))
            for i, argument in enumerate(self.arguments)
            if argument not in known
        }

        def index(axis: int) -> Value:
            if axis == self.column_axis:
                return emit.lane_numbers(indices[axis], self.lanes)
            return emit.splat(indices[axis], self.lanes)

        scalars = self.code.invariants(scalars, lambda axis: indices[axis])
        return self.code.vectors(scalars, known, index, self.lanes)
