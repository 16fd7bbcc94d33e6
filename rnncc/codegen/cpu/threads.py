"""Several threads in one function: each computes its share of a kernel, then waits at a barrier.

All of them run the same function with the same arguments, but for their number. Which thread
computes an element changes nothing in how it is computed.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm.builder import written_once
from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import I32, I64, POINTER, Value, declared
from rnncc.platforms import pointer_bytes, system_of

YIELD = {"linux": "sched_yield", "macos": "sched_yield", "windows": "SwitchToThread"}
"""By system, the function that gives a core to another thread."""
PATIENCE = 1 << 8
"""Looks at the counter before a thread that waits gives its core to others."""


ROUND = 1 << 32
"""The counter's upper half tells how often all threads have met, its lower half who waits."""
_PAIR = ir.LiteralStructType([I64, I64])
_SHARE = ir.FunctionType(_PAIR, [I64] * 5)
_MEET = ir.FunctionType(ir.VoidType(), [POINTER, I64])


class Team:
    """The threads of a call: this one's number, how many there are, a counter that they share."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, struct: Value) -> None:
        self.module, self.b, self.struct = module, builder, struct
        self.part, self.parts = (self._field(number, I64, 8) for number in range(2))
        self.counter = self._field(2, POINTER, pointer_bytes(module.triple))
        self.several = builder.icmp_signed(">", self.parts, I64(1))

    def _field(self, number: int, type_: ir.Type, align: int) -> Value:
        at = self.b.gep(self.struct, [I64(number)], source_etype=I64)
        return self.b.load(at, typ=type_, align=align)

    @property
    def is_member(self) -> Value:
        """Whether this thread's number is one of the team's, which no team of none has."""
        b = self.b
        return b.and_(
            b.icmp_signed(">=", self.part, I64(0)), b.icmp_signed("<", self.part, self.parts)
        )

    @property
    def is_first(self) -> Value:
        """Whether this is the thread that does what is not shared."""
        return self.b.icmp_signed("==", self.part, I64(0))

    def share(self, count: Value, step: int = 1) -> tuple[Value, Value]:
        """This thread's part of `count`: its start, a multiple of `step`, and how much."""
        b, size, before = self.b, I64(step), self.b.block
        with b.if_then(self.several):  # alone, it need not divide
            whole = b.sdiv(b.add(count, I64(step - 1)), size)
            # By a call, as below: in place it would be a fifth of a net of small kernels.
            function = written_once(self.module, "share", _SHARE, _write_share)
            pair = b.call(function, [count, whole, size, self.part, self.parts])
            first, mine = (b.extract_value(pair, number) for number in range(2))
            divided = b.block
        results: list[Value] = []
        for value, otherwise in ((first, I64(0)), (mine, count)):
            phi = b.phi(I64)
            phi.add_incoming(value, divided)
            phi.add_incoming(otherwise, before)
            results.append(phi)
        return results[0], results[1]

    def wait(self) -> None:
        """Until all threads have come here."""
        with self.b.if_then(self.several):
            function = written_once(self.module, "meet", _MEET, _write_meet)
            self.b.call(function, [self.counter, self.parts])


def _write_share(b: Any, function: ir.Function) -> None:
    """Of `count`, which is `whole` times `size` or the last time less: as many whole ones each."""
    count, whole, size, part, parts = function.args
    first, end = (
        b.mul(b.sdiv(b.mul(whole, number), parts), size) for number in (part, b.add(part, I64(1)))
    )
    end = b.select(b.icmp_signed("<", count, end), count, end)
    pair: Value = ir.Constant(_PAIR, ir.Undefined)
    for number, value in enumerate((first, b.sub(end, first))):
        pair = b.insert_value(pair, value, number)
    b.ret(pair)


def _write_meet(b: Any, function: ir.Function) -> None:
    """Wait for the other threads. The last one to come takes the waiting ones off the counter and
    starts the next round, so that a counter serves call after call, of any number of threads."""
    counter, parts = function.args
    # Release, for what this thread has written; acquire, as the last to come goes on at once.
    come = b.atomic_rmw("add", counter, I64(1), "acq_rel")
    waiting = b.and_(come, I64(ROUND - 1))
    with b.if_else(b.icmp_signed("==", b.add(waiting, I64(1)), parts)) as (last, others):
        with last:
            # One addition takes the waiting off and starts the next round: nobody sees one
            # without the other, so that the counter never has to be cleared.
            b.atomic_rmw("add", counter, b.sub(I64(ROUND), parts), "release")
        with others:
            _await(b, counter, b.sub(come, waiting))
    b.ret_void()


def _await(b: Any, counter: Value, round_: Value) -> None:
    """Look at the counter until its round is another one."""
    head, done, before = b.append_basic_block("wait"), b.append_basic_block("done"), b.block
    again = b.append_basic_block("again")
    b.branch(head)
    b.position_at_end(head)
    looks = b.phi(I32)
    looks.add_incoming(I32(0), before)
    now = b.load_atomic(counter, "acquire", 8, typ=I64)
    # Equal upper halves: the round goes on, whoever has come meanwhile.
    same = b.icmp_unsigned("<", b.xor(now, round_), I64(ROUND))
    b.cbranch(same, again, done)
    b.position_at_end(again)
    _pause(b, looks)
    looks.add_incoming(b.add(looks, I32(1)), b.block)
    b.branch(head)
    b.position_at_end(done)


def _pause(b: Any, looks: Value) -> None:
    triple = b.module.triple
    if triple.startswith("x86_64"):
        # The core's other hardware thread runs meanwhile.
        b.call(declared(b.module, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
    # A core with more threads than it can run: who spins would keep the one that all wait for
    # from running.
    with b.if_then(b.icmp_signed(">", looks, I32(PATIENCE))):
        b.call(declared(b.module, YIELD[system_of(triple)], I32, []), [])


def alone(emit: Emit) -> Value:
    """A `struct rnncc_part` of one thread, on the stack."""
    part = emit.room(ir.ArrayType(I64, 3), 8)
    for number, value in enumerate((I64(0), I64(1), ir.Constant(POINTER, None))):
        emit.b.store(value, emit.b.gep(part, [I64(number)], source_etype=I64), align=8)
    return part
