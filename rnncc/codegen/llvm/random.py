"""The code of `rnn.uniform`: Philox-2x32-10 on vectors of 32-bit integers."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.values import Value, vector_type
from rnncc.ir.ops.random import BITS, MASK, MULTIPLIER, ROUNDS, WEYL

_WORD, _WIDE = ir.IntType(32), ir.IntType(64)


def uniform(b: ir.IRBuilder, seed: Value, index: Value, stream: int, lanes: int) -> Value:
    """A float in [0, 1) for each lane's seed and index, exactly as `Uniform.evaluate`."""

    def splat(element: ir.IntType, value: int) -> ir.Constant:
        return ir.Constant(vector_type(element, lanes), [value] * lanes if lanes > 1 else value)

    wide, word = vector_type(_WIDE, lanes), vector_type(_WORD, lanes)
    x, y = index, splat(_WORD, stream & MASK)
    for iteration in range(ROUNDS):
        product = b.mul(b.zext(x, wide), splat(_WIDE, MULTIPLIER))
        high = b.trunc(b.lshr(product, splat(_WIDE, 32)), word)
        key = b.add(seed, splat(_WORD, iteration * WEYL & MASK))
        x, y = b.xor(b.xor(high, key), y), b.trunc(product, word)
    top = b.lshr(x, splat(_WORD, 32 - BITS))
    scale = ir.Constant(ir.FloatType(), 2.0**-BITS)
    factor = (
        ir.Constant(vector_type(ir.FloatType(), lanes), [scale] * lanes) if lanes > 1 else scale
    )
    return b.fmul(b.uitofp(top, factor.type), factor)
