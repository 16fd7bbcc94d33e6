"""Functions that flush denormals while they run, and leave the CPU's mode as they found it.

In: a function that computes. Out: one that sets the bits of the mode, calls it, and sets these bits
back, whatever code the function returns. Flags that the call raised stay raised.
"""

from __future__ import annotations

from collections.abc import Mapping

from llvmlite import ir

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.llvm.values import I32, I64, POINTER, VOID, Value, declared
from rnncc.errors import CompileError
from rnncc.records import record


@record
class _Mode:
    """A register that holds the mode, as wide as the intrinsics `get` and `put` have it.

    Attributes:
        bits: those that make it flush results, and take operands for zero.
        by_memory: whether the intrinsics take the address of the value.
    """

    get: str
    put: str
    bits: int
    type: ir.IntType = I32
    by_memory: bool = False

    def read(self, b: ir.IRBuilder, room: Value) -> Value:
        if not self.by_memory:
            return b.call(declared(b.module, self.get, self.type, []), [])
        b.call(declared(b.module, self.get, VOID, [POINTER]), [room])
        return b.load(room, typ=self.type, align=4)

    def write(self, b: ir.IRBuilder, room: Value, value: Value) -> None:
        if not self.by_memory:
            b.call(declared(b.module, self.put, VOID, [self.type]), [value])
            return
        b.store(value, room, align=4)
        b.call(declared(b.module, self.put, VOID, [POINTER]), [room])


# Flush to zero is bit 24 of both FPSCR and FPCR; MXCSR has a bit for results (15) and one for
# operands (6).
_FZ = 1 << 24
_FTZ_AND_DAZ = 1 << 15 | 1 << 6
_ARM = _Mode("llvm.arm.get.fpscr", "llvm.arm.set.fpscr", _FZ)
_MODES = {
    "x86_64": _Mode("llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr", _FTZ_AND_DAZ, by_memory=True),
    "aarch64": _Mode("llvm.aarch64.get.fpcr", "llvm.aarch64.set.fpcr", _FZ, I64),
}


def _mode_of(target: Core) -> _Mode:
    architecture = target.architecture
    mode = _ARM if architecture.startswith(("arm", "thumb")) else _MODES.get(architecture)
    if mode is None:
        what = f"{architecture} has no mode that flushes denormals"
        raise CompileError("--flush-denormals", what, "leave it out")
    return mode


def flushing(functions: Mapping[str, ir.Function], target: Core) -> dict[str, ir.Function]:
    """Functions that call these in the mode, by the same names.

    Raises:
        CompileError: the CPU has no such mode.
    """
    mode = _mode_of(target)
    return {name: _around(function, mode) for name, function in functions.items()}


def _around(inner: ir.Function, mode: _Mode) -> ir.Function:
    """LLVM knows nothing of the mode: arithmetic inlined here could move in front of it."""
    inner.attributes.add("noinline")
    function = ir.Function(inner.module, inner.function_type, f"{inner.name}_flushing")
    b = ir.IRBuilder(function.append_basic_block())
    room = b.alloca(mode.type)
    bits, others = mode.type(mode.bits), mode.type(~mode.bits)
    before = mode.read(b, room)
    mode.write(b, room, b.or_(before, bits))
    code = b.call(inner, function.args)
    # Read anew, for the flags that the call has raised.
    after = b.and_(mode.read(b, room), others)
    mode.write(b, room, b.or_(after, b.and_(before, bits)))
    b.ret(code)
    return function
