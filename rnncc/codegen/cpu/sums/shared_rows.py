"""Which results of a reduction are computed together: rows of them that read the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.llvm.values import I64, Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.kern.access import Access
from rnncc.kern.kernels import Reduce
from rnncc.records import record

SHARING, NARROW = 4, 2
"""Rows of results at a time where they share what they read, such as queries that meet the same
keys: half of them where there are 16 registers, twice as many where a row is so few vectors."""
SHORT = 2
"""Vectors of terms of a row that are summed beside those of others, where they do not fill vectors
and nothing is shared: longer rows go through memory faster one by one (8 x 200 rows of 500 terms:
37 us, not 43)."""
FEW = 32
"""Terms over several axes, such as a window's, that are written one by one."""
WINDOW_ROWS = (4, 5, 3)
"""The same of windows: the first that the rows are a multiple of, or else the first. A 3x3 window
reads 4.5 elements a result then, not 9, and its weights once for all of them."""


@record
class ResultIndices:
    """The indices of a vector of results, or of one; and which lanes count, where not all do.

    Attributes:
        shift: rows and elements from the first of those that are computed together.
        origin: the indices of that one; None of a place by itself.
    """

    indices: list[Value]
    mask: Value | None = None
    shift: tuple[int, int] = (0, 0)
    origin: list[Value] | None = None


def side_by_side(
    emit: CpuEmit, rows: list[list[Value]], start: Value, vectors: int, mask: Value | None = None
) -> list[ResultIndices]:
    """As many vectors of some rows, from an element of each on."""
    lanes = emit.target.lanes
    return [
        ResultIndices([*row, emit.b.add(start, I64(v))], mask, (r, v), [*rows[0], start])
        for r, row in enumerate(rows)
        for v in range(0, vectors * lanes, lanes)
    ]


def has_few_taps(op: Reduce, kept: int) -> bool:
    """Whether terms are written one by one: without loops around them the loads of neighbours
    overlap and no counter stands between two of them."""
    taps = op.dims[kept:]
    static = len(taps) > 1 and all(d.is_static for d in taps)
    return static and prod(map(int, taps)) <= FEW


def folds_together(op: Reduce, kept: int, lanes: int) -> bool:
    """Whether there may be a vector of neighbouring results, each of a known number of terms."""
    # Only float sums are worth it: 15 additions of vectors fold 16 results instead of 64. Each is
    # still folded in the order that it has alone, so that no bit changes.
    if op.kind.data != "sum" or dtype_of(op.yields[0]) not in FLOATS or op.active_rows is not None:
        return False
    if kept < 2 or op.reduced.data != 1 or op.out_accesses[0].strides[kept - 1] != 1:
        return False
    results, terms = op.dims[kept - 1 :]
    if lanes == 1 or not terms.is_static:
        return False
    shares = any(access.strides[kept - 1] == 0 for access in op.in_accesses)
    if int(terms) % lanes and int(terms) > SHORT * lanes and not shares:
        return False
    return not results.is_static or int(results) >= lanes


def rows_together(target: Core, op: Reduce, kept: int, unrolled: bool) -> int:
    """How many rows along the axis around the lanes'; 1 where nothing is in common.

    Args:
        kept: how many axes the results have.
        unrolled: whether taps are written one by one.
    """
    row = kept - 2
    if row < 0 or op.active_rows is not None:
        return 1
    if unrolled:
        return _windows_together(target, op, row)
    size = op.dims[row]
    same = any(a.strides[row] == 0 and a.strides[kept - 1] != 0 for a in op.in_accesses)
    if not same or (size.is_static and int(size) < SHARING):
        return 1
    if target.registers < 32:
        return SHARING // 2
    columns = op.dims[kept - 1]
    narrow = columns.is_static and int(columns) <= NARROW * target.lanes
    return 2 * SHARING if narrow and not (size.is_static and int(size) < 2 * SHARING) else SHARING


def vectors_together(target: Core) -> int:
    """Vectors of a row of windows that go with those of other rows: sums, what they have in common
    and weights stay in registers."""
    return 2 if target.registers >= 32 else 1


def _windows_together(target: Core, op: Reduce, row: int) -> int:
    size, most = op.dims[row], WINDOW_ROWS[0]
    if size.is_static:
        most = min(most, int(size))
    taps = op.dims[row + 2 :]
    common = any(_have_common(a, row, taps, most) for a in op.in_accesses)
    if most < 2 or target.compact or not common:
        return 1
    if not size.is_static:
        return most
    return next((rows for rows in WINDOW_ROWS if int(size) % rows == 0), most)


def _have_common(access: Access, row: int, taps: Sequence[Dim], rows: int) -> bool:
    """Whether a result and one of the next rows read an element in common."""
    step, steps = access.strides[row], access.strides[row + 2 :]
    if step == 0:
        return any(s != 0 for s in access.strides)
    ahead = [step * r for r in range(1, rows)]
    reached = {s * k for s, size in zip(steps, taps, strict=True) for k in range(1, int(size))}
    return any(distance in reached for distance in ahead)
