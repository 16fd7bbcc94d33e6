"""Products whose weights stay in shared memory while a loop runs.

A block owns some groups of `GROUP_UNITS` units of each product in a loop's body, and keeps their
weights; blocks with the same units share the rows. A step then reads the rows alone:

    rows of a, a run of k at a time -> shared memory -> sums in registers -> the kernel's body

A warp has one group of units and `ROW_LANES` times R rows: a lane has one unit, R rows, and the
sums of all slots, k from 0 up, so that results have the bits of any other code for the product. How
many groups a block owns follows, at run time, from the shared memory that it was given; none, where
even one does not fit, or the loop is too short to pay for the copy: then the plain code runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit, lane_place
from rnncc.codegen.nvptx.exchanges.marked import MarkedRows
from rnncc.codegen.nvptx.gemm import DeviceWeights, Product
from rnncc.codegen.nvptx.held import HeldLoop
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.stationary.own_points import OwnPoints
from rnncc.codegen.nvptx.stationary.shares import MOST_SUMS, TileShares
from rnncc.codegen.nvptx.stationary.staged import GROUP_UNITS, ROW_LANES, RUN, Height, StagedTile
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import product
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Gemm
from rnncc.planning.phases import NamedMemory
from rnncc.records import record

STAGED = 8704
"""Floats of rows in shared memory: 64 rows of 128 and what parts them, or fewer of more."""
MOST_GROUPS = 4
"""Of a block."""
LEAST_ITERATIONS = 4
MOST_ROWS = 1 << 20
"""Numbers of rows, and of units times rows, are of 32 bits here."""


@dataclass
class StationaryProduct:
    """A product whose weights are held: its place in shared memory, given the groups."""

    op: Gemm
    offset: Value
    """In floats, from the first weights on."""


class Stationary(HeldLoop):
    """What holds while one loop runs.

    Attributes:
        groups: of units that a block owns; 0 where weights are not held.
    """

    def __init__(
        self,
        emit: GpuEmit,
        loop: For,
        gemms: Sequence[Gemm],
        pointers: dict[SSAValue, Pointer],
        memory: NamedMemory,
    ) -> None:
        super().__init__(emit, loop, gemms, pointers)
        self.resident = dict[Gemm, StationaryProduct]()
        self.shares = dict[Gemm, TileShares]()
        self.own_points = own = OwnPoints.of(self, loop, memory)
        self.marked = MarkedRows.of(loop, gemms, None if own is None else own.pair)
        self._marks: Value = None

    # Choice

    @staticmethod
    def products(loop: For) -> list[Gemm]:
        """The products of a loop's body whose weights may be held.

        None where a loop inside has products: its weights would lie in their place.
        """
        inner = [op for op in loop.walk() if isinstance(op, For) and op is not loop]
        if any(isinstance(o, Gemm) for op in inner for o in op.walk()):
            return []
        # Weights that the loop itself makes change from iteration to iteration.
        written = {value for op in loop.walk() for value in getattr(op, "outs", ())}
        written |= {op.operands[-1] for op in loop.walk() if op.name == "kern.pack"}
        return [
            op
            for op in HeldLoop.steady(loop)
            if op.room is None
            and op.slots.data <= MOST_SUMS
            and isinstance(op.weights.owner, Buffer)
            and op.weights.owner.dtype == "f32"
            and op.weights not in written
        ]

    def most_shared(self) -> int:
        """Bytes of shared memory that the products of a loop have use for."""
        return 4 * (STAGED + MOST_GROUPS * sum(_floats(op) for op in self.gemms))

    def begin(self) -> None:
        """Choose, and copy weights."""
        emit, b = self.emit, self.emit.b
        room = b.sub(b.lshr(emit.gpu.shared_bytes(), I32(2)), I32(STAGED))
        iterations = emit.dim(get_dim(self.loop.count))
        long = b.icmp_signed(">=", iterations, I64(LEAST_ITERATIONS))
        for op in self.gemms:
            few = b.icmp_signed("<", emit.dim(product(op.dims[:-1])), I64(MOST_ROWS))
            long = b.and_(long, few)
        self.groups: Value = I32(0)
        pairs = self._pairs()
        for groups in (1, 2, 4):
            if groups > emit.threads // WARP:
                break
            need = sum(_floats(op) * groups for op in self.gemms)
            parts = max(-(-_groups(op) // groups) for op in self.gemms)
            fits = b.icmp_signed("<=", I32(need), room)
            enough = b.icmp_unsigned("<=", I32(parts), emit.blocks)
            # a block with many rows reads few weights for each, but all of the rows
            better = b.icmp_unsigned(">=", pairs, I32(2 * groups))
            better = b.or_(better, b.icmp_unsigned("==", self.groups, I32(0)))
            chosen = b.and_(b.and_(fits, enough), b.and_(better, long))
            self.groups = b.select(chosen, I32(groups), self.groups)
        self.holds = b.icmp_unsigned(">", self.groups, I32(0))
        two, four = (b.zext(b.icmp_unsigned(">", self.groups, I32(n)), I32) for n in (1, 2))
        self.shift = b.add(two, four)
        self._restrict()
        offset: Value = I32(0)
        for op in self.gemms:
            self.resident[op] = StationaryProduct(op, offset)
            mine = b.mul(self.groups, I32(_floats(op)))
            offset = b.add(offset, mine)
            self.shares[op] = TileShares(self, op)
        emit.gpu.block_wait()  # until nobody reads what lay there before
        with emit.when(self.holds):
            for op in self.gemms:
                self._load(op)
        emit.gpu.block_wait()
        if self.own_points is not None:
            self.own_points.begin(self.holds)
        if self.marked is not None:
            self._marks = self.marked.begin(emit, self.pointers, self.holds)

    def end(self) -> None:
        """All blocks meet again."""
        alone = self.own_points is not None or self.marked is not None
        if alone and not self.has_team:
            self.emit.together()  # in the loop blocks may have waited for themselves alone
        super().end()

    def together(self) -> None:
        """A wait; of a block for itself alone where rows are marked."""
        if self.marked is None:
            super().together()
            return
        with self.emit.b.if_else(self._marks) as (marked, plain):
            with marked:
                self.emit.together_in_blocks()
            with plain:
                super().together()

    def awaits(self, op: Gemm) -> Value | None:
        """Whether a product waits for words of its rows; None where it never does."""
        if self.marked is None or self.marked.gemm is not op:
            return None
        return self.emit.b.and_(self._marks, self.marked.is_behind_first(self.emit))

    def _quads(self, op: Gemm) -> Value:
        """A product's rows, `ROW_LANES` at a time."""
        b = self.emit.b
        rows = b.trunc(self.emit.dim(product(op.dims[:-1])), I32)
        return b.udiv(b.add(rows, I32(ROW_LANES - 1)), I32(ROW_LANES))

    def _pairs(self) -> Value:
        """How many pairs of a group and `ROW_LANES` rows a block has, of the largest product."""
        b, blocks, most = self.emit.b, self.emit.blocks, I32(0)
        for op in self.gemms:
            pairs = b.mul(I32(_groups(op)), self._quads(op))
            per_block = b.udiv(b.add(pairs, b.sub(blocks, I32(1))), blocks)
            most = b.select(b.icmp_unsigned(">", per_block, most), per_block, most)
        return most

    def _restrict(self) -> None:
        """Fewer blocks wait for each other where there is not work for all."""
        b = self.emit.b
        if not self.may_have_team:
            return
        needed: list[Value] = [I32(1)]
        for op in self.gemms:
            parts = self.parts(op)
            at_least_one = b.select(b.icmp_unsigned(">", parts, I32(0)), parts, I32(1))
            ranks, quads = b.udiv(self.emit.blocks, at_least_one), self._quads(op)
            few = b.select(b.icmp_unsigned("<", quads, ranks), quads, ranks)
            needed.append(b.mul(parts, few))
        self.begin_team(needed, self.holds)

    def parts(self, op: Gemm) -> Value:
        """How many blocks it takes to own all units."""
        b = self.emit.b
        last = b.sub(self.groups, I32(1))
        return b.lshr(b.add(I32(_groups(op)), last), self.shift)

    # Weights

    @property
    def weights(self) -> Pointer:
        """The first of them in shared memory: behind the rows."""
        return self.emit.at(Pointer(self.emit.gpu.shared(), "f32"), I64(STAGED))

    def _load(self, op: Gemm) -> None:
        """A block's groups of units: runs of k, slots, units, and k within the run."""
        emit, b = self.emit, self.emit.b
        source = DeviceWeights(emit, op, self.pointers[op.weights])
        slots, depth, runs = op.slots.data, op.depth.data, -(-op.depth.data // RUN)
        part = b.urem(emit.block, self.parts(op))
        first = b.zext(b.shl(part, self.shift), I64)
        target = emit.at(self.weights, b.zext(self.resident[op].offset, I64))
        count = b.mul(b.zext(self.groups, I64), I64(runs * slots * GROUP_UNITS))

        def four(i: Value) -> None:
            sizes = [I64(0), I64(runs), I64(slots), I64(GROUP_UNITS)]
            group, run, slot, lane = emit.unravel(i, sizes)
            unit = b.add(b.mul(b.add(first, group), I64(GROUP_UNITS)), lane)
            inside = b.icmp_signed("<", unit, I64(op.units))
            at, step = source.place(b.select(inside, unit, I64(op.units - 1)))
            values: list[Value] = []
            for k in range(RUN):
                number = b.add(b.mul(run, I64(RUN)), I64(k))
                safe = number
                if depth % RUN:
                    safe = b.select(b.icmp_signed("<", number, I64(depth)), number, I64(0))
                place = b.add(b.mul(safe, I64(slots)), slot)
                values.append(source.load(b.add(at, b.mul(place, step))))
            b.store(vector_of(b, values), emit.at(target, b.mul(i, I64(RUN))).base, align=16)

        emit.strided(emit.thread64, count, I64(emit.threads), four)

    # A step

    def write(self, gemm: Product) -> None:
        """The product in an iteration of the loop; by the plain code where weights are not held."""
        b, holds, dense = self.emit.b, self.holds, gemm.is_dense and gemm.is_one_run
        if dense:
            # A caller's rows are at multiples of 4 bytes; here they are read by fours.
            holds = b.and_(holds, gemm.aligned())
        with b.if_else(holds) as (resident, plain):
            with resident:
                if self.marked is not None:
                    gemm.posted = self.marked.posted
                StationaryStep(self, gemm, dense).write()
                gemm.posted = ()
            with plain:
                gemm.write()


@record
class StepLanes:
    """A lane's row of `ROW_LANES`; its unit, whether there is such a one, and its weights."""

    row: Value
    unit: Value
    own_unit: Value
    weights: Pointer


class StationaryStep:
    """One product in one iteration of the loop."""

    def __init__(self, around: Stationary, gemm: Product, dense: bool) -> None:
        self.around, self.gemm, self.emit, self.dense = around, gemm, around.emit, dense
        self.op, self.slots = gemm.op, gemm.slots
        emit, b = self.emit, self.emit.b
        resident = around.resident[gemm.op]
        weights = emit.at(around.weights, b.zext(resident.offset, I64))
        self.warp = b.lshr(emit.thread, I32(5))
        self.group = b.and_(self.warp, b.sub(around.groups, I32(1)))
        self.band = b.lshr(self.warp, around.shift)
        runs = -(-gemm.depth // RUN)
        first = b.mul(self.group, I32(runs * self.slots * GROUP_UNITS * RUN))
        self.weights = emit.at(weights, b.zext(first, I64))
        self.staged = Pointer(emit.gpu.shared(), "f32")
        self.count = b.trunc(gemm.rows.count, I32)
        self.shares = around.shares[gemm.op].of(self.count)
        self.awaits = around.awaits(gemm.op)

    def lanes(self) -> StepLanes:
        """What this lane has."""
        emit, b = self.emit, self.emit.b
        row, place = lane_place(emit, b.and_(emit.thread, I32(WARP - 1)))
        own = b.add(b.mul(self.group, I32(GROUP_UNITS)), place)
        unit = b.add(self.shares.first_unit, own)
        own = b.icmp_unsigned("<", unit, I32(self.gemm.units))
        safe = b.zext(b.select(own, unit, I32(self.gemm.units - 1)), I64)
        weights = emit.at(self.weights, b.zext(b.mul(place, I32(RUN)), I64))
        return StepLanes(row, safe, own, weights)

    def write(self) -> None:
        """Tiles of rows, as high as there are rows for."""
        with self.emit.when(self.shares.active):
            self._choose(self.shares.heights)

    def _choose(self, heights: Sequence[Height]) -> None:
        height, *others = heights
        if not others:
            self._tiles(height)
            return
        with self.emit.b.if_else(self.shares.takes(height)) as (taken, lower):
            with taken:
                self._tiles(height)
            with lower:
                self._choose(others)

    def _tiles(self, height: Height) -> None:
        """Tiles of so many rows a lane; the fewer rows there are, the more k at a time."""
        emit, b, shares = self.emit, self.emit.b, self.shares
        log = shares.log(height)
        tile = b.shl(I32(1), log)
        runs = b.sub(I32((height.copied * emit.threads).bit_length() - 1), log)
        first, step = b.mul(shares.rank, tile), b.mul(shares.ranks, tile)

        def one(start: Value) -> None:
            StagedTile(self, height, b.trunc(start, I32), tile, runs).write()

        wide = [b.zext(v, I64) for v in (first, self.count, step)]
        emit.strided(wide[0], wide[1], wide[2], one)


def _groups(op: Gemm) -> int:
    """Groups of units, the last one perhaps not full."""
    return -(-op.units // GROUP_UNITS)


def _floats(op: Gemm) -> int:
    """Weights of a group."""
    return -(-op.depth.data // RUN) * RUN * op.slots.data * GROUP_UNITS
