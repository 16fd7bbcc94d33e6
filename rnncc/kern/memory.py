"""The memory of a kernel program as NumPy arrays: what the kern interpreter reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rnncc.ir.ops.base import Array, Context
from rnncc.ir.types import ITEM_BYTES, NUMPY
from rnncc.kern.dialect import Buffer
from rnncc.kern.largest import Largest
from rnncc.kern.program import KernelProgram
from rnncc.records import record

POISON = 0xFF
"""The byte that fresh memory is made of: NaN as a float, -1 as an integer."""


@record
class BufferMemory:
    """Elements of a buffer from `start` on; `ring`: how many rows of a sequence it holds."""

    flat: Array
    start: int = 0
    ring: int | None = None

    def row(self, index: int, stride: int) -> BufferMemory:
        """Row `index` of rows `stride` elements apart."""
        place = index if self.ring is None else index % self.ring
        return BufferMemory(self.flat, self.start + place * stride)

    def view(self, offset: int, shape: tuple[int, ...], strides: Sequence[int]) -> Array:
        """The elements of an access; `AssertionError` where one of them is outside."""
        # Of no elements even the offset may lie outside, as that of a slice behind the last row.
        if 0 in shape:
            return np.empty(shape, self.flat.dtype)
        reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
        first = self.start + offset
        low, high = first + sum(min(r, 0) for r in reach), first + sum(max(r, 0) for r in reach)
        inside = low >= 0 and high < self.flat.size
        assert inside, f"elements {low} to {high} of a buffer of {self.flat.size}"
        item = self.flat.itemsize
        return as_strided(self.flat[first:], shape, [stride * item for stride in strides])


def lay_out(
    program: KernelProgram,
    inputs: Mapping[str, Array],
    context: Context,
    absent: Collection[str],
) -> dict[Buffer, BufferMemory | None]:
    """The memory of each buffer; None for an absent output that nothing stands in for.

    A buffer with an offset lies at that place of the workspace, or of the packed weights; others
    have memory of their own.
    """
    workspace = np.full(program.workspace.evaluate(context.sizes), POISON, np.uint8)
    weights = np.full(program.weights, POISON, np.uint8)
    placed: dict[Buffer, BufferMemory | None] = {}
    for buffer in program.buffers:
        label, elements = buffer.label.data, buffer.elements.evaluate(context.sizes)
        match buffer.role.data:
            case "input":
                array = inputs.get(label)
                array = _default(program, buffer, elements) if array is None else array
                placed[buffer] = BufferMemory(_filled(buffer, elements, array))
            case "param":
                flat = _part(weights, buffer, elements, context)
                flat[:] = _filled(buffer, elements, program.arrays[label])
                placed[buffer] = BufferMemory(flat)
            case "output" if label not in absent:
                placed[buffer] = BufferMemory(_own(buffer, elements))
            case "output" if buffer.fallback_size == 0:
                placed[buffer] = None
            case "scratch" | "state" if not buffer.y.first_use:
                placed[buffer] = None
            case "scratch" if buffer.within is not None:
                owner = next(b for b in placed if b.label == buffer.within)
                placed[buffer] = placed[owner]
            case role:
                kept = buffer.fallback_size if role == "output" else buffer.elements
                flat = _part(workspace, buffer, kept.evaluate(context.sizes), context)
                placed[buffer] = BufferMemory(flat, ring=buffer.rows_kept)
    return placed


def _part(memory: Array, buffer: Buffer, elements: int, context: Context) -> Array:
    """A buffer's elements at its offset, if it has one."""
    if buffer.offset is None:
        return _own(buffer, elements)
    item = ITEM_BYTES[buffer.dtype]
    start = Largest.parse(buffer.offset.data).evaluate(context.sizes)
    end, label = start + elements * item, buffer.label.data
    assert 0 <= start <= end <= memory.size, f"{label}: bytes {start} to {end} of {memory.size}"
    assert start % item == 0, f"{label}: offset {start} is not aligned"
    return memory[start:end].view(NUMPY[buffer.dtype])


def _own(buffer: Buffer, elements: int) -> Array:
    size = elements * ITEM_BYTES[buffer.dtype]
    return np.full(size, POISON, np.uint8).view(NUMPY[buffer.dtype])


def _default(program: KernelProgram, buffer: Buffer, elements: int) -> Array:
    assert buffer.default is not None, f"{buffer.label.data}: no array for this input"
    array = program.arrays.get(buffer.default.data)
    return np.zeros(elements, NUMPY[buffer.dtype]) if array is None else array


def _filled(buffer: Buffer, elements: int, array: Array) -> Array:
    """A copy, so that the caller's array stays as it is."""
    flat = np.array(array, NUMPY[buffer.dtype]).ravel()
    label = buffer.label.data
    assert flat.size == elements, f"{label}: {flat.size} elements, expected {elements}"
    return flat
