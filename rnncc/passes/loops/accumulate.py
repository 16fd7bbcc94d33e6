"""Sums over the rows of all steps, outside of loops, in a stated order: see `Accumulate`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.indexing import Scatter
from rnncc.ir.ops.linear import Matmul, Reduce
from rnncc.ir.rewriting import NetPass, replace, run_all, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.records import record


@record
class Accumulate(NetPass):
    """Sums over an unknown number of rows become `contract` and `sum_rows`, as in `sink`.

    So do the gradients of what stands outside of loops: aᵀ·b of fixed size, and sums over leading
    axes. The order is that of the last loop that the rows come from. What a step adds to its carry
    goes on from the carry, so that it can do so in place.

    Before:

        v1 = reduce(x, kind=sum, axes=[0, 1])
        return v1

    After:

        v1 = reshape(x, dims=[T*N, 3])
        v2 = sum_rows(0, v1)
        return v2
    """

    name = "rnn-accumulate"

    def rewrite(self, net: Net) -> bool:
        return run_all(
            [
                *(_rewrite(op) for op in list(net.body.block.ops)),
                *(_rewrite_carries(scan) for scan in scans_of(net.body.block)),
            ]
        )


def _rewrite(op: Operation) -> bool:
    match op:
        case Matmul() if _sums_rows(op):
            new = _contract(op, _zeros(op.y))
        case Reduce() if adds_rows(op):
            new = _sum_rows(op, _zeros(op.y), _runs_back([op.x]))
        case _:
            return False
    replace(op, [new])
    return True


def _rewrite_carries(scan: Scan) -> bool:
    """carry + Σ x, carry + aᵀ·b → a sum that starts at the carry."""
    changed = False
    for arg, total in zip(scan.groups[1], scan.yields[0], strict=True):
        op = total.owner
        # A term that is read elsewhere too must be summed by itself.
        if not isinstance(op, Add) or op.a is not arg or not op.b.has_one_use():
            continue
        match op.b.owner:
            case Reduce() as term if adds_rows(term):
                replace(op, [_sum_rows(term, arg, bool(scan.reverse))])
            # Of any depth, unlike outside of loops: even a short product would be a matrix that
            # each step writes, and reads again to add it.
            case Matmul() as term if _is_fixed(term):
                replace(op, [_contract(term, arg)])
            # A scatter of its own would fill a whole table with zeros, and add it, in every step.
            case Scatter() as term if term.starts_at_zero:
                b = Builder.before(term)
                replace(op, [b.scatter("sum", arg, term.x, term.index, term.axis.data)])
            case _:
                continue
        changed = True
    return changed


def _sums_rows(op: Matmul) -> bool:
    """Whether a product is one matrix of fixed size, summed over rows of unknown number.

    Sums over a known number of terms are never cut into runs, so that their order may be free.
    """
    depth = dims_of(op.a)[-2 if op.transpose_a else -1]
    return _is_fixed(op) and not depth.is_static


def _is_fixed(op: Matmul) -> bool:
    """Whether a product is one matrix of floats, of fixed size."""
    dims = dims_of(op.y)
    return dtype_of(op.y) in FLOATS and len(dims) == 2 and all(size.is_static for size in dims)


def adds_rows(op: Reduce) -> bool:
    """Whether a sum is over leading axes of unknown size, and leaves others."""
    dims, axes = dims_of(op.x), get_ints(op.axes)
    # Leading axes alone are joined to rows by a reshape; others would take a copy.
    leading = axes == tuple(range(len(axes))) and 0 < len(axes) < len(dims)
    unknown = any(not dims[axis].is_static for axis in axes)
    return op.kind.data == "sum" and dtype_of(op.y) in FLOATS and leading and unknown


def _contract(op: Matmul, start: SSAValue) -> SSAValue:
    b = Builder.before(op)
    a = op.a if op.transpose_a else b.transpose(op.a, [1, 0])
    c = b.transpose(op.b, [1, 0]) if op.transpose_b else op.b
    return b.contract(start, a, c, _runs_back([op.a, op.b]))


def _sum_rows(op: Reduce, start: SSAValue, reverse: bool) -> SSAValue:
    b, dims = Builder.before(op), dims_of(op.x)
    count = len(get_ints(op.axes))
    rows = b.reshape(op.x, [product(dims[:count]), *dims[count:]])
    return b.sum_rows(start, rows, reverse)


def _zeros(like: SSAValue) -> SSAValue:
    assert isinstance(like.owner, Operation)
    return Builder.before(like.owner).full_like(like, 0.0)


def _runs_back(values: Sequence[SSAValue]) -> bool:
    """Whether the last loop that some values come from runs backwards."""
    work, seen, scans = list(values), set[SSAValue](), list[Scan]()
    while work:
        value = work.pop()
        op = value.owner
        if value in seen or not isinstance(op, Operation):
            continue
        seen.add(value)
        if isinstance(op, Scan):
            scans.append(op)
        else:
            work += op.operands
    # Between inputs there is no loop's order to keep; upwards is as good as any.
    if not scans:
        return False
    # Checkpoints cut time in the order of a loop, and take along sums of the same order alone
    # (`time_local.in_order`).
    last = scans[0]
    for scan in scans:
        last = scan if last.is_before_in_block(scan) else last
    return bool(last.reverse)
