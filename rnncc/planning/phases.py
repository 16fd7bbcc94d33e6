"""Which kernels may follow one another without a wait of all who compute together.

Kernels in a row whose accesses to memory have nothing to do with each other need no wait between
them. Where one reads what another wrote, but row by row of a first axis that both have, such as the
batch, and each row is some member's own, that member alone has to wait for itself: a block of a
GPU, whose threads wait for each other in a hundredth of the time that the grid takes.

In: a `kern.func`. Out: `KernelPhases`. Accesses prove it, and offsets: memory that two buffers
share counts as one. Before buffers have offsets, each counts as memory of its own: so the planner
learns which of them had better not share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For, Func, Row, ShiftedRow
from rnncc.kern.kernels import Contract, Gemm, Kernel, Map, Reduce
from rnncc.kern.largest import Largest
from rnncc.kern.moves import Pack
from rnncc.planning.footprint import Footprint
from rnncc.planning.inplace import OWNED
from rnncc.planning.uses import Targets, Touch, accesses, targets
from rnncc.records import record

MOST_WIDTH = 4096
"""Points of a row, of those that one member computes alone: it takes as long as a wait of all."""

MOST_PENDING = 64
"""Kernels of a group without a wait of all: each is compared with those before it."""


class Wait(IntEnum):
    """Who waits behind a kernel: nobody, each row's member for itself, or all for all."""

    NONE = 0
    ROWS = 1
    ALL = 2


@record
class KernelPhases:
    """What is behind each kernel, and which kernels are shared by rows.

    Attributes:
        rows: kernels whose rows, along the first axis, belong to one member each.
        groups: kernels in order between which not all wait for all.
    """

    waits: dict[Operation, Wait] = field(default_factory=dict[Operation, Wait])
    rows: set[Operation] = field(default_factory=set[Operation])
    groups: list[list[Operation]] = field(default_factory=list[list[Operation]])

    def behind(self, op: Operation) -> Wait:
        """The wait behind a kernel."""
        return self.waits.get(op, Wait.ALL)


def phases(func: Func, memory: NamedMemory) -> KernelPhases:
    """Those of all blocks of a function."""
    kernel_phases = KernelPhases()
    _visit(func.body.block, memory, kernel_phases, within_loop=False)
    return kernel_phases


def _visit(
    block: Block, memory: NamedMemory, kernel_phases: KernelPhases, within_loop: bool
) -> None:
    run: list[_SharedKernel] = []
    for op in block.ops:
        if isinstance(op, For):
            _visit(op.body.block, memory, kernel_phases, within_loop=True)
        if isinstance(op, Row | ShiftedRow | Buffer):
            continue  # names for memory: nothing is done
        if isinstance(op, Map | Reduce | Gemm | Contract | Pack):
            run.append(_SharedKernel.of(op, within_loop))
        else:
            _Run(memory, run).decide(kernel_phases)
            run = []
    _Run(memory, run).decide(kernel_phases)


@dataclass
class _SharedKernel:
    """A kernel; `rows` if its rows can be members' own; `chain`: that of kernels so shared."""

    op: Operation
    touches: list[Touch]
    rows: Dim | None
    chain: int = 0

    @staticmethod
    def of(op: Operation, within_loop: bool) -> _SharedKernel:
        return _SharedKernel(op, list(accesses(op)), _rows_of(op) if within_loop else None)


def _rows_of(op: Operation) -> Dim | None:
    """The first axis of a kernel, if its rows can be shared out, and are not long."""
    if not isinstance(op, Map | Reduce) or op.active_rows is not None:
        return None
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    if not kept:
        return None
    width = product(op.dims[1:])
    return op.dims[0] if width.is_static and int(width) <= MOST_WIDTH else None


def row_points(op: Kernel) -> int:
    """How many results a kernel of `KernelPhases.rows` has in a row."""
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    return int(product(op.dims[1:kept]))


class _Run:
    """Kernels in order, nothing but names for memory between them."""

    def __init__(self, memory: NamedMemory, parts: Sequence[_SharedKernel]) -> None:
        self.memory, self.parts = memory, parts

    def decide(self, kernel_phases: KernelPhases) -> None:
        """The waits between kernels; the last one keeps its own."""
        waits, pending = [Wait.ALL] * len(self.parts), list[_SharedKernel]()
        for number, part in enumerate(self.parts):
            before = pending[-1] if pending else None
            same = before is not None and part.rows is not None and before.rows == part.rows
            part.chain = before.chain if before is not None and same else number
            if len(pending) < MOST_PENDING:
                wait = max((self._between(p, part) for p in pending), default=Wait.NONE)
            else:
                wait = Wait.ALL
            if wait is Wait.ALL:
                part.chain, pending = number, []
            if number:
                waits[number - 1] = wait
            pending.append(part)
            if number == 0 or wait is Wait.ALL:
                kernel_phases.groups.append([])
            kernel_phases.groups[-1].append(part.op)
        members = {part.chain: list[Operation]() for part in self.parts}
        for number, part in enumerate(self.parts):
            kernel_phases.waits[part.op] = waits[number]
            members[part.chain].append(part.op)
        for chain in members.values():
            if any(kernel_phases.waits[op] is Wait.ROWS for op in chain):
                kernel_phases.rows.update(chain)

    def _between(self, one: _SharedKernel, other: _SharedKernel) -> Wait:
        """What the second needs of the first."""
        same_chain = one.chain == other.chain
        most = Wait.NONE
        for a in one.touches:
            for b in other.touches:
                if (a[1] or b[1]) and self.memory.meet(a, b):
                    if not same_chain or not self.memory.meet_in_rows(a, b):
                        return Wait.ALL
                    most = Wait.ROWS
        return most


class NamedMemory:
    """What names stand for, and which of it lies in the same place.

    Args:
        placed: whether buffers lie at their offsets.
    """

    def __init__(self, known: dict[SSAValue, Targets], placed: bool) -> None:
        self.known, self.placed = known, placed
        self.places = dict[Buffer, list[_MemoryPlace]]()

    @staticmethod
    def of(func: Func, placed: bool = True) -> NamedMemory:
        """That of a function."""
        return NamedMemory(targets(func), placed)

    def meet(self, a: Touch, b: Touch) -> bool:
        """Whether two values may stand for the same memory."""
        return any(_meet(x, y) for x in self._places(a[0]) for y in self._places(b[0]))

    def meet_in_rows(self, a: Touch, b: Touch) -> bool:
        """Whether different rows, along the first axis of both, surely never meet."""
        if a[0] is not b[0]:
            x, y = (self._base(touch[0]) for touch in (a, b))
            if x is None or y is None or x[0] != y[0]:
                return False
            a, b = _moved(a, x[1]), _moved(b, y[1])
        return a[2].strides[:1] == b[2].strides[:1] and _in_one_row(a, b)

    def _base(self, value: SSAValue) -> tuple[tuple[str, ...], Dim] | None:
        """Where a name's memory begins, and how far behind that, if both are known."""
        [(buffer, shift), *others] = self.known[value].items()
        if others or shift is None:
            return None
        if self.placed and buffer.role.data in OWNED and buffer.within is None:
            # A buffer that took over another's memory has its offset.
            return ("workspace", *map(str, _starts(buffer)), buffer.dtype), shift
        owner = buffer.label if buffer.within is None else buffer.within
        return ("buffer", owner.data, buffer.dtype), shift

    def _places(self, value: SSAValue) -> Iterator[_MemoryPlace]:
        for buffer in self.known[value]:
            if buffer not in self.places:
                self.places[buffer] = list(_places_of(buffer, self.placed))
            yield from self.places[buffer]


@record
class _MemoryPlace:
    """Memory from a place on: of the workspace if it has offsets, else by its name alone."""

    name: str
    starts: tuple[Dim, ...] = ()
    size: Dim = ZERO


def _places_of(buffer: Buffer, placed: bool) -> Iterator[_MemoryPlace]:
    if buffer.within is not None:
        yield _MemoryPlace(f"port {buffer.within.data}")
        return
    if buffer.role.data in ("input", "output"):
        # A step may replace states where they lie: old and new ones count as one memory.
        yield _MemoryPlace("states" if buffer.of_state else f"port {buffer.label.data}")
    elif buffer.role.data == "param":
        yield _MemoryPlace(f"param {buffer.label.data}")
        return
    if not placed:
        yield _MemoryPlace(f"buffer {buffer.label.data}")
        return
    kept = buffer.fallback_size * ITEM_BYTES[buffer.dtype]
    size = buffer.bytes if buffer.role.data in OWNED else kept
    if buffer.role.data in OWNED or size != 0:
        yield _MemoryPlace("workspace", _starts(buffer), size)


def _starts(buffer: Buffer) -> tuple[Dim, ...]:
    """The formulas whose largest is a buffer's offset."""
    return () if buffer.offset is None else Largest.parse(buffer.offset.data).formulas


def lie_apart(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers, at their offsets, surely share no memory at any sizes."""
    ours, theirs = (list(_places_of(buffer, placed=True)) for buffer in (a, b))
    return not any(_meet(x, y) for x in ours for y in theirs)


def _meet(x: _MemoryPlace, y: _MemoryPlace) -> bool:
    if x.name != y.name:
        return False
    return not (_is_below(x, y) or _is_below(y, x))


def _is_below(x: _MemoryPlace, y: _MemoryPlace) -> bool:
    """Whether one ends, at all sizes, where the other begins or before."""
    ends = [start + x.size for start in x.starts]
    return bool(ends) and all(any(at_most(end, start) for start in y.starts) for end in ends)


def _moved(touch: Touch, by: Dim) -> Touch:
    value, writes, access, dims = touch
    return value, writes, access.shifted(by), dims


def _in_one_row(a: Touch, b: Touch) -> bool:
    """Whether both go through the same rows of so many elements, and stay within each."""
    stride = a[2].strides[0]
    first = _without_constant(a[2].offset)
    if first != _without_constant(b[2].offset):
        return False
    return all(_stays(access, dims, first, stride) for _, _, access, dims in (a, b))


def _without_constant(size: Dim) -> Dim:
    return size - size.coefficient()


def _stays(access: Access, dims: Sequence[Dim], first: Dim, stride: Dim) -> bool:
    """Whether all that an access touches of row 0 is among the first `stride` elements."""
    row = Footprint(access.offset - first, tuple(zip(dims, access.strides, strict=True))[1:])
    up = all(at_most(ZERO, step) for _, step in row.axes)
    return up and at_most(ZERO, row.offset) and at_most(row.end, stride)
