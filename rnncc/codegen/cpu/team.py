"""Several threads in one function: each does its share of a kernel, then waits for the others.

All of them run the same function with the same arguments, but for their number. Which thread
computes an element changes nothing in how it is computed.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.emit import I32, I64, POINTER, Value
from rnncc.codegen.vector import declared

PATIENCE = 1 << 8
"""Looks at the counter before a thread that waits gives its core to others."""


class Team:
    """The threads of a call: this one's number, how many there are, a counter that they share.

    The counter only grows: a thread that comes as the n-th waits until so many have come as make
    full rounds with it, so that a counter serves call after call.
    """

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, struct: Value) -> None:
        self.module, self.b, self.struct = module, builder, struct
        self.part, self.parts = (self._field(number, I64) for number in range(2))
        self.counter = self._field(2, POINTER)

    def _field(self, number: int, type_: ir.Type) -> Value:
        at = self.b.gep(self.struct, [I64(number)], source_etype=I64)
        return self.b.load(at, typ=type_, align=8)

    @property
    def is_first(self) -> Value:
        """Whether this is the thread that does what is not shared."""
        return self.b.icmp_signed("==", self.part, I64(0))

    def share(self, count: Value, step: int = 1) -> tuple[Value, Value]:
        """This thread's part of `count`: its start, a multiple of `step`, and how much."""
        b, size = self.b, I64(step)
        whole = b.sdiv(b.add(count, I64(step - 1)), size)
        first, end = (
            b.mul(b.sdiv(b.mul(whole, number), self.parts), size)
            for number in (self.part, b.add(self.part, I64(1)))
        )
        end = b.select(b.icmp_signed("<", count, end), count, end)
        return first, b.sub(end, first)

    def wait(self) -> None:
        """Until all threads have come here."""
        b = self.b
        come = b.atomic_rmw("add", self.counter, I64(1), "acq_rel")
        full = b.mul(b.add(b.sdiv(come, self.parts), I64(1)), self.parts)
        head = b.append_basic_block("wait")
        done, again = b.append_basic_block("together"), b.append_basic_block("again")
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        looks = b.phi(I32)
        looks.add_incoming(I32(0), before)
        now = b.load_atomic(self.counter, "acquire", 8, typ=I64)
        b.cbranch(b.icmp_signed(">=", now, full), done, again)
        b.position_at_end(again)
        self._pause(looks)
        looks.add_incoming(b.add(looks, I32(1)), b.block)
        b.branch(head)
        b.position_at_end(done)

    def _pause(self, looks: Value) -> None:
        b = self.b
        if self.module.triple.startswith("x86_64"):
            b.call(declared(self.module, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
        impatient = b.icmp_signed(">", looks, I32(PATIENCE))
        with b.if_then(impatient):
            b.call(declared(self.module, "sched_yield", I32, []), [])
