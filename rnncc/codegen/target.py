"""What the lowering and the code generator need to know of a machine."""

from __future__ import annotations

from dataclasses import dataclass

TUNABLE = ("cache", "vectors", "chains")
"""Fields that change how fast code is, and no bit of its results."""


def architecture_of(triple: str) -> str:
    """The first word of a triple, arm64 being another name of aarch64."""
    name = triple.split("-")[0]
    return "aarch64" if name == "arm64" else name


@dataclass(frozen=True)
class Target:
    """A machine to generate code for.

    Attributes:
        triple, cpu, features: as LLVM names them.
        lanes: float32 elements of a vector register.
        registers: vector registers.
        fma: whether it multiplies and adds in one rounding.
        byte_dot: whether it adds four products of bytes to a sum in one instruction (VNNI).
        bf16_dot: whether it adds two products of bf16 to a sum in one instruction.
        cache: bytes of the cache next to the core that intermediate results should stay in.
        vectors: of sums that a register tile has for one row, over all slots.
        chains: independent sums that keep the multiply-add units busy when there is one row.
    """

    triple: str
    cpu: str
    features: str
    lanes: int
    registers: int
    fma: bool
    byte_dot: bool = False
    bf16_dot: bool = False
    cache: int = 256 * 1024
    vectors: int = 4
    chains: int = 8

    @property
    def architecture(self) -> str:
        """x86_64 or aarch64."""
        return architecture_of(self.triple)

    def panel(self, slots: int, units: int) -> int:
        """How many units a panel of packed weights holds: about `vectors` over all slots."""
        vectors = max(1, self.vectors // slots)
        return self.lanes * min(vectors, -(-units // self.lanes))

    @property
    def lane_counts(self) -> list[int]:
        """How long vectors may be."""
        return [count for count in (4, 8, 16) if count < self.lanes] + [self.lanes]

    def lanes_for(self, count: int) -> int:
        """The shortest vectors that hold so many elements, or the longest there are.

        What is stored under a mask reaches a later load only through the cache.
        """
        return next((lanes for lanes in self.lane_counts if lanes >= count), self.lanes)

    @property
    def tile_rows(self) -> int:
        """Rows of a register tile that is four vectors wide."""
        return 6 if self.registers >= 32 else 3
