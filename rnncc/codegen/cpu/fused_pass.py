"""Kernels over the elements of one matrix, done in one pass over it, row by row.

A row is some vectors of columns. At each of them every kernel does its point in turn, so that what
one has read or written the next has in a register. Sums over rows are carried from row to row, and
sums over columns are folded where their row ends, in the order that each kernel has alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.reductions import Folding, Lanes, fold, fold_together, lanes_of
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, VALUE, Pointer, Value
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.kern.access import Access
from rnncc.kern.kernels import Reduce
from rnncc.planning.resident import PlaceKernel

MOST_VECTORS = 8
"""Of a row: their code stands side by side, and each sum over rows keeps as many registers."""


@dataclass(frozen=True, eq=False)
class MatrixKernel:
    """A kernel over a matrix.

    Attributes:
        rows, columns: of its domain, the axes; lanes run along columns.
        over_rows, over_columns: whether it adds them up.
    """

    part: PlaceKernel
    rows: int
    columns: int
    over_rows: bool
    over_columns: bool

    @staticmethod
    def of(part: PlaceKernel, lanes: int) -> MatrixKernel | None:
        """None for a kernel over something else, or that has lanes otherwise."""
        op, axes = part.op, (*part.kept, *part.reduced)
        if len(axes) != 2 or not all(op.dims[axis].is_static for axis in axes):
            return None
        rows, columns = axes if len(part.kept) != 1 else (*part.reduced, *part.kept)
        if isinstance(op, Reduce):
            across = len(part.kept) == 1 and part.kept[0] == len(op.dims) - op.reduced.data - 1
            if len(part.kept) == 1 and lanes_of(op) is Lanes.ALONG:
                rows, columns, across = part.kept[0], part.reduced[0], False
            if not _sums_in_order(op, across):
                return None
        found = MatrixKernel(part, rows, columns, rows in part.reduced, columns in part.reduced)
        few = lanes <= found.size[1] <= lanes * MOST_VECTORS
        return found if few and found.has_lanes else None

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.part.op.dims[self.rows]), int(self.part.op.dims[self.columns])

    @property
    def has_lanes(self) -> bool:
        """Whether all is dense, or the same, along columns, and written once in each."""
        op = self.part.op
        dense = all(a.strides[self.columns] in (0, 1) for a in op.in_accesses)
        rows = [a.strides[self.rows] for a in (*op.in_accesses, *op.out_accesses)]
        step = 0 if self.over_columns else 1
        written = all(a.strides[self.columns] == step for a in op.out_accesses)
        return dense and written and all(r.is_static for r in rows)

    def point_of(self, access: Access) -> tuple[object, ...]:
        """Which element of a value a point of the matrix touches."""
        return access.offset, access.strides[self.rows], access.strides[self.columns]

    def is_at_own_point(self, access: Access) -> bool:
        """Whether each point of the matrix touches another element."""
        columns = access.strides[self.columns] == 1
        return columns and int(access.strides[self.rows]) >= self.size[1]


def _sums_in_order(op: Reduce, across: bool) -> bool:
    """Whether it is a sum of floats in the order of this code."""
    wanted = Lanes.ACROSS if across else Lanes.ALONG
    floats = op.kind.data == "sum" and dtype_of(op.yields[0]) in FLOATS
    return floats and op.order.data != "down" and lanes_of(op) is wanted


class FusedPass:
    """The code of a pass.

    Args:
        operands: of each kernel, pointers to a place of what it reads, then of what it writes.
    """

    def __init__(
        self, emit: CpuEmit, kernels: Sequence[MatrixKernel], operands: Sequence[list[Pointer]]
    ) -> None:
        self.emit, self.kernels, self.lanes = emit, kernels, emit.target.lanes
        self.rows, columns = kernels[0].size
        self.starts = range(0, columns, self.lanes)
        self.masks = [emit.mask(columns - start, self.lanes) for start in self.starts]
        self.parts = [_Part(self, k, own) for k, own in zip(kernels, operands, strict=True)]
        self.fixed = dict[object, list[Value]]()

    def write(self) -> None:
        """All rows, and what sums over rows end with."""
        emit, lanes = self.emit, self.lanes
        for part in self.parts:
            part.read_fixed(self.fixed)
        sums = [total for part in self.parts for total in part.initial()]
        folded = [part for part in self.parts if part.folds]
        groups = self.rows // lanes if folded else 0
        rooms = [emit.room(ir.ArrayType(VALUE[p.dtype], lanes * lanes), 64) for p in folded]

        def group(g: Value, carried: list[Value]) -> list[Value]:
            first = emit.b.mul(g, I64(lanes))

            def row(i: Value, carried: list[Value]) -> list[Value]:
                carried, totals = self._row(emit.b.add(first, i), carried)
                for room, part, total in zip(rooms, folded, totals, strict=True):
                    at = emit.at(Pointer(room, part.dtype), emit.b.mul(i, I64(lanes)))
                    emit.store(total, at, lanes)
                return carried

            carried = emit.loop(I64(lanes), row, carried)
            for room, part in zip(rooms, folded, strict=True):
                part.store_rows(first, Pointer(room, part.dtype))
            return carried

        def row(i: Value, carried: list[Value]) -> list[Value]:
            at = emit.b.add(I64(groups * lanes), i)
            carried, totals = self._row(at, carried)
            for part, total in zip(folded, totals, strict=True):
                part.store_row(at, total)
            return carried

        sums = emit.loop(I64(groups), group, sums)
        sums = emit.loop(I64(self.rows - groups * lanes), row, sums)
        for part in self.parts:
            count = len(part.initial())
            part.store_sums(sums[:count])
            sums = sums[count:]

    def _row(self, row: Value, carried: list[Value]) -> tuple[list[Value], list[Value]]:
        """A row: what sums over rows have then, and sums over its columns."""
        sums, totals = list(carried), list[Value]()
        places, first = list[_PartRow](), 0
        read = dict[object, Value]()
        for part in self.parts:
            count = len(part.initial())
            places.append(_PartRow(part, row, range(first, first + count), read))
            first += count
        for vector in range(len(self.starts)):
            known = dict[object, Value]()
            for place in places:
                place.compute(vector, known, sums)
        totals = [place.total for place in places if place.part.folds]
        return sums, totals


class _Part:
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
        self.code = RegionCode(emit, self.op.body.block, varying)
        self.folding = Folding.of(emit, self.op) if isinstance(self.op, Reduce) else None
        self.dtype = dtype_of(self.op.yields[0])

    @property
    def folds(self) -> bool:
        """Whether each row has a sum."""
        return self.kernel.over_columns and not self.kernel.over_rows

    def initial(self) -> list[Value]:
        """What sums over rows start at: one a vector of columns, or one for all."""
        if self.folding is None or not self.kernel.over_rows:
            return []
        count = 1 if self.kernel.over_columns else len(self.whole.starts)
        return [self.folding.initial(self.whole.lanes)] * count

    def read_fixed(self, fixed: dict[object, list[Value]]) -> None:
        """What is the same in all rows."""
        emit, lanes = self.emit, self.whole.lanes
        for i in range(len(self.arguments)):
            if self.row_steps[i] or self.keys[i] in fixed:
                continue
            if self.column_steps[i]:
                fixed[self.keys[i]] = [
                    emit.load(emit.at(self.pointers[i], I64(start)), lanes, mask)
                    for start, mask in zip(self.whole.starts, self.whole.masks, strict=True)
                ]
            else:
                fixed[self.keys[i]] = [emit.load(self.pointers[i])]

    def at(self, number: int, row: Value, start: int = 0) -> Pointer:
        """An operand at a row, from a column on."""
        at = self.pointers[number]
        if self.row_steps[number]:
            at = self.emit.at(at, self.emit.b.mul(row, I64(self.row_steps[number])))
        return self.emit.at(at, I64(start))

    def store_rows(self, first: Value, totals: Pointer) -> None:
        """The sums of as many rows as there are lanes, each of a vector of totals."""
        emit, lanes, out = self.emit, self.whole.lanes, len(self.pointers) - 1
        assert self.folding is not None
        vectors = [emit.load(emit.at(totals, I64(i * lanes)), lanes) for i in range(lanes)]
        sums = fold_together(self.folding, vectors)
        if self.row_steps[out] == 1:
            emit.store(sums, self.at(out, first), lanes)
            return
        for i in range(lanes):
            value = emit.b.extract_element(sums, ir.IntType(32)(i))
            emit.store(value, self.at(out, emit.b.add(first, I64(i))))

    def store_row(self, row: Value, total: Value) -> None:
        """The sum of a row, of a vector of totals."""
        assert self.folding is not None
        value = fold(self.folding, total, self.whole.lanes)
        self.emit.store(value, self.at(len(self.pointers) - 1, row))

    def store_sums(self, sums: Sequence[Value]) -> None:
        """What sums over rows have in the end."""
        emit, whole, out = self.emit, self.whole, self.pointers[-1]
        if not sums:
            return
        assert self.folding is not None
        if self.kernel.over_columns:
            emit.store(fold(self.folding, sums[0], whole.lanes), out)
            return
        for total, start, mask in zip(sums, whole.starts, whole.masks, strict=True):
            emit.store(total, emit.at(out, I64(start)), whole.lanes, mask)


class _PartRow:
    """A kernel at one row.

    Attributes:
        sums: the numbers of its sums over rows.
        total: its sum over columns so far.
    """

    def __init__(self, part: _Part, row: Value, sums: range, read: dict[object, Value]) -> None:
        self.part, self.row, self.sums, emit = part, row, sums, part.emit
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
        if part.folds and part.folding is not None:
            self.total = part.folding.initial(part.whole.lanes)

    def compute(self, vector: int, known: dict[object, Value], sums: list[Value]) -> None:
        """A vector of columns; `known`: what kernels before have read and written there."""
        part, whole, emit = self.part, self.part.whole, self.part.emit
        start, mask = whole.starts[vector], whole.masks[vector]
        inputs = dict[SSAValue, Value]()
        for i, argument in enumerate(part.arguments):
            if argument not in part.code.varying:
                continue
            key = part.keys[i]
            if key in whole.fixed:
                inputs[argument] = whole.fixed[key][vector]
                continue
            if key not in known:
                known[key] = emit.load(part.at(i, self.row, start), whole.lanes, mask)
            inputs[argument] = known[key]
        values = part.code.vectors(self.scalars, inputs, _no_index, whole.lanes)
        if part.folding is not None:
            self._add(values[0], vector, sums)
            return
        for i, value in enumerate(values, len(part.arguments)):
            known[part.keys[i]] = value
            emit.store(value, part.at(i, self.row, start), whole.lanes, mask)

    def _add(self, term: Value, vector: int, sums: list[Value]) -> None:
        part, mask = self.part, self.part.whole.masks[vector]
        assert part.folding is not None
        if not part.kernel.over_columns:
            number = self.sums[vector]
            sums[number] = part.folding.combined(sums[number], term, part.whole.lanes)
            return
        total = sums[self.sums[0]] if part.kernel.over_rows else self.total
        new = part.folding.combined(total, term, part.whole.lanes)
        if mask is not None:  # lanes behind the last column keep what they have
            new = part.emit.b.select(mask, new, total)
        if part.kernel.over_rows:
            sums[self.sums[0]] = new
        else:
            self.total = new


def _no_index(axis: int) -> Value:
    raise AssertionError(f"the index along axis {axis}")
