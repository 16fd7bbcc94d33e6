"""Writing LLVM IR for a CPU: threads that share loops, and what keeps memory near the core."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from llvmlite import ir

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.cpu.threads import Team
from rnncc.codegen.cpu.tiling import DEPTH, MOST_HEIGHT
from rnncc.codegen.llvm.emit import Body, Emit
from rnncc.codegen.llvm.values import I1, I8, I32, I64, POINTER, VALUE, Pointer, Value, declared
from rnncc.codegen.llvm.vector import Real

SUMS = 48
"""Vectors of sums that products may keep on the stack: those of a row of any panel, at least."""

Part = tuple[Value, Value]
"""Where a part of something starts, and how much it is."""


def chosen_part(b: ir.IRBuilder, condition: Value, chosen: Part, other: Part) -> Part:
    """The first part where a condition holds, else the other one."""
    first, count = (b.select(condition, x, y) for x, y in zip(chosen, other, strict=True))
    return first, count


def stack_size(target: Core) -> int:
    """Elements on the stack: room for `SUMS` vectors of sums, or for packed rows."""
    return max(SUMS * target.lanes, MOST_HEIGHT * DEPTH)


class CpuEmit(Emit):
    """One function being written, for one of the threads that compute a call."""

    def __init__(self, module: ir.Module, target: Core, builder: ir.IRBuilder) -> None:
        super().__init__(module, target, builder)
        self._cpu, self._wide = target, target.of("f64")
        self.team: Team | None = None
        self.iteration: Value | None = None
        """The number of the innermost loop's iteration."""
        self.step: Value = I64(1)
        """From an index of the last `shared` loop to its next one: 1, or -1 on the way back."""
        self._stacks = dict[tuple[str, int], Pointer]()

    @property
    def target(self) -> Core:
        """The machine that the function is for, as it computes with elements of `element`."""
        return self._wide if self.element == "f64" else self._cpu

    @contextmanager
    def elements(self, dtype: Real) -> Generator[None]:
        """Code for a kernel whose vectors are full of elements of a type."""
        around, self.element = self.element, dtype
        yield
        self.element = around

    @property
    def converts_halves(self) -> bool:
        return self._cpu.converts_halves

    @property
    def stack(self) -> Pointer:
        """Room that all kernels of one type share."""
        return self.shared_room(stack_size(self.target))

    def shared_room(self, elements: int) -> Pointer:
        """Room that all kernels of one type which ask for as much share."""
        key = self.element, elements
        if key not in self._stacks:
            type_ = ir.ArrayType(VALUE[self.element], elements)
            self._stacks[key] = Pointer(self.room(type_, 64), self.element)
        return self._stacks[key]

    def shared(
        self,
        count: Value,
        body: Body,
        to_and_fro: bool = False,
        last: Callable[[], None] | None = None,
        part: Part | None = None,
    ) -> None:
        """`loop` without anything carried, of which each thread of a team does a part.

        Args:
            to_and_fro: every other iteration of the loop around it goes backwards, so that what
                memory near the core still holds of the iteration before is read first.
            last: what is left behind these iterations, done by the thread whose part ends there.
            part: the first iteration of this thread and how many it does, the last one included;
                left out, all threads have about as many.
        """
        b, first, mine, ends = self.b, None, count, None
        if self.team is not None:
            total = count if last is None else b.add(count, I64(1))
            first, mine = part or self.team.share(total)
            if last is not None:
                reaches = b.icmp_signed("==", b.add(first, mine), total)
                ends = b.and_(reaches, b.icmp_signed(">", mine, I64(0)))
                # Its last part is what `last` does.
                mine = b.sub(mine, b.zext(ends, I64))
        # Every odd iteration of the loop around goes backwards.
        back = b.trunc(self.iteration, I1) if to_and_fro and self.iteration is not None else None
        self.step = I64(1) if back is None else b.select(back, I64(-1), I64(1))

        def iteration(i: Value, carried: list[Value]) -> Sequence[Value]:
            if back is not None:
                i = b.select(back, b.sub(b.sub(mine, I64(1)), i), i)
            return body(i if first is None else b.add(first, i), carried)

        self.loop(mine, iteration)
        if last is not None:
            with nullcontext() if ends is None else self.when(ends):
                last()

    def alone(self) -> AbstractContextManager[Any]:
        """Code that only one thread of a team runs."""
        return nullcontext() if self.team is None else self.when(self.team.is_first)

    def together(self) -> None:
        """Wait until all threads of a team are here."""
        if self.team is not None:
            self.team.wait()

    def nest(
        self,
        counts: Sequence[Value],
        body: Callable[[list[Value]], None],
        outermost: Callable[[Value, Body], object] | None = None,
        shared: bool = False,
    ) -> None:
        """Nested loops; `shared`: a team's threads share the outermost."""
        super().nest(counts, body, self.shared if shared else outermost)

    def fetch(self, pointer: Pointer, ahead: Value, level: int) -> None:
        """Bring the line so many bytes behind a place into a cache of the core (1 or 2)."""
        kinds = [POINTER, I32, I32, I32]
        function = declared(self.module, "llvm.prefetch.p0", ir.VoidType(), kinds)
        at = self.b.gep(pointer.base, [ahead], source_etype=I8)
        # To be read (0), as data (1); LLVM counts levels from the farthest one, 3 is the first.
        self.b.call(function, [at, I32(0), I32(4 - level), I32(1)])
