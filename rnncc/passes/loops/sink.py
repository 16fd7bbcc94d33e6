"""Moves work behind loops: what steps only add up, or only yield, is done for all steps at once.

The mirror of `hoist`, made for the loops that `differentiate` writes: a weight's gradient becomes
one sum over all steps' rows, and the gradient of an input one product.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.linear import Contract, Matmul, Reduce, SumRows, is_zero
from rnncc.ir.ops.shape import Reshape, Slice, Transpose
from rnncc.ir.rewriting import Loop, NetPass, Yielded, run_all, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.dependence import kinds_of
from rnncc.passes.loops.accumulate import adds_rows
from rnncc.passes.loops.materialise_outside import Outside
from rnncc.passes.loops.sink_plan import VIEWS, plan_sink
from rnncc.records import record


@record
class Sink(NetPass):
    """Work of a scan's body that the loop does not wait for leaves it, innermost loops first.

    - W += Σ aᵀ·b, in a carry that nothing else reads → one `contract` over T·N rows; a and b
      become sequences; of stacks of matrices one product;
    - v += Σ over rows of r, likewise → one `sum_rows`, where all steps' r is there anyway;
    - y = a·W with a W that does not change, and what follows it, where nothing but ys comes of
      it → the same for all steps at once.

    Sums change their order: they start at what the carry starts at and take all rows of a term in
    the order of the steps, one term after another, but for those that leave only so that a loop has
    fewer sums: there the terms of a step are added up first, as they are in a loop. What the loop
    then still does for nothing is simplify's to drop.

    Attributes:
        keeps_rows: whether rows become a sequence for a sum, where they are none yet.

    Before:

        for t in reversed 0..T, c from 0:
            v1 = matmul(x[t], dy[t], transpose_a=true)
            v2 = add(c[t+1], v1)
            c[t] = v2
        return c[0]

    After:

        for t in reversed 0..T, c from 0:
            v1 = matmul(x[t], dy[t], transpose_a=true)
            v2 = add(c[t+1], v1)
            c[t] = v2
        v3 = reshape(x, dims=[T*N, 3])
        v4 = reshape(dy, dims=[T*N, 4])
        v5 = contract(0, v3, v4, reverse=true)
        return v5
    """

    name = "rnn-sink"
    keeps_rows: bool = False

    def rewrite(self, net: Net) -> bool:
        return run_all(_sink(scan, self.keeps_rows) for scan in scans_of(net.body.block))


def _sink(scan: Scan, keeps_rows: bool) -> bool:
    if scan.gate is not None:
        return False  # steps that do not run have no rows
    plan = plan_sink(scan, keeps_rows)
    if not plan.sums and not plan.rows and not plan.added:
        return False
    loop = Loop(scan)
    yielded = {y.row for y in loop.ys} | {x.arg for x in loop.xs}
    loop.ys += [Yielded(value) for value in plan.leaving if value not in yielded]
    scan = loop.rebuild()
    consts, _, rows = scan.groups
    pairs = zip((*scan.yields[1], *rows), (*scan.ys, *scan.xs), strict=True)
    sequences: dict[SSAValue, SSAValue] = dict(pairs)
    for index in plan.rows:  # they are to be computed outside, not read from what the loop yields
        sequences.pop(scan.yields[1][index], None)
    assert scan.next_op is not None
    fixed = dict(zip(consts, scan.consts, strict=True))
    outside = Outside(scan.next_op, scan.steps, kinds_of(scan), fixed, sequences)
    for index, terms in plan.sums.items():
        total = scan.inits[index]
        for term in terms:
            total = _add(outside, total, term, bool(scan.reverse))
        scan.finals[index].replace_all_uses_with(total)
    for index, added in plan.added.items():
        every = outside.all_steps(added)
        total = outside.build().sum_rows(scan.inits[index], every, bool(scan.reverse))
        scan.finals[index].replace_all_uses_with(total)
    for index in plan.rows:
        every = outside.all_steps(scan.yields[1][index])
        scan.ys[index].replace_all_uses_with(every)
    return True


def _add(outside: Outside, total: SSAValue, term: SSAValue, reverse: bool) -> SSAValue:
    """A total and the sum of a term over all steps; of a view, the view of a sum."""
    views = list[tuple[RnnOp, SSAValue]]()
    while isinstance(op := term.owner, (Reshape, *VIEWS)) and not _is_product(term):
        b = outside.build(op)
        views.append((op, total))
        # A reshape is undone on the total, from which the sum goes on; behind a slice or a
        # transpose it starts at zeros, and is added to the total in the end.
        alone = is_zero(total) or not isinstance(op, Reshape)
        total = _zero(b, op.x) if alone else b.reshape(total, dims_of(op.x))
        term = op.x
    result = _add_made(outside, total, term, reverse)
    for op, before in reversed(views):
        b = outside.build(op)
        if isinstance(op, Reshape):
            result = b.reshape(result, dims_of(op.y))
        else:
            part = b.like(op, [result])
            result = part if is_zero(before) else b.add(before, part)
    return result


def _add_made(outside: Outside, total: SSAValue, term: SSAValue, reverse: bool) -> SSAValue:
    """A total and the sum over all steps of what no view makes, or a view of a product."""
    op = term.owner
    assert isinstance(op, RnnOp)
    b = outside.build(op)
    if _is_product(term):
        return b.contract(total, *_factors(outside, term), reverse)
    # Sums of integers are the same in any order: no `sum_rows` needs to keep one.
    if isinstance(op, (Reduce, SumRows)) and dtype_of(term) in FLOATS:
        return b.sum_rows(total, _rows(outside, op), reverse)
    if isinstance(op, Reduce):
        rows = outside.all_steps(op.x)
        part = b.reduce("sum", rows, [0, *(axis + 1 for axis in get_ints(op.axes))])
    else:
        assert isinstance(op, Matmul)
        part = _product(outside, op)
    return part if is_zero(total) else b.add(total, part)


def _zero(b: Builder, like: SSAValue) -> SSAValue:
    return b.fill(0.0, dims_of(like), dtype_of(like))


def _rows(outside: Outside, op: Reduce | SumRows) -> SSAValue:
    """What a sum adds in all steps: the steps join the axes that are summed over.

    Where a loop adds up each step's terms by themselves, in an order that is free, so is it here:
    no bit may depend on whether a sum could leave the loop.
    """
    x, b = outside.all_steps(op.x), outside.build(op)
    if isinstance(op, Reduce) and not adds_rows(op):
        return b.reduce("sum", x, [axis + 1 for axis in get_ints(op.axes)])
    axes = [0, 1] if isinstance(op, SumRows) else [0, *(a + 1 for a in get_ints(op.axes))]
    dims = dims_of(x)
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    rows = product(dims[axis] for axis in axes)
    return b.reshape(b.transpose(x, [*axes, *kept]), [rows, *(dims[axis] for axis in kept)])


def _is_product(term: SSAValue) -> bool:
    """Whether a term is a matrix of fixed size, of products of rows, or a part of one."""
    while len(dims := dims_of(term)) == 2 and all(size.is_static for size in dims):
        match term.owner:
            case Matmul() | Contract():
                return True
            case Transpose() | Slice() as view:
                term = view.x
            case _:
                return False
    return False


def _factors(outside: Outside, term: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The rows of all steps whose products such a matrix sums up."""
    views = list[Transpose | Slice]()
    while isinstance(op := term.owner, Transpose | Slice):
        views.append(op)
        term = op.x
    assert isinstance(op, Matmul | Contract)
    a, c = outside.all_steps(op.a), outside.all_steps(op.b)
    whole = isinstance(op, Contract)
    b = outside.build(op)
    left = _steps_inside(b, a, 2 if whole or op.transpose_a else 1)
    right = _steps_inside(b, c, 1 if not whole and op.transpose_b else 2)
    for view in reversed(views):
        if isinstance(view, Transpose):
            left, right = right, left
        else:
            left, right = _sliced(outside.build(view), view, (left, right))
    return left, right


def _sliced(b: Builder, op: Slice, factors: tuple[SSAValue, SSAValue]) -> tuple[SSAValue, SSAValue]:
    """The factors of some rows or columns of a product."""
    a, c = factors
    if op.axis.data == 0:
        return b.like(op, [a], axis=IntAttr(1)), c
    return a, b.like(op, [c])


def _product(outside: Outside, op: Matmul) -> SSAValue:
    """Σ_t a_t · b_t as one product: the steps join the axis that is summed over."""
    a, b, build = outside.all_steps(op.a), outside.all_steps(op.b), outside.build(op)
    a = _steps_inside(build, a, 2 if op.transpose_a else 1)
    b = _steps_inside(build, b, 1 if op.transpose_b else 2)
    return build.matmul(a, b, transpose_a=True)


def _steps_inside(b: Builder, x: SSAValue, back: int) -> SSAValue:
    """[T, ..., k and m] → [..., T·k, m], where k is the `back`-th axis from the end."""
    rank = len(dims_of(x))
    k, m = (rank - 2, rank - 1) if back == 2 else (rank - 1, rank - 2)
    moved = b.transpose(x, [*range(1, rank - 2), 0, k, m])
    *lead, steps, inner, columns = dims_of(moved)
    return b.reshape(moved, [*lead, steps * inner, columns])
