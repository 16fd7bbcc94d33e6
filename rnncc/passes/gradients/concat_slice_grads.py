"""Gradients of slices, side by side rather than each padded to the whole and added up.

Padding is -0.0, not 0.0: x + -0.0 is x for every x, but -0.0 + 0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.shape import Concat
from rnncc.ir.ops.source import Fill
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record


@record
class _Piece:
    """A value that is `part` from `start` on along an axis, and -0.0 elsewhere."""

    axis: int
    start: int
    part: SSAValue
    whole: SSAValue

    @property
    def end(self) -> int:
        return self.start + int(dims_of(self.part)[self.axis])


def concat_slice_grads(b: Builder, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values of the same sum as the ones given: padded slices that do not overlap become one.

    Before:

        v1 = concat(df, -0, axis=1)
        v2 = concat(-0, dg, axis=1)
        v3 = add(v1, v2)
        return v3

    After:

        v1 = concat(df, dg, axis=1)
        return v1
    """
    pieces = [(value, _piece(value)) for value in values]
    others = [value for value, piece in pieces if piece is None]
    rows: list[list[_Piece]] = []
    padded = [piece for _, piece in pieces if piece is not None]
    for piece in sorted(padded, key=lambda piece: (piece.axis, piece.start)):
        fitting = [r for r in rows if r[0].axis == piece.axis and r[-1].end <= piece.start]
        if fitting:
            fitting[0].append(piece)
        else:
            rows.append([piece])
    return [*others, *(_joined(b, row) for row in rows)]


def _piece(value: SSAValue) -> _Piece | None:
    concat = value.owner
    if not isinstance(concat, Concat):
        return None
    axis = concat.axis.data
    parts = [(start, x) for start, x in concat.parts if not _is_zeros(x)]
    if len(parts) != 1 or not parts[0][0].is_static:
        return None  # pieces are sorted by where they start
    (at, part), *_ = parts
    return _Piece(axis, int(at), part, value) if dims_of(part)[axis].is_static else None


def _is_zeros(value: SSAValue) -> bool:
    return isinstance(value.owner, Fill) and value.owner.value.value.data == 0


def _joined(b: Builder, row: list[_Piece]) -> SSAValue:
    """Pieces in order, and -0.0 in the gaps."""
    first = row[0]
    if len(row) == 1:
        return first.whole
    dims, axis, at = dims_of(first.whole), first.axis, Dim.of(0)
    parts: list[SSAValue] = []
    for start, part in [*((p.start, p.part) for p in row), (dims[axis], None)]:
        gap = Dim.of(start) - at
        if gap != 0:
            shape = [*dims[:axis], gap, *dims[axis + 1 :]]
            parts.append(b.fill(-0.0, shape, dtype_of(first.whole)))
        if part is not None:
            parts.append(part)
            at = Dim.of(start) + dims_of(part)[axis]
    return b.concat(parts, axis)
