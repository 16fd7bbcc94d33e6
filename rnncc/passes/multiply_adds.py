"""Products and the sums that read them as one op, which says how often they are rounded."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import View
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add, Mul, Sub
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose
from rnncc.ir.rewriting import NetPass, dce, replace, run_all, scans_of
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.activity import dependent_values
from rnncc.passes.dependence import Kind, kinds_of

Factors = tuple[SSAValue, SSAValue]


@dataclass(frozen=True)
class MultiplyAdds(NetPass):
    """a·b + c, a·b - c, c - a·b → multiply_add of a, b, c, whatever else reads the product.

    A product that is read elsewhere as well stays there for those who read it. What is rounded
    therefore hangs on nothing but how a sum is made: not on what else is computed, on what is
    stored or leaves a loop, or on which kernel has which op. Of two products the one is taken that
    changes more often, as the other may leave a loop; of equals the first.

    With `gradients`, only in sums that change with gradients given from outside: the net's own have
    been decided before its work left loops.

    Before:

        v1 = mul(x, y)
        v2 = add(z, v1)
        v3 = sub(v2, v1)
        v4 = relu(v1)
        return v3, v4

    After:

        v1 = mul(x, y)
        v2 = multiply_add(x, y, z, kind=add)
        v3 = multiply_add(x, y, v2, kind=from)
        v4 = relu(v1)
        return v3, v4
    """

    name = "rnn-multiply-adds"
    gradients: bool = False

    def rewrite(self, net: Net) -> bool:
        among = _gradients(net) if self.gradients else None
        parents = [*scans_of(net.body.block), net]
        return run_all(_rewrite(parent, among) for parent in parents)


def plus(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x + y, as one op with y where that is a product."""
    factors = _factors(b, y)
    return b.add(x, y) if factors is None else b.multiply_add("add", *factors, x)


def _gradients(net: Net) -> set[SSAValue]:
    """What changes with the gradients of outputs."""
    return dependent_values(net.body.block.ops, net.inputs_of("grad").values())


def _rewrite(parent: Scan | Net, among: Container[SSAValue] | None) -> bool:
    kinds, block, changed = kinds_of(parent), parent.body.block, False
    sums = [op for op in block.ops if isinstance(op, Add | Sub) and dtype_of(op.y) in FLOATS]
    sums = [op for op in sums if among is None or op.y in among]
    for op in sums:
        if (new := _fused(op, kinds)) is not None:
            kinds[new] = kinds[op.y]
            replace(op, [new])
            changed = True
    return dce(block) or changed


def _fused(op: Add | Sub, kinds: Mapping[SSAValue, Kind]) -> SSAValue | None:
    """The sum as one op with a product; None where it has none."""
    b = Builder.before(op)
    pairs = [(op.a, op.b), (op.b, op.a)]
    for product, other in sorted(pairs, key=lambda pair: -kinds[pair[0]]):
        if (factors := _factors(b, product)) is not None:
            kind = "add" if isinstance(op, Add) else "sub" if product is op.a else "from"
            return b.multiply_add(kind, *factors, other)
    return None


def _factors(b: Builder, value: SSAValue) -> Factors | None:
    """The factors of a product, or of a product that a value is a view of, viewed so too."""
    views = list[View]()
    while isinstance(view := value.owner, Broadcast | Slice | Transpose) or (
        isinstance(view, Reshape) and view.only_units
    ):
        views.append(view)
        value = view.x
    if not isinstance(value.owner, Mul):
        return None
    one, two = value.owner.operands
    for view in reversed(views):
        one, two = b.like(view, [one]), b.like(view, [two])
    return one, two
