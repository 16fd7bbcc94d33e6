"""Writing LLVM IR for one thread of a GPU: all threads of a grid share a kernel's points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rnncc.codegen.llvm.emit import I32, I64, Emit, Pointer, Value
from rnncc.codegen.nvptx.limits import Sync
from rnncc.codegen.nvptx.primitives import Primitives
from rnncc.ir.dims import Dim

if TYPE_CHECKING:
    from rnncc.codegen.nvptx.target import NvptxTarget


class GpuEmit(Emit):
    """One kernel being written.

    Attributes:
        me, everyone: this thread's number in the grid, and how many threads there are.
    """

    def __init__(self, primitives: Primitives, target: NvptxTarget, sync: Value) -> None:
        super().__init__(primitives.module, target.machine, primitives.b)
        self.gpu, self.sync, self.threads = primitives, sync, target.threads
        self.thread, self.block = primitives.thread, primitives.block
        self.blocks = primitives.blocks
        wide = (self.b.zext(v, I64) for v in (self.thread, self.block, self.blocks))
        self.thread64, self.block64, self.blocks64 = wide
        self.me = self.b.add(self.b.mul(self.block64, I64(self.threads)), self.thread64)
        self.everyone = self.b.mul(self.blocks64, I64(self.threads))
        self.first = self.b.icmp_unsigned("==", self.me, I64(0))
        self._goal = self.room(I32, 4)
        self.b.store(I32(0), self._goal, align=4)

    # Sharing

    def strided(
        self, first: Value, count: Value, step: Value, body: Callable[[Value], None]
    ) -> None:
        """`body(i)` for i = first, first + step, ... below count."""
        b, before = self.b, self.b.block
        head, done = b.append_basic_block("each"), b.append_basic_block("done")
        b.cbranch(b.icmp_signed("<", first, count), head, done)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(first, before)
        body(i)
        following = b.add(i, step)
        i.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, count), head, done)
        b.position_at_end(done)

    def each(self, count: Value, body: Callable[[Value], None]) -> None:
        """`body(i)` for every i below count, each by one thread of the grid."""
        self.strided(self.me, count, self.everyone, body)

    def points(self, sizes: Sequence[Dim], body: Callable[[list[Value]], None]) -> None:
        """`body(indices)` for every point, each by one thread; the last axis along the lanes."""
        counts = [self.dim(size) for size in sizes]
        total: Value = I64(1)
        for count in counts:
            total = self.b.mul(total, count)
        self.each(total, lambda i: body(self.unravel(i, counts)))

    def unravel(self, number: Value, counts: Sequence[Value]) -> list[Value]:
        """The indices of a point, given its number in row-major order."""
        b, found = self.b, list[Value]()
        for count in reversed(counts[1:]):
            above = b.sdiv(number, count)
            found.append(b.sub(number, b.mul(above, count)))
            number = above
        return [number, *reversed(found)][: len(counts)]

    # Waits

    def together(self) -> None:
        """Wait until all threads of the grid are here; one block needs no other."""
        b = self.b
        goal = b.add(b.load(self._goal, typ=I32, align=4), self.blocks)
        b.store(goal, self._goal, align=4)
        with b.if_else(b.icmp_unsigned("==", self.blocks, I32(1))) as (alone, several):
            with alone:
                self.gpu.block_wait()
            with several:
                self.gpu.grid_wait(self.sync, goal)

    # Errors

    def word(self, number: Sync) -> Value:
        """The address of a word of `sync`."""
        return self.b.gep(self.sync, [I64(number)], source_etype=I32)

    def found(self, condition: Value, code: int) -> None:
        """Leave an error for all to see behind the next wait, where the condition holds."""
        with self.when(condition):
            self.b.store(I32(code), self.word(Sync.FOUND), align=4)

    # Pointers

    def along(self, pointer: Pointer, steps: Sequence[Dim], indices: Sequence[Value]) -> Pointer:
        """A pointer at some indices of its axes."""
        for index, step in zip(indices, steps, strict=False):
            if step != 0:
                at = index if step == 1 else self.b.mul(index, self.dim(step))
                pointer = self.at(pointer, at)
        return replace(pointer, ring=None)
