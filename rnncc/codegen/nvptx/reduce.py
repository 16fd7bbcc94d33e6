"""`kern.reduce`: one result a thread, or half a warp for sums whose order is free.

An `any` order is the one that a CPU with vectors of `LANES` floats has, so that results have its
bits: lane l takes terms l, l + LANES, ..., then halves are added, and halves of these.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.reductions import Folding, Lanes, lanes_of
from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.rows import KernelRows, begins, values_of
from rnncc.kern.kernels import Reduce

LANES = 16


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
            self._run_along()
        else:
            self.emit.for_each(self.rows.count, self._alone)

    def _alone(self, number: Value) -> None:
        """One result, by one thread, term after term."""
        indices = self.rows.indices(number)
        *reads, out, init = self.rows.at(self.pointers, indices)
        begin = self.emit.load(init) if self.starts else self.folding.initial(1)
        total = self._sum(reads, self.rows.by_axis(indices), 0, begin)
        self.emit.store(total, out)

    def _run_along(self) -> None:
        """Half a warp a result; lanes of a warp stay together, as they hand on their sums."""
        emit, b = self.emit, self.emit.b
        lane = b.and_(emit.thread64, I64(LANES - 1))
        second = b.and_(b.lshr(emit.thread64, I64(4)), I64(1))
        first, step = (b.mul(b.lshr(v, I64(5)), I64(2)) for v in (emit.me, emit.everyone))

        def pair(number: Value) -> None:
            mine = b.add(number, second)
            inside = b.icmp_signed("<", mine, self.rows.count)
            # Half a warp without a result computes the other half's: shuffles take all lanes.
            indices = self.rows.indices(b.select(inside, mine, number))
            *reads, out, _ = self.rows.at(self.pointers, indices)
            total = self._sum(reads, self.rows.by_axis(indices), 0, self.folding.initial(1), lane)
            total = self._fold(total)
            leads = b.icmp_unsigned("==", lane, I64(0))
            with emit.when(b.and_(inside, leads)):
                emit.store(total, out)

        emit.strided(first, self.rows.count, step, pair)

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
        axis = self.kept + depth
        if axis == len(op.dims):
            known: dict[SSAValue, Value] = {
                v: emit.load(p) for v, p in zip(op.body.block.args, reads, strict=True)
            }
            term = values_of(emit, op.body.block, known, by_axis, op.term)
            return self.folding.added(total, term, 1)
        size = emit.dim(op.dims[axis])

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            k = emit.b.sub(emit.b.sub(size, I64(1)), i) if self.down else i
            here = [
                emit.along(p, [strides[depth]], [k])
                for p, strides in zip(reads, self.inner, strict=True)
            ]
            return [self._sum(here, {**by_axis, axis: k}, depth + 1, carried[0], lane)]

        if lane is None or axis != len(op.dims) - 1:
            return emit.loop(size, iteration, [total])[0]
        return self._part(lane, size, lambda i, sum_: iteration(i, [sum_])[0], total)

    def _part(
        self, lane: Value, size: Value, add: Callable[[Value, Value], Value], total: Value
    ) -> Value:
        """Terms lane, lane + LANES, ..."""
        emit, b = self.emit, self.emit.b
        count = b.lshr(b.add(b.sub(size, lane), I64(LANES - 1)), I64(4))
        above = b.icmp_signed("<", lane, size)
        count = b.select(above, count, I64(0))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            return [add(b.add(lane, b.mul(i, I64(LANES))), carried[0])]

        return emit.loop(count, iteration, [total])[0]

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
