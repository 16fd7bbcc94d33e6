"""Runs of kernels that may be done place by place of outer axes, such as the planes of an image or
the rows of a softmax: what one kernel writes is near the core when the next one reads it.

That is proved of their accesses: each place writes parts of buffers that no other place reads or
writes, and no two buffers share memory but where one takes over another's, place by place. What
each place computes, and in which order, stays as it was, and so do bits.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For, Func
from rnncc.kern.kernels import Index, Map, Reduce
from rnncc.planning.frames import FramedKernel, Strides
from rnncc.planning.phases import lie_apart
from rnncc.records import record

LEAST = 1 << 10
"""Elements of a place's largest kernel: of fewer, what a place does besides takes the time."""
MOST_KERNELS = 16


@record(eq=False)
class PlaceRunKernel(FramedKernel):
    """A kernel of a run, whose frame are the places.

    Attributes:
        beside: its other axes.
    """

    beside: tuple[int, ...]

    def reach(self, access: Access) -> int | None:
        """How many elements of a place an access spans; None of those that are not known."""
        pairs = [(self.op.dims[axis], access.strides[axis]) for axis in self.beside]
        if not all(size.is_static and step.is_static and int(step) >= 0 for size, step in pairs):
            return None
        return 1 + sum((int(size) - 1) * int(step) for size, step in pairs)


@record(eq=False)
class PlaceRun:
    """Kernels, one behind the other, that may be done place by place.

    Attributes:
        places: the sizes of their axes.
        local: what nothing else reads, and how far its parts of two places are apart: one part is
            enough.
    """

    kernels: tuple[PlaceRunKernel, ...]
    places: tuple[Dim, ...]
    local: Mapping[Buffer, int]


def place_runs(
    func: Func,
    near: int,
    takes: Callable[[Map | Reduce], bool],
    fits: Callable[[PlaceRun], bool],
    without: Container[Operation] = (),
) -> list[PlaceRun]:
    """Those of a function that are worth it.

    Args:
        near: the bytes that stay next to the core.
        takes: whether a kernel may be part of one.
        fits: whether code for a run is as good for a place as for all.
        without: loops that are left as they are.
    """
    runs = list[PlaceRun]()
    for block in _blocks(func.body.block, without):
        for kernels in _sequences(block, takes):
            while len(kernels) > 1:
                run = _longest(kernels, near, fits)
                runs += [] if run is None else [run]
                kernels = kernels[1 if run is None else len(run.kernels) :]
    return runs


def _blocks(block: Block, without: Container[Operation]) -> Iterator[Block]:
    yield block
    for op in block.ops:
        if isinstance(op, For) and op not in without:
            yield from _blocks(op.body.block, without)


def _sequences(block: Block, takes: Callable[[Map | Reduce], bool]) -> Iterator[list[Map | Reduce]]:
    """Kernels one behind the other with nothing but buffers between."""
    kernels = list[Map | Reduce]()
    for op in block.ops:
        if isinstance(op, Map | Reduce) and _is_plain(op) and takes(op):
            kernels.append(op)
        elif not isinstance(op, Buffer):
            yield kernels
            kernels = []
    yield kernels


def _is_plain(op: Map | Reduce) -> bool:
    """Whether a kernel goes over all of its domain, over buffers alone, and takes no index."""
    starts = isinstance(op, Reduce) and op.init is not None
    numbered = any(isinstance(inner, Index) for inner in op.body.block.ops)
    # An index would count from 0 in each place, and a list of rows names those of all places.
    if op.rows is not None or starts or numbered:
        return False
    return all(_is_whole(value) for value in op.operands)


def _is_whole(value: SSAValue) -> bool:
    buffer = value.owner
    if not isinstance(buffer, Buffer) or buffer.within is not None or buffer.default is not None:
        return False
    # A stream's next state may take the memory of the one before.
    return buffer.rows_kept is None and buffer.of_state is None


def _longest(
    kernels: Sequence[Map | Reduce], near: int, fits: Callable[[PlaceRun], bool]
) -> PlaceRun | None:
    """The longest run that begins with the first kernel."""
    frames = [[op.dims[axis] for axis in _outer_axes(op)] for op in kernels[:MOST_KERNELS]]
    most = next((i for i, frame in enumerate(frames) if frame[:1] != frames[0][:1]), len(frames))
    # what the last kernel reads, one before it has written
    ends = [n for n in range(2, most + 1) if _reads_own(kernels[:n])] if frames[0] else []
    for count in reversed(ends):
        same = len(frames[0])
        while any(frame[:same] != frames[0][:same] for frame in frames[:count]):
            same -= 1
        # The largest frame first: its places are the smallest.
        for axes in range(same, 0, -1):
            parts = tuple(_part(op, axes) for op in kernels[:count])
            run = _PlaceRunProof(parts, near).result() if _are_large(parts) else None
            if run is not None and fits(run):
                return run
    return None


def _reads_own(kernels: Sequence[Map | Reduce]) -> bool:
    written = {value for op in kernels for value in op.outs}
    return any(value in written for value in kernels[-1].ins)


def _outer_axes(op: Map | Reduce) -> list[int]:
    """The axes of more than one element that are kept."""
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    return [axis for axis in range(kept) if op.dims[axis] != 1]


def _part(op: Map | Reduce, places: int) -> PlaceRunKernel:
    axes = tuple(_outer_axes(op)[:places])
    return PlaceRunKernel(op, axes, tuple(a for a in range(len(op.dims)) if a not in axes))


def _are_large(parts: Sequence[PlaceRunKernel]) -> bool:
    """Whether what a place computes is worth it, and known."""
    sizes = [[part.op.dims[axis] for axis in part.beside] for part in parts]
    if not all(size.is_static for beside in sizes for size in beside):
        return False
    return max(prod(map(int, beside)) for beside in sizes) >= LEAST


class _PlaceRunProof:
    """Whether kernels may go place by place, and are better off."""

    def __init__(self, parts: tuple[PlaceRunKernel, ...], near: int) -> None:
        self.parts, self.near = parts, near
        self.touches: dict[Buffer, list[tuple[PlaceRunKernel, Access, bool]]] = {}
        for part in parts:
            for number, (value, access) in enumerate(part.operands):
                buffer = value.owner
                assert isinstance(buffer, Buffer)
                writes = number >= len(part.op.ins)
                self.touches.setdefault(buffer, []).append((part, access, writes))
        self.written = [b for b, touches in self.touches.items() if any(t[2] for t in touches)]

    def result(self) -> PlaceRun | None:
        parts = self.parts
        if any(
            len({part.along(a) for v, a in part.operands if v is value}) > 1
            for part in parts
            for value, _ in part.operands
        ):
            return None  # a kernel has one pointer of a value
        if not self._is_worth_it() or not all(map(self._is_apart, self.written)):
            return None
        turns = self._turns()
        local = {b: self._step(b) for b in self.written if self._is_local(b)}
        if not local or turns is None:
            return None
        [first, *_] = parts
        own = {buffer: step for buffer, step in local.items() if buffer not in turns}
        return PlaceRun(parts, tuple(first.op.dims[axis] for axis in first.axes), own)

    def _is_worth_it(self) -> bool:
        """Whether what a place touches stays near, with room for what comes next."""
        total = 0
        for buffer, touches in self.touches.items():
            reaches = [part.reach(access) for part, access, _ in touches]
            if None in reaches:
                return False
            total += ITEM_BYTES[buffer.dtype] * max(reach or 0 for reach in reaches)
        return 2 * total <= self.near

    def _along(self, buffer: Buffer) -> Strides:
        part, access, _ = self.touches[buffer][0]
        return part.along(access)

    def _step(self, buffer: Buffer) -> int:
        return int(self._along(buffer)[-1])

    def _is_apart(self, buffer: Buffer) -> bool:
        """Whether each place has a part of a buffer to itself, the same in all its accesses."""
        if buffer.role.data not in ("scratch", "output"):
            return False
        touches, along = self.touches[buffer], self._along(buffer)
        if any(part.along(access) != along for part, access, _ in touches):
            return False
        [first, *_] = self.parts
        sizes = [first.op.dims[axis] for axis in first.axes]
        dense = all(
            outer == step * size
            for outer, step, size in zip(along, along[1:], sizes[1:], strict=False)
        )
        if not dense or not along[-1].is_static or int(along[-1]) <= 0:
            return False
        return all(self._is_within(part, access, int(along[-1])) for part, access, _ in touches)

    def _is_within(self, part: PlaceRunKernel, access: Access, room: int) -> bool:
        reach, offset = part.reach(access), access.offset
        if reach is None or not offset.is_static or int(offset) < 0:
            return False
        return int(offset) + reach <= room

    def _is_local(self, buffer: Buffer) -> bool:
        """Whether nothing outside of the run reads or writes a buffer."""
        uses = len(list(buffer.y.uses))
        return buffer.role.data == "scratch" and uses == len(self.touches[buffer])

    def _turns(self) -> set[Buffer] | None:
        """Buffers that take turns in one place in memory, part by part; None if others share any
        that is written."""
        turns = set[Buffer]()
        for a, b in combinations(self.touches, 2):
            if (a in self.written or b in self.written) and not lie_apart(a, b):
                if not self._take_turns(a, b):
                    return None
                turns |= {a, b}
        return turns

    def _take_turns(self, a: Buffer, b: Buffer) -> bool:
        """Whether two buffers have one place in memory, and each place's parts of both, too."""
        same = a.offset == b.offset and a.dtype == b.dtype and a.role == b.role
        if not same or a.role.data != "scratch" or self._along(a) != self._along(b):
            return False
        return all(self._is_apart(buffer) for buffer in (a, b))
