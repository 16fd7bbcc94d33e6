"""Which loops over time may run place by place of outer axes, such as batch and heads.

A place, such as the matrix that is one head's state, then has a run of steps to itself, so that its
state stays near the core. That is proved of the kernels' accesses: all have the places' axes first,
and what a place writes in memory lies in parts of buffers that no other place reads or writes. What
each place computes, and in which order, stays as it was, and so do bits.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For, Func, Index, Row, ShiftedRow
from rnncc.kern.kernels import Map, Reduce
from rnncc.planning.frames import FramedKernel
from rnncc.planning.inplace import OWNED
from rnncc.planning.lifetimes import lifetimes
from rnncc.planning.uses import Targets, targets, timeline
from rnncc.records import record

LEAST, MOST = 1 << 10, 1 << 14
"""Elements of a place's largest kernel: of fewer, what a place does besides takes the time; of
more, threads had better share what one place does."""
MOST_LOCAL = 1 << 10
"""Elements of a place that a thread keeps for itself."""


@record(eq=False)
class ResidentKernel(FramedKernel):
    """A kernel of such a loop, whose frame are the places.

    Attributes:
        kept, reduced: its other axes of more than one element; those of them that it adds up.
    """

    kept: tuple[int, ...]
    reduced: tuple[int, ...]

    def beside(self, access: Access) -> list[tuple[Dim, Dim]]:
        """Sizes and strides of the axes beside the places that an access goes along."""
        axes = (*self.kept, *self.reduced)
        pairs = [(self.op.dims[axis], access.strides[axis]) for axis in axes]
        return [pair for pair in pairs if pair[1] != 0]


@record
class ResidentLoop:
    """A loop of which each run of steps may be done place by place.

    Attributes:
        loop: over steps, or over runs of steps, each of which may hold loops over its steps.
        places: the sizes of their axes.
        kernels: of the loop and those in it.
        local: what a step of a place writes for itself, and its elements of a place.
        known: the buffers that values may stand for.
        turns: pairs of buffers that may take turns in one memory, where places are not apart.
    """

    loop: For
    places: tuple[Dim, ...]
    kernels: Mapping[Operation, ResidentKernel]
    local: Mapping[Buffer, int]
    known: Mapping[SSAValue, Targets]
    turns: Sequence[tuple[Buffer, Buffer]]


def resident_loops(func: Func, others: Container[Operation] = ()) -> dict[For, ResidentLoop]:
    """The loops of a function of which that is proved, without `others` and loops around them."""
    loops = _outer_loops(func.body.block, others)
    candidates = {loop: kernels for loop in loops if (kernels := _kernels(loop))}
    if not candidates:
        return {}
    known = targets(func)
    proved: dict[For, ResidentLoop] = {}
    for loop, kernels in candidates.items():
        if (resident := _resident(func, loop, kernels, known)) is not None:
            proved[loop] = resident
    return proved


def _outer_loops(block: Block, others: Container[Operation]) -> Iterator[For]:
    """Loops over runs whose inside may be done place by place, and loops over steps elsewhere."""
    for op in block.ops:
        if not isinstance(op, For) or op in others:
            continue
        if _is_plain(op) and not any(inner in others for inner in op.body.block.ops):
            yield op
        else:
            yield from _outer_loops(op.body.block, others)


def _is_plain(loop: For) -> bool:
    """Whether a loop has rows, maps, sums and, over runs, loops over steps alone."""
    allowed = (Map, Reduce, Row, ShiftedRow, Yield)
    inner = [op for op in loop.body.block.ops if isinstance(op, For)]
    if inner and (loop.chunk is None or loop.inits or any(op.chunk is not None for op in inner)):
        return False
    loops = [op for op in (loop, *inner) if op.chunk is None]
    others = (op for op in loop.body.block.ops if not isinstance(op, (*allowed, For)))
    if any(True for _ in others) or not all(map(_is_plain, inner)):
        return False
    return bool(loops) and all(_is_own_row(v, op) for op in loops for v in op.yields)


def _is_own_row(value: SSAValue, loop: For) -> bool:
    """Whether a loop's body makes it a row of a buffer from outside."""
    row, block = value.owner, loop.body.block
    if not isinstance(row, Row) or row.parent is not block:
        return False
    source = row.buffer.owner
    return isinstance(source, Operation) and source.parent is not block


def _kernels(loop: For) -> list[Map | Reduce]:
    """The kernels of a loop, if it is worth it and none stands in the way."""
    kernels = [op for op in _ops(loop.body.block) if isinstance(op, Map | Reduce)]
    for op in kernels:
        starts = isinstance(op, Reduce) and op.init is not None
        numbered = any(isinstance(inner, Index) for inner in op.body.block.ops)
        # As in `place_runs`: an index, and numbers of listed rows, are those of all places.
        if op.rows is not None or starts or numbered:
            return []
    parts = (_part(op, n) for op in kernels for n in range(len(_wide_axes(op)[0]) + 1))
    return kernels if any(map(_is_wide, parts)) else []


def _ops(block: Block) -> Iterator[Operation]:
    for op in block.ops:
        yield op
        if isinstance(op, For):
            yield from _ops(op.body.block)


def _resident(
    func: Func, loop: For, kernels: Sequence[Map | Reduce], known: Mapping[SSAValue, Targets]
) -> ResidentLoop | None:
    prefix = _common_prefix([[op.dims[axis] for axis in _wide_axes(op)[0]] for op in kernels])
    # The largest frame first: its places are the smallest.
    for count in range(len(prefix), -1, -1):
        parts: dict[Operation, ResidentKernel] = {op: _part(op, count) for op in kernels}
        if not any(map(_is_wide, parts.values())):
            continue
        proof = _ResidentProof(func, loop, prefix[:count], parts, known)
        if (resident := proof.result()) is not None:
            return resident
    return None


def _common_prefix(lists: Sequence[Sequence[Dim]]) -> list[Dim]:
    count = 0
    for sizes in zip(*lists, strict=False):
        if any(size != sizes[0] for size in sizes):
            break
        count += 1
    return list(lists[0][:count])


def _wide_axes(op: Map | Reduce) -> tuple[list[int], list[int]]:
    """The axes of more than one element: those that are kept, those that are added up."""
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    axes = [axis for axis, size in enumerate(op.dims) if size != 1]
    return [axis for axis in axes if axis < kept], [axis for axis in axes if axis >= kept]


def _part(op: Map | Reduce, places: int) -> ResidentKernel:
    kept, reduced = _wide_axes(op)
    return ResidentKernel(op, tuple(kept[:places]), tuple(kept[places:]), tuple(reduced))


def _is_wide(part: ResidentKernel) -> bool:
    sizes = [part.op.dims[axis] for axis in (*part.kept, *part.reduced)]
    static = len(sizes) == 2 and all(size.is_static for size in sizes)
    return static and LEAST <= prod(map(int, sizes)) <= MOST


@record
class _KernelTouch:
    """A read or write of a value by the kernel of that number."""

    value: SSAValue
    number: int
    writes: bool
    access: Access
    part: ResidentKernel


class _ResidentProof:
    """Whether what a place writes is read and written by no other."""

    def __init__(
        self,
        func: Func,
        loop: For,
        places: Sequence[Dim],
        parts: Mapping[Operation, ResidentKernel],
        known: Mapping[SSAValue, Targets],
    ) -> None:
        self.func, self.loop, self.places = func, loop, tuple(places)
        self.parts, self.known = parts, known
        self.touches = [t for i, part in enumerate(parts.values()) for t in _touches(i, part)]
        rows = (op for op in _ops(func.body.block) if isinstance(op, Row | ShiftedRow))
        self.rows = [(op.y, get_dim(op.stride)) for op in rows]

    def result(self) -> ResidentLoop | None:
        written = [touch for touch in self.touches if touch.writes]
        # A value of several buffers may be any of them: of those nothing is proved.
        if any(len(self.known[touch.value]) != 1 for touch in written):
            return None
        buffers = dict.fromkeys(b for touch in written for b in self.known[touch.value])
        if not all(map(self._is_apart, buffers)):
            return None
        local = {b: size for b in buffers if (size := self._local(b)) is not None}
        turns = self._turns(buffers.keys() - local.keys(), local)
        return ResidentLoop(self.loop, self.places, self.parts, local, self.known, turns)

    def _of(self, buffer: Buffer) -> list[_KernelTouch]:
        return [touch for touch in self.touches if buffer in self.known[touch.value]]

    def _is_apart(self, buffer: Buffer) -> bool:
        """Whether each place has a part of every row of a buffer, the same in all its accesses."""
        if buffer.within is not None or buffer.role.data not in (*OWNED, "output"):
            return False  # in another's memory
        touches = self._of(buffer)
        along = touches[0].part.along(touches[0].access)
        if any(touch.part.along(touch.access) != along for touch in touches):
            return False
        if not self.places:
            return True
        inner = along[-1]
        dense = all(
            outer == stride * size
            for outer, stride, size in zip(along, along[1:], self.places[1:], strict=False)
        )
        if not dense or not inner.is_static or int(inner) <= 0:
            return False
        row = self._row(buffer, along[0] * self.places[0])
        return row is not None and all(_is_within(touch, int(inner), row) for touch in touches)

    def _row(self, buffer: Buffer, taken: Dim) -> Dim | None:
        """How far rows of a buffer are apart, of which all places take so much; None if unknown."""
        moves = {stride for value, stride in self.rows if buffer in self.known[value]}
        if all(move.divide(taken) is not None for move in moves):
            return taken
        move = moves.pop()
        further = all(factor >= 0 for _, factor in (move - taken).terms)
        return move if further and not moves else None

    def _local(self, buffer: Buffer) -> int | None:
        """The elements of a place that its step writes as a whole before it reads any."""
        touches, uses = self._of(buffer), list(buffer.y.uses)
        size = touches[0].part.along(touches[0].access)[-1:] or (buffer.elements,)
        blocks = {use.operation.parent for use in uses}
        only = all(touch.value is buffer.y for touch in touches) and len(uses) == len(touches)
        if buffer.role.data != "scratch" or not only or len(blocks) > 1:
            return None
        if not size[0].is_static or not 0 < int(size[0]) <= MOST_LOCAL:
            return None
        first = touches[0]
        alone = sum(touch.number == first.number for touch in touches) == 1
        filled = first.access.offset == 0 and _fills(first.part.beside(first.access), int(size[0]))
        return int(size[0]) if first.writes and alone and filled else None

    def _turns(
        self, written: Container[Buffer], local: Mapping[Buffer, int]
    ) -> list[tuple[Buffer, Buffer]]:
        """Buffers that may have the memory of others that the loop writes."""
        used = dict.fromkeys(b for touch in self.touches for b in self.known[touch.value])
        read = {b for touch in self.touches if not touch.writes for b in self.known[touch.value]}
        placed = [b for b in used if b not in local and _takes_workspace(b)]
        # What stands in for outputs that nobody wants may take turns: nobody reads it.
        pairs = [
            (a, b)
            for a, b in combinations(placed, 2)
            if (a in written or b in written) and (a in read or b in read)
        ]
        alive = lifetimes(timeline(self.func)) if pairs else {}
        # Where they live at the same time planning keeps them apart, unless one takes over what
        # the other had, at the same offset.
        return [(a, b) for a, b in pairs if not alive[a].overlaps(alive[b]) or a.offset == b.offset]


def _takes_workspace(buffer: Buffer) -> bool:
    return buffer.role.data in OWNED or buffer.fallback_size != 0


def _touches(number: int, part: ResidentKernel) -> Iterator[_KernelTouch]:
    for i, (value, access) in enumerate(part.operands):
        yield _KernelTouch(value, number, i >= len(part.op.ins), access, part)


def _is_within(touch: _KernelTouch, room: int, row: Dim) -> bool:
    """Whether an access stays within the part of a place, of some row."""
    pairs, offset = touch.part.beside(touch.access), touch.access.offset
    if not all(size.is_static and stride.is_static for size, stride in pairs):
        return False
    first = offset.coefficient() % int(row) if row.is_static else offset.coefficient()
    last = first + sum((int(size) - 1) * int(stride) for size, stride in pairs)
    forwards = first >= 0 and all(int(stride) > 0 for _, stride in pairs)
    return forwards and last < room and (offset - first).divide(row) is not None


def _fills(pairs: Sequence[tuple[Dim, Dim]], room: int) -> bool:
    """Whether axes take up so many neighbouring elements."""
    size = 1
    for count, stride in sorted(pairs, key=lambda pair: int(pair[1])):
        if int(stride) != size:
            return False
        size *= int(count)
    return size == room
