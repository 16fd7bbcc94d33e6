"""What one step takes on a Cortex-M4: an estimate, from its kernels and Arm's instruction timings.

In: a planned library and its assembly. Out: cycles by what they go to. Timings are those of the
processor's Technical Reference Manual (Arm DDI 0439, instruction set summaries of the core and of
the FPU), for memory without wait states; of a taken branch, 2 to 4 cycles there, they are 3.
Gates are taken as open: loops that may end early are counted to their end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from xdsl.ir import Block, Operation

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import product
from rnncc.ir.ops.base import Cost, Elementwise, cost_of
from rnncc.ir.ops.elementwise import MultiplyAdd
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Contract, Gemm, Kernel
from rnncc.kern.library import Library
from rnncc.planning.uses import data_accesses

TIMED = "cortex-m4"
"""The CPU whose timings Arm publishes, of those that code is made compact for."""

LOAD, MULTIPLY_ADD, ROOT, CALL = 2, 3, 14, 3
LOOP = 1 + 1 + 3
"""The count, its comparison, the branch back."""
TOUCH = 1 + LOAD
"""An element's address, then it is read or written."""
FUNCTION = 70
"""A function of elements that does not stand apart, such as what users wrote."""
START = 250
"""Registers saved and restored, pointers and sizes checked, constants fetched."""
PANEL = 16
"""Of a product, for each panel of weights: where it begins, and what is stored behind it."""

PAIRS = {
    "bf16": LOAD + 2 + 2 * 2 + 2 * MULTIPLY_ADD,
    "i8": 2 * LOAD + 3,
}
"""Two products of weights that lie in pairs: of bf16 both are one word, which is cut in two and
moved from an integer's registers; bytes are read, multiplied, multiplied and added, then summed."""
ROUNDED = 11 + 15
"""A number of a row: whether it is the largest, then its integer."""
SCALED = 14
"""A sum of integers becomes a float: converted, and times both scales."""

_SLOW = {
    **dict.fromkeys(("vfma", "vfms", "vfnma", "vfnms", "vmla", "vmls"), MULTIPLY_ADD),
    **dict.fromkeys(("vdiv", "vsqrt"), ROOT),
    **dict.fromkeys(("vldr", "vstr", "ldr", "ldrb", "ldrh", "ldrsb", "ldrsh"), LOAD),
    **dict.fromkeys(("ldrd", "strd"), 1 + 2),
    **dict.fromkeys(("b", "bl", "bx", "blx"), CALL),
}
"""Instructions of more than a cycle."""


def step_cycles(library: Library, assembly: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """What cycles of a step go to.

    Args:
        assembly: the library's, where functions of elements stand.
    """
    cycles: Counter[str] = Counter()
    _Counting(library.name, assembly, cycles).block(
        library.programs["step"].func.body.block, dict(sizes), 1
    )
    names = ("products", "functions", "elements")
    return {**{name: cycles[name] for name in names}, "call": START}


def straight_cycles(assembly: str, label: str) -> int | None:
    """Of a function without branches; None where there is none of the name."""
    if (start := assembly.find(f"\n{label}:\n")) < 0:
        return None
    lines = assembly[start:].split(".Lfunc_end", 1)[0].splitlines()
    matches = (re.match(r"\t([a-z]\w*)(?:\.\w+)*(?:\t(.*))?$", line) for line in lines)
    return sum(instruction_cycles(m[1], m[2] or "") for m in matches if m is not None)


def instruction_cycles(name: str, operands: str) -> int:
    """Of one instruction, by its name without what stands behind a point."""
    if name == "vmov" and re.search(r"\br\d", operands):
        return 2
    return _SLOW.get(name, 1)


class _Counting:
    """Cycles as they add up; `name` is the library's."""

    def __init__(self, name: str, assembly: str, totals: Counter[str]) -> None:
        self.name, self.assembly, self.totals = name, assembly, totals

    def block(self, block: Block, sizes: dict[str, int], times: int) -> None:
        """Of kernels that run so often, one after another."""
        for op in block.ops:
            if isinstance(op, For):
                self.loop(op, sizes, times)
            elif isinstance(op, Gemm):
                self.product(op, sizes, times)
            elif isinstance(op, Kernel):
                self.points(op, sizes, times, LOOP)
            else:
                self.moved(op, sizes, times)

    def loop(self, op: For, sizes: dict[str, int], times: int) -> None:
        count = get_dim(op.count).evaluate(sizes)
        # chunks only cut a loop in pieces
        once = op.chunk is not None
        names = [(op.index, 0), (op.iteration, 0), (op.extent, count if once else 1)]
        inner = {**sizes, **{name.data: value for name, value in names if name is not None}}
        self.block(op.body.block, inner, times * (1 if once else count))

    def product(self, op: Gemm, sizes: dict[str, int], times: int) -> None:
        """Sums over k, a panel of weights at a time, and the body behind each."""
        rows = times * product(op.dims[:-1]).evaluate(sizes)
        panels, vectors = -(-op.units // op.panel.data), op.panel.data * op.slots.data
        dtype, depth = buffer_dtype(op.weights), op.depth.data
        if dtype in PAIRS:
            cycles = panels * -(-depth // 2) * (2 * LOAD + vectors * PAIRS[dtype] + LOOP)
        else:
            cycles = panels * depth * (LOAD + vectors * (LOAD + MULTIPLY_ADD) + 1 + LOOP)
        behind = op.slots.data * SCALED if dtype == "i8" else 0
        cycles += depth * ROUNDED if behind else 0
        self.totals["products"] += rows * (cycles + panels * PANEL)
        self.points(op, sizes, times, behind)

    def points(self, op: Kernel, sizes: dict[str, int], times: int, more: int) -> None:
        """What is computed of each element."""
        points = times * product(op.dims).evaluate(sizes)
        touched = len(op.ins) + len(op.outs)
        inner = [o for o in op.body.block.ops if isinstance(o, Elementwise)]
        slow = sum(self.function(o) for o in inner if cost_of(o) > Cost.ARITHMETIC)
        plain = sum(
            MULTIPLY_ADD if isinstance(o, MultiplyAdd) else 1
            for o in inner
            if cost_of(o) == Cost.ARITHMETIC
        )
        self.totals["functions"] += points * slow
        self.totals["elements"] += points * (touched * TOUCH + plain + more)

    def function(self, op: Elementwise) -> int:
        if cost_of(op) == Cost.ROOT:
            return ROOT
        cycles = straight_cycles(self.assembly, f"{self.name}_{op.CODE}_1f32")
        return CALL + (FUNCTION if cycles is None else cycles)

    def moved(self, op: Operation, sizes: dict[str, int], times: int) -> None:
        """What only moves elements; sums of outer products are products too."""
        for _, _, _, dims in data_accesses(op):
            self.totals["elements"] += times * product(dims).evaluate(sizes) * (TOUCH + LOOP)
        if isinstance(op, Contract):
            terms = product(op.sizes).evaluate(sizes)
            self.totals["products"] += times * terms * (2 * LOAD + MULTIPLY_ADD)
