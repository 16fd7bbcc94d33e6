"""Products of a loop's body by tensor cores, whose bf16 weights stay in registers.

A block owns some units of each product, with all their slots, and a warp of it a part of k, an
eighth: the fragments of A that it needs in every iteration stay in its threads' registers. An
iteration is

    rows of a, rounded to bf16 -> shared memory -> sums of each part -> shared memory -> the body

A sum is eight chains, one a part of k, which are added in order: no bit of a row depends on the
rows beside it, on the blocks there are or on how long the loop is. Where blocks or registers do not
do for all units, weights come from device memory in each iteration, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import I1, I32, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.exchanges.pairs import paired
from rnncc.codegen.nvptx.exchanges.rows import Exchange, handed_on
from rnncc.codegen.nvptx.fragments import (
    COLUMNS,
    QUAD,
    SIDE,
    Groups,
    Lane,
    WeightWords,
    is_low,
)
from rnncc.codegen.nvptx.gemm import DeviceWeights, Product
from rnncc.codegen.nvptx.held import HeldLoop, Shares
from rnncc.codegen.nvptx.limits import WARP
from rnncc.codegen.nvptx.tensor_cores.pair import PairLoop, RowPointer
from rnncc.codegen.nvptx.tensor_cores.product import (
    PARTS,
    Fragment,
    Source,
    StepMemory,
    TensorProduct,
    deep,
)
from rnncc.codegen.nvptx.tensor_cores.step import TensorStep
from rnncc.ir.dims import product
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Gemm, Map

MOST_TILES = 4
"""Of 16 rows of A of a block."""
MOST_HELD = 128
"""Registers of a thread for weights."""
MOST_LOADED = 16
"""Runs of rows that a thread reads before it writes the first."""
MOST_USED = 140
"""Registers for them and for weights, that the rest of the code fits beside."""
MOST_DEPTH = 4096
"""Eight rows that are deeper do not fit into the shared memory that all chips have."""


class TensorLoop(HeldLoop):
    """What holds while one loop runs."""

    def __init__(
        self,
        emit: GpuEmit,
        loop: For,
        gemms: Sequence[Gemm],
        pointers: dict[SSAValue, Pointer],
        row: RowPointer,
    ) -> None:
        super().__init__(emit, loop, gemms, pointers)
        self.lane = Lane(emit)
        out, pair = handed_on(loop, gemms), paired(loop, gemms, "bf16")
        # Blocks of a pair have all k of few units: the fewer, the less is done behind a wait.
        tiles = MOST_TILES if pair is None else 1
        self.resident = dict(zip(gemms, _chosen(emit, gemms, tiles), strict=True))
        self.exchange: Exchange | None = None
        if out is not None and gemms[0].room is not None:
            self.exchange = Exchange(emit, gemms[0], out, pointers[gemms[0].room])
        self.pair: PairLoop | None = None
        if pair is not None:
            self.pair = PairLoop(self, pair, self.resident[gemms[0]], row)

    @staticmethod
    def products(loop: For, threads: int) -> list[Gemm]:
        """The products of a loop's body that are computed so."""
        # Each warp has equally many of the eight parts of k.
        if (threads // WARP) not in (1, 2, 4, 8):
            return []
        steady = HeldLoop.steady(loop)
        return [op for op in steady if is_low(op) and op.depth.data <= MOST_DEPTH]

    def most_shared(self) -> int:
        """Bytes of shared memory that the products have use for."""
        return max(StepMemory(self.emit, resident).bytes for resident in self.resident.values())

    @property
    def most_loaded(self) -> int:
        """Runs of rows that a thread reads at once."""
        used = sum(
            resident.registers for resident in self.resident.values() if resident.fits is not None
        )
        return min(MOST_LOADED, (MOST_USED - used) // QUAD)

    # The loop's beginning and end

    def begin(self) -> None:
        """Read weights, and choose who computes."""
        b = self.emit.b
        total = 0
        for resident in self.resident.values():
            total += resident.registers
            if total <= MOST_HELD:
                resident.fits = b.icmp_unsigned("<=", I32(resident.blocks), self.emit.blocks)
                self._load(resident)
        self._restrict()
        if self.pair is not None:
            op, resident = self.pair.pair.gemm, self.pair.resident
            resident.shares = Shares(self.emit, op, I32(resident.blocks))
        words = self.exchange or self.pair
        if words is not None:
            [resident] = self.resident.values()
            words.begin(I1(0) if resident.fits is None else resident.fits)

    def _load(self, resident: TensorProduct) -> None:
        part = self.emit.b.urem(self.emit.block, I32(resident.blocks))
        source = self.from_memory(resident, part)
        resident.fragments = {
            (r, m, k): source(r, m, I32(k))
            for r in range(resident.rounds)
            for m in range(resident.groups.tiles)
            for k in range(deep(resident.op.depth.data))
        }

    def from_memory(self, resident: TensorProduct, part: Value) -> Source:
        """Fragments of a block's units, read when they are asked for."""
        emit, b = self.emit, self.emit.b
        weights = DeviceWeights(emit, resident.op, self.pointers[resident.op.weights])
        words = WeightWords(emit, resident.op, weights, b.mul(part, I32(resident.groups.units)))
        count = deep(resident.op.depth.data)
        sure = count * PARTS * SIDE == resident.op.depth.data

        def fragment(round_: int, tile: int, k: Value) -> Fragment:
            first = b.mul(self.part(round_), I32(count))
            return words.fragment(self.lane, tile, b.add(first, k), sure)

        return fragment

    def part(self, round_: int) -> Value:
        """The part of k that this warp has in a round."""
        return self.emit.b.add(self.lane.warp, I32(round_ * (self.emit.threads // WARP)))

    def _restrict(self) -> None:
        """Fewer blocks wait for each other where there is not work for all."""
        b = self.emit.b
        fits = [resident.fits for resident in self.resident.values()]
        if not self.may_have_team or any(fit is None for fit in fits):
            return
        needed: list[Value] = [I32(1)]
        for resident in self.resident.values():
            rows = b.trunc(self.emit.dim(product(resident.op.dims[:-1])), I32)
            tiles = b.lshr(b.add(rows, I32(COLUMNS - 1)), I32(3))
            needed.append(b.mul(I32(resident.blocks), tiles))
        self.begin_team(needed, reduce(b.and_, fits))

    def end(self) -> None:
        """All blocks meet again."""
        if (self.exchange or self.pair) is not None and not self.has_team:
            # In the loop nobody has waited; what follows may read what other blocks wrote.
            self.emit.together()
        super().end()

    def together(self) -> None:
        """Behind a product: a wait, where rows are not handed on otherwise."""
        words = self.exchange or self.pair
        if words is None:
            self.emit.together()
            return
        with self.emit.when(self.emit.b.not_(words.on)):
            self.emit.together()

    # An iteration

    def write_map(self, op: Map, plain: Callable[[], None]) -> None:
        """A map in an iteration; that of a pair runs with its product, where rows are handed on."""
        if self.pair is None or self.pair.pair.map is not op:
            plain()
            return
        with self.emit.when(self.emit.b.not_(self.pair.on)):
            plain()

    def write(self, gemm: Product) -> None:
        """The product in an iteration of the loop."""
        self.emit.gpu.block_wait()  # until nobody reads what lies in shared memory
        if self.pair is None:
            self._write(gemm)
            return
        with self.emit.b.if_else(self.pair.on) as (handed, stored):
            with handed:
                self.pair.write(gemm)
            with stored:
                self._write(gemm)

    def _write(self, gemm: Product) -> None:
        b, resident = self.emit.b, self.resident[gemm.op]
        if resident.fits is None:
            TensorStep(self, gemm, resident).from_memory()
            return
        with b.if_else(resident.fits) as (fits, plain):
            with fits:
                TensorStep(self, gemm, resident).from_registers()
            with plain:
                TensorStep(self, gemm, resident).from_memory()
        if self.exchange is not None:
            self.exchange.next_iteration()


def _chosen(emit: GpuEmit, gemms: Sequence[Gemm], most: int) -> list[TensorProduct]:
    """Units of a block, for each product: fewer where registers do not do for all."""
    rounds = PARTS // (emit.threads // WARP)
    chosen: list[TensorProduct] = []
    for tiles in sorted({most, max(1, most // 2), 1}, reverse=True):
        chosen = []
        for op in gemms:
            least = Groups.least(op.slots.data)
            chosen.append(TensorProduct(op, least.times(max(1, tiles // least.tiles)), rounds))
        if sum(resident.registers for resident in chosen) <= MOST_HELD:
            break
    return chosen
