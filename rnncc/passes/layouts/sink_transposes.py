"""Layouts of convolutions: ops behind one keep its layout, and its transpose moves behind them."""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import Elementwise, RnnOp, Source
from rnncc.ir.ops.control import Net
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Slice, Transpose, inverse
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rewriting import NetPass, blocks_of, dce, replace, run_all
from rnncc.ir.types import dims_of
from rnncc.records import record

Perm = tuple[int, ...]
_Taking = Windows | Reduce | Transpose
"""What a transpose disappears in, or goes on behind at no cost."""


@record
class SinkTransposes(NetPass):
    """F(transpose(x)) → transpose(f(x)), where x is computed from windows.

    So a product takes in the elementwise ops behind it, a pool runs along the channels, and the
    transpose meets that in front of the next convolution.

    Attributes:
        for_gradients: whether they move only towards what takes them in. What alone becomes an
            output stays in that output's layout, in which its gradient comes.

    Before:

        v1 = windows(x, axis=1, start=0, count=3, stride=1, taps=1, dilation=1)
        v2 = reduce(v1, kind=max, axes=[2])
        v3 = transpose(v2, perm=[0, 2, 1])
        v4 = relu(v3)
        return v4

    After:

        v1 = windows(x, axis=1, start=0, count=3, stride=1, taps=1, dilation=1)
        v2 = reduce(v1, kind=max, axes=[2])
        v3 = relu(v2)
        v4 = transpose(v3, perm=[0, 2, 1])
        return v4
    """

    name = "rnn-sink-transposes"
    for_gradients: bool = False

    def rewrite(self, net: Net) -> bool:
        blocks = blocks_of(net.body.block)
        return run_all(sink(b, set(), _fixed(b) if self.for_gradients else ()) for b in blocks)


def _fixed(block: Block) -> set[Operation]:
    """The ops that a transpose would move behind, and nothing after them would take in."""
    fixed = set[Operation]()
    for op in reversed(list(block.ops)):
        if isinstance(op, Elementwise | Concat | Slice):
            users = [use.operation for use in op.y.uses]
            if not any(isinstance(user, _Taking) for user in users) and fixed.issuperset(
                user for user in users if isinstance(user, Elementwise | Concat | Slice)
            ):
                fixed.add(op)
    return fixed


def sink(block: Block, windowed: set[SSAValue], fixed: Container[Operation] = ()) -> bool:
    """Move transposes of what is computed from windows, and of other values, as far as they go.

    Args:
        windowed: those other values.
        fixed: ops that stay in front of them.
    """
    changed = False
    for op in list(block.ops):
        if not isinstance(op, RnnOp) or op in fixed:
            continue
        sunk = _sunk(op, windowed)
        if sunk is not None:
            y, perm = sunk
            windowed.add(y)
            # Two transposes that undo each other leave nothing to move on.
            moved = y if list(perm) == sorted(perm) else Builder.before(op).transpose(y, perm)
            windowed.add(moved)
            replace(op, [moved])
            changed = True
        elif isinstance(op, Windows) or any(value in windowed for value in op.operands):
            windowed.update(op.results)
    if changed:
        dce(block)
    return changed


def _sunk(op: RnnOp, windowed: set[SSAValue]) -> tuple[SSAValue, Perm] | None:
    """An op on what a transpose reads, and the axes of that in the order of the op's result."""
    inner = next((v.owner for v in op.operands if v in windowed and _is_transpose(v)), None)
    if not isinstance(inner, Transpose):
        return None
    perm, b = get_ints(inner.perm), Builder.before(op)
    match op:
        case Elementwise() | Concat():
            y = _of_several(b, op, perm)
        case Transpose():
            y = inner.x
        case Broadcast():
            order = _order_behind(op, perm)
            axes = [order.index(axis) for axis in get_ints(op.axes)]
            places = [axes[perm.index(axis)] for axis in range(len(perm))]
            y = b.broadcast(inner.x, [dims_of(op.y)[axis] for axis in order], places)
        case WithGradient() if op.x.owner is inner:
            y = _with_gradient(b, op)
        case Slice():
            axis = {"axis": IntAttr(perm[op.axis.data])}
            y = b.append(Slice, inner.x, **{**op.properties, **axis})
        case Windows():
            axis = {"axis": IntAttr(perm[op.axis.data])}
            y = b.append(Windows, inner.x, **{**op.properties, **axis})
        case Reduce():
            y = b.reduce(op.kind.data, inner.x, sorted(perm[a] for a in get_ints(op.axes)))
        case _:
            return None
    return None if y is None else (y, perm_behind(op, perm))


def perm_behind(op: RnnOp, perm: Perm) -> Perm:
    """How the axes of an op's result are transposed if those of what it reads are."""
    match op:
        case Transpose():
            return tuple(perm[axis] for axis in get_ints(op.perm))
        case Windows():
            axis = perm[op.axis.data]
            wider = [p + (p > axis) for p in perm]
            wider.insert(op.axis.data + 1, axis + 1)
            return tuple(wider)
        case Broadcast():
            order = _order_behind(op, perm)
            return tuple(order.index(axis) for axis in range(len(order)))
        case Reduce():
            kept = [perm[axis] for axis in op.kept]
            return tuple(sorted(kept).index(number) for number in kept)
        case _:
            return perm


def _with_gradient(b: Builder, op: WithGradient) -> SSAValue:
    """The same of what transposes read; within the body they move on as they do outside."""
    block = Block(arg_types=[_bare(value)[0].type for value in (op.x, *op.reads)])
    inner = Builder(block, b.loc)
    operands, grads = list[SSAValue](), list[SSAValue]()
    for value, arg in zip((op.x, *op.reads), block.args, strict=True):
        perm = _bare(value)[1]
        operands.append(arg if perm is None else inner.transpose(arg, perm))
    turned = inner.inline(op.body.block, operands)
    for value, grad in zip(op.inputs, turned, strict=True):
        perm = _bare(value)[1]
        grads.append(grad if perm is None else _turned_back(inner, grad, perm))
    inputs, reads = ([_bare(value)[0] for value in values] for values in (op.inputs, op.reads))
    y = b.with_gradient(_bare(op.x)[0], inputs, reads, inner, grads)
    sink(block, set(operands))
    return y


def _bare(value: SSAValue) -> tuple[SSAValue, Perm | None]:
    """What a transpose reads, and how it permutes; any other value."""
    op = value.owner
    return (op.x, get_ints(op.perm)) if isinstance(op, Transpose) else (value, None)


def _order_behind(op: Broadcast, perm: Perm) -> list[int]:
    """The axes of a broadcast's result in the order of what a transpose reads: new ones stay behind
    the axis that they are behind, such as taps."""
    axes = get_ints(op.axes)
    ends = [*axes[1:], len(dims_of(op.y))]
    runs = [range(axis, end) for axis, end in zip(axes, ends, strict=True)]
    front = range(axes[0]) if axes else range(len(dims_of(op.y)))
    return [*front, *(axis for old in range(len(perm)) for axis in runs[perm.index(old)])]


def _of_several(b: Builder, op: RnnOp, perm: Perm) -> SSAValue | None:
    """Where all operands are transposed alike, or cost nothing to transpose; or where what is
    joined is transposed back, and so all of it would be."""
    joins = isinstance(op, Concat) and _is_turned_back(op.y, perm)
    if not joins and any(not fits(value, perm) for value in op.operands):
        return None
    properties = dict(op.properties)
    if isinstance(op, Concat):
        properties["axis"] = IntAttr(perm[op.axis.data])
    operands = [_turned_back(b, value, perm) for value in op.operands]
    return b.append(type(op), *operands, **properties)


def fits(value: SSAValue, perm: Perm) -> bool:
    """Whether a value is transposed so, or costs nothing to transpose back."""
    op = value.owner
    if isinstance(op, Transpose) and get_ints(op.perm) == perm:
        return True
    return isinstance(op.x.owner if isinstance(op, Transpose) else op, Broadcast | Source)


def _is_turned_back(value: SSAValue, perm: Perm) -> bool:
    """Whether nothing but the opposite of a transpose reads a value."""
    readers = [use.operation for use in value.uses]
    return all(
        isinstance(op, Transpose) and get_ints(op.perm) == tuple(inverse(perm)) for op in readers
    )


def _turned_back(b: Builder, value: SSAValue, perm: Perm) -> SSAValue:
    op = value.owner
    if isinstance(op, Transpose) and get_ints(op.perm) == perm:
        return op.x
    return b.transpose(value, inverse(perm))


def _is_transpose(value: SSAValue) -> bool:
    return isinstance(value.owner, Transpose)
