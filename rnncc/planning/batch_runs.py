"""Runs of kernels that may be done row by row of their first axis, such as the images of a batch.

Layers over images write more than a cache next to the core holds; done for one image after the
other, what one layer writes is still near when the next one reads it, and stays in one place: each
image takes the memory of the first one's. What each image computes, and in which order, stays as it
was, and so do bits.

In: a planned `kern.func`. Out: `BatchRun`s. Accesses and offsets prove that no row reads what
another one writes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.dialect import Buffer, Func
from rnncc.kern.kernels import Gemm, Index, Map, Reduce
from rnncc.planning.phases import lie_apart
from rnncc.planning.uses import Touch, accesses
from rnncc.records import record

PRODUCT_ROWS = 192
"""Rows of a product, of an image, for which its weights are read once more: of fewer, a last tile
that is not full counts."""

MOST_OPS, MOST_TRIES = 256, 32
"""Kernels of a run, and proofs for a function, that do not take long to write down."""

BatchKernel = Map | Reduce | Gemm


@record(eq=False)
class BatchRun:
    """Kernels, one behind the other, that may be done row by row.

    Attributes:
        symbol: the size of their first axis.
        ops: with the buffers declared between.
        strides: from row to row, of each operand, in elements; 0 where all rows share one place.
    """

    symbol: str
    ops: tuple[Operation, ...]
    strides: Mapping[SSAValue, int]


@record(eq=False)
class JoinedKernels:
    """Kernels that code computes in one pass with the next one.

    Attributes:
        firsts: the first of two.
        unstored: what the first of two writes only if it is by itself.
    """

    firsts: Container[Operation] = ()
    unstored: Container[SSAValue] = ()


ALONE = JoinedKernels()


def batch_runs(
    func: Func,
    symbols: Sequence[str],
    near: int,
    without: Container[Operation] = (),
    joined: JoinedKernels = ALONE,
) -> list[BatchRun]:
    """Those outside of loops that are worth it.

    Args:
        symbols: the sizes of a call.
        near: the bytes that stay next to the core.
        without: kernels that are no part of one.
    """
    runs, tries = list[BatchRun](), MOST_TRIES
    pending = [(symbol, ops) for symbol in symbols for ops in _sequences(func, symbol, without)]
    while pending and tries:
        symbol, ops = pending.pop()
        # Two that are computed together are both of a run, or neither is.
        ops = ops[1:] if ops and _joins(ops[0].prev_op, joined) else ops
        count = min(len(ops), MOST_OPS)
        if count and _joins(ops[count - 1], joined):
            count -= 1
        if count < 2:
            continue
        proof = _BatchProof(ops[:count], joined)
        if proof.bytes_between() <= near:
            pending.append((symbol, ops[count:]))
            continue
        tries -= 1
        end = proof.end()
        if end == count:
            runs.append(BatchRun(symbol, tuple(ops[:count]), proof.strides))
        pending += [(symbol, ops[max(end, 1) :])]
        pending += [(symbol, ops[:end])] if end < count else []
    return runs


def _joins(op: Operation | None, joined: JoinedKernels) -> bool:
    """Whether a kernel is computed in one pass with the next one."""
    return op is not None and op in joined.firsts


def _sequences(func: Func, symbol: str, without: Container[Operation]) -> Iterator[list[Operation]]:
    """Kernels one behind the other, with the buffers between."""
    ops = list[Operation]()
    for op in func.body.block.ops:
        takes = isinstance(op, BatchKernel) and op not in without and _is_by_row(op, symbol)
        if takes or (ops and isinstance(op, Buffer)):
            ops.append(op)
        else:
            yield ops
            ops = []
    yield ops


def _is_by_row(op: BatchKernel, symbol: str) -> bool:
    """Whether each row of a kernel's first axis is as good by itself."""
    rows = Dim.of(symbol)
    kept = len(op.dims) - (op.reduced.data if isinstance(op, Reduce) else 0)
    if kept < 2 or op.dims[0] != rows or not all(dim.is_static for dim in op.dims[1:]):
        return False
    if op.rows is not None or (isinstance(op, Reduce) and op.init is not None):
        return False
    if any(isinstance(inner, Index) and inner.axis.data == 0 for inner in op.body.block.ops):
        return False  # an index would count from 0 in each row
    if isinstance(op, Gemm) and not _is_large(op):
        return False
    return all(_is_whole(value) for value in op.operands) and all(
        _is_shared(touch) or _row_of(touch) is not None for touch in accesses(op)
    )


def _is_large(op: Gemm) -> bool:
    """Whether the weights are no more than what a row reads and writes, so that it may be read
    again for each."""
    if op.room is not None or op.scales is not None:
        return False
    rows = prod(int(dim) for dim in op.dims[1:-1])
    weights, units = op.slots.data * op.depth.data * op.units, op.units * len(op.outs)
    return rows >= PRODUCT_ROWS and weights <= rows * (op.depth.data + units)


def _is_whole(value: SSAValue) -> bool:
    buffer = value.owner
    if not isinstance(buffer, Buffer) or buffer.within is not None or buffer.default is not None:
        return False
    return buffer.rows_kept is None and buffer.of_state is None


def _is_shared(touch: Touch) -> bool:
    """Whether an operand is a parameter that all rows read alike."""
    value, _, access, dims = touch
    buffer = value.owner
    assert isinstance(buffer, Buffer)
    alike = dims[0].is_static or access.strides[0] == 0
    return buffer.role.data == "param" and alike


def _row_of(touch: Touch) -> tuple[int, int] | None:
    """How far a touch's rows are apart, and how many elements from a row's begin one reaches."""
    _, _, access, dims = touch
    if dims[0].is_static or not all(d.is_static for d in (access.offset, *access.strides)):
        return None
    stride, *steps = map(int, access.strides)
    if stride <= 0 or int(access.offset) < 0 or min(steps, default=0) < 0:
        return None
    spans = ((int(dim) - 1) * step for dim, step in zip(dims[1:], steps, strict=True))
    return stride, int(access.offset) + 1 + sum(spans)


class _BatchProof:
    """Whether kernels may go row by row, each row in the place of the first."""

    def __init__(self, ops: Sequence[Operation], joined: JoinedKernels) -> None:
        self.touches = [
            (number, touch)
            for number, op in enumerate(ops)
            for touch in accesses(op)
            if not _is_shared(touch) and touch[0] not in joined.unstored
        ]
        self.ops, self.strides = ops, dict[SSAValue, int]()
        self.first = dict[Buffer, int]()
        for number, (value, *_) in self.touches:
            self.first.setdefault(self._owner(value), number)
        self.written = {self._owner(t[0]) for _, t in self.touches if t[1]}
        kernels = set(ops)
        self.local = {
            buffer
            for buffer in self.written
            if buffer.role.data == "scratch"
            and all(use.operation in kernels for use in buffer.y.uses)
        }

    @staticmethod
    def _owner(value: SSAValue) -> Buffer:
        assert isinstance(value.owner, Buffer)
        return value.owner

    def end(self) -> int:
        """How many of the kernels may go together: all, or those before one that may not."""
        return min(self._end_of_rows(), self._end_of_places())

    def _end_of_rows(self) -> int:
        """Before a kernel whose rows are not a buffer's."""
        apart = dict[Buffer, int]()
        for number, touch in self.touches:
            buffer, row = self._owner(touch[0]), _row_of(touch)
            assert row is not None
            stride, reach = row
            same = apart.setdefault(buffer, stride) == stride
            if not same or (buffer in self.written and reach > stride):
                return number
            self.strides[touch[0]] = 0 if buffer in self.local else stride
        return len(self.ops)

    def _end_of_places(self) -> int:
        """Before a kernel that touches memory, which is there before or behind the run, of which
        another row takes a part."""
        end = len(self.ops)
        kept = [b for b in self.first if b not in self.local and b.role.data != "param"]
        for buffer in kept:
            others = self.written - {buffer}
            # Inputs are never written; scratch and outputs without an array lie in the workspace.
            if buffer.role.data != "input" and not all(lie_apart(buffer, o) for o in others):
                end = min(end, self.first[buffer])
        return end

    def bytes_between(self) -> int:
        """The most bytes of a row that a kernel reads and writes for others of the run."""
        by_kernel = dict[int, dict[Buffer, int]]()
        for number, touch in self.touches:
            buffer, row = self._owner(touch[0]), _row_of(touch)
            assert row is not None
            if buffer in self.local:
                reached = by_kernel.setdefault(number, {})
                reached[buffer] = max(reached.get(buffer, 0), row[1] * ITEM_BYTES[buffer.dtype])
        return max((sum(reached.values()) for reached in by_kernel.values()), default=0)
