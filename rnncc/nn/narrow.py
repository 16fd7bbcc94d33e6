"""Numbers of fewer bits than those that they are computed in."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import NARROW_FLOATS, WIDE


def narrowed(b: Builder, x: SSAValue, kind: str) -> SSAValue:
    """What a narrow type holds of each element, as the type that it is computed in.

    The nearest `f16` or `bf16`, ties to even, whose gradient is x's as it is; the lowest bits of an
    integer.
    """
    value = b.cast(b.cast(x, kind), WIDE[kind])
    if kind not in NARROW_FLOATS:
        return value
    inner = Builder(Block(arg_types=[x.type]), b.loc)
    return b.with_gradient(value, [x], [], inner, [inner.block.args[0]])
