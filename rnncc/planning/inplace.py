"""Which buffers may take the memory of another: a kernel writes where it has just read.

A kernel reads a point's inputs before it writes the point's outputs, so a buffer that dies in a
kernel may hand its memory to one that is born there, if both are accessed alike.
"""

from __future__ import annotations

from collections import defaultdict

from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Gemm, Map
from rnncc.kern.moves import ContinuedSum
from rnncc.planning.lifetimes import Lifetime
from rnncc.planning.uses import Timeline, Use

OWNED = ("scratch", "state")
"""Roles whose memory is the workspace's alone."""


def inherited(line: Timeline, alive: dict[Buffer, Lifetime]) -> dict[Buffer, Buffer]:
    """Heir -> the buffer whose memory it takes; in order of birth."""
    reads: dict[int, list[Use]] = defaultdict(list)
    for use in (use for uses in line.uses.values() for use in uses):
        if _reads_own_points(use):
            reads[use.position].append(use)
    heirs: dict[Buffer, Buffer] = {}
    donors: set[Buffer] = set()
    for heir, uses in line.uses.items():
        births = [use for use in uses if use.position == alive[heir].first]
        if len(births) != 1 or not births[0].writes:
            continue  # a buffer that is alive for a whole loop is not born in one of its kernels
        for use in reads[births[0].position]:
            if use.buffer not in donors and _may_give(line, alive, use, births[0]):
                heirs[heir] = use.buffer
                donors.add(use.buffer)
                break
    return heirs


def _reads_own_points(use: Use) -> bool:
    """Whether each point reads its own elements alone; other points read a product's factors."""
    if isinstance(use.op, ContinuedSum):
        return use.value is use.op.init
    # by identity, without a call for each input of a sum of many
    return isinstance(use.op, Map | Gemm) and id(use.value) in map(id, use.op.ins)


def _may_give(line: Timeline, alive: dict[Buffer, Lifetime], read: Use, write: Use) -> bool:
    """Whether the read buffer dies here, is read just where the other is written, and fits."""
    # a second read in the kernel, perhaps at other points, would find what has just been written;
    # the caller's arrays and slots of the tape are not the workspace's to give
    giver, heir = read.buffer, write.buffer
    if alive[giver].last != write.position or giver.dtype != heir.dtype:
        return False
    if read.footprint is None or read.footprint != write.footprint:
        return False
    touches = [use for use in line.uses[giver] if use.position == write.position]
    owned = all(b.role.data in OWNED and b.within is None for b in (giver, heir))
    return owned and len(touches) == 1 and giver.bytes == heir.bytes
