"""Writing LLVM IR for one thread of a GPU: all threads of a grid share a kernel's points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import Any

from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import I32, I64, Pointer, Value
from rnncc.codegen.nvptx.gpu import PtxGpu
from rnncc.codegen.nvptx.limits import PATIENCE, STUCK, Sync
from rnncc.codegen.nvptx.primitives import GiveUp, Primitives
from rnncc.ir.dims import Dim
from rnncc.records import record


def lane_place(emit: GpuEmit, lane: Value) -> tuple[Value, Value]:
    """A lane's row of four and its column of eight: bits 0 and 4 of its number, and bits 1 to 3.

    A warp reads 16 bytes a lane in half the time where each lane and the next one, or the one after
    that, read the same (measured on an H200; in the order of numbers it is one side of a product
    only). So it is here for what rows share, by bit 1, as well as for what columns do, by bit 0.
    """
    b, type_ = emit.b, lane.type

    def bits(shift: int, mask: int) -> Value:
        return b.and_(b.lshr(lane, type_(shift)), type_(mask))

    return b.or_(bits(0, 1), bits(3, 2)), bits(1, 7)


@record
class GridTeam:
    """Whether this thread is one of a team's, and the grid around it."""

    member: Value
    blocks: Value
    everyone: Value


@record
class ThreadShare:
    """A thread's part of what is shared out: numbers `first`, `first + step`, ... below `count`.

    Attributes:
        number: what one of them stands for.
    """

    first: Value
    step: Value
    count: Value
    number: Callable[[Value], Value]


class GpuEmit(Emit):
    """One kernel being written.

    Attributes:
        me, everyone: this thread's number in the grid, and how many threads there are.
    """

    def __init__(self, primitives: Primitives, target: PtxGpu, sync: Value, status: Value) -> None:
        super().__init__(primitives.module, target.machine, primitives.b)
        self.gpu, self.sync, self.status = primitives, sync, status
        self.threads = target.threads
        self.thread, self.block = primitives.thread, primitives.block
        self.blocks = primitives.blocks
        self.thread64 = self.b.zext(self.thread, I64)
        before = self.b.mul(self.b.zext(self.block, I64), I64(self.threads))
        self.me = self.b.add(before, self.thread64)
        self.everyone = self.b.mul(self.b.zext(self.blocks, I64), I64(self.threads))
        self.first = self.b.icmp_unsigned("==", self.me, I64(0))
        self.team: GridTeam | None = None
        self._rows: tuple[Value, int] | None = None
        self._turn, self._has_turned = self.room(I32, 4), False
        self.b.store(I32(0), self._turn, align=4)
        self._goals = {word: self._goal() for word in (Sync.COUNTER, Sync.TEAM)}

    def _goal(self) -> Value:
        goal = self.room(I32, 4)
        self.b.store(I32(0), goal, align=4)
        return goal

    def put(self, values: list[Value], places: list[Pointer], posted: Collection[int]) -> None:
        """Store results; `posted`: numbers of those that other blocks wait for."""
        for number, (value, place) in enumerate(zip(values, places, strict=True)):
            if number in posted:
                self.gpu.post_float(place.base, value)
            else:
                self.store(value, place)

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

    def for_each(self, count: Value, body: Callable[[Value], None], together: int = 1) -> None:
        """`body(i)` for every i below count, each by one thread of those that share them.

        Args:
            together: points of the kernel that each i stands for, all of one row.
        """
        share = self.share(count, together)
        self.strided(share.first, share.count, share.step, lambda i: body(share.number(i)))

    def share(self, count: Value, together: int = 1) -> ThreadShare:
        """This thread's part of so many points; `by_rows` says whose they are."""
        if self._rows is None:
            return ThreadShare(self.me, self.everyone, count, lambda i: i)
        rows, width = self._rows[0], self._rows[1] // together
        b = self.b
        block, blocks = b.zext(self.block, I64), b.zext(self.blocks, I64)
        # How many rows there are behind this block's first one.
        rest = b.sub(rows, block)
        remaining = b.select(b.icmp_signed(">", rest, I64(0)), rest, I64(0))
        mine = b.udiv(b.add(remaining, b.sub(blocks, I64(1))), blocks)

        def number(i: Value) -> Value:
            row = b.udiv(i, I64(width))
            place = b.sub(i, b.mul(row, I64(width)))
            return b.add(b.mul(b.add(block, b.mul(row, blocks)), I64(width)), place)

        return ThreadShare(self.thread64, I64(self.threads), b.mul(mine, I64(width)), number)

    @contextmanager
    def by_rows(self, rows: Value, width: int) -> Generator[None]:
        """A block in which points are shared by rows of `width`: each is one block's own."""
        self._rows = rows, width
        yield
        self._rows = None

    @property
    def points_of_a_row(self) -> int:
        """How many points a row has, where a block has rows of its own; else 0."""
        return 0 if self._rows is None else self._rows[1]

    def for_each_by_blocks(self, count: Value, body: Callable[[Value], None]) -> None:
        """`body(i)` for every i below count, each by all threads of one block.

        Kernels that do not wait for each other follow one another around the grid: the first block
        of one is behind the last of the one before.
        """
        b, self._has_turned = self.b, True
        before = b.load(self._turn, typ=I32, align=4)
        own = b.sub(self.block, before)
        own = b.select(b.icmp_signed("<", own, I32(0)), b.add(own, self.blocks), own)
        blocks = b.zext(self.blocks, I64)
        taken = b.trunc(b.urem(b.add(b.zext(before, I64), count), blocks), I32)
        b.store(taken, self._turn, align=4)
        self.strided(b.zext(own, I64), count, blocks, body)

    def _turn_back(self) -> None:
        """Let the next kernel begin with the first block."""
        if self._has_turned:
            self.b.store(I32(0), self._turn, align=4)
            self._has_turned = False

    def points(self, sizes: Sequence[Dim], body: Callable[[list[Value]], None]) -> None:
        """`body(indices)` for every point, each by one thread; the last axis along the lanes."""
        counts = [self.dim(size) for size in sizes]
        self.for_each(self.multiplied(counts), lambda i: body(self.unravel(i, counts)))

    def multiplied(self, counts: Sequence[Value]) -> Value:
        """How many points axes of these sizes have."""
        return reduce(self.b.mul, counts, I64(1))

    def unravel(self, number: Value, counts: Sequence[Value]) -> list[Value]:
        """The indices of a point, given its number in row-major order."""
        b, inner = self.b, list[Value]()
        for count in reversed(counts[1:]):
            above = b.sdiv(number, count)
            inner.append(b.sub(number, b.mul(above, count)))
            number = above
        # Without axes there is one point, which has no index.
        return [number, *reversed(inner)][: len(counts)]

    def aligned(self, *pointers: Pointer) -> Value:
        """Whether all of them lead to multiples of 16 bytes."""
        bits = reduce(self.b.or_, [self.b.ptrtoint(p.base, I64) for p in pointers])
        return self.b.icmp_unsigned("==", self.b.and_(bits, I64(15)), I64(0))

    def either(
        self, condition: Value, body: Callable[[], list[Value]], others: list[Value]
    ) -> list[Value]:
        """What `body` computes, if a condition holds; else other values."""
        before = self.b.block
        with self.when(condition):
            values = body()
            after = self.b.block
        phis = [self.b.phi(value.type) for value in values]
        for phi, value, other in zip(phis, values, others, strict=True):
            phi.add_incoming(value, after)
            phi.add_incoming(other, before)
        return list[Value](phis)

    # Waits

    def together(self) -> None:
        """Wait until all threads of the grid, or of the team, are here."""
        self._turn_back()
        if self.team is None:
            self._meet(Sync.COUNTER, self.give_up)
        else:
            self._meet(Sync.TEAM, self.give_up)

    def together_in_blocks(self) -> None:
        """Wait until all threads of the block are here, which has rows or points of its own."""
        with self.members():
            self.gpu.block_wait()

    def _meet(self, word: Sync, give_up: GiveUp) -> None:
        """Who is no member counts the waits, and goes on; one block needs no other."""
        b, place = self.b, self._goals[word]
        several = b.icmp_unsigned(">", self.blocks, I32(1))
        # Every thread keeps the count itself, members or not, so that nobody has to read or clear
        # the counter between waits.
        come = b.select(several, self.blocks, I32(0))
        goal = b.add(b.load(place, typ=I32, align=4), come)
        b.store(goal, place, align=4)
        with self.members(), b.if_else(several) as (others, alone):
            with others:
                self.gpu.grid_wait(self.word(word), goal, give_up)
            with alone:
                self.gpu.block_wait()

    def members(self) -> AbstractContextManager[Any]:
        """Code for the threads that compute: all, or those of the team."""
        return nullcontext() if self.team is None else self.when(self.team.member)

    def begin_team(self, blocks: Value) -> None:
        """Let the first so many blocks alone compute what follows, and wait for each other."""
        assert self.team is None, "a team within a team"
        member = self.b.icmp_unsigned("<", self.block, blocks)
        self.team = GridTeam(member, self.blocks, self.everyone)
        self.blocks = blocks
        self.everyone = self.b.mul(self.b.zext(blocks, I64), I64(self.threads))

    def end_team(self) -> None:
        """All blocks meet, and compute again."""
        if self.team is not None:
            self.blocks, self.everyone = self.team.blocks, self.team.everyone
            self.team = None
            # Those outside of the team wait here through the whole loop: patience with one wait
            # would be too short.
            self._meet(Sync.COUNTER, self._others_gave_up)

    # Errors

    def word(self, number: Sync) -> Value:
        """The address of a word of `sync`."""
        return self.b.gep(self.sync, [I64(number)], source_etype=I32)

    def leave(self, code: Value) -> None:
        """Leave the code that the launch ends with."""
        self.b.store(code, self.word(Sync.FAILED), align=4)
        with self.when(self.b.not_(self.is_null(self.status))):
            self.b.store(code, self.status, align=4)

    def give_up(self, looks: Value) -> Value:
        """Whether a thread that waits is to end: it has waited for too long, or another one did.

        What it would compute is of no use then; the code that the launch ends with is left.
        """
        late = self.b.icmp_unsigned(">", looks, I32(PATIENCE))
        with self.when(late):
            self.b.store(I32(STUCK), self.word(Sync.FOUND), align=4)
            self.leave(I32(STUCK))
        return self.b.or_(late, self._others_gave_up(looks))

    def _others_gave_up(self, looks: Value) -> Value:
        """The same for a thread that may wait for as long as a whole loop takes."""
        del looks
        return self.b.icmp_unsigned("!=", self.gpu.look(self.word(Sync.FAILED)), I32(0))

    def record_error(self, condition: Value, code: int) -> None:
        """Leave an error for all to see behind the next wait, where the condition holds."""
        with self.when(condition):
            # Of several threads that find one, any may be the last to store.
            self.b.store(I32(code), self.word(Sync.FOUND), align=4)
