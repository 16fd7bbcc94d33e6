"""Which buffers may take the memory of another: a kernel writes where it has just read.

A kernel reads a point's inputs before it writes the point's outputs, so a buffer that dies in a
kernel may hand its memory to one that is born there, if both are accessed alike.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Gemm, Map
from rnncc.kern.moves import ContinuedSum
from rnncc.planning.lifetimes import Lifetime
from rnncc.planning.uses import Timeline, Use

OWNED = ("scratch", "state")
"""Roles whose memory is the workspace's alone."""


def inherited(line: Timeline, alive: dict[Buffer, Lifetime]) -> dict[Buffer, Buffer]:
    """Heir -> the buffer whose memory it takes; in order of birth."""
    givers: dict[object, deque[Buffer]] = defaultdict(deque)
    for buffer, uses in line.uses.items():
        for use in uses:
            if _may_give(buffer, alive[buffer], uses, use):
                givers[_place(use)].append(buffer)
    heirs: dict[Buffer, Buffer] = {}
    for heir, uses in line.uses.items():
        births = [use for use in uses if use.position == alive[heir].first]
        if len(births) != 1 or not births[0].writes or not _is_owned(heir):
            continue  # a buffer that is alive for a whole loop is not born in one of its kernels
        if fitting := givers.get(_place(births[0])):
            heirs[heir] = fitting.popleft()
    return heirs


def _place(use: Use) -> object:
    """What a read and a write have in common where the one may take the other's memory."""
    return use.position, use.footprint, use.buffer.dtype, use.buffer.bytes


def _may_give(buffer: Buffer, life: Lifetime, uses: Sequence[Use], read: Use) -> bool:
    """Whether a buffer dies where it is read by points of their own, and nowhere else."""
    if life.last != read.position or read.writes or read.footprint is None:
        return False
    # a second read in the kernel, perhaps at other points, would find what has just been written
    alone = sum(use.position == read.position for use in uses) == 1
    return alone and _is_owned(buffer) and _reads_own_points(read)


def _is_owned(buffer: Buffer) -> bool:
    """The caller's arrays and slots of the tape are not the workspace's to give."""
    return buffer.role.data in OWNED and buffer.within is None


def _reads_own_points(use: Use) -> bool:
    """Whether each point reads its own elements alone; other points read a product's factors."""
    if isinstance(use.op, ContinuedSum):
        return use.value is use.op.init
    if isinstance(use.op, Map):
        return use.value is not use.op.rows
    return isinstance(use.op, Gemm) and use.value in use.op.ins
