"""A core as code is written for it: its vectors, and how weights and scratch lie for them."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Self

from rnncc.codegen.cpu.machine.families import USUAL
from rnncc.codegen.cpu.machine.features import needed
from rnncc.platforms import LINE, architecture_of
from rnncc.records import record

MIN_ROWS, MAX_ROWS = 12, 192
"""Bounds on how many rows of a hoisted product are computed ahead of the steps that use them."""

PANELS = {True: (4, 2, 1), False: (2, 1, 2)}
"""Whether there are 32 registers -> vectors of each slot in a panel, of 1, 2 or 3 slots; more slots
have one."""

AMX = {"u8": "amx-int8", "bf16": "amx-bf16"}
"""Types of packed weights -> the extension that multiplies matrices of them."""
TILE_WORDS = 16
"""Words of a row, and of packed weights, that an instruction for matrices takes."""

_WITHOUT_ROUNDING = {
    "armv7": {"f32", "f64"},
    "thumbv7em": {"f32", "f64"},
    "thumbv8m.main": {"f64"},
    "riscv32": {"f32", "f64"},
}
"""Architectures -> element types that no instruction rounds to integers."""

WIDE = 6
"""Vectors of a panel of three slots that one row reads alone, where narrow ones side by side take
longer."""

MOST_VECTORS = 16
"""Of a panel: tiles keep their sums on the stack."""


@record
class Core:
    """A CPU to generate code for.

    Attributes:
        triple, cpu, features: as LLVM names them.
        tuned: the CPU whose figures it has, where that is not `cpu` (`families.tuned_for`).
        lanes: elements of a vector register.
        item: bytes of such an element: those of a float32, but for what `of` gives.
        registers: vector registers.
        fma: whether it multiplies and adds in one rounding.
        byte_dot: whether it adds four products of bytes to a sum in one instruction (VNNI, dot
            products of AArch64).
        bf16_dot: whether it adds two products of bf16 to a sum in one instruction, which takes
            no longer than the two multiply-adds of float32 that it stands for.
        tiles: types of packed weights that it multiplies as matrices, 16 rows of 64 bytes at a
            time (AMX).
        cache: bytes that intermediate results should stay within, next to the core.
        l1: bytes of the first-level cache.
        l2_read: bytes that the second-level cache gives in a cycle.
        l2_streams, tall: as `Family` has them.
        ahead: bytes ahead of their use that weights are fetched into it, as `Family` has it.
        far, far_rows: weights that are worth more rows at a time, as `Family` has them.
        vectors: of a panel of weights, over all slots; 0 for as many as suit the registers.
        chains: independent sums that keep the multiply-add units busy when there is one row.
        compact: whether code is to be small, as `Platform` has it: kernels are written once, for a
            row at a time, functions of elements stand apart, and nothing is computed ahead.
    """

    triple: str
    cpu: str
    features: str
    lanes: int
    registers: int
    fma: bool
    byte_dot: bool = False
    bf16_dot: bool = False
    tiles: tuple[str, ...] = ()
    cache: int = USUAL.near
    l1: int = USUAL.l1
    l2_read: int = USUAL.l2_read
    l2_streams: int = USUAL.l2_streams
    tall: int = USUAL.tall
    ahead: int = USUAL.ahead
    far: int = USUAL.far
    far_rows: int = USUAL.far_rows
    vectors: int = 0
    chains: int = USUAL.chains
    item: int = 4
    compact: bool = False
    tuned: str = ""

    @property
    def architecture(self) -> str:
        """Such as x86_64, aarch64 or thumbv7em."""
        return architecture_of(self.triple)

    @property
    def flushes(self) -> bool:
        """NEON of ARMv7 and Helium do. What is left of a row is computed element by element, which
        would keep denormals in the usual mode, so that bits would depend on the row's length."""
        return self.lanes > 1 and self.architecture.startswith(("arm", "thumb"))

    @property
    def extensions(self) -> list[str]:
        return needed(self)

    @property
    def scales(self) -> bool:
        """Whether it multiplies a vector by powers of two in one instruction: AVX-512 does."""
        return self.architecture == "x86_64" and self.lanes * self.item == 64

    @property
    def rounds(self) -> frozenset[str]:
        """Types of elements that it rounds to integers by instructions."""
        lacking = _WITHOUT_ROUNDING.get(self.architecture, set())
        return frozenset({"f32", "f64"} - (lacking if self.cpu != "cortex-m7" else set()))

    @property
    def converts_halves(self) -> bool:
        """Whether there are instructions from and to float16, of vectors too."""
        return self.architecture == "x86_64" and "f16c" in self.extensions

    def in_tiles(self, dtype: str, depth: int) -> bool:
        """Whether products of such a depth by packed weights of a type are those of matrices."""
        from rnncc.kern.packing import GROUP

        return dtype in self.tiles and depth >= TILE_WORDS * GROUP[dtype]

    def rounds_rows(self, depth: int) -> bool:
        """Whether rows of a product become bf16 to meet weights of bf16."""
        return self.bf16_dot or self.in_tiles("bf16", depth)

    @property
    def lane_counts(self) -> list[int]:
        """How long vectors may be."""
        return [count for count in (4, 8, 16) if count < self.lanes] + [self.lanes]

    def lanes_for(self, count: int) -> int:
        """The shortest vectors that hold so many elements, or the longest there are.

        What is stored under a mask reaches a later load only through the cache.
        """
        return next((lanes for lanes in self.lane_counts if lanes >= count), self.lanes)

    def tile(self, vectors: int) -> tuple[int, int]:
        """Rows and vectors of a register tile, whose sums take three quarters of the registers.

        Args:
            vectors: of a panel, over all slots.
        """
        if self.registers >= 32:
            return (8, 3) if vectors == WIDE else (6, 4)
        return (4, 3) if vectors == 3 else (6, 2)

    def _fills_tiles(self, vectors: int) -> bool:
        return vectors % self.tile(vectors)[1] == 0

    # Layouts

    def of(self, dtype: str) -> Self:
        """With vectors of doubles, half as many lanes."""
        return replace(self, lanes=max(1, self.lanes // 2), item=8) if dtype == "f64" else self

    @property
    def slack(self) -> int:
        """A vector: the last panel may be narrower than what is loaded of it."""
        return self.lanes

    def panel(self, slots: int, units: int, dtype: str, depth: int) -> int:
        """About `vectors` vectors over all slots; else whole tiles where few slots allow it."""
        from rnncc.kern.packing import GROUP

        usual = PANELS[self.registers >= 32]
        # So that a panel's vectors, over all slots, are whole tiles.
        vectors = usual[slots - 1] if slots <= len(usual) else 1
        whole = slots * vectors * self.lanes * self.item * depth
        if GROUP[dtype] == 1 and whole > self.l1:
            # Rows that follow would not find it in the cache: fewer vectors, if they are whole
            # tiles too, as three slots of one vector each are with 16 registers. (Weights of fewer
            # bits stay there, and to widen or add them up takes registers.)
            vectors = next((n for n in range(1, vectors) if self._fills_tiles(slots * n)), vectors)
        if slots * 2 == WIDE and self._is_better_wide(
            slots * units, dtype, -(-depth // GROUP[dtype])
        ):
            vectors = 2
        if self.vectors:
            # A setting that `--tune` tries.
            vectors = max(1, min(self.vectors, MOST_VECTORS) // slots)
        return self.lanes * min(vectors, -(-units // self.lanes))

    def _is_better_wide(self, columns: int, dtype: str, words: int) -> bool:
        """Whether panels are of `WIDE` vectors, not of half as many: their weights come from the
        second-level cache, in order, for as many sums as a row needs at once; and the halves that
        several rows take stay near the first-level cache, which weights of 400 units do not (GRU
        128, a step: 2.1 to 1.9 us, of u8 0.80 to 0.64; 512, B = 5: 3.2 to 3.5 ms)."""
        # Of bf16 a step is 0.86 of it, and 5 rows or more 1.1.
        if self.l2_streams > 1 or self.registers < 32 or dtype == "bf16":
            return False
        of_column = words * self.item
        return columns * of_column >= self.l1 and WIDE * self.lanes * of_column <= 2 * self.l1

    def stripe(self, slots: int, panel: int) -> int:
        """Those of the vectors that all passes over a panel take some of, where it has more than a
        tile: their loops over k then read memory in order (LSTM 256 with 16 registers, B = 16: 10.0
        to 9.5 ms)."""
        if self.compact:
            return 0  # rows come one by one, and read all of it
        vectors = slots * panel // self.lanes
        if self.l2_streams == 1 and vectors == WIDE:
            return slots * panel
        passes = [n for n in range(self.tile(vectors)[1], vectors + 1) if vectors % n == 0]
        return self.lanes * gcd(*passes)

    def weights_dtype(self, precision: str) -> str:
        """u8 where one instruction multiplies unsigned by signed bytes."""
        int8 = "u8" if self.byte_dot else "i8"
        return {"fp32": "f32", "bf16": "bf16", "int8": int8}[precision]

    @property
    def packs_bf16(self) -> bool:
        return False

    @property
    def byte_products(self) -> bool:
        return True

    @property
    def waits_are_dear(self) -> bool:
        return False

    @property
    def reads_windows(self) -> bool:
        return True

    @property
    def line(self) -> int:
        """Of the cache; without one, the longest element's."""
        return 8 if self.compact else LINE

    def rows_ahead(self, width: int, weights: int) -> int:
        """As many as stay in half of the cache, in whole tiles."""
        if self.compact:
            return 1
        # 12 rows are two whole tiles; the other half of the cache is for what the steps read.
        fit = self.cache // 2 // (4 * max(width, 1))
        # Far weights are read for each chunk, and drive those of the steps out.
        least = self.far_rows if weights > self.far else MIN_ROWS
        return min(max(fit // 12 * 12, least), MAX_ROWS)
