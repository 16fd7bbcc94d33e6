"""`kern.reduce`: one result a thread, or half a warp for sums whose order is free.

An `any` order is the one that a CPU with vectors of `LANES` floats has, so that results have its
bits: lane l takes terms l, l + LANES, ..., then halves are added, and halves of these.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.reductions import Folding, Lanes, lanes_of
from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx import columns, row_sums
from rnncc.codegen.nvptx.columns import Term, folded_in_order
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.row_sums import LANES, lane_sum
from rnncc.codegen.nvptx.rows import KernelRows, begins, values_of
from rnncc.kern.kernels import Reduce


def shared_bytes(op: Reduce, threads: int) -> int:
    """Of shared memory that a reduction has use for."""
    return max(columns.shared_bytes(op, threads), row_sums.shared_bytes(op, threads))


def emit_reduce(
    emit: GpuEmit,
    op: Reduce,
    ins: list[Pointer],
    out: Pointer,
    init: Pointer | None,
    listed: Pointer | None,
) -> None:
    """Write a reduction; `listed`: the rows that are computed, if not all are."""
    _ReduceCode(emit, op, ins, out, init, listed).run()


class _ReduceCode:
    def __init__(
        self,
        emit: GpuEmit,
        op: Reduce,
        ins: list[Pointer],
        out: Pointer,
        init: Pointer | None,
        listed: Pointer | None,
    ) -> None:
        self.emit, self.op = emit, op
        self.kept = len(op.dims) - op.reduced.data
        self.folding = Folding.of(emit, op)
        self.down = op.order.data == "down"
        reads, [written] = op.in_accesses, op.out_accesses
        accesses = [*reads, written, written]
        self.pointers = begins(emit, [*ins, out, out if init is None else init], accesses)
        self.starts = init is not None
        self.rows = KernelRows(emit, op, accesses, self.kept, listed)
        self.inner = [a.strides[self.kept :] for a in reads]

    def run(self) -> None:
        if lanes_of(self.op) is Lanes.ALONG:
            self._run_in_rows() if self._has_rows else self._run_along()
        elif columns.suits(self.op, self.emit.threads) and not self.emit.points_of_a_row:
            self._run_in_columns()
        else:
            self.emit.for_each(self.rows.count, self._alone)

    @property
    def _has_rows(self) -> bool:
        """Whether a block has rows of its own, each of one result."""
        emit = self.emit
        return emit.points_of_a_row == 1 and row_sums.suits(self.op, emit.threads)

    def _run_in_rows(self) -> None:
        """All threads of a block share the terms of a row, where it has few rows."""
        emit = self.emit
        sums = row_sums.RowSums(emit, self.op, self.folding, self._fold)
        share = emit.share(self.rows.count)
        with emit.b.if_else(sums.pay(share)) as (shared, alone):
            with shared:
                sums.write(share, self._result)
            with alone:
                self._run_along()

    def _run_in_columns(self) -> None:
        """A block shares the terms of some results where few threads would have any."""
        emit = self.emit
        size = emit.dim(self.op.dims[self.kept])
        several = columns.Columns(emit, self.op, self.folding, self.rows.count, size)
        with emit.b.if_else(several.pay) as (shared, alone):
            with shared:
                several.write(self._result)
            with alone:
                emit.for_each(self.rows.count, self._alone)

    def _result(self, number: Value) -> columns.ColumnResult:
        """A result of one reduced axis."""
        indices = self.rows.indices(number)
        *reads, out, init = self.rows.at(self.pointers, indices)
        terms = self._terms(reads, self.rows.by_axis(indices), 0)
        return columns.ColumnResult(
            self._begin(init), terms, lambda sum_: self.emit.store(sum_, out)
        )

    def _begin(self, init: Pointer) -> Value:
        return self.emit.load(init) if self.starts else self.folding.initial(1)

    def _alone(self, number: Value) -> None:
        """One result, by one thread, term after term."""
        indices = self.rows.indices(number)
        *reads, out, init = self.rows.at(self.pointers, indices)
        total = self._sum(reads, self.rows.by_axis(indices), 0, self._begin(init))
        self.emit.store(total, out)

    def _run_along(self) -> None:
        """Half a warp a result; lanes of a warp stay together, as they hand on their sums."""
        emit, b = self.emit, self.emit.b
        lane = b.and_(emit.thread64, I64(LANES - 1))
        second = b.and_(b.lshr(emit.thread64, I64(4)), I64(1))
        share = emit.share(self.rows.count)
        first, step = (b.mul(b.lshr(v, I64(5)), I64(2)) for v in (share.first, share.step))

        def pair(number: Value) -> None:
            mine = b.add(number, second)
            inside = b.icmp_signed("<", mine, share.count)
            # Half a warp without a result computes the other half's: shuffles take all lanes.
            own = share.number(b.select(inside, mine, number))
            indices = self.rows.indices(own)
            *reads, out, _ = self.rows.at(self.pointers, indices)
            by_axis = self.rows.by_axis(indices)
            total = self._sum(reads, by_axis, 0, self.folding.initial(1), lane)
            total = self._fold(total)
            leads = b.icmp_unsigned("==", lane, I64(0))
            with emit.when(b.and_(inside, leads)):
                emit.store(total, out)

        emit.strided(first, share.count, step, pair)

    def _sum(
        self,
        reads: list[Pointer],
        by_axis: dict[int, Value],
        depth: int,
        total: Value,
        lane: Value | None = None,
    ) -> Value:
        """Loops over reduced axes from the `depth`-th on; `lane`: takes its part of the last."""
        emit, op = self.emit, self.op
        if not op.reduced.data:
            return self.folding.added(total, self._term(reads, by_axis), 1)
        axis = self.kept + depth
        size = emit.dim(op.dims[axis])
        if axis < len(op.dims) - 1:

            def iteration(i: Value, carried: list[Value]) -> list[Value]:
                here, numbers = self._at(reads, by_axis, depth, i)
                return [self._sum(here, numbers, depth + 1, carried[0], lane)]

            return emit.loop(size, iteration, [total])[0]
        term = self._terms(reads, by_axis, depth)
        if lane is None:
            return folded_in_order(emit, self.op, self.folding, size, term, total)
        return lane_sum(emit, op, self.folding, lane, size, term, total)

    def _terms(self, reads: list[Pointer], by_axis: dict[int, Value], depth: int) -> Term:
        """The terms along the last axis, by their numbers in the order of the sum."""

        def term(i: Value) -> list[Value]:
            return self._term(*self._at(reads, by_axis, depth, i))

        return term

    def _at(
        self, reads: list[Pointer], by_axis: dict[int, Value], depth: int, i: Value
    ) -> tuple[list[Pointer], dict[int, Value]]:
        """Pointers and indices at the i-th place of a reduced axis."""
        emit, axis = self.emit, self.kept + depth
        k = emit.b.sub(emit.b.sub(emit.dim(self.op.dims[axis]), I64(1)), i) if self.down else i
        here = [
            emit.along(p, [strides[depth]], [k])
            for p, strides in zip(reads, self.inner, strict=True)
        ]
        return here, {**by_axis, axis: k}

    def _term(self, reads: list[Pointer], by_axis: dict[int, Value]) -> list[Value]:
        op = self.op
        known: dict[SSAValue, Value] = {
            v: self.emit.load(p) for v, p in zip(op.body.block.args, reads, strict=True)
        }
        return values_of(self.emit, op.body.block, known, by_axis, op.term)

    def _fold(self, total: Value) -> Value:
        """The lanes' sums as one, in the lowest lane."""
        by = LANES // 2
        while by > 1:
            total = self.folding.halves(total, self._further(total, by))
            by //= 2
        return self.folding.combined(total, self._further(total, 1), 1)

    def _further(self, value: Value, by: int) -> Value:
        """The value of the lane `by` further on."""
        b, gpu = self.emit.b, self.emit.gpu
        if value.type in (FLOAT, I32):
            return gpu.shuffle_down(value, by)
        # A shuffle hands on 32 bits.
        low, high = b.trunc(value, I32), b.trunc(b.lshr(value, I64(32)), I32)
        low, high = (b.zext(gpu.shuffle_down(v, by), I64) for v in (low, high))
        return b.or_(low, b.shl(high, I64(32)))
