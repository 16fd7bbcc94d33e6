"""Code that measures a machine: multiply-adds in registers, and reads of a block of memory.

Written with rnncc's own code generator for the vectors that it uses, so that what is measured is
what generated code can reach.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from rnncc.codegen.cpu.gemm.byte_dots import dot
from rnncc.codegen.cpu.gemm.converted_rows import TILE_ROWS
from rnncc.codegen.cpu.gemm.matrix_tiles import (
    INSTRUCTIONS,
    ROWS,
    TILE_SUMS,
    WEIGHTS,
    call_amx,
    with_registers,
)
from rnncc.codegen.cpu.machine.core import TILE_WORDS
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from rnncc.codegen.llvm.emit import Emit
from rnncc.codegen.llvm.values import (
    FLOAT,
    I8,
    I32,
    I64,
    POINTER,
    Pointer,
    Value,
    declared,
    vector_type,
)
from rnncc.records import record

UNROLLED = 16
"""Vectors read in one iteration."""
SUMS = 8
"""Independent sums of what is read: latency times how many a cycle can start."""

PRODUCTS = {"bf16": 2, "u8": 4}
"""By weights: how many products one instruction adds to a sum."""
MATRICES = " matrices"
"""Behind an element type: by instructions that multiply matrices."""

MultiplyAdds = Callable[[int], float]
Read = Callable[[int, int, int], float]


@record
class Probes:
    """Functions of a machine, in memory.

    Attributes:
        arithmetic: by the weights' element type: `f(iterations)` does `iterations` times `flops` of
            it.
        mixed: `f(iterations)` does as many instructions on floats, every other one an addition.
        read: `read(address, blocks, sweeps)` reads so many blocks of `block_bytes` from the front,
            as often as `sweeps` says, and gives the sum of it all.
        there_and_back: twice as much, every other time from the back.
    """

    arithmetic: dict[str, MultiplyAdds]
    mixed: MultiplyAdds
    read: Read
    there_and_back: Read
    target: CpuTarget

    def flops(self, dtype: str) -> int:
        """Of one iteration."""
        products = PRODUCTS.get(dtype.removesuffix(MATRICES), 1)
        if dtype.endswith(MATRICES):
            return 2 * products * TILE_SUMS * TILE_ROWS * TILE_WORDS * TILE_WORDS
        return 2 * products * self.instructions * self.target.lanes

    @property
    def instructions(self) -> int:
        """Of one iteration."""
        return _chains(self.target)


@cache
def probes(target: CpuTarget) -> Probes:
    """The probes of this machine; those of precisions that it has instructions for."""
    module = ir.Module()
    offered = {"bf16": has_bf16(target), "u8": target.byte_dot}
    dtypes = ["f32", *(dtype for dtype, has in offered.items() if has)]
    for dtype in dtypes:
        _multiply_adds(module, target, dtype)
    matrices = {dtype + MATRICES: INSTRUCTIONS[dtype] for dtype in target.tiles}
    for dtype, instruction in matrices.items():
        _matrices(module, target, f"arithmetic_{dtype}", instruction)
    _mixed(module, target)
    _read(module, target, "read", (False,))
    _read(module, target, "there_and_back", (False, True))
    engine = objects.load(objects.optimise(str(module), target, jit=True))

    def function(name: str, count: int) -> Any:
        kind = ctypes.CFUNCTYPE(ctypes.c_float, *[ctypes.c_int64] * count)
        probe: Any = kind(engine.get_function_address(name))
        probe.engine = engine
        return probe

    arithmetic = {dtype: function(f"arithmetic_{dtype}", 1) for dtype in (*dtypes, *matrices)}
    reads = function("read", 3), function("there_and_back", 3)
    return Probes(arithmetic, function("mixed", 1), *reads, target)


def has_bf16(target: CpuTarget) -> bool:
    """Whether there is an instruction for products of bf16, which code uses where it is quick."""
    return "+avx512bf16" in target.features.split(",")


def block_bytes(target: CpuTarget) -> int:
    """What `read` reads in one iteration."""
    return 4 * UNROLLED * target.lanes


def _chains(target: CpuTarget) -> int:
    """Independent multiply-adds: more than latency asks for, and all in registers."""
    return 24 if target.registers >= 32 else 12


def _begin(module: ir.Module, name: str, count: int, target: CpuTarget) -> Emit:
    """A function of so many i64 that gives a float: the sum of all that it computed."""
    kind = ir.FunctionType(FLOAT, [I64] * count)
    return Emit.begin(ir.Function(module, kind, name), target, [])


def _end(emit: Emit, values: Sequence[Value]) -> None:
    """Return a sum, so that all values must be computed."""
    b, total = emit.b, values[0]
    for value in values[1:]:
        total = b.fadd(total, value)
    first, *rest = (b.extract_element(total, I64(i)) for i in range(emit.target.lanes))
    for part in rest:
        first = b.fadd(first, part)
    b.ret(first)


def _multiply_adds(module: ir.Module, target: CpuTarget, dtype: str) -> None:
    """Independent chains of multiply-adds, all in registers."""
    emit = _begin(module, f"arithmetic_{dtype}", 1, target)
    b, vector = emit.b, emit.vector
    whole = vector_type(I32, target.lanes)

    def iteration(index: Value, sums: list[Value]) -> list[Value]:
        if dtype not in PRODUCTS:
            factor, addend = vector.splat(0.999999), vector.splat(1e-6)
            return [vector.fma(b, total, factor, addend) for total in sums]
        numbers = emit.splat(b.trunc(b.function.args[0], I32), target.lanes)
        if dtype == "u8":
            lanes = target.lanes
            return [dot(b, module, target, lanes, total, numbers, numbers) for total in sums]
        add = _dot_of_bf16(module, target)
        return [b.call(add, [total, numbers, numbers]) for total in sums]

    starts: list[Value] = [vector.splat(float(i)) for i in range(_chains(target))]
    if dtype == "u8":
        starts = [ir.Constant(whole, [i] * target.lanes) for i in range(_chains(target))]
    sums = emit.loop(b.function.args[0], iteration, starts)
    _end(emit, [b.bitcast(total, vector.type) for total in sums])


def _matrices(module: ir.Module, target: CpuTarget, name: str, instruction: str) -> None:
    """As many sums as products keep, of whatever the other registers hold."""
    emit = _begin(module, f"{name}_inside", 1, target)
    b = emit.b

    def iteration(index: Value, carried: list[Value]) -> list[Value]:
        for n in range(TILE_SUMS):
            call_amx(b, instruction, I8(n), I8(ROWS + n % 2), I8(WEIGHTS + n // 2))
        return []

    emit.loop(b.function.args[0], iteration)
    b.ret(FLOAT(0.0))
    with_registers(b.function, name)


def _mixed(module: ir.Module, target: CpuTarget) -> None:
    """Independent chains, one of multiply-adds beside one of additions: other units do these."""
    emit = _begin(module, "mixed", 1, target)
    b, vector = emit.b, emit.vector
    factor, addend = vector.splat(0.999999), vector.splat(1e-6)

    def iteration(index: Value, sums: list[Value]) -> list[Value]:
        return [
            b.fadd(total, addend) if i % 2 else vector.fma(b, total, factor, addend)
            for i, total in enumerate(sums)
        ]

    starts: list[Value] = [vector.splat(float(i)) for i in range(_chains(target))]
    _end(emit, emit.loop(b.function.args[0], iteration, starts))


def _dot_of_bf16(module: ir.Module, target: CpuTarget) -> ir.GlobalValue:
    """The instruction as a function of a sum and of two vectors of 32-bit words."""
    words, total = vector_type(I32, target.lanes), vector_type(FLOAT, target.lanes)
    name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * target.lanes}"
    return declared(module, name, total, [total, words, words])


def _read(module: ir.Module, target: CpuTarget, name: str, backwards: tuple[bool, ...]) -> None:
    """Sums up a block: one instruction a vector, with the load in it."""
    emit = _begin(module, name, 3, target)
    b, lanes = emit.b, target.lanes
    address, blocks, sweeps = b.function.args
    memory = Pointer(b.inttoptr(address, POINTER), "f32")
    type_ = vector_type(FLOAT, lanes)

    def sweep(sums: list[Value], back: bool) -> list[Value]:
        def iteration(index: Value, sums: list[Value]) -> list[Value]:
            block = b.sub(b.sub(blocks, I64(1)), index) if back else index
            start = emit.at(memory, b.mul(block, I64(UNROLLED * lanes)))
            order = reversed(range(UNROLLED)) if back else range(UNROLLED)
            for k in order:
                value = emit.load(emit.at(start, I64(k * lanes)), lanes)
                sums[k % len(sums)] = b.fadd(sums[k % len(sums)], value)
            return sums

        return emit.loop(blocks, iteration, sums)

    def both(index: Value, sums: list[Value]) -> list[Value]:
        for back in backwards:
            sums = sweep(sums, back)
        return sums

    starts = [ir.Constant(type_, None)] * SUMS
    _end(emit, emit.loop(sweeps, both, starts))
