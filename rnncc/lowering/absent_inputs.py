"""Absent gradients of outputs read as zeros; a single row of zeros serves where it can."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import count

from xdsl.dialects.builtin import FloatAttr, IntAttr, f64
from xdsl.ir import Block

from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.source import Fill
from rnncc.ir.types import tensor
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer, Row
from rnncc.kern.kernels import Map
from rnncc.kern.program import KernelProgram
from rnncc.sizes import TIME


def set_default_zeros(program: KernelProgram, names: Collection[str]) -> None:
    """Let those inputs be absent that are read row by row, or that do not grow with time.

    Before:

        for t in 0..T, h from h:
            v1 = mul(h[t-1], x[t])
            h[t] = v1
        return h[T-1]

    After:

        input x: T*N, ring of 1, or zeros.0
        state state: N, ring of 1
        scratch zeros.0: N
        map i in N: zeros.0 = 0
        for t in 0..T, p from h:
            map i in N: state[t] = p * x[t]
            p = state[t]
        map i in N: y = p
    """
    zeros: dict[tuple[str, Dim], Buffer] = {}
    labelled = {b.label.data: b for b in reversed(program.buffers)}  # the first of a name
    for number, port in enumerate(program.inputs):
        if port.name not in names:
            continue
        buffer = labelled[port.name]
        size = _room(buffer)
        if size is not None:
            key = buffer.dtype, size
            if key not in zeros:
                zeros[key] = _zeros(program, *key)
            buffer.properties["default"] = zeros[key].label
            buffer.properties["ring"] = IntAttr(1)
            program.inputs[number] = replace(port, optional=True)


def _room(buffer: Buffer) -> Dim | None:
    """How many zeros do for a gradient; None where that is as many as it has."""
    users = [use.operation for use in buffer.y.uses]
    rows = {get_dim(op.stride) for op in users if isinstance(op, Row)}
    # Read by rows of one size alone, one row of zeros is every row.
    if users and len(rows) == 1 and all(isinstance(op, Row) for op in users):
        return rows.pop()
    # Zeros for a whole sequence would take as much memory as the gradient itself.
    return None if TIME in buffer.elements.symbols else buffer.elements


def _zeros(program: KernelProgram, dtype: str, size: Dim) -> Buffer:
    """A buffer that is filled with zeros at the start."""
    labels = {buffer.label.data for buffer in program.buffers}
    label = next(name for i in count() if (name := f"zeros.{i}") not in labels)
    zeros = Buffer(label, "scratch", dtype, size)
    body = Block()
    zero = Fill(tensor((), dtype), value=FloatAttr(0.0, f64))
    body.add_ops([zero, Yield([zero.y])])
    fill = Map([size], [], [(zeros.y, Access(Dim.of(0), (Dim.of(1),)))], body)
    program.func.body.block.insert_ops_after([zeros, fill], program.buffers[-1])
    return zeros
