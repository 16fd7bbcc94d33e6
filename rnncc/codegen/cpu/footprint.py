"""What a library takes of a CPU, for `rnncc plan`: bytes of flash, cycles of a step."""

from __future__ import annotations

from collections.abc import Callable

from rnncc.codegen.cpu.cycles import TIMED, step_cycles
from rnncc.codegen.llvm.sections import parts_of
from rnncc.codegen.target import CodeFootprint, Target
from rnncc.kern.library import Library


def footprint(
    target: Target, library: Library, product: bytes, assembly: Callable[[], str]
) -> CodeFootprint:
    """Of an object; cycles of a stream's step, where the CPU's timings are known."""
    parts, cycles = parts_of(product), dict[str, int]()
    if target.cpu == TIMED and library.streaming is not None:
        cycles = step_cycles(library, assembly(), dict.fromkeys(library.symbols, 1))
    return CodeFootprint(parts.code, parts.constants, parts.functions, cycles)
