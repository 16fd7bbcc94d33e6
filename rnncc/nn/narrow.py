"""Numbers of fewer bits than those that they are computed in."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder


def rounded(b: Builder, x: SSAValue, kind: str) -> SSAValue:
    """The nearest `f16` or `bf16` to each float32, ties to even; its gradient is x's as it is."""
    inner = Builder(Block(arg_types=[x.type]), b.loc)
    value = b.cast(b.cast(x, kind), "f32")
    return b.with_gradient(value, [x], [], inner, [inner.block.args[0]])


def wrapped(b: Builder, x: SSAValue, bits: int, is_signed: bool) -> SSAValue:
    """The lowest bits of each int32, as an integer of so many bits holds them."""
    if not is_signed:
        return b.bits("and", x, b.fill(2**bits - 1, (), "i32"))
    missing = b.fill(32 - bits, (), "i32")
    return b.bits("right", b.bits("left", x, missing), missing)
