"""What only a GPU can do: thread numbers, shared memory, waits, exchanges between lanes.

The only file that names an intrinsic of NVPTX or holds inline assembly. All other code of a kernel
is plain LLVM IR: tests compile it for the host, with the functions of an emulator in place of these
(`tests/gpu`).

Orders and scopes are written out as assembly: LLVM 22 drops the order of `atomicrmw` on NVPTX, and
its default scope is that of the whole system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm.builder import FoldingBuilder
from rnncc.codegen.llvm.text_builder import vector_of
from rnncc.codegen.llvm.values import FLOAT, I8, I32, I64, POINTER, VOID, Value, declared
from rnncc.codegen.nvptx.limits import POINTERS, WARP

GLOBAL, SHARED = ir.PointerType(None, 1), ir.PointerType(None, 3)
PARAMETERS = [*[POINTER] * len(POINTERS), I64]
"""The first ones of every kernel."""
EAGER, PAUSE = 64, 200
"""Looks at a counter before a thread that waits begins to pause between them, and nanoseconds."""
UNWRITTEN = I64(-1)
"""What a word of four bf16, or of two floats, holds before it is written: `halves` makes no such
NaN, and `post_float` another one of it."""
NAN = I32(0x7FFFFFFF)
"""That other one."""
EVERY = I32(-1)
"""All lanes of a warp."""

GiveUp = Callable[[Value], Value]


class Primitives:
    """Those of one kernel, which is begun with them.

    Args:
        ports: how many inputs and outputs it has.
    """

    def __init__(self, module: ir.Module, name: str, ports: int, sizes: int) -> None:
        types = [*PARAMETERS, *[POINTER] * ports, *[I64] * sizes]
        self.module = module
        self.function = ir.Function(module, ir.FunctionType(VOID, types), name)
        self.function.calling_convention = "ptx_kernel"
        self.b = FoldingBuilder(self.function.append_basic_block("entry"))

    @property
    def arguments(self) -> Sequence[Value]:
        """The kernel's parameters."""
        return self.function.args

    def _call(self, name: str, result: ir.Type, arguments: Sequence[Value] = ()) -> Value:
        function = declared(self.module, name, result, [a.type for a in arguments])
        return self.b.call(function, list(arguments))

    def _asm(
        self, text: str, result: ir.Type, constraints: str, arguments: Sequence[Value]
    ) -> Value:
        kind = ir.FunctionType(result, [a.type for a in arguments])
        return self.b.asm(kind, text, constraints, list(arguments), True)

    # Numbers

    @property
    def thread(self) -> Value:
        """This thread's number within its block."""
        return self._call("llvm.nvvm.read.ptx.sreg.tid.x", I32)

    @property
    def block(self) -> Value:
        """This block's number."""
        return self._call("llvm.nvvm.read.ptx.sreg.ctaid.x", I32)

    @property
    def blocks(self) -> Value:
        """How many blocks there are."""
        return self._call("llvm.nvvm.read.ptx.sreg.nctaid.x", I32)

    # Memory

    def shared(self) -> Value:
        """The block's dynamic shared memory, at a multiple of 16 bytes."""
        memory = self.module.globals.get("shared")
        if memory is None:
            memory = ir.GlobalVariable(self.module, ir.ArrayType(I8, 0), "shared", 3)
            memory.linkage, memory.align = "external", 16
            memory.type = SHARED
        return _cast(self.b, memory, POINTER)

    def shared_four(self, place: Value, offset: int) -> Value:
        """Four floats of shared memory, so many bytes behind a multiple of 16.

        LLVM would turn two such loads that lead to one value, one before a loop and one at its
        end, into one at its beginning, where nothing else is left to do until it has come.
        """
        text = f"ld.shared.v4.f32 {{$0, $1, $2, $3}}, [$4+{offset}];"
        type_ = ir.LiteralStructType([FLOAT] * 4)
        words = self._asm(text, type_, "=f,=f,=f,=f,l,~{memory}", [_cast(self.b, place, SHARED)])
        return vector_of(self.b, [self.b.extract_value(words, i) for i in range(4)])

    def shared_bytes(self) -> Value:
        """How much of it the launch gave, as an i32."""
        return self._asm("mov.u32 $0, %dynamic_smem_size;", I32, "=r", [])

    def in_global(self, pointer: Value) -> Value:
        """A pointer that was read from memory and leads to device memory, so that LLVM knows."""
        return _cast(self.b, _cast(self.b, pointer, GLOBAL), POINTER)

    def hidden(self, number: int) -> Value:
        """A number that no compiler knows, so that a loop of so many iterations stays one."""
        size = self.shared_bytes()  # below 2**31
        return self.b.add(self.b.zext(self.b.lshr(size, I32(31)), I64), I64(number))

    def not_unrolled(self) -> None:
        """As a loop's first: ptxas leaves it a loop."""
        self._asm(r".pragma \22nounroll\22;", VOID, "", [])

    # Waits

    def block_wait(self) -> None:
        """Until all threads of the block are here; what they wrote is seen by all of them."""
        self._call("llvm.nvvm.barrier.cta.sync.aligned.all", VOID, [I32(0)])

    def grid_wait(self, counter: Value, goal: Value, give_up: GiveUp) -> None:
        """Until all blocks have added to a counter as often as this one.

        Args:
            goal: what it holds then, modulo 2**32.
            give_up: given how often it has looked, whether a thread that waits is to end.
        """
        self.block_wait()
        with self.b.if_then(self.b.icmp_unsigned("==", self.thread, I32(0))):
            # Cumulative: what other threads of the block wrote before `block_wait` is ordered, too.
            self._asm("fence.acq_rel.gpu;", VOID, "~{memory}", [])
            # Nobody needs the old value: a reduction, which does not wait for an answer.
            self._asm("red.relaxed.gpu.global.add.u32 [$0], 1;", VOID, "l,~{memory}", [counter])
            self._await(counter, goal, give_up)
        self.block_wait()

    def _await(self, counter: Value, goal: Value, give_up: GiveUp) -> None:
        """Look at the counter until it has reached the goal."""
        text = "ld.acquire.gpu.global.u32 $0, [$1];"

        def reached() -> Value:
            now = self._asm(text, I32, "=r,l,~{memory}", [counter])
            return self.b.icmp_signed(">=", self.b.sub(now, goal), I32(0))  # it may wrap

        self._until(reached, give_up)

    def _until(self, ready: Callable[[], Value], give_up: GiveUp) -> None:
        """Look whether something is ready until it is, so many times at most."""
        b, before = self.b, self.b.block
        look, again, done = (b.append_basic_block(n) for n in ("look", "again", "done"))
        b.branch(look)
        b.position_at_end(look)
        looks = b.phi(I32)
        looks.add_incoming(I32(1), before)
        b.cbranch(ready(), done, again)
        b.position_at_end(again)
        self.pause(looks, give_up)
        looks.add_incoming(b.add(looks, I32(1)), b.block)
        b.branch(look)
        b.position_at_end(done)

    def pause(self, looks: Value, give_up: GiveUp) -> None:
        """Between two looks."""
        b = self.b
        with b.if_then(b.icmp_unsigned(">", looks, I32(EAGER))):
            self._asm("nanosleep.u32 $0;", VOID, "r", [I32(PAUSE)])
            with b.if_then(give_up(looks)):
                self.end()

    def fetch_ahead(self, place: Value) -> None:
        """Let the second-level cache fetch what is looked at soon."""
        self._asm("prefetch.global.L2 [$0];", VOID, "l", [place])

    def look(self, place: Value) -> Value:
        """A 32-bit word of device memory as it is now."""
        return self._asm("ld.relaxed.gpu.global.u32 $0, [$1];", I32, "=r,l,~{memory}", [place])

    # Words that others wait for: see `words`

    def post(self, place: Value, value: Value, mark: Value) -> None:
        """Write 32 bits and a mark, or 32 bits more, as one."""
        b = self.b
        word = b.or_(b.zext(value, I64), b.shl(b.zext(mark, I64), I64(32)))
        self._asm("st.relaxed.gpu.global.b64 [$0], $1;", VOID, "l,l,~{memory}", [place, word])

    def post_float(self, place: Value, value: Value) -> None:
        """Write a float that others wait for."""
        b = self.b
        bits = b.bitcast(value, I32)
        unwritten = b.icmp_unsigned("==", bits, I32(-1))
        self._post_word(place, b.select(unwritten, NAN, bits))

    def _post_word(self, place: Value, word: Value) -> None:
        self._asm("st.relaxed.gpu.global.b32 [$0], $1;", VOID, "l,r,~{memory}", [place, word])

    def two_words(self, place: Value) -> list[Value]:
        """Two words of 64 bits at a multiple of 16 bytes as they are now."""
        text = "ld.relaxed.gpu.global.v2.b64 {$0, $1}, [$2];"
        type_ = ir.LiteralStructType([I64, I64])
        both = self._asm(text, type_, "=l,=l,l,~{memory}", [place])
        return [self.b.extract_value(both, i) for i in range(2)]

    def four_words(self, place: Value) -> list[Value]:
        """Four words of 32 bits there."""
        text = "ld.relaxed.gpu.global.v4.b32 {$0, $1, $2, $3}, [$4];"
        type_ = ir.LiteralStructType([I32] * 4)
        all_ = self._asm(text, type_, "=r,=r,=r,=r,l,~{memory}", [place])
        return [self.b.extract_value(all_, i) for i in range(4)]

    def end(self) -> None:
        """End this thread."""
        self._asm("exit;", VOID, "", [])

    # Lanes

    def shuffle_down(self, value: Value, by: int) -> Value:
        """A 32-bit value of the lane `by` further on; of the own lane beyond the warp."""
        name = f"llvm.nvvm.shfl.sync.down.{'f32' if value.type == ir.FloatType() else 'i32'}"
        return self._call(name, value.type, [EVERY, value, I32(by), I32(WARP - 1)])

    def ballot(self, flag: Value) -> Value:
        """A bit for each lane of the warp, of those that are here all."""
        return self._call("llvm.nvvm.vote.ballot.sync", I32, [EVERY, flag])

    # Copies into shared memory that go on beside other work

    def copy_ahead(self, target: Value, source: Value, size: Value) -> None:
        """Begin to copy 16 bytes from device to shared memory: the first `size`, then zeros."""
        places = _cast(self.b, target, SHARED), _cast(self.b, source, GLOBAL)
        self._call("llvm.nvvm.cp.async.cg.shared.global.16.s", VOID, [*places, size])

    def end_copies(self) -> None:
        """Those that were begun since the last time are one group."""
        self._call("llvm.nvvm.cp.async.commit.group", VOID)

    def await_copies(self, groups: int) -> None:
        """Until all of this thread's groups but the last few have ended."""
        self._call("llvm.nvvm.cp.async.wait.group", VOID, [I32(groups)])

    # Tensor cores

    def halves(self, low: Value, high: Value) -> Value:
        """Two floats as bf16 in a word, to nearest even; NaN stays NaN."""
        kind = ir.FunctionType(I32, [high.type, low.type])
        return self.b.asm(kind, "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", [high, low], False)

    def matrices(self, row: Value, count: int, turned: bool = False) -> list[Value]:
        """2 or 4 matrices of 8 by 8 bf16 in shared memory; `row`: of the lane's number.

        All lanes give an address, 16 bytes each; a lane gets two neighbours of each matrix, of a
        row of it, or where it is `turned` of a column.
        """
        form = ".trans" if turned else ""
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{form}.b16.p3"
        type_ = ir.LiteralStructType([I32] * count)
        words = self._call(name, type_, [_cast(self.b, row, SHARED)])
        return [self.b.extract_value(words, i) for i in range(count)]

    def multiply(self, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]) -> list[Value]:
        """c + a b of a warp: a 16 by 16 bf16, b 16 by 8, c floats, four a lane."""
        type_ = ir.LiteralStructType([c[0].type] * 4)
        sums = self._call("llvm.nvvm.mma.m16n8k16.row.col.bf16", type_, [*a, *b, *c])
        return [self.b.extract_value(sums, i) for i in range(4)]


def _cast(b: Any, pointer: Value, type_: ir.Type) -> Value:
    """A pointer into another address space; the builder's type stubs do not know of it."""
    return b.addrspacecast(pointer, type_)
