"""Floats of 16 bits, which are computed in float32 and rounded."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder


def rounded(b: Builder, x: SSAValue, kind: str) -> SSAValue:
    """The nearest `f16` or `bf16` to each float32, ties to even; its gradient is x's as it is."""
    inner = Builder(Block(arg_types=[x.type]), b.loc)
    value = b.cast(b.cast(x, kind), "f32")
    return b.with_gradient(value, [x], [], inner, [inner.block.args[0]])
