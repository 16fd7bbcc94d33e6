"""The instruction that adds four products of bytes to each sum of a vector, where there is one."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.llvm.values import I8, I32, Value, declared
from rnncc.codegen.llvm.vector import Splat
from rnncc.kern.packing import OFFSET


def mixes_signs(target: Core) -> bool:
    """Whether it multiplies unsigned by signed bytes: CPUs of AArch64 without i8mm do not."""
    return target.architecture != "aarch64" or "i8mm" in target.extensions


def dot(b: ir.IRBuilder, module: ir.Module, target: Core, lanes: int, *operands: Value) -> Value:
    """Sums with products added; operands: sums, weights and numbers, as vectors of i32.

    Weights are unsigned, numbers signed. Where both have to be signed, weights are OFFSET less.
    """
    integers, bytes = ir.VectorType(I32, lanes), ir.VectorType(I8, 4 * lanes)
    total, weights, numbers = operands
    if target.architecture != "aarch64":
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return b.call(declared(module, name, integers, [integers] * 3), operands)
    mixes = mixes_signs(target)
    if not mixes:
        # A byte less 128 is the byte with its highest bit flipped.
        weights = b.xor(weights, Splat(integers, OFFSET * 0x01010101))
    name = f"llvm.aarch64.neon.{'usdot' if mixes else 'sdot'}.v{lanes}i32.v{4 * lanes}i8"
    function = declared(module, name, integers, [integers, bytes, bytes])
    return b.call(function, [total, b.bitcast(weights, bytes), b.bitcast(numbers, bytes)])
