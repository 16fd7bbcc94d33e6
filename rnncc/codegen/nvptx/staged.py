"""A tile of rows of a product whose weights lie in shared memory: see `stationary`.

Its rows go through shared memory too, a run of k at a time, the next one on its way in registers
while one is multiplied. A thread has one unit, some rows, and the sums of all slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.limits import WARP
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.stationary import StationaryStep

GROUP_UNITS = 8
"""Units of a warp; its other lanes have other rows."""
ROW_LANES = WARP // GROUP_UNITS
RUN = 4
"""k that lie side by side in shared memory: what one load takes."""
COPIED = 8
"""Runs that a thread copies of a tile."""
SPLIT = 0
"""In the place of a height: few rows, all of them of all warps, which have a slot each."""
MOST_AHEAD = 12
"""Runs that a lane reads ahead of their use, of weights and rows together: a read of shared memory
takes as long as some tens of multiply-adds."""
Reader = Callable[[Value], list[Value]]
"""What a lane reads of a run by its number: weights, a slot after the other, then each row's."""


@record
class _Copy:
    """What a thread copies of each staging: the run `at` of a row, which may be another's.

    Attributes:
        used: whether any thread has rows to copy with this one; `own`: whether this one has.
    """

    used: Value
    own: Value
    at: Value
    source: Pointer
    target: Pointer


class StagedTile:
    """A tile of rows: `tile` of them from `start` on, 2**`runs` runs of k at a time.

    Args:
        height: rows of a lane, or `SPLIT`.

    Attributes:
        works: whether this lane has rows; else it only copies.
    """

    def __init__(
        self,
        step: StationaryStep,
        height: int,
        start: Value,
        tile: Value,
        runs: Value,
    ) -> None:
        self.step, self.start, self.tile, self.runs = step, start, tile, runs
        self.emit, self.gemm, split = step.emit, step.gemm, height == SPLIT
        self.split, self.height = split, max(1, height)
        self.slots = 1 if split else self.gemm.slots
        self.lanes = step.lanes(by_units=split or self.slots > self.height)
        b = self.emit.b
        self.run = b.shl(I32(RUN), runs)
        # A run more than there is, so that lanes that read the same k of neighbouring rows find
        # them in other banks.
        self.pitch = b.add(self.run, I32(RUN))
        mine = I32(0) if split else b.mul(step.band, I32(ROW_LANES * self.height))
        self.first = b.add(mine, self.lanes.row)
        exists = b.icmp_unsigned("<", b.add(start, self.first), step.count)
        self.works = b.and_(exists, b.icmp_unsigned("<", self.first, tile))
        if split:
            self.works = b.and_(self.works, b.icmp_unsigned("<", step.warp, I32(self.gemm.slots)))

    def write(self) -> None:
        emit, b = self.emit, self.emit.b
        rows = [b.add(self.first, I32(r * ROW_LANES)) for r in range(self.height)]
        states = [self._row(row) for row in rows]
        sums = self._sums(rows)
        if self.split:
            sums = self._gathered(sums[0])
        with emit.when(self.works):
            for r, (inside, finish) in enumerate(states):
                finish(inside, sums[r * self.gemm.slots :][: self.gemm.slots])

    def _sums(self, rows: list[Value]) -> list[Value]:
        """Of each row, a slot after the other."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        copies = [self._copy_of(i) for i in range(COPIED)]

        def part(i: Value, carried: list[Value]) -> list[Value]:
            k = b.mul(b.trunc(i, I32), self.run)
            emit.gpu.block_wait()
            for copy, value in zip(copies, carried, strict=False):
                self._put(copy, k, value)
            emit.gpu.block_wait()
            following = [self._get(copy, b.add(k, self.run)) for copy in copies]
            return [*following, *self._add(rows, k, carried[COPIED:])]

        runs = b.add(I32(gemm.depth), b.sub(self.run, I32(1)))
        first = [self._get(copy, I32(0)) for copy in copies]
        zeros = [ir.Constant(FLOAT, 0.0)] * (self.height * self.slots)
        return emit.loop(b.zext(b.udiv(runs, self.run), I64), part, [*first, *zeros])[COPIED:]

    def _gathered(self, own: Value) -> list[Value]:
        """The sums of all slots, whose warps leave them in shared memory; of use in the first."""
        emit, b, step = self.emit, self.emit.b, self.step
        emit.gpu.block_wait()
        place = emit.at(step.staged, b.zext(emit.thread, I64))
        b.store(own, place.base, align=4)
        emit.gpu.block_wait()
        lane = b.zext(b.and_(emit.thread, I32(WARP - 1)), I64)
        line = emit.at(step.staged, lane)
        return [emit.load(emit.at(line, I64(s * WARP))) for s in range(self.gemm.slots)]

    def _row(self, row: Value) -> tuple[Value, Callable[[Value, list[Value]], None]]:
        """Whether a row is there, and what becomes of its sums; its inputs are read now."""
        b, gemm = self.emit.b, self.gemm
        number = b.add(self.start, row)
        inside = b.icmp_unsigned("<", number, self.step.count)
        inside = b.and_(inside, b.icmp_unsigned("<", row, self.tile))  # the next is another block's
        if self.split:
            inside = b.and_(inside, b.icmp_unsigned("==", self.step.warp, I32(0)))
        known = b.zext(b.select(inside, number, self.start), I64)
        indices = gemm.rows.indices(known)
        here = gemm.rows.at(gemm.pointers, indices)
        finish = gemm.loaded(indices, here, self.lanes.unit)
        return b.and_(inside, self.lanes.own_unit), finish

    # Rows

    def _count(self, k: Value) -> Value:
        """How many k are staged together from the k-th on; less than 1 behind the last one."""
        b = self.emit.b
        rest = b.sub(I32(self.gemm.depth), k)
        return b.select(b.icmp_signed("<", rest, self.run), rest, self.run)

    def _copy_of(self, number: int) -> _Copy:
        """The run of four k that this thread copies as its `number`-th."""
        emit, b = self.emit, self.emit.b
        rows = b.sub(self.step.count, self.start)
        rows = b.select(b.icmp_signed("<", rows, self.tile), rows, self.tile)
        first = I32(number * emit.threads)
        used = b.icmp_unsigned("<", first, b.shl(rows, self.runs))
        place = b.add(emit.thread, first)
        last = b.sub(b.shl(I32(1), self.runs), I32(1))
        row, at = b.lshr(place, self.runs), b.mul(b.and_(place, last), I32(RUN))
        own = b.icmp_unsigned("<", row, rows)
        row = b.select(own, row, I32(0))
        indices = self.gemm.rows.indices(b.zext(b.add(self.start, row), I64))
        source = self.gemm.rows.at(self.gemm.pointers[:1], indices)[0]
        target = emit.at(self.step.staged, b.zext(b.add(b.mul(row, self.pitch), at), I64))
        return _Copy(used, own, at, source, target)

    def _get(self, copy: _Copy, k: Value) -> Value:
        """Read a run of the staging from the k-th on, if there is one."""
        emit, b = self.emit, self.emit.b
        none: Value = ir.Constant(ir.VectorType(FLOAT, RUN), None)
        count = self._count(k)
        present, before = b.and_(copy.used, b.icmp_signed(">", count, I32(0))), b.block
        with emit.when(present):
            inside = b.icmp_signed("<", copy.at, count)
            value = self._four(copy.source, k, b.select(inside, copy.at, I32(0)))
            read = b.block
        phi = b.phi(none.type)
        phi.add_incoming(none, before)
        phi.add_incoming(value, read)
        return phi

    def _put(self, copy: _Copy, k: Value, value: Value) -> None:
        b = self.emit.b
        inside = b.icmp_signed("<", copy.at, self._count(k))
        with self.emit.when(b.and_(copy.own, inside)):
            b.store(value, copy.target.base, align=16)

    def _four(self, row: Pointer, k: Value, at: Value) -> Value:
        """Four neighbours along k; those behind the depth are not used."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        type_ = ir.VectorType(FLOAT, RUN)
        first = b.add(k, at)
        if self.step.dense:
            place = emit.at(row, b.zext(first, I64))
            return b.load(place.base, typ=type_, align=16)
        values: Value = ir.Constant(type_, None)
        for i in range(RUN):
            number = b.add(first, I32(i))
            inside = b.icmp_unsigned("<", number, I32(gemm.depth))
            known = b.zext(b.select(inside, number, first), I64)
            value = emit.load(emit.along(row, [gemm.k_step], [known]))
            values = b.insert_element(values, value, I64(i))
        return values

    # Sums

    def _add(self, rows: list[Value], k: Value, sums: list[Value]) -> list[Value]:
        """The terms of the k that are staged, from the k-th on."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        step, line = gemm.slots * GROUP_UNITS * RUN, GROUP_UNITS * RUN
        first = b.mul(b.lshr(k, I32(2)), I32(step))
        if self.split:
            first = b.add(first, b.mul(b.select(self.works, self.step.warp, I32(0)), I32(line)))
        weights = emit.at(self.lanes.weights, b.zext(first, I64))
        own = [b.select(self.works, row, I32(0)) for row in rows]
        staged = [emit.at(self.step.staged, b.zext(b.mul(row, self.pitch), I64)) for row in own]

        def read(i: Value) -> list[Value]:
            """Weights of a run, a slot after the other, then each row's."""
            own = emit.at(weights, b.mul(i, I64(step)))
            places = [emit.at(own, I64(s * line)) for s in range(self.slots)]
            places += [emit.at(place, b.mul(i, I64(RUN))) for place in staged]
            return [self._read(place) for place in places]

        count = b.select(self.works, self._count(k), I32(0))
        whole = b.zext(b.lshr(count, I32(2)), I64)
        sums = self._whole_runs(read, whole, sums)
        rest = gemm.depth % RUN
        if not rest:
            return sums
        # As many terms as there are k: a further 0 · w would turn -0.0 into 0.0.
        beyond = b.icmp_unsigned("!=", b.and_(count, I32(RUN - 1)), I32(0))
        return emit.loop(
            b.zext(beyond, I64), lambda _, carried: self._multiply(read(whole), carried, rest), sums
        )

    def _whole_runs(self, read: Reader, whole: Value, sums: list[Value]) -> list[Value]:
        """The terms of runs that are not cut off, some of which are read ahead of their use."""
        emit, b = self.emit, self.emit.b
        fours = self.height + self.slots
        if fours > MOST_AHEAD:
            return emit.loop(whole, lambda i, carried: self._multiply(read(i), carried), sums)
        ahead = 1 << (MOST_AHEAD // fours).bit_length() - 1
        size, shift = fours * ahead, ahead.bit_length()
        pairs = b.lshr(whole, I64(shift))

        def read_some(first: Value) -> list[Value]:
            runs = (b.add(first, I64(i)) for i in range(ahead))
            return [value for run in runs for value in read(run)]

        def multiply(values: list[Value], sums: list[Value]) -> list[Value]:
            for start in range(0, size, fours):
                sums = self._multiply(values[start : start + fours], sums)
            return sums

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            # Two sets of registers: neither is copied to the other when what it holds is used up.
            own, sums = carried[:size], carried[size:]
            middle = b.add(b.shl(i, I64(shift)), I64(ahead))
            other = read_some(middle)
            sums = multiply(own, sums)
            following = b.add(middle, I64(ahead))
            more = b.icmp_signed("<", b.add(i, I64(1)), pairs)
            own = read_some(b.select(more, following, middle))
            return [*own, *multiply(other, sums)]

        # With fewer runs than two sets take, none of what is read here is used.
        some = b.icmp_signed(">", pairs, I64(0))
        first = [v for i in range(ahead) for v in read(b.select(some, I64(i), I64(0)))]
        sums = emit.loop(pairs, iteration, [*first, *sums])[size:]
        done = b.shl(pairs, I64(shift))

        def one(i: Value, carried: list[Value]) -> list[Value]:
            emit.gpu.not_unrolled()
            return self._multiply(read(b.add(done, i)), carried)

        return emit.loop(b.sub(whole, done), one, sums)

    def _read(self, pointer: Pointer) -> Value:
        return self.emit.b.load(pointer.base, typ=ir.VectorType(FLOAT, RUN), align=16)

    def _multiply(self, read: list[Value], sums: list[Value], terms: int = RUN) -> list[Value]:
        """One k after another."""
        b, fma, slots = self.emit.b, self.emit.math(1).fma, self.slots
        sums = list(sums)
        for i in range(terms):
            own = [b.extract_element(four, I64(i)) for four in read]
            words, lefts = own[:slots], own[slots:]
            for r, left in enumerate(lefts):
                for s, word in enumerate(words):
                    sums[r * slots + s] = fma(b, left, word, sums[r * slots + s])
        return sums
