"""How a `kern.reduce` lies to vectors of lanes, from which follows the order of an `any` sum."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from rnncc.ir.access import Access
from rnncc.ir.kernels import Reduce


class Lanes(Enum):
    """What runs along the lanes: results, each of which one lane sums; the last reduced axis, whose
    lanes are added up in the end; nothing."""

    ACROSS = auto()
    ALONG = auto()
    NONE = auto()


def lanes_of(op: Reduce) -> Lanes:
    """Lanes run along the last axis that is kept, where memory is dense along it; else along the
    last reduced axis, where that is dense and the order is free."""
    kept, some = len(op.dims) - op.reduced.data, op.some_rows
    reads, [written] = op.in_accesses, op.out_accesses
    across = kept > 0 and written.strides[kept - 1] == 1 and _dense(reads, kept - 1)
    if across and (some is None or some.axes < kept):  # listed rows are far apart
        return Lanes.ACROSS
    along = op.order.data == "any" and op.reduced.data > 0 and _dense(reads, len(op.dims) - 1)
    return Lanes.ALONG if along else Lanes.NONE


def _dense(accesses: Sequence[Access], axis: int) -> bool:
    steps = [a.strides[axis] for a in accesses]
    return any(s == 1 for s in steps) and all(s in (0, 1) for s in steps)
