"""Products and the sums that read them as one op, which says how often they are rounded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add, Mul, StopGradient, Sub
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose
from rnncc.ir.rewriting import NetPass, dce, replace, run_all, scans_of
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.records import record

FAR = 256
"""Ops that are looked at for whether a value depends on another: beyond them it counts as if."""
VIEWS = 8
"""Of a product, one after another: a sum of more reads them as they are."""


@record
class MultiplyAdds(NetPass):
    """a·b + c, a·b - c, c - a·b → multiply_add of a, b, c, where c does not depend on a·b.

    A product that is read elsewhere as well stays there for those who read it. What is rounded
    therefore depends on nothing but how a sum is made: not on what else is computed, on what is
    stored or leaves a loop, or on which kernel has which op. Of two products the one is taken that
    changes more often, as the other may leave a loop; of equals the first.

    Where c is made of the rounded product, a program may rely on what they have in common: s - s
    and s - max(s) are 0 somewhere, s - floor(s) is not negative.

    With `gradients`, only in what the net's own outputs do not need: their sums have been decided
    before work left loops.

    Before:

        v1 = mul(x, y)
        v2 = add(z, v1)
        v3 = relu(v1)
        v4 = sub(v1, v3)
        return v2, v4

    After:

        v1 = mul(x, y)
        v2 = multiply_add(x, y, z, kind=add)
        v3 = relu(v1)
        v4 = sub(v1, v3)
        return v2, v4
    """

    name = "rnn-multiply-adds"
    gradients: bool = False

    def rewrite(self, net: Net) -> bool:
        decided = _needed(net, net.outputs_of(None).values() if self.gradients else ())
        inner = [s for op in net.body.block.ops if op not in decided for s in _scans(op)]
        return run_all([*map(_rewrite, inner), _rewrite(net, decided)])


def plus(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x + y, as one op with y where that is a product, of which x is not made."""
    viewed = _viewed_product(y)
    return b.add(x, y) if viewed is None else b.multiply_add("add", *viewed.factors(b), x)


def _scans(op: Operation) -> Iterator[Scan]:
    """An op if it is a scan, behind those in its body."""
    if isinstance(op, Scan):
        yield from scans_of(op.body.block)
        yield op


def _needed(net: Net, outputs: Iterable[SSAValue]) -> set[Operation]:
    """The ops of a net, not of loops' bodies, that outputs are computed with."""
    values, needed = set(outputs), set[Operation]()
    for op in reversed(list(net.body.block.ops)):
        if not values.isdisjoint(op.results):
            needed.add(op)
            values.update(op.operands)
    return needed


def _rewrite(parent: Scan | Net, decided: Container[Operation] = ()) -> bool:
    kinds, block, changed = kinds_of(parent), parent.body.block, False
    order = {op: number for number, op in enumerate(block.ops)}
    sums = [op for op in block.ops if isinstance(op, Add | Sub) and op not in decided]
    sums = [op for op in sums if dtype_of(op.y) in FLOATS]
    for op in sums:
        if (new := _fused(op, kinds, order)) is not None:
            order[cast(Operation, new.owner)] = order[op]
            kinds[new] = kinds[op.y]
            replace(op, [new])
            changed = True
    return dce(block) or changed


def _fused(
    op: Add | Sub, kinds: Mapping[SSAValue, Kind], order: Mapping[Operation, int]
) -> SSAValue | None:
    """The sum as one op with a product; None where it has none."""
    b = Builder.before(op)
    pairs = [(op.a, op.b), (op.b, op.a)]
    for value, other in sorted(pairs, key=lambda pair: -kinds[pair[0]]):
        viewed = _viewed_product(value)
        if viewed is None or (viewed.is_shared and _depends(other, viewed.product, order)):
            continue
        kind = "add" if isinstance(op, Add) else "sub" if value is op.a else "from"
        return b.multiply_add(kind, *viewed.factors(b), other)
    return None


def _depends(value: SSAValue, product: Mul, order: Mapping[Operation, int]) -> bool:
    """Whether a value is made of a product, or of too much to tell."""
    pending, seen = [value], set[Operation]()
    first = order[product]
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation) or owner.parent is not product.parent:
            continue
        # What stands before the product cannot be made of it; new ops are views of factors.
        if order.get(owner, first) < first:
            continue
        if owner is product or len(seen) == FAR:
            return True
        if owner not in seen:
            seen.add(owner)
            pending += owner.operands
    return False


@record
class _ViewedProduct:
    """A product, and the views through which a sum reads it, from the sum on."""

    product: Mul
    views: Sequence[RnnOp]

    @property
    def is_shared(self) -> bool:
        """Whether there is another reader than that sum."""
        values = [self.product.y, *(view.results[0] for view in self.views)]
        return not all(value.has_one_use() for value in values)

    def factors(self, b: Builder) -> tuple[SSAValue, SSAValue]:
        """Viewed as the product is."""
        one, two = self.product.a, self.product.b
        for view in reversed(self.views):
            one, two = b.like(view, [one]), b.like(view, [two])
        return one, two


def _viewed_product(value: SSAValue) -> _ViewedProduct | None:
    """The product that a value is, or is a view of."""
    views = list[RnnOp]()
    while (view := _view(value.owner)) is not None and len(views) < VIEWS:
        views.append(view)
        value = view.operands[0]
    return _ViewedProduct(value.owner, views) if isinstance(value.owner, Mul) else None


def _view(op: Operation | Block) -> RnnOp | None:
    """What gives elements of another value, or hides from gradients where they come from."""
    if isinstance(op, Broadcast | Slice | Transpose | StopGradient):
        return op
    return op if isinstance(op, Reshape) and op.only_units else None
