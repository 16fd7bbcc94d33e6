"""Absent outputs: what takes the place of one: nothing, a few rows, or all of it."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from rnncc.ir.attributes import dim_attr, get_dim
from rnncc.ir.dims import Dim
from rnncc.kern.dialect import Buffer, Row
from rnncc.kern.kernels import Kernel
from rnncc.kern.moves import ContinuedSum
from rnncc.kern.program import KernelProgram


def set_fallbacks(program: KernelProgram) -> None:
    """Set `fallback` on every output, and drop the ring where the whole sequence is needed.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
            v2[t] = v1
        return v2

    After:

        output y: T*N, ring of 1, stand-in of N
        for t in 0..T, p from h:
            map i in N: y[t] = p * x[i + N*t]
            p = y[t]
    """
    for buffer in program.buffers:
        if buffer.role.data == "output":
            fallback, ring = _stand_in(buffer)
            buffer.properties["fallback"] = dim_attr(fallback)
            buffer.properties.pop("ring", None)
            if ring:
                buffer.properties["ring"] = IntAttr(ring)


def drop_fallbacks(program: KernelProgram, names: Collection[str]) -> None:
    """Let outputs that are never absent, such as slots of a tape, have none."""
    for buffer in program.buffers:
        if buffer.role.data == "output" and buffer.label.data in names:
            buffer.properties.pop("fallback", None)
            buffer.properties.pop("ring", None)
            buffer.properties.pop("offset", None)


def _stand_in(buffer: Buffer) -> tuple[Dim, int]:
    """Elements needed when the output is absent, and as how many rows; 0: not row by row."""
    users = {use.operation for use in buffer.y.uses}
    rows = [op for op in users if isinstance(op, Row)]
    # Steps write row after row and read back the last ones at most: these may all lie in one ring.
    if rows and len(rows) == len(users):
        kept = buffer.rows_kept or 1
        return get_dim(rows[0].stride) * kept * max(row.rows.data for row in rows), kept
    # Its kernels write nothing else, so that they are skipped, and nothing stands in for it.
    if not rows and all(_writes_nothing_else(op, buffer) for op in users):
        return Dim.of(0), 0
    return buffer.elements, 0


def _writes_nothing_else(op: Operation, buffer: Buffer) -> bool:
    """A sum that goes on in place reads the buffer, but only to write it."""
    writes = isinstance(op, Kernel | ContinuedSum) and list(op.outs) == [buffer.y]
    goes_on = isinstance(op, ContinuedSum) and op.init is buffer.y
    return writes and list(op.operands).count(buffer.y) == 1 + goes_on
