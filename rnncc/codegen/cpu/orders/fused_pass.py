"""Kernels over the elements of one matrix, done in one pass over it, row by row.

A row is some vectors of columns. At each of them every kernel does its point in turn, so that what
one has read or written the next has in a register. Sums over rows are carried from row to row, and
sums over columns are folded where their row ends, in the order that each kernel has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.orders.matrix_kernels import MOST_VECTORS, TOGETHER, MatrixKernel
from rnncc.codegen.llvm.reductions import Folding, fold, fold_together
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.types import dtype_of
from rnncc.kern.kernels import Reduce


class FusedPass:
    """The code of a pass.

    Args:
        operands: of each kernel, pointers to a place of what it reads, then of what it writes.
        inside: values that nothing but this pass reads.
        room: memory for the sums of all rows: of which kernel, how many elements, of which type.
    """

    def __init__(
        self,
        emit: CpuEmit,
        kernels: Sequence[MatrixKernel],
        operands: Sequence[list[Pointer]],
        inside: Container[SSAValue],
        room: Callable[[int, int, str], Pointer],
    ) -> None:
        self.emit, self.lanes, self.inside = emit, emit.target.lanes, inside
        self.rows, self.columns = kernels[0].size
        self.parts = [_PassKernel(self, k, own) for k, own in zip(kernels, operands, strict=True)]
        self.folded = [part for part in self.parts if part.folds]
        size = self.rows * self.lanes
        self.totals = [room(i, size, part.dtype) for i, part in enumerate(self.folded)]
        self.base = I64(0)
        self.starts: range = range(0)
        self.masks: list[Value | None] = []
        self.fixed = dict[object, list[Value]]()

    def write(self) -> None:
        """All columns, and what sums over them end with."""
        emit, rows, lanes = self.emit, self.rows, self.lanes
        width = self.columns
        if width > lanes * MOST_VECTORS:
            width = lanes * TOGETHER
            self._begin_totals()

        def block(i: Value, carried: list[Value]) -> list[Value]:
            self._block(emit.b.mul(i, I64(width)), width)
            return []

        full, rest = divmod(self.columns, width)
        emit.loop(I64(full), block)
        if rest:
            self._block(I64(full * width), rest)
        if not self.folded:
            return

        def group(i: Value, carried: list[Value]) -> list[Value]:
            first = emit.b.mul(i, I64(lanes))
            for part, totals in zip(self.folded, self.totals, strict=True):
                part.store_rows(first, totals)
            return []

        def row(i: Value, carried: list[Value]) -> list[Value]:
            at = emit.b.add(I64(rows - rows % lanes), i)
            for part, totals in zip(self.folded, self.totals, strict=True):
                part.store_row(at, totals)
            return []

        emit.loop(I64(rows // lanes), group)
        emit.loop(I64(rows % lanes), row)

    def _begin_totals(self) -> None:
        """Where columns come in blocks, sums over them go on in memory."""
        emit = self.emit

        def row(i: Value, carried: list[Value]) -> list[Value]:
            for part, totals in zip(self.folded, self.totals, strict=True):
                at = emit.at(totals, emit.b.mul(i, I64(self.lanes)))
                emit.store(part.zero, at, self.lanes)
            return []

        emit.loop(I64(self.rows if self.folded else 0), row)

    def _block(self, base: Value, columns: int) -> None:
        """All rows of some columns, and what sums over rows end with."""
        emit = self.emit
        self.base, self.starts = base, range(0, columns, self.lanes)
        self.fixed = dict[object, list[Value]]()
        self.masks = [emit.mask(columns - start, self.lanes) for start in self.starts]
        for part in self.parts:
            part.read_fixed(self.fixed)
        for part, ops in zip(self.parts, self._settled(), strict=True):
            part.compute(self.fixed, ops)
        sums = [part.zero for part in self.parts for _ in range(part.sums)]
        sums = emit.loop(I64(self.rows), self._row, sums)
        for part in self.parts:
            part.store_sums(sums[: part.sums])
            sums = sums[part.sums :]

    def _settled(self) -> list[list[Operation]]:
        """The ops of each kernel that are done once, before all rows: LLVM leaves many in the loop.

        None if their results took more registers than what they read.
        """

        def registers(ops: list[list[Operation]]) -> int:
            pairs = zip(self.parts, ops, strict=True)
            return len(set[object]().union(*(p.registers(self.fixed, own) for p, own in pairs)))

        settled = [part.settled(self.fixed) for part in self.parts]
        none = list[list[Operation]]([[] for _ in self.parts])
        return settled if registers(settled) <= registers(none) else none

    def _row(self, row: Value, carried: list[Value]) -> list[Value]:
        """A row: what sums over rows have then; sums over its columns go to memory."""
        emit, sums, first = self.emit, list(carried), 0
        places, read = list[_PartRow](), dict[object, Value]()
        rooms = [emit.at(totals, emit.b.mul(row, I64(self.lanes))) for totals in self.totals]
        for part in self.parts:
            places.append(_PartRow(part, row, first, read))
            first += part.sums
        folded = [place for place in places if place.part.folds]
        for place, room in zip(folded, rooms, strict=True):
            # Blocks of columns go on from the sums of those before, which are in memory.
            whole = len(self.starts) * self.lanes >= self.columns
            place.total = place.part.zero if whole else emit.load(room, self.lanes)
        for vector in range(len(self.starts)):
            known = dict[object, Value]()
            for place in places:
                place.compute(vector, known, sums)
        for place, room in zip(folded, rooms, strict=True):
            emit.store(place.total, room, self.lanes)
        return sums


class _PassKernel:
    """A kernel of a pass."""

    def __init__(self, whole: FusedPass, kernel: MatrixKernel, operands: list[Pointer]) -> None:
        self.whole, self.kernel, self.emit = whole, kernel, whole.emit
        self.op, emit = kernel.part.op, whole.emit
        accesses = [*self.op.in_accesses, *self.op.out_accesses]
        self.keys = [
            (value, *kernel.point_of(access))
            for (value, _), access in zip(kernel.part.operands, accesses, strict=True)
        ]
        self.pointers = [
            emit.at(p, emit.dim(a.offset)) for p, a in zip(operands, accesses, strict=True)
        ]
        self.row_steps = [int(a.strides[kernel.rows]) for a in accesses]
        self.column_steps = [int(a.strides[kernel.columns]) for a in accesses]
        self.arguments = list(self.op.body.block.args)
        varying = [v for v, s in zip(self.arguments, self.column_steps, strict=False) if s]
        reduction = self.op if isinstance(self.op, Reduce) else None
        results = None if reduction is None else reduction.term
        self.code = RegionCode(emit, self.op.body.block, varying, results=results)
        self.folding = None if reduction is None else Folding.of(emit, reduction)
        self.fixed = list[Mapping[SSAValue, Value]]()  # for each vector of columns
        self.dtype = dtype_of(self.op.yields[0])

    @property
    def folds(self) -> bool:
        """Whether each row has a sum."""
        return self.kernel.over_columns and not self.kernel.over_rows

    @property
    def sums(self) -> int:
        """How many sums over rows it has: one a vector of columns, or one for all."""
        if not self.kernel.over_rows:
            return 0
        return 1 if self.kernel.over_columns else len(self.whole.starts)

    @property
    def zero(self) -> Value:
        """A vector that sums start at."""
        assert self.folding is not None
        return self.folding.initial(self.whole.lanes)

    def read_fixed(self, fixed: dict[object, list[Value]]) -> None:
        """What is the same in all rows."""
        emit, lanes = self.emit, self.whole.lanes
        for i in range(len(self.arguments)):
            if self.row_steps[i] or self.keys[i] in fixed:
                continue
            if self.column_steps[i]:
                fixed[self.keys[i]] = [
                    emit.load(self.at(i, I64(0), start), lanes, mask)
                    for start, mask in zip(self.whole.starts, self.whole.masks, strict=True)
                ]
            else:
                fixed[self.keys[i]] = [emit.load(self.pointers[i])]

    def settled(self, fixed: Container[object]) -> list[Operation]:
        """The ops that only read what is the same in all rows."""
        return self.code.settled(self._among(fixed))

    def registers(self, fixed: Container[object], settled: Collection[Operation]) -> set[object]:
        """Which vectors that are the same in all rows these read, if some ops are settled."""
        own = self._among(fixed)
        results = {v for op in settled for v in op.results}
        return {own.get(v, v) for v in self.code.needed(settled) if v in own or v in results}

    def compute(self, fixed: Mapping[object, list[Value]], settled: Sequence[Operation]) -> None:
        """Settled ops, for each vector of columns."""
        values = {v: fixed[key] for v, key in self._among(fixed).items()}
        varying = {v: own for v, own in values.items() if v in self.code.varying}
        scalars = {v: own[0] for v, own in values.items() if v not in varying}
        self.fixed = [
            self.code.ahead(
                settled,
                scalars,
                {v: own[i] for v, own in varying.items()},
                _no_index,
                self.whole.lanes,
            )
            for i in range(len(self.whole.starts))
        ]

    def _among(self, fixed: Container[object]) -> dict[SSAValue, object]:
        """The arguments that are the same in all rows, and their keys."""
        pairs = zip(self.arguments, self.keys, strict=False)
        return {v: key for v, key in pairs if key in fixed}

    def at(self, number: int, row: Value, start: int = 0) -> Pointer:
        """An operand at a row, from a column of the block on."""
        emit, at = self.emit, self.pointers[number]
        if self.row_steps[number]:
            at = emit.at(at, emit.b.mul(row, I64(self.row_steps[number])))
        if self.column_steps[number]:
            at = emit.at(at, emit.b.add(self.whole.base, I64(start)))
        return at

    def store_rows(self, first: Value, totals: Pointer) -> None:
        """The sums of as many rows as there are lanes, each of a vector of totals."""
        emit, lanes, out = self.emit, self.whole.lanes, len(self.pointers) - 1
        assert self.folding is not None
        rows = [emit.b.add(first, I64(i)) for i in range(lanes)]
        vectors = [emit.load(emit.at(totals, emit.b.mul(row, I64(lanes))), lanes) for row in rows]
        sums = fold_together(self.folding, vectors)
        if self.row_steps[out] == 1:
            emit.store(sums, self.at(out, first), lanes)
            return
        for i, row in enumerate(rows):
            emit.store(emit.b.extract_element(sums, ir.IntType(32)(i)), self.at(out, row))

    def store_row(self, row: Value, totals: Pointer) -> None:
        """The sum of a row, of a vector of totals."""
        emit, lanes = self.emit, self.whole.lanes
        assert self.folding is not None
        total = emit.load(emit.at(totals, emit.b.mul(row, I64(lanes))), lanes)
        emit.store(fold(self.folding, total, lanes), self.at(len(self.pointers) - 1, row))

    def store_sums(self, sums: Sequence[Value]) -> None:
        """What sums over rows have in the end."""
        emit, whole, out = self.emit, self.whole, len(self.pointers) - 1
        if not sums:
            return
        assert self.folding is not None
        if self.kernel.over_columns:
            emit.store(fold(self.folding, sums[0], whole.lanes), self.at(out, I64(0)))
            return
        for total, start, mask in zip(sums, whole.starts, whole.masks, strict=True):
            emit.store(total, self.at(out, I64(0), start), whole.lanes, mask)


class _PartRow:
    """A kernel at one row.

    Attributes:
        first: the number of its first sum over rows.
        total: its sum over columns so far.
    """

    def __init__(
        self, part: _PassKernel, row: Value, first: int, read: dict[object, Value]
    ) -> None:
        self.part, self.row, self.first, emit = part, row, first, part.emit
        fixed, known = part.whole.fixed, dict[SSAValue, Value]()
        for i, argument in enumerate(part.arguments):
            if argument in part.code.varying:
                continue
            key = part.keys[i]
            if key not in fixed and key not in read:
                read[key] = emit.load(part.at(i, row))
            known[argument] = fixed[key][0] if key in fixed else read[key]
        self.scalars = part.code.invariants(known, _no_index)
        self.total: Value = None

    def compute(self, vector: int, known: dict[object, Value], sums: list[Value]) -> None:
        """A vector of columns; `known`: what kernels before have read and written there."""
        part, whole, emit = self.part, self.part.whole, self.part.emit
        start, mask = whole.starts[vector], whole.masks[vector]
        inputs = dict(part.fixed[vector])
        for i, argument in enumerate(part.arguments):
            if argument not in part.code.varying or argument in inputs:
                continue
            key = part.keys[i]
            if key not in known:
                known[key] = emit.load(part.at(i, self.row, start), whole.lanes, mask)
            inputs[argument] = known[key]
        values = part.code.vectors(self.scalars, inputs, _no_index, whole.lanes)
        if part.folding is not None:
            self._add(values, vector, sums)
            return
        for i, value in enumerate(values, len(part.arguments)):
            known[part.keys[i]] = value
            if part.keys[i][0] in whole.inside:
                continue
            emit.store(value, part.at(i, self.row, start), whole.lanes, mask)

    def _add(self, term: list[Value], vector: int, sums: list[Value]) -> None:
        part, mask, lanes = self.part, self.part.whole.masks[vector], self.part.whole.lanes
        assert part.folding is not None
        if part.folds:
            self.total = self._masked(part.folding.added(self.total, term, lanes), mask, self.total)
        elif part.kernel.over_columns:
            total = sums[self.first]
            sums[self.first] = self._masked(part.folding.added(total, term, lanes), mask, total)
        else:
            # Lanes behind the last column are not masked here: nobody stores them.
            number = self.first + vector
            sums[number] = part.folding.added(sums[number], term, lanes)

    def _masked(self, new: Value, mask: Value | None, total: Value) -> Value:
        """Lanes behind the last column keep what they have."""
        return new if mask is None else self.part.emit.b.select(mask, new, total)


def _no_index(axis: int) -> Value:
    raise AssertionError(f"the index along axis {axis}")
