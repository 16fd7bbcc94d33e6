"""Gradients in the place of what they are gradients of: the tape is used up as backward runs.

The kernel of a loop that is the last to read a row of the tape, each point its own elements, may
write as many values there, if nothing outside of the loop reads the tape's rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import ONE, Dim
from rnncc.kern.dialect import Buffer, For
from rnncc.kern.kernels import Gemm, Map
from rnncc.kern.program import KernelProgram
from rnncc.planning.footprint import Footprint
from rnncc.planning.uses import Timeline, Use, timeline


def reuse_tape(program: KernelProgram, slots: Collection[str], waits_are_dear: bool) -> None:
    """Set `within` on scratch buffers that fit into one of the input buffers named.

    Args:
        waits_are_dear: rows that a map makes for the one product of its loop stay apart: before the
            loop they can be marked as not written yet.
    """
    line = timeline(program.func)
    free: dict[_Kind, list[Buffer]] = defaultdict(list)
    for giver in line.uses:
        if giver.label.data in slots and (use := line.uses[giver][0]).loops:
            free[_kind(giver, use)].append(giver)
    # a ring has fewer rows than the tape's slot has
    for heir in (b for b in line.uses if b.role.data == "scratch" and b.rows_kept is None):
        first = next((use for use in line.uses[heir] if use.writes), None)
        if first is None or not first.loops or (waits_are_dear and _is_handed_on(line.uses[heir])):
            continue
        alike = free[_kind(heir, first)]
        for giver in alike:
            if _fits(line, giver, heir):
                heir.properties["within"] = giver.label
                # A slot serves one heir: a second would overwrite what the first has put there.
                alike.remove(giver)
                break


def _is_handed_on(uses: Sequence[Use]) -> bool:
    """Whether the product of a loop that has one other kernel reads rows of a buffer."""
    rows = (use for use in uses if isinstance(use.op, Gemm) and use.value is use.op.a)
    return any(use.loops and len(use.loops[-1].kernels) == 2 for use in rows)


_Kind = tuple[Dim, str, tuple[For, ...]]
"""What a buffer has in common with the one that it may take over: elements, type, loops."""


def _kind(buffer: Buffer, use: Use) -> _Kind:
    return buffer.elements, buffer.dtype, use.loops


def _fits(line: Timeline, giver: Buffer, heir: Buffer) -> bool:
    """Whether one kernel is the first to write and the last to read each row, point by point."""
    reads, writes = line.uses[giver], [use for use in line.uses[heir] if use.writes]
    kernel, loops = writes[0].op, writes[0].loops
    # a map reads a point's inputs before it writes the point; a product reads whole rows for each
    once = all(use.op is kernel for use in writes) and isinstance(kernel, Map) and loops
    before = all(use.loops == loops and use.position <= writes[0].position for use in reads)
    parts, written = _footprints([*reads, *writes]), _footprints(writes)
    if not once or not before or parts is None or written is None:
        return False
    # what the kernel reads of the row it must also write, point by point
    own = _footprints([use for use in reads if use.op is kernel])
    return own is not None and set(own) <= set(written) and _are_rows(loops, parts, written)


def _footprints(uses: Sequence[Use]) -> list[Footprint] | None:
    footprints = [use.footprint for use in uses]
    static = [footprint for footprint in footprints if footprint is not None]
    return static if len(static) == len(footprints) else None


def _are_rows(
    loops: Sequence[For], parts: Sequence[Footprint], written: Sequence[Footprint]
) -> bool:
    """Whether each iteration touches a row of its own, and the kernel writes columns apart.

    Else what one iteration writes would overwrite what a later one is still to read.
    """
    if not all(_is_columns(part) for part in parts):
        return False
    rows, stride = parts[0].axes[0]
    base = min((part.offset for part in parts), key=lambda o: _distance(o, parts[0].offset))
    for part in parts:
        first, width = _distance(part.offset, base), int(part.axes[1][0])
        inside = part.axes[0] == (rows, stride) and first >= 0 and first + width <= int(stride)
        if not inside or not _is_apart(part.offset, rows * stride, loops):
            return False
    order = sorted({(_distance(w.offset, base), int(w.axes[1][0])) for w in written})
    return all(a + width <= b for (a, width), (b, _) in pairwise(order))


def _is_apart(offset: Dim, size: Dim, loops: Sequence[For]) -> bool:
    """Whether iterations of nested loops, outermost first, have so many elements each, in a row.

    A row that outer iterations read again has to stay as it is.
    """
    inner: For | None = None
    for loop in reversed(loops):
        if inner is not None and (extent := _cut_by(loop, inner)) is not None:
            size = size.substitute({extent: get_dim(loop.count)})  # the steps of all runs
        else:
            index, start = loop.index.data, get_dim(loop.start)
            move = offset.substitute({index: start + 1}) - offset.substitute({index: start})
            if move != size:
                return False
            size = size * get_dim(loop.count)
        inner = loop
    return True


def _cut_by(loop: For, inner: For) -> str | None:
    """The symbol of a run's steps, where a loop cuts the steps of the one within it into runs."""
    if loop.chunk is None or loop.extent is None:
        return None
    extent = loop.extent.data
    steps = get_dim(inner.start), get_dim(inner.count)
    return extent if steps == (Dim.of(loop.index.data), Dim.of(extent)) else None


def _is_columns(part: Footprint) -> bool:
    """Whether a footprint is some columns of all rows of a matrix."""
    if len(part.axes) != 2:
        return False
    (_, stride), (width, step) = part.axes
    return stride.is_static and width.is_static and step == ONE


def _distance(offset: Dim, base: Dim) -> int:
    """Between two offsets of one row; -1 where that depends on sizes."""
    difference = offset - base
    return int(difference) if difference.is_static else -1
