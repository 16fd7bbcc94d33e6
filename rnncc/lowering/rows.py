"""Rows that are not addressable in place: of shifted, reversed and absent sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.builder import Builder as OpBuilder
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from rnncc.ir.attributes import get_ints
from rnncc.ir.dims import ZERO, Dim, product
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.shape import Shift, Transpose
from rnncc.ir.types import ITEM_BYTES, dims_of, dtype_of
from rnncc.kern import dialect as kern
from rnncc.kern.access import Access, dense
from rnncc.lowering.maps import Placed, copying
from rnncc.platforms import LINE

if TYPE_CHECKING:
    from rnncc.lowering.walk import Lowering

SETS = 4096
"""Bytes that the sets of a first-level cache hold, a line each; of other caches, a multiple."""


def are_apart(lowering: Lowering, sequence: SSAValue) -> bool:
    """Whether rows have places of their own: of a shifted sequence, and of an input that may be
    absent, or a part of one."""
    if isinstance(sequence.owner, Shift):
        return True
    while sequence in lowering.segments:
        sequence, _ = lowering.segments[sequence]
    return sequence in lowering.absent


def place(lowering: Lowering, value: SSAValue, sequence: SSAValue, t: Dim) -> Placed:
    """The place of a loop's row `value`, the t-th of such a sequence.

    Before:

        v1 = shift(s, h)
        for t in reversed 0..T, dy from dy:
            v2 = mul(dy[t+1], v1[t])
            dy[t] = v2
        return dy[0]

    After:

        state state: N, ring of 1
        for t in reversed 0..T, p from dy:
            map i in N: state[t] = p * (s[t - 1] or h)
            p = state[t]
        map i in N: y = p
    """
    block, op = value.owner, sequence.owner
    assert isinstance(block, Block)
    with lowering.at(block):
        if isinstance(op, Shift):
            return _shifted(lowering, op, t)
        while sequence in lowering.segments:
            sequence, first = lowering.segments[sequence]
            t = first + t
        dims = dims_of(value)
        # A row of its own, as where it is depends on the caller: an absent sequence is one row of
        # zeros for all steps.
        row = kern.Row(lowering.place(sequence).buffer, t, product(dims))
        return Placed.densely(lowering.builder.insert(row).y, dims)


def copy_shift(lowering: Lowering, op: Shift) -> Placed:
    """A dense copy of a shifted sequence, row by row."""
    steps, *dims = dims_of(op.y)
    dest, t, iteration = lowering.scratch(op.y), lowering.fresh_index(), Block()
    assert op.parent is not None
    with lowering.at(op.parent):
        lowering.builders.append(OpBuilder(InsertPoint.at_end(iteration)))
        source = _shifted(lowering, op, Dim.of(t))
        row = lowering.builder.insert(kern.Row(dest.buffer, Dim.of(t), product(dims))).y
        lowering.builder.insert(copying(dims, source, Placed(row, source.access)))
        lowering.builder.insert(Yield([]))
        lowering.builders.pop()
        lowering.builder.insert(kern.For(t, ZERO, steps, [], iteration))
    return dest


def set_apart(lowering: Lowering, y: SSAValue) -> Placed | None:
    """Where a sequence of rows lies a line further apart than these are long, if that pays.

    Addresses that differ by a multiple of 4096 bytes have the same set of a cache, which holds 8 to
    16 lines. A loop that takes some units through several steps, then the next ones, touches a line
    of each row: rows of such a length would drive each other out. None where the length is
    another, something reads more than a row of the sequence, or planning may give it the memory of
    a slot of the tape, whose rows lie as far apart as they are long.
    """
    steps, *dims = dims_of(y)
    item = ITEM_BYTES[dtype_of(y)]
    same_sets = all(factor * item % SETS == 0 for _, factor in product(dims).terms)
    if lowering.target.waits_are_dear or steps == 1 or not same_sets or not _by_rows(y):
        return None
    if _is_as_long_as_a_slot(lowering, y):
        return None
    apart = product(dims) + LINE // item
    buffer = lowering.scratch(y, [steps, apart]).buffer
    return Placed(buffer, Access(ZERO, (apart, *dense(dims))))


def _is_as_long_as_a_slot(lowering: Lowering, y: SSAValue) -> bool:
    slots = [port for port in lowering.result.inputs if port.kind == "saved"]
    size = product(dims_of(y))
    return any(slot.dtype == dtype_of(y) and product(slot.dims) == size for slot in slots)


def _by_rows(sequence: SSAValue) -> bool:
    """Whether only loops read a sequence, a row in each step."""
    for use in sequence.uses:
        match use.operation:
            case Scan() as scan:
                if use.index < len(scan.consts) + len(scan.inits):
                    return False
            case Shift() as shift:
                if sequence is not shift.x or sequence is shift.init or not _by_rows(shift.y):
                    return False
            case _:
                return False
    return True


def distance(place: Placed, dims: Sequence[Dim]) -> Dim | None:
    """How far the rows of a sequence are apart; None where these do not lie densely."""
    if place.is_dense(dims):
        return product(dims[1:])
    row = Placed(place.buffer, Access(ZERO, place.access.strides[1:]))
    return place.access.strides[0] if row.is_dense(dims[1:]) else None


def _shifted(lowering: Lowering, op: Shift, t: Dim) -> Placed:
    """Row t, which stands where the sequence or its init is."""
    steps, *dims = dims_of(op.y)
    # Forwards, row t is row t - 1 of the sequence, and init at t = 0; backwards it is row t + 1,
    # and init at the last t.
    edge, step = (steps - 1, 1) if op.reverse else (ZERO, -1)
    init, place = lowering.pointer(op.init), lowering.place(op.x)
    x, apart = place.buffer, distance(place, dims_of(op.x))
    if apart is None or place.access.offset != 0:
        x, apart = lowering.pointer(op.x), product(dims)
    row = kern.ShiftedRow(x, init, t, apart, edge, step)
    return Placed.densely(lowering.builder.insert(row).y, dims)


def direct(lowering: Lowering, value: SSAValue, dest: Placed) -> bool:
    """Let a loop put rows of a sequence where its transpose wants them; whether it does.

    Of shorter rows each would write a part of a line, and the next one come back to it.
    """
    op, dims = value.owner, dims_of(value)
    if not isinstance(op, Transpose) or lowering.target.waits_are_dear or not op.x.has_one_use():
        return False
    perm, row = get_ints(op.perm), dims[-1]
    long = row.is_static and int(row) * ITEM_BYTES[dtype_of(value)] >= LINE
    if perm[-1] != len(perm) - 1 or perm[0] == 0 or not long:
        return False
    strides = dict(zip(perm, dest.access.strides, strict=True))
    access = Access(ZERO, tuple(strides[axis] for axis in range(len(perm))))
    is_scan = isinstance(op.x.owner, Scan)
    return is_scan and lowering.direct(op.x, Placed(dest.buffer, access))
