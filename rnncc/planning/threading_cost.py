"""Whether several threads are worth it: one thread's work, and how often a team would wait.

In: planned kernel programs. Out: two formulas. Gates in loops are taken as open, chunks as one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from xdsl.ir import Block, Operation

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Cost, cost_of
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import For, Gate, Limit
from rnncc.kern.kernels import Contract, Gemm, Kernel
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import data_accesses
from rnncc.records import record

CYCLE = 64
"""Work is counted in such parts of a cycle, as formulas have integer factors."""
MULTIPLY_ADD = CYCLE // 2
"""Of a vector: two a cycle."""
BYTE = CYCLE // 32
"""Read or written: as the second-level cache delivers at best."""
FUNCTION = 20 * CYCLE
"""Of a vector: exp, a division and the like. Other arithmetic goes beside reading."""
WAIT = 3_000 * CYCLE
"""For the others, and for what they wrote, 0.9 µs: less work between two waits is not worth it."""
START = 70_000 * CYCLE
"""To wake threads for a call, and to have them all back: 20 µs."""

NOTHING = Dim.of(0)
Sizes = Mapping[str, Dim | int]


@record
class ThreadingCost:
    """What a call takes.

    Attributes:
        work: of one thread, in `CYCLE`-ths of a cycle.
        waits: how often all threads of a team wait for each other.
    """

    work: Dim = NOTHING
    waits: Dim = NOTHING

    @staticmethod
    def of(
        programs: Iterable[KernelProgram], lanes: int, apart: Container[For] = ()
    ) -> ThreadingCost:
        """Of programs that run one after another, in vectors of so many floats.

        Args:
            apart: loops in which threads do not wait for each other before the end.
        """
        total = ThreadingCost()
        for program in programs:
            total += _of_block(program.func.body.block, {}, lanes, apart)
        return total

    @property
    def overhead(self) -> Dim:
        """Work that one thread should have, at least, to be worth it."""
        return self.waits * WAIT + START

    def threads(self, sizes: Mapping[str, int]) -> int:
        """How many are worth it, from 1 up; `NAME_threads` computes the same."""
        # A thread more pays while each still has as much work as waiting costs.
        return max(1, self.work.evaluate(sizes) // self.overhead.evaluate(sizes))

    def __add__(self, other: ThreadingCost) -> ThreadingCost:
        return ThreadingCost(self.work + other.work, self.waits + other.waits)


def _of_block(block: Block, sizes: Sizes, lanes: int, apart: Container[For]) -> ThreadingCost:
    total = ThreadingCost()
    for op in block.ops:
        if isinstance(op, For):
            inner = _of_loop(op, sizes, lanes, apart)
            total += ThreadingCost(inner.work, Dim.of(1)) if op in apart else inner
        # One thread has written the flag; the others read it only behind a wait.
        elif isinstance(op, Gate | Limit):
            total += ThreadingCost(waits=Dim.of(1))
        elif work := _work(op, sizes, lanes):
            total += ThreadingCost(work, Dim.of(1))
    return total


def _of_loop(op: For, sizes: Sizes, lanes: int, apart: Container[For]) -> ThreadingCost:
    """All iterations; chunks of steps are done as one."""
    count = get_dim(op.count).substitute(sizes)
    # Chunks only cut a loop in pieces; their kernels do the work of all steps together.
    once = op.chunk is not None
    names = [(op.index, 0), (op.iteration, 0), (op.extent, count if once else 1)]
    inner = {**sizes, **{name.data: value for name, value in names if name is not None}}
    body = _of_block(op.body.block, inner, lanes, apart)
    return body if once else ThreadingCost(body.work * count, body.waits * count)


def _work(op: Operation, sizes: Sizes, lanes: int) -> Dim | None:
    """Of one run of a kernel; None for what is no kernel."""
    touched = [
        product(d for d, stride in zip(dims, access.strides, strict=True) if stride != 0)
        * (ITEM_BYTES[buffer_dtype(value)] * BYTE)
        for value, _, access, dims in data_accesses(op)
    ]
    if not touched:
        return None
    vectors = NOTHING
    if isinstance(op, Contract):
        vectors = product(op.sizes) * MULTIPLY_ADD
    elif isinstance(op, Kernel):
        per_point = sum(cost_of(inner) > Cost.ARITHMETIC for inner in op.body.block.ops) * FUNCTION
        if isinstance(op, Gemm):
            per_point += op.slots.data * op.depth.data * MULTIPLY_ADD
        vectors = product(op.dims) * per_point
    return sum(touched, _over(vectors, lanes)).substitute(sizes)


def _over(work: Dim, lanes: int) -> Dim:
    return Dim((monomial, -(-factor // lanes)) for monomial, factor in work.terms)
