"""Products and the sums that read them as one op, which says how often they are rounded."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import View
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.elementwise import Add, Mul, MultiplyAdd, Sub
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose
from rnncc.ir.rewriting import NetPass, blocks_of, dce, replace, run_all
from rnncc.ir.types import FLOATS, dtype_of


@dataclass(frozen=True)
class MultiplyAdds(NetPass):
    """a·b + c → multiply_add(a, b, c), whatever else reads the product; so too a·b - c, c - a·b.

    A product that is read elsewhere as well stays there for those who read it. What is rounded
    therefore hangs on nothing but how a sum is made: not on what else is computed, on what is
    stored, or on which kernel has which op. Of two products the first is the one.

    Before:

        v1 = mul(x, y)
        v2 = add(z, v1)
        v3 = sub(v2, v1)
        v4 = relu(v1)
        return v3, v4

    After:

        v1 = mul(x, y)
        v2 = multiply_add(x, y, z)
        v3 = neg(x)
        v4 = multiply_add(v3, y, v2)
        v5 = relu(v1)
        return v4, v5
    """

    name = "rnn-multiply-adds"

    def rewrite(self, net: Net) -> bool:
        changed = False
        for block in blocks_of(net.body.block):
            sums = [op for op in block.ops if isinstance(op, Add | Sub)]
            changed = run_all(map(_rewrite, sums)) or changed
            dce(block)
        return changed


def plus(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x + y, as one op with a product where either is one."""
    for one, other in ((x, y), (y, x)):
        if (factors := _factors(b, one)) is not None:
            return b.append(MultiplyAdd, *factors, other)
    return b.add(x, y)


def _rewrite(op: Add | Sub) -> bool:
    if dtype_of(op.y) not in FLOATS:
        return False
    b = Builder.before(op)
    if isinstance(op, Add):
        new = plus(b, op.a, op.b)
    elif (factors := _factors(b, op.a)) is not None:
        new = b.append(MultiplyAdd, *factors, b.neg(op.b))
    elif (factors := _factors(b, op.b)) is not None:
        new = b.append(MultiplyAdd, b.neg(factors[0]), factors[1], op.a)
    else:
        return False
    if isinstance(new.owner, Add):
        return False
    replace(op, [new])
    return True


def _factors(b: Builder, value: SSAValue) -> list[SSAValue] | None:
    """The factors of a product, or of a product that a value is a view of, viewed so too."""
    views = list[View]()
    while isinstance(view := value.owner, Broadcast | Slice | Transpose) or (
        isinstance(view, Reshape) and view.only_units
    ):
        views.append(view)
        value = view.x
    if not isinstance(value.owner, Mul):
        return None
    factors = list(value.owner.operands)
    for view in reversed(views):
        factors = [b.like(view, [factor]) for factor in factors]
    return factors
