"""The pipelines and caches that code for a CPU is sized by, by LLVM's CPU names.

Figures are those that the makers publish (Intel's and AMD's optimisation manuals, Arm's software
optimisation guides), or that uops.info and Agner Fog's instruction tables measured. A CPU that is
not listed has the figures of `USUAL`, which suit any of recent years. `rnncc bench --roofline
--write` measures those of this machine, which `measured.py` then takes in their place.
"""

from __future__ import annotations

from rnncc.records import record

KIB, MIB = 1 << 10, 1 << 20


@record
class Family:
    """A kind of core.

    Attributes:
        fma_units: multiply-adds of the longest vectors that begin in a cycle.
        fma_latency: cycles until the sum may be added to.
        l1, l2: bytes of data in the core's own caches; of a cache that cores share, its share.
        l2_read: bytes that the second-level cache gives in a cycle.
        l2_streams: panels that it gives side by side as fast as one after another.
        quick_bf16: whether an instruction that adds two products of bf16 to each sum takes no
            longer than the two multiply-adds of float32 that it stands for.
        amx: whether it has instructions that multiply matrices.
        ahead: bytes ahead of their use that weights are fetched into the first-level cache; 0
            where it is enough that the next panel is fetched into the second.
        tall: rows of the highest tiles, of panels that do not stay in the first-level cache; 0
            where they gain nothing. With registers for half of a panel at a time, eight rows read
            it once, where two tiles of four read it twice.
        far: bytes of a product's weights that do not stay near the core, so that they are worth
            more rows at a time, `far_rows` at least.
    """

    fma_units: int
    fma_latency: int
    l1: int
    l2: int
    l2_read: int = 32
    l2_streams: int = 2
    quick_bf16: bool = True
    amx: bool = False
    ahead: int = 0
    tall: int = 0
    far: int = 2 * MIB
    far_rows: int = 96

    @property
    def chains(self) -> int:
        """Independent sums that keep the units busy while weights arrive.

        Eight at least: fewer that wait for the second-level cache leave units idle, even where an
        instruction takes four cycles and one begins in each (Zen 4 with vectors of 512 bits).
        """
        return max(8, self.fma_units * self.fma_latency)

    @property
    def near(self) -> int:
        """Bytes that intermediate results should stay within; rows computed ahead take half.

        A quarter of the second-level cache, as weights pass through the rest. Where that is less
        than 256 KiB weights come from farther away, and fewer rows a pass would cost more than
        rows that leave the cache.
        """
        return min(max(self.l2 // 4, 256 * KIB), 512 * KIB)


USUAL = Family(2, 4, 32 * KIB, 1 * MIB)

# A panel comes from the second-level cache at 0.9 of what it does from the first, with its lines
# fetched 2 KB ahead (0.8 without), and what leaves that cache comes at some 15 GB/s. It holds the
# weights of a step or those of the rows ahead, not both.
_GOLDEN_COVE = Family(
    fma_units=2,
    fma_latency=4,
    l1=48 * KIB,
    l2=2 * MIB,
    l2_read=64,
    quick_bf16=False,
    amx=True,
    ahead=2 * KIB,
    far=768 * KIB,
    far_rows=192,
)

_ROWS = {
    # Intel, vectors of 256 bits
    "haswell broadwell core-avx2": Family(2, 5, 32 * KIB, 256 * KIB),
    "skylake": Family(2, 4, 32 * KIB, 256 * KIB),
    "alderlake": Family(2, 4, 48 * KIB, 1280 * KIB),
    "raptorlake meteorlake": Family(2, 4, 48 * KIB, 2 * MIB),
    "arrowlake arrowlake-s lunarlake": Family(2, 4, 48 * KIB, 2560 * KIB),
    "gracemont sierraforest grandridge": Family(1, 6, 32 * KIB, 512 * KIB),
    # Intel, vectors of 512 bits: notebooks have one unit for them, servers two
    "cannonlake icelake-client rocketlake": Family(1, 4, 48 * KIB, 512 * KIB),
    "tigerlake": Family(1, 4, 48 * KIB, 1280 * KIB),
    "skx skylake-avx512 cascadelake": Family(2, 4, 32 * KIB, 1 * MIB, 64),
    # vdpbf16ps: an Emerald Rapids does 81 to 87 GFLOP/s with it, and 172 to 181 with float32
    "cooperlake": Family(2, 4, 32 * KIB, 1 * MIB, 64, quick_bf16=False),
    "icelake-server": Family(2, 4, 48 * KIB, 1280 * KIB, 64),
    "sapphirerapids emeraldrapids graniterapids graniterapids-d": _GOLDEN_COVE,
    # AMD; Zen 4 takes two cycles for vectors of 512 bits
    "znver1": Family(1, 5, 32 * KIB, 512 * KIB),
    "znver2": Family(2, 5, 32 * KIB, 512 * KIB),
    "znver3": Family(2, 4, 32 * KIB, 512 * KIB, ahead=KIB),
    "znver4": Family(1, 4, 32 * KIB, 1 * MIB),
    # A GRU's step that reads two panels side by side takes 1.2 to 1.3 times as long.
    "znver5": Family(
        *(2, 4, 48 * KIB, 1 * MIB), l2_read=57, l2_streams=1, ahead=KIB, tall=8, far=768 * KIB
    ),
    # Arm, vectors of 128 bits
    "cortex-a72 cortex-a73 cortex-a75": Family(1, 7, 32 * KIB, 256 * KIB),
    "cortex-a76 cortex-a76ae cortex-a77": Family(2, 4, 64 * KIB, 256 * KIB),
    "cortex-a78 cortex-a78ae cortex-a78c": Family(2, 4, 64 * KIB, 512 * KIB),
    "cortex-a710 cortex-a715 cortex-a720 cortex-a725": Family(2, 4, 64 * KIB, 512 * KIB),
    "cortex-x1 cortex-x1c cortex-x2 cortex-x3": Family(4, 4, 64 * KIB, 1 * MIB),
    "cortex-x4 cortex-x925": Family(4, 4, 64 * KIB, 2 * MIB),
    "neoverse-n1": Family(2, 4, 64 * KIB, 1 * MIB),
    "neoverse-n2 neoverse-n3 cobalt-100": Family(2, 4, 64 * KIB, 1 * MIB),
    "neoverse-v1 neoverse-512tvb": Family(4, 4, 64 * KIB, 1 * MIB),
    "neoverse-v2": Family(4, 4, 64 * KIB, 2 * MIB),
    "neoverse-v3 neoverse-v3ae": Family(4, 4, 64 * KIB, 2 * MIB),
    "ampere1 ampere1a ampere1b": Family(2, 4, 64 * KIB, 2 * MIB),
    "a64fx": Family(2, 9, 64 * KIB, 640 * KIB),
    # Apple: four cores of a cluster share the second-level cache
    "apple-m1 apple-a14": Family(4, 4, 128 * KIB, 3 * MIB),
    "apple-m2 apple-m3 apple-m4 apple-a15 apple-a16": Family(4, 4, 128 * KIB, 4 * MIB),
}
FAMILIES = {name: family for names, family in _ROWS.items() for name in names.split()}
"""By LLVM's name of a CPU."""


FIRST_WITH_AMX = "sapphirerapids"


def family_of(cpu: str, has_amx: bool = False) -> Family:
    """The kind of core that a CPU has; arguments as for `tuned_for`."""
    return FAMILIES.get(tuned_for(cpu, has_amx) or cpu, USUAL)


def tuned_for(cpu: str, has_amx: bool) -> str:
    """The CPU whose figures code has where that is not the one that LLVM names; else empty.

    Args:
        cpu: LLVM's name.
        has_amx: whether it multiplies matrices, as Intel's servers do alone. A virtual machine may
            tell another model's number: one with AMX said that it was a Rocket Lake.
    """
    return FIRST_WITH_AMX if has_amx and not FAMILIES.get(cpu, USUAL).amx else ""
