"""Random numbers that depend on nothing but their operands: the same stream on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from rnncc.ir.ops.base import Array, Context, Elementwise, Grads, Properties
from rnncc.ir.ops.checks import expect
from rnncc.ir.types import Tensor, dims_of, dtype_of, tensor

if TYPE_CHECKING:
    from rnncc.ir.builder import Builder

MULTIPLIER, WEYL, ROUNDS = 0xD256D193, 0x9E3779B9, 10
"""Philox-2x32-10: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011)."""
MASK = 0xFFFFFFFF
BITS = 24
"""Of a float32 below 1: every multiple of 2**-24 is one."""


def philox(counter: tuple[Array, Array], key: Array) -> tuple[Array, Array]:
    """Philox-2x32-10 over uint64 arrays that hold 32-bit words.

    A round: (x, y) → (high(m·x) xor key xor y, low(m·x)), then the key grows by a constant.
    """
    x, y = counter
    for number in range(ROUNDS):
        product = x * np.uint64(MULTIPLIER)
        round_key = (key + np.uint64(number * WEYL & MASK)) & np.uint64(MASK)
        x, y = (product >> np.uint64(32)) ^ round_key ^ y, product & np.uint64(MASK)
    return x, y


@irdl_op_definition
class Uniform(Elementwise):
    """y = one of the multiples of 2⁻²⁴ in [0, 1), each as likely: Philox-2x32-10 of index and seed

    The upper 24 bits of the first word for the counter (index, stream) and the key `seed`; both
    operands are i32, the result is f32. It has no gradient.
    """

    name = "rnn.uniform"
    seed = operand_def()
    index = operand_def()
    stream = prop_def(IntAttr)

    @classmethod
    def infer_element(cls, properties: Properties, *types: Tensor) -> Tensor:
        for name, type_ in zip(("seed", "index"), types, strict=True):
            expect(dtype_of(type_) == "i32", f"{name} is {dtype_of(type_)}, expected i32")
        return tensor(dims_of(types[0]), "f32")

    def evaluate(self, context: Context, *arrays: Array) -> Array:
        seed, index = (np.asarray(a).astype(np.uint32).astype(np.uint64) for a in arrays)
        word, _ = philox((index, np.full_like(index, self.stream.data & MASK)), seed)
        return (word >> np.uint64(32 - BITS)).astype(context.real) * context.real(2.0**-BITS)

    def vjp(self, b: Builder, dy: SSAValue) -> Grads:
        return [None, None]


OPS: list[type[Elementwise]] = [Uniform]
