"""A tile of rows of a product whose weights lie in shared memory: see `loop`.

Its rows go through shared memory too, a run of k at a time, the next one on its way in registers
while one is multiplied. A thread has one unit, some rows, and the sums of all slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import FLOAT, I32, I64, Pointer, Value
from rnncc.codegen.nvptx.exchanges.words import Words
from rnncc.codegen.nvptx.limits import WARP
from rnncc.records import record

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.stationary.loop import StationaryStep

GROUP_UNITS = 8
"""Units of a warp; its other lanes have other rows."""
ROW_LANES = WARP // GROUP_UNITS
RUN = 4
"""k that lie side by side in shared memory: what one load takes."""
COPIED, COPIED_OF_FEW = 8, 2
"""Runs that a thread copies of a tile; of one of few rows, for each row of a lane."""
MOST_AHEAD = 12
"""Runs that a lane reads ahead of their use, of weights and rows together: a read of shared memory
takes as long as some tens of multiply-adds."""
MOST_TOGETHER = 2
"""Products of a loop that read ahead: each holds addresses, which three of them spill (attention
for sm_120: 5,764 bytes, 3,812 without)."""
Reader = Callable[[Value, int], list[list[Value]]]
"""What a lane reads of so many runs from a number on: weights, a slot after the other, then each
row's."""


@record
class Height:
    """How a tile's sums are shared out.

    Attributes:
        rows: of a lane.
        split: whether warps have a slot each, of all rows; else all slots, of rows of their own.
    """

    rows: int
    split: bool = False

    @property
    def copied(self) -> int:
        """Runs that a thread copies."""
        return COPIED_OF_FEW * self.rows if self.split else COPIED


@record
class _StagedCopy:
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

    Attributes:
        works: whether this lane has rows; else it only copies.
    """

    def __init__(
        self,
        step: StationaryStep,
        height: Height,
        start: Value,
        tile: Value,
        runs: Value,
    ) -> None:
        self.step, self.start, self.tile, self.runs = step, start, tile, runs
        self.emit, self.gemm, self.lanes = step.emit, step.gemm, step.lanes()
        self.split, self.height, self.copied = height.split, height.rows, height.copied
        self.slots = 1 if self.split else self.gemm.slots
        b = self.emit.b
        self.run = b.shl(I32(RUN), runs)
        # A run more than there is, so that lanes that read the same k of neighbouring rows find
        # them in other banks.
        self.pitch = b.add(self.run, I32(RUN))
        mine = I32(0) if self.split else b.mul(step.band, I32(ROW_LANES * self.height))
        self.first = b.add(mine, self.lanes.row)
        exists = b.icmp_unsigned("<", b.add(start, self.first), step.count)
        self.works = b.and_(exists, b.icmp_unsigned("<", self.first, tile))
        if self.split:
            self.works = b.and_(self.works, b.icmp_unsigned("<", step.warp, I32(self.gemm.slots)))

    def write(self) -> None:
        emit, b = self.emit, self.emit.b
        rows = [b.add(self.first, I32(r * ROW_LANES)) for r in range(self.height)]
        if self.split:
            inside, finish = self._row(b.add(self.first, b.mul(self.step.warp, I32(ROW_LANES))))
            sums = self._gathered(self._sums(rows))
            with emit.when(b.icmp_unsigned("<", self.step.warp, I32(self.height))):
                finish(inside, sums)
            return
        states = [self._row(row) for row in rows]
        sums = self._sums(rows)
        with emit.when(self.works):
            for r, (inside, finish) in enumerate(states):
                finish(inside, sums[r * self.slots :][: self.slots])

    def _sums(self, rows: list[Value]) -> list[Value]:
        """Of each row, a slot after the other."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        copies = [self._copy_of(i) for i in range(self.copied)]

        def part(i: Value, carried: list[Value]) -> list[Value]:
            k = b.mul(b.trunc(i, I32), self.run)
            values = self._awaited(copies, k, carried[: self.copied])
            emit.gpu.block_wait()
            for copy, value in zip(copies, values, strict=True):
                self._put(copy, k, value)
            emit.gpu.block_wait()
            following = [self._get(copy, b.add(k, self.run)) for copy in copies]
            return [*following, *self._add(rows, k, carried[self.copied :])]

        runs = b.add(I32(gemm.depth), b.sub(self.run, I32(1)))
        lead, *others = copies
        # Rows that have not come yet are looked at by their first words alone.
        first = self._awaited([lead], I32(0), [self._get(lead, I32(0))])
        first += [self._get(copy, I32(0)) for copy in others]
        zeros = [ir.Constant(FLOAT, 0.0)] * (self.height * self.slots)
        return emit.loop(b.zext(b.udiv(runs, self.run), I64), part, [*first, *zeros])[self.copied :]

    def _gathered(self, sums: list[Value]) -> list[Value]:
        """The sums of all slots, whose warps leave them in shared memory, of a row each warp."""
        emit, b, step = self.emit, self.emit.b, self.step
        emit.gpu.block_wait()
        place = emit.at(step.staged, b.zext(emit.thread, I64))
        for r, value in enumerate(sums):
            b.store(value, emit.at(place, I64(r * emit.threads)).base, align=4)
        emit.gpu.block_wait()
        some = b.select(b.icmp_unsigned("<", step.warp, I32(self.height)), step.warp, I32(0))
        lane = b.add(b.mul(some, I32(emit.threads)), b.and_(emit.thread, I32(WARP - 1)))
        line = emit.at(step.staged, b.zext(lane, I64))
        return [emit.load(emit.at(line, I64(s * WARP))) for s in range(self.gemm.slots)]

    def _row(self, row: Value) -> tuple[Value, Callable[[Value, list[Value]], None]]:
        """Whether a row is there, and what becomes of its sums; its inputs are read now."""
        b, gemm = self.emit.b, self.gemm
        number = b.add(self.start, row)
        inside = b.icmp_unsigned("<", number, self.step.count)
        inside = b.and_(inside, b.icmp_unsigned("<", row, self.tile))  # the next is another block's
        safe = b.zext(b.select(inside, number, self.start), I64)
        indices = gemm.rows.indices(safe)
        here = gemm.rows.at(gemm.pointers, indices)
        finish = gemm.loaded(indices, here, self.lanes.unit)
        return b.and_(inside, self.lanes.own_unit), finish

    # Rows

    def _count(self, k: Value) -> Value:
        """How many k are staged together from the k-th on; less than 1 behind the last one."""
        b = self.emit.b
        rest = b.sub(I32(self.gemm.depth), k)
        return b.select(b.icmp_signed("<", rest, self.run), rest, self.run)

    def _copy_of(self, number: int) -> _StagedCopy:
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
        return _StagedCopy(used, own, at, source, target)

    def _get(self, copy: _StagedCopy, k: Value) -> Value:
        """Read a run of the staging from the k-th on, if there is one; else zeros, or any run."""
        emit, b = self.emit, self.emit.b
        none: Value = ir.Constant(ir.VectorType(FLOAT, RUN), None)
        count = self._count(k)
        inside, at = b.icmp_signed("<", copy.at, count), copy.at
        if self.step.awaits is not None:
            present = b.and_(copy.own, inside)  # nobody is to wait for another's run
        else:
            present = b.and_(copy.used, b.icmp_signed(">", count, I32(0)))
            at = b.select(inside, at, I32(0))
        [value] = emit.either(present, lambda: [self._four(copy.source, k, at)], [none])
        return value

    def _is_put(self, copy: _StagedCopy, k: Value) -> Value:
        """Whether there is such a run, and it is this thread's."""
        b = self.emit.b
        return b.and_(copy.own, b.icmp_signed("<", copy.at, self._count(k)))

    def _awaited(self, copies: list[_StagedCopy], k: Value, values: list[Value]) -> list[Value]:
        """The same values once they have been written, where rows are marked."""
        awaits = self.step.awaits
        if awaits is None:
            return values

        def look() -> list[Value]:
            return [self._get(copy, k) for copy in copies]

        return Words(self.emit).written_floats(values, look, awaits)

    def _put(self, copy: _StagedCopy, k: Value, value: Value) -> None:
        with self.emit.when(self._is_put(copy, k)):
            self.emit.b.store(value, copy.target.base, align=16)

    def _four(self, row: Pointer, k: Value, at: Value) -> Value:
        """Four neighbours along k; those behind the depth are not used."""
        emit, b, gemm = self.emit, self.emit.b, self.gemm
        type_ = ir.VectorType(FLOAT, RUN)
        first = b.add(k, at)
        if self.step.dense:
            place = emit.at(row, b.zext(first, I64)).base
            if self.step.awaits is not None:
                return Words(emit).floats(place)
            return b.load(place, typ=type_, align=16)
        values: list[Value] = []
        for i in range(RUN):
            number = b.add(first, I32(i))
            inside = b.icmp_unsigned("<", number, I32(gemm.depth))
            safe = b.zext(b.select(inside, number, first), I64)
            values.append(emit.load(gemm.along_k(row, safe)))
        return vector_of(b, values)

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

        def read(first: Value, count: int) -> list[list[Value]]:
            """Of each run from the first on: weights, a slot after the other, then each row's."""
            # Places of further runs are a constant away: that takes no instruction.
            own = emit.at(weights, b.mul(first, I64(step)))
            lines = [emit.at(place, b.mul(first, I64(RUN))) for place in staged]
            runs: list[list[Value]] = []
            for i in range(count):
                places = [(own, i * step + s * line) for s in range(self.slots)]
                places += [(place, i * RUN) for place in lines]
                runs.append([emit.gpu.shared_four(p.base, 4 * floats) for p, floats in places])
            return runs

        count = b.select(self.works, self._count(k), I32(0))
        whole = b.zext(b.lshr(count, I32(2)), I64)
        sums = self._whole_runs(read, whole, sums)
        rest = gemm.depth % RUN
        if not rest:
            return sums
        # As many terms as there are k: a further 0 · w would turn -0.0 into 0.0.
        beyond = b.icmp_unsigned("!=", b.and_(count, I32(RUN - 1)), I32(0))

        def last(_: Value, carried: list[Value]) -> list[Value]:
            return self._multiply(read(whole, 1)[0], carried, rest)

        return emit.loop(b.zext(beyond, I64), last, sums)

    def _whole_runs(self, read: Reader, whole: Value, sums: list[Value]) -> list[Value]:
        """The terms of runs that are not cut off, some of which are read ahead of their use."""
        emit, b = self.emit, self.emit.b
        fours = self.height + self.slots
        if fours > MOST_AHEAD or len(self.step.around.gemms) > MOST_TOGETHER:
            return emit.loop(whole, lambda i, carried: self._multiply(read(i, 1)[0], carried), sums)
        ahead = 1 << (MOST_AHEAD // fours).bit_length() - 1
        size, shift = fours * ahead, ahead.bit_length()
        pairs = b.lshr(whole, I64(shift))

        def read_some(first: Value) -> list[Value]:
            return [value for run in read(first, ahead) for value in run]

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
        first = [
            value for i in range(ahead) for value in read(b.select(some, I64(i), I64(0)), 1)[0]
        ]
        sums = emit.loop(pairs, iteration, [*first, *sums])[size:]
        done = b.shl(pairs, I64(shift))

        def one(i: Value, carried: list[Value]) -> list[Value]:
            emit.gpu.not_unrolled()
            return self._multiply(read(b.add(done, i), 1)[0], carried)

        return emit.loop(b.sub(whole, done), one, sums)

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
