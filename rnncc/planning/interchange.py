"""Which loops over time may run unit by unit: each unit's steps in a row, its state in registers.

A loop is elementwise along a frame of axes, such as batch and units, where every kernel in it has
that frame and every element that it writes is read at the same place of the frame alone. What one
place computes then depends on no other, so that the order of steps and places may change; for each
place the order of operations stays, and so do bits. Axes beside the frame are short: a place has
all their elements, and may add them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product as combinations
from math import prod

from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ZERO, Dim
from rnncc.ir.ops.control import Yield
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, For, Func, Row, ShiftedRow
from rnncc.kern.kernels import Map, Reduce
from rnncc.planning.frames import FramedKernel, Strides
from rnncc.planning.inplace import OWNED
from rnncc.planning.uses import Targets, targets
from rnncc.records import record

FEW = 32
"""Elements of short axes that a place of the frame may have."""
WIDE = 16
"""Places of one sequence that fill a vector, of the widest ones."""


@record(eq=False)
class Part(FramedKernel):
    """A kernel of such a loop.

    Attributes:
        short, reduced: its axes beside the frame; those of them that it adds up.
    """

    short: tuple[int, ...]
    reduced: tuple[int, ...]

    def beside(self, access: Access, indices: Mapping[int, int]) -> Dim:
        """An access's offset at some indices of the axes beside the frame."""
        return sum((access.strides[a] * i for a, i in indices.items()), access.offset)

    def points(self, axes: Sequence[int]) -> Iterator[dict[int, int]]:
        """All indices of static axes, the last one fastest."""
        for indices in combinations(*(range(int(self.op.dims[axis])) for axis in axes)):
            yield dict(zip(axes, indices, strict=True))

    def offsets(self, access: Access) -> set[Dim]:
        """Those of all elements that a place of the frame reads or writes."""
        return {self.beside(access, i) for i in self.points((*self.short, *self.reduced))}


@record
class CarriedState:
    """A state: the body's argument, the row that it is replaced by, its elements of a place."""

    argument: SSAValue
    row: SSAValue
    along: Strides
    offsets: tuple[Dim, ...]


@record
class Interchange:
    """A loop that may run place by place of its frame.

    Attributes:
        frame: the sizes of its axes; lanes run along the last one.
        inside: what is read where it was written, by the same step or the next one, alone.
        last: of these, the states, which are in memory before and after the loop.
        takes_over: whether a value that it writes has memory of another one that it reads.
    """

    loop: For
    frame: tuple[Dim, ...]
    parts: tuple[Part, ...]
    carried: tuple[CarriedState, ...]
    inside: frozenset[SSAValue]
    last: frozenset[SSAValue]
    takes_over: bool

    @property
    def of_rows(self) -> list[Part]:
        """Kernels that need no state, all of whose results other kernels of the step read alone."""
        of_rows, written = list[Part](), set[SSAValue]()
        loop = {value for part in self.parts for value in part.op.outs}
        loop |= {carried.argument for carried in self.carried}
        for part in self.parts:
            if loop.intersection(part.op.ins) <= written and self.inside.issuperset(part.op.outs):
                of_rows.append(part)
                written.update(part.op.outs)
        return of_rows


def interchanges(func: Func) -> dict[For, Interchange]:
    """The loops of a function of which that is proved."""
    known = targets(func)
    loops = (op for op in func.walk() if isinstance(op, For))
    candidates = (_interchange(loop, known) for loop in loops)
    return {proved.loop: proved for proved in candidates if proved is not None}


def _interchange(loop: For, known: Mapping[SSAValue, Targets]) -> Interchange | None:
    ops = list(loop.body.block.ops)
    kernels = [op for op in ops if isinstance(op, Map | Reduce)]
    others = (op for op in ops if not isinstance(op, Map | Reduce | Row | ShiftedRow | Yield))
    # Of a product, say, each point reads many of the step before: places are not on their own.
    if loop.chunk is not None or not kernels or any(True for _ in others):
        return None
    # All kernels must have these axes; those of more have the others for each place.
    frame = min((_sizes(kernel, _kept(kernel)) for kernel in kernels), key=len)
    parts = [part for kernel in kernels if (part := _part(kernel, frame)) is not None]
    if len(parts) < len(kernels) or not frame or not frame[-1].is_static:
        return None
    if places_of(frame) < WIDE:
        return None
    return _InterchangeProof(loop, frame, parts, known).result()


def places_of(frame: Sequence[Dim]) -> int:
    """Those of a frame's axes of known size."""
    return prod(int(size) for size in frame if size.is_static)


def _kept(kernel: Map | Reduce) -> tuple[int, ...]:
    """The axes that a kernel keeps, of more than one index.

    Of a single sequence, some kernels have the batch's axis, others none.
    """
    reduced = kernel.reduced.data if isinstance(kernel, Reduce) else 0
    kept = range(len(kernel.dims) - reduced)
    return tuple(axis for axis in kept if kernel.dims[axis] != 1)


def _sizes(kernel: Map | Reduce, axes: Iterable[int]) -> tuple[Dim, ...]:
    return tuple(kernel.dims[axis] for axis in axes)


def _part(op: Map | Reduce, frame: tuple[Dim, ...]) -> Part | None:
    """A kernel's axes: the frame's outer ones come first, units last of those that it keeps."""
    kept, outer = _kept(op), len(frame) - 1
    # Listed rows are others at each step, and a sum that goes on in memory is no value of the step.
    if op.rows is not None or (isinstance(op, Reduce) and op.init is not None):
        return None
    axes, short = (*kept[:outer], *kept[-1:]), kept[outer:-1]
    if len(kept) < len(frame) or _sizes(op, axes) != frame:
        return None
    count = op.reduced.data if isinstance(op, Reduce) else 0
    reduced = tuple(range(len(op.dims) - count, len(op.dims)))
    beside = [op.dims[axis] for axis in (*short, *reduced)]
    # They are written one by one, and live in registers: few, and known.
    if not all(size.is_static for size in beside) or prod(map(int, beside)) > FEW:
        return None
    return Part(op, axes, short, reduced)


@record
class _StridedTouch:
    """A read or write of a value; `number`: of the kernel."""

    value: SSAValue
    number: int
    writes: bool
    along: Strides
    offsets: set[Dim]


class _InterchangeProof:
    """Whether what a loop writes is read at the same place of its frame alone."""

    def __init__(
        self,
        loop: For,
        frame: Sequence[Dim],
        parts: Sequence[Part],
        known: Mapping[SSAValue, Targets],
    ) -> None:
        self.loop, self.frame, self.parts, self.known = loop, tuple(frame), parts, known
        self.touches = [touch for i, part in enumerate(parts) for touch in _touches(i, part)]
        self.writes = {touch.value: touch for touch in self.touches if touch.writes}
        carried = zip(loop.body.block.args, loop.yields, strict=True)
        self.arguments: dict[SSAValue, SSAValue] = dict(carried)

    def result(self) -> Interchange | None:
        count = sum(touch.writes for touch in self.touches)
        if len(self.writes) < count or not all(map(self._is_apart, self.writes.values())):
            return None
        if not all(map(self._is_own, self.touches)) or not all(map(self._goes_on, self.arguments)):
            return None
        inside = frozenset(value for value in self.writes if self._is_inside(value))
        last = inside & frozenset(self.loop.yields)
        carried = tuple(self._carried(argument) for argument in self.arguments)
        over = any(map(self._takes_over, self.writes.values()))
        return Interchange(self.loop, self.frame, tuple(self.parts), carried, inside, last, over)

    def _root(self, value: SSAValue) -> Buffer:
        """The one buffer that a value which is written stands for."""
        [buffer] = self.known[value]
        return buffer

    def _is_apart(self, write: _StridedTouch) -> bool:
        """Whether places of the frame write elements of their own, which nothing else stands for.

        Rows that the loop carries stand for those of earlier steps, at the same places.
        """
        # A value of several buffers may be any of them: of those nothing is proved.
        buffers = self.known[write.value]
        if len(buffers) != 1 or write.along[-1] != 1:
            return False
        [buffer] = buffers
        if buffer.within is not None:
            return False  # in another's memory
        if not all(self._is_alike(write, touch) for touch in self.touches):
            return False
        inits = zip(self.arguments, self.loop.inits, strict=True)
        entering: dict[SSAValue, Targets] = {argument: self.known[i] for argument, i in inits}
        for touch in self.touches:
            if touch.value is write.value:
                continue
            if buffer in entering.get(touch.value, self.known[touch.value]):
                return False
        return _are_apart(self.frame, write.along, write.offsets)

    def _in_its_memory(self, write: _StridedTouch, touch: _StridedTouch) -> bool:
        """Whether another buffer that a value may stand for begins where the written one does."""
        # Two buffers at one offset are one memory, by in-place reuse.
        root = self._root(write.value)
        same = (o for o in self.known[touch.value] if o is not root and o.role.data in OWNED)
        return root.role.data in OWNED and any(o.offset == root.offset for o in same)

    def _takes_over(self, write: _StridedTouch) -> bool:
        return any(self._in_its_memory(write, touch) for touch in self.touches)

    def _is_alike(self, write: _StridedTouch, touch: _StridedTouch) -> bool:
        """Whether what may have the memory of what is written is read at the same places.

        A buffer takes over that of another where one kernel reads and writes the same points.
        """
        if not self._in_its_memory(write, touch):
            return True
        shift = self._shift(touch.value) - self._shift(write.value)
        offsets = {*write.offsets, *(offset + shift for offset in touch.offsets)}
        return touch.along == write.along and _are_apart(self.frame, write.along, offsets)

    def _shift(self, value: SSAValue) -> Dim:
        op = value.owner
        return get_dim(op.index) * get_dim(op.stride) if isinstance(op, Row) else ZERO

    def _is_own(self, read: _StridedTouch) -> bool:
        """Whether what the loop has written is read behind that, and at the same place."""
        write = self.writes.get(read.value)
        if read.writes or write is None:
            return True
        # Kernels run in their order for each place: what is read must have been written by one
        # before.
        same = read.along == write.along and read.offsets <= write.offsets
        return same and read.number > write.number

    def _goes_on(self, argument: SSAValue) -> bool:
        """Whether a step finds a state where the step before has written it."""
        row = self.arguments[argument]
        write, reads = self.writes.get(row), [t for t in self.touches if t.value is argument]
        own = isinstance(row.owner, Row) and row.owner.parent is self.loop.body.block
        if write is None or not own:
            return False
        return all(t.along == write.along and t.offsets <= write.offsets for t in reads)

    def _is_inside(self, value: SSAValue) -> bool:
        """Whether nothing outside of the loop reads what is written, but for the last state."""
        buffer, block = self._root(value), self.loop.body.block
        role = "state" if value in self.loop.yields else "scratch"
        uses = [use for aliased in {buffer.y, value} for use in aliased.uses]
        return buffer.role.data == role and all(use.operation.parent is block for use in uses)

    def _carried(self, argument: SSAValue) -> CarriedState:
        row = self.arguments[argument]
        write = self.writes[row]
        return CarriedState(argument, row, write.along, tuple(sorted(write.offsets, key=str)))


def _touches(number: int, part: Part) -> Iterator[_StridedTouch]:
    for i, (value, access) in enumerate(part.operands):
        writes = i >= len(part.op.ins)
        yield _StridedTouch(value, number, writes, part.along(access), part.offsets(access))


def _are_apart(sizes: Sequence[Dim], strides: Strides, offsets: Iterable[Dim]) -> bool:
    """Whether different places touch different elements."""
    pairs = [pair for pair in zip(sizes, strides, strict=True) if pair[0] != 1]
    axes = sorted(((size, _least(stride)) for size, stride in pairs), key=lambda axis: -axis[1])
    if not all(stride > 0 for _, stride in axes):
        return False
    # Only the axis of the largest stride may be open: how far the others reach must be a number.
    if not all(size.is_static for size, _ in axes[1:]):
        return False
    first, *others = offsets
    distances = {b - a for a in (first, *others) for b in others} | {ZERO}
    if not all(distance.is_static for distance in distances):
        return False
    if not all(stride.is_static for _, stride in pairs):
        # Its places must be further apart than others reach, where there is but one step, too.
        reach = sum((int(size) - 1) * stride for size, stride in axes[1:])
        of_open = [_least(stride) for _, stride in pairs if not stride.is_static]
        if of_open != [axes[0][1]] or of_open[0] <= reach + max(abs(int(d)) for d in distances):
            return False
    return not any(_meet(int(distance), axes, False) for distance in distances)


def _least(stride: Dim) -> int:
    """The least number of elements of a stride, where there are any; 0: not known.

    Of sequences with the batch first, the sequences of a batch are T rows apart.
    """
    if stride.is_static:
        return int(stride)
    terms = stride.terms
    return terms[0][1] if len(terms) == 1 and not stride.atoms else 0


def _meet(distance: int, axes: Sequence[tuple[Dim, int]], moved: bool) -> bool:
    """Whether two places, different ones unless `moved`, may be that far from each other."""
    if not axes:
        return moved and distance == 0
    (size, stride), *inner = axes
    reach = sum((int(n) - 1) * step for n, step in inner)
    steps = range(-((reach - distance) // stride), (distance + reach) // stride + 1)
    return any(
        _meet(distance - stride * step, inner, moved or step != 0)
        for step in steps
        if not size.is_static or abs(step) < int(size)
    )
