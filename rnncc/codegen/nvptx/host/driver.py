"""Calls of CUDA's driver from a library's host functions, through the caller's `struct rnncc_cuda`.

The library links to no driver: the struct, which `rnncc_cuda.h` declares and fills, holds addresses
of the three functions that are needed. The layout here is that one's.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import I8, I32, I64, POINTER, Value
from rnncc.codegen.nvptx.device import DeviceKernel

LAUNCH, SET, COPY, WEIGHTS, KERNELS = 0, 8, 16, 24, 32
"""Bytes from the start of `struct rnncc_cuda`."""
KERNEL_BYTES, RESIDENT, SHARED = 16, 8, 12
"""Of each kernel's part of it, in which are the number of blocks that are resident at once, and
their bytes of shared memory."""
MOST_KERNELS = 4
"""`RNNCC_CUDA_KERNELS` of `rnncc_cuda.h`: the struct has room for so many."""

_HELPERS = """
define internal i32 @{name}_cuda_set(ptr %cuda, ptr %at, i32 %word, i64 %count, ptr %stream) {{
  %slot = getelementptr i8, ptr %cuda, i64 {set}
  %function = load ptr, ptr %slot
  %code = call i32 %function(ptr %at, i32 %word, i64 %count, ptr %stream)
  %result = sub i32 0, %code
  ret i32 %result
}}
define internal i32 @{name}_cuda_copy(ptr %cuda, ptr %to, ptr %from, i64 %bytes, ptr %stream) {{
  %slot = getelementptr i8, ptr %cuda, i64 {copy}
  %function = load ptr, ptr %slot
  %code = call i32 %function(ptr %to, ptr %from, i64 %bytes, ptr %stream)
  %result = sub i32 0, %code
  ret i32 %result
}}
define internal i32 @{name}_cuda_launch(ptr %cuda, i64 %kernel, i64 %wanted, i32 %threads, ptr %stream, ptr %parameters) {{
  %function_at = getelementptr i8, ptr %cuda, i64 %kernel
  %handle = load ptr, ptr %function_at
  %resident_at = getelementptr i8, ptr %function_at, i64 {resident}
  %resident_word = load i32, ptr %resident_at
  %resident = sext i32 %resident_word to i64
  %shared_at = getelementptr i8, ptr %function_at, i64 {shared}
  %shared = load i32, ptr %shared_at
  %is_less = icmp slt i64 %wanted, %resident
  %least = select i1 %is_less, i64 %wanted, i64 %resident
  %is_some = icmp sgt i64 %least, 1
  %most = select i1 %is_some, i64 %least, i64 1
  %blocks = trunc i64 %most to i32
  %slot = getelementptr i8, ptr %cuda, i64 {launch}
  %function = load ptr, ptr %slot
  %code = call i32 %function(ptr %handle, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %shared, ptr %stream, ptr %parameters)
  %result = sub i32 0, %code
  ret i32 %result
}}
"""  # noqa: E501 - an instruction of LLVM IR a line
_ARGUMENTS = {
    "set": [POINTER, POINTER, I32, I64, POINTER],
    "copy": [POINTER, POINTER, POINTER, I64, POINTER],
    "launch": [POINTER, I64, I64, I32, POINTER, POINTER],
}


def helpers_text(name: str) -> str:
    """The functions of a library that call the driver; each returns 0, or minus its error."""
    return _HELPERS.format(
        name=name, set=SET, copy=COPY, launch=LAUNCH, resident=RESIDENT, shared=SHARED
    )


class HostDriver:
    """Writes calls of the driver into a function, which ends at once where one of them fails.

    Args:
        name: the library's.
        cuda, stream: the function's arguments.
    """

    def __init__(self, emit: Emit, name: str, cuda: Value, stream: Value) -> None:
        self._emit, self._cuda, self._stream = emit, cuda, stream
        apart = ir.Module(f"{name}_helpers")  # they are defined as text
        self._functions = {
            kind: ir.Function(apart, ir.FunctionType(I32, types), f"{name}_cuda_{kind}")
            for kind, types in _ARGUMENTS.items()
        }

    @property
    def weights(self) -> Value:
        """Where the packed weights lie on the device."""
        at = self._emit.b.gep(self._cuda, [I64(WEIGHTS)], source_etype=I8)
        return self._emit.b.load(at, typ=POINTER, align=8)

    def set_words(self, at: Value, count: int, word: Value | None = None) -> None:
        """Fill 32-bit words of the device."""
        value = I32(0) if word is None else word
        self._call("set", [at, value, I64(count), self._stream])

    def set_pointer(self, at: Value, pointer: Value) -> None:
        """Store a pointer on the device, as the halves that it has."""
        b = self._emit.b
        bits = b.ptrtoint(pointer, I64)
        self.set_words(at, 1, b.trunc(bits, I32))
        second = b.gep(at, [I64(4)], source_etype=I8)
        self.set_words(second, 1, b.trunc(b.lshr(bits, I64(32)), I32))

    def copy(self, to: Value, source: Value, size: Value) -> None:
        """Copy bytes within the device; the driver is not asked for none."""
        with self._emit.when(self._emit.b.icmp_signed(">", size, I64(0))):
            self._call("copy", [to, source, size, self._stream])

    def launch(self, number: int, kernel: DeviceKernel, parameters: Sequence[Value]) -> None:
        """Launch the kernel of a number, with as many blocks as have work and fit at once."""
        slots = self._slots(parameters)
        at = I64(KERNELS + number * KERNEL_BYTES)
        blocks = self._emit.parts(self._emit.largest(kernel.points), I64(kernel.per_block))
        self._call("launch", [at, blocks, I32(kernel.threads), self._stream, slots])

    def _slots(self, parameters: Sequence[Value]) -> Value:
        """A table of pointers to the parameters, of 8 bytes each."""
        emit, b = self._emit, self._emit.b
        values = emit.room(ir.ArrayType(I64, len(parameters)), 8)
        places: list[Value] = []
        for number, value in enumerate(parameters):
            at = b.gep(values, [I64(number)], source_etype=I64)
            b.store(value, at, align=8)
            places.append(at)
        return emit.table(places)

    def _call(self, kind: str, arguments: Sequence[Value]) -> None:
        b = self._emit.b
        code = b.call(self._functions[kind], [self._cuda, *arguments])
        with self._emit.when(b.icmp_signed("!=", code, I32(0))):
            b.ret(code)
