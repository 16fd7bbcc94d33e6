"""A step's kernels in stages: passes over a matrix that several share, and single kernels.

A pass goes over all points of a matrix, and at each runs its kernels in order. So one that reads
what another of the pass writes must find it at the same point; a sum is there when the pass is
over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.cpu.orders.matrix_kernels import MatrixKernel
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Map
from rnncc.planning.resident import ResidentKernel, ResidentLoop

MOST_FUNCTIONS = 32
"""Of the code of a pass, in vectors: LLVM's time grows with the square of it, and to read a state
again costs nothing beside them."""


@dataclass
class Stage:
    """The kernels of a pass; or one kernel by itself.

    Attributes:
        inside: scratch that nothing but the pass reads: it is in registers.
    """

    kernels: list[MatrixKernel]
    alone: ResidentKernel | None = None
    inside: frozenset[Buffer] = frozenset()


def stages(plan: ResidentLoop, loop: For, lanes: int) -> list[Stage]:
    """Those of a step, in as few passes as what kernels read of each other allows.

    A kernel goes ahead to an earlier pass where it has nothing to do with what is between.
    """
    return _Stages(plan, lanes).of(loop)


class _Stages:
    def __init__(self, plan: ResidentLoop, lanes: int) -> None:
        self.plan, self.lanes = plan, lanes
        self.found = list[Stage]()
        self.numbers = dict[ResidentKernel, int]()

    def of(self, loop: For) -> list[Stage]:
        parts = (self.plan.kernels.get(op) for op in loop.body.block.ops)
        for part in (part for part in parts if part is not None):
            matrix = self._matrix(part)
            if matrix is None:
                self.numbers[part] = len(self.found)
                self.found.append(Stage([], part))
                continue
            self.numbers[part] = number = self._earliest(matrix)
            if number == len(self.found):
                self.found.append(Stage([]))
            self.found[number].kernels.append(matrix)
        for stage in self.found:
            stage.inside = frozenset(b for b in _written(stage) if _is_inside(b, stage))
        return self.found

    def _matrix(self, part: ResidentKernel) -> MatrixKernel | None:
        """None for a kernel that stands by itself."""
        matrix = None if self._may_be_absent(part) else MatrixKernel.of(part, self.lanes)
        few = matrix is not None and matrix.functions(self.lanes) <= MOST_FUNCTIONS
        return matrix if few else None

    def _may_be_absent(self, part: ResidentKernel) -> bool:
        """Whether it is not run where nobody wants what it writes."""
        buffers = [b for value in part.op.outs for b in self.plan.known[value]]
        # Others have something to stand in for an output that nobody wants, and are always run.
        return any(b.role.data == "output" and b.fallback_size == 0 for b in buffers)

    def _earliest(self, matrix: MatrixKernel) -> int:
        """The first pass that a kernel may be part of; else the number of a new one."""
        least = max((self._behind(part, n, matrix) for part, n in self.numbers.items()), default=0)
        passes = range(least, len(self.found))
        return next((n for n in passes if self._takes(n, matrix)), len(self.found))

    def _takes(self, number: int, matrix: MatrixKernel) -> bool:
        """Whether a pass goes over the same matrix, and its code may grow."""
        kernels = self.found[number].kernels
        functions = sum(kernel.functions(self.lanes) for kernel in (*kernels, matrix))
        return bool(kernels) and kernels[0].size == matrix.size and functions <= MOST_FUNCTIONS

    def _behind(self, part: ResidentKernel, number: int, matrix: MatrixKernel) -> int:
        """The first stage that a kernel may be in because of one before it."""
        before = next((k for k in self.found[number].kernels if k.part is part), None)
        pairs = list(self._shared(part, matrix.part))
        same = before is not None and all(
            before.is_at_own_point(a) and before.point_of(a) == matrix.point_of(b) for a, b in pairs
        )
        return number if same else number + 1 if pairs else 0

    def _shared(
        self, one: ResidentKernel, other: ResidentKernel
    ) -> Iterator[tuple[Access, Access]]:
        """Accesses of two kernels to one buffer, of which at least one writes."""
        for a, (x, access) in enumerate(one.operands):
            for b, (y, following) in enumerate(other.operands):
                writes = a >= len(one.op.ins) or b >= len(other.op.ins)
                if writes and not self._buffers(x).isdisjoint(self._buffers(y)):
                    yield access, following

    def _buffers(self, value: SSAValue) -> set[Buffer]:
        return set(self.plan.known[value])


def _written(stage: Stage) -> Iterator[Buffer]:
    """Scratch that maps of a pass write."""
    for kernel in stage.kernels:
        for value in kernel.part.op.outs:
            if isinstance(value.owner, Buffer) and value.owner.role.data == "scratch":
                yield value.owner


def _is_inside(buffer: Buffer, stage: Stage) -> bool:
    """Whether all that touches it is of the pass, and finds what has just been written there.

    That kernels share a pass is proof that they touch it at the same points.
    """
    order = dict[Operation, int]()
    for number, kernel in enumerate(stage.kernels):
        order[kernel.part.op] = number
    numbers = [order.get(use.operation, -1) for use in buffer.y.uses]
    first = min(numbers)
    # Its first kernel must only write: what it reads would be of the pass before.
    if first < 0 or numbers.count(first) > 1:
        return False
    op = stage.kernels[first].part.op
    # What a reduce writes is there when the pass is over.
    return isinstance(op, Map) and buffer.y in op.outs
