"""This machine: its caches, and the ceilings of its arithmetic and of its reads, measured."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, field
from math import exp, log
from pathlib import Path
from typing import Any

from rnncc_runtime.memory import Memory

from rnncc.bench.probes import MATRICES, block_bytes, probes
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.records import record

CACHES = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
"""Where the system tells nothing."""
MOST_MEMORY = 256 << 20
"""Of the block that is read from memory."""
SECONDS = 0.02
ROUNDS = 3


@record
class Ceilings:
    """What can be done in a second.

    Attributes:
        lanes: floats of a vector.
        caches: bytes of each level, from the core outwards.
        flops: of multiply-adds, by element type.
        reads: bytes of a block, and bytes read a second where such a block is read again and again.
        cores: how many work at the same time; all figures are of all together.
        mixed: vector instructions a second of which every other one is an addition; 0: as many as
            multiply-adds.
    """

    lanes: int
    caches: dict[str, int]
    flops: dict[str, float]
    reads: list[tuple[int, float]]
    cores: int = 1
    mixed: float = 0.0

    @property
    def multiplied(self) -> float:
        """Vector instructions a second that multiply floats."""
        return self.flops["f32"] / (2 * self.lanes)

    @property
    def computed(self) -> float:
        """Vector instructions of any kind a second."""
        return max(self.mixed, self.multiplied)

    def rate(self, dtype: str) -> float:
        """Of products with weights of an element type: as f32, where no instruction is faster."""
        names = (dtype, dtype + MATRICES)
        return max(self.flops["f32"], *(self.flops.get(name, 0.0) for name in names))

    @property
    def quick_bf16(self) -> bool | None:
        """Whether the instruction for bf16 is as fast as f32; None where there is none."""
        return self.flops["bf16"] >= self.flops["f32"] if "bf16" in self.flops else None

    def bandwidth(self, footprint: int) -> float:
        """Bytes a second for a block of that size: between the measured sizes on a straight line
        of logarithms."""
        sizes = [size for size, _ in self.reads]
        place = bisect_left(sizes, footprint)
        if place in (0, len(sizes)):
            return self.reads[min(place, len(sizes) - 1)][1]
        (small, fast), (large, slow) = self.reads[place - 1 : place + 1]
        share = log(footprint / small) / log(large / small)
        return exp(log(fast) + share * (log(slow) - log(fast)))

    def level(self, footprint: int) -> str:
        """The first level that holds so many bytes, or `memory`."""
        return next((n for n, size in self.caches.items() if footprint <= size), "memory")

    @property
    def levels(self) -> dict[str, float]:
        """Bytes a second from each level, each read in blocks well inside of it."""
        bandwidths, below = dict[str, float](), 0
        for name, size in self.caches.items():
            bandwidths[name], below = self.bandwidth(max(size // 2, min(2 * below, size))), size
        return {**bandwidths, "memory": self.reads[-1][1]}

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "levels": self.levels}


@record
class Measuring:
    """How ceilings are measured.

    Attributes:
        seconds, rounds: of each figure; the best round counts.
        memory: bytes of the largest block.
        report: is called with what is measured next.
    """

    seconds: float = SECONDS
    rounds: int = ROUNDS
    memory: int = MOST_MEMORY
    report: Callable[[str], object] = field(default=lambda what: None)


def measure(cores: Sequence[int], how: Measuring | None = None) -> Ceilings:
    """The ceilings of some cores that work at the same time, each on a block of its own.

    The threads that measure are pinned; the caller's is left alone.
    """
    how = how or Measuring()
    target, caches = resolve_target(), find_caches()
    largest = min(how.memory, 4 * caches.get("L3", max(caches.values())))
    sizes = [size for size in block_sizes(largest) if size % block_bytes(target) == 0]
    with ThreadPoolExecutor(len(cores)) as pool:
        futures = [pool.submit(_measure_core, core, target, sizes, how) for core in cores]
        measured = [one.result() for one in futures]
    reads = [(size, sum(read[i] for _, _, read in measured)) for i, size in enumerate(sizes)]
    rates = {dtype: sum(rate[dtype] for rate, _, _ in measured) for dtype in measured[0][0]}
    mixed = sum(one for _, one, _ in measured)
    return Ceilings(target.lanes, caches, rates, reads, len(cores), mixed)


def block_sizes(largest: int) -> list[int]:
    """Sizes from 8 KB up, two for each doubling."""
    sizes = [8192]
    while sizes[-1] < largest:
        last = sizes[-1]
        sizes.append(last * 3 // 2 if last & (last - 1) == 0 else last * 4 // 3)
    return sizes


def find_caches() -> dict[str, int]:
    """Bytes of each cache that holds data, as Linux tells them."""
    caches: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = (
                (folder / name).read_text().strip() for name in ("type", "level", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            caches[f"L{level}"] = int(size[:-1]) << 10
    return caches or dict(CACHES)


def _measure_core(
    core: int, target: CpuTarget, sizes: Sequence[int], how: Measuring
) -> tuple[dict[str, float], float, list[float]]:
    """Multiply-adds, mixed arithmetic and reads of one core, by the thread that this runs in."""
    os.sched_setaffinity(0, {core})
    code = probes(target)
    how.report("multiply-adds")
    rates = {dtype: code.flops(dtype) * _rate(f, how) for dtype, f in code.arithmetic.items()}
    mixed = code.instructions * _rate(code.mixed, how)
    block = Memory(sizes[-1])
    block.bytes[:] = 0
    bandwidths: list[float] = []
    for size in sizes:
        how.report(f"reads of {size >> 10} KB")
        blocks = size // block_bytes(target)
        once = _rate(lambda n, blocks=blocks: code.read(block.address, blocks, n), how)
        twice = _rate(lambda n, blocks=blocks: code.there_and_back(block.address, blocks, n), how)
        bandwidths.append(size * max(once, 2 * twice))
    return rates, mixed, bandwidths


def _rate(work: Callable[[int], object], how: Measuring) -> float:
    """Iterations a second of the best round."""
    iterations, seconds = 1, _seconds(work, 1)
    while seconds < how.seconds / 4:
        iterations = max(iterations * 2, int(iterations * how.seconds / max(seconds, 1e-7) / 2))
        seconds = _seconds(work, iterations)
    return iterations / min(seconds, *(_seconds(work, iterations) for _ in range(how.rounds)))


def _seconds(work: Callable[[int], object], iterations: int) -> float:
    start = time.perf_counter()
    work(iterations)
    return time.perf_counter() - start


def cpu_name() -> str:
    """What the system calls the CPU, and what LLVM does: `AMD EPYC (znver4)`."""
    kind = resolve_target().cpu
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return kind
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0]} ({kind})" if models else kind
