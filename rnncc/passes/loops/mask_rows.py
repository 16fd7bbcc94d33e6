"""Makes loops' masks for all steps at once, so that lowering knows which rows are computed."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.active_rows import active_rows, chosen_by, wide_axes
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Select
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.rewriting import Loop, LoopSequence, NetPass, dce, run_all, scans_of
from rnncc.ir.types import dims_of
from rnncc.passes.batching import can_batch
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.passes.loops.materialise_outside import Outside
from rnncc.records import record


@record
class MaskRows(NetPass):
    """A mask that keeps rows of a product from being read becomes a sequence that its loop reads.

    It is one bool a row, depends on consts and rows of xs alone (t < lengths), and a select by it
    is all that reads some product of the body. Loops behind a gate stay as they are.

    Before:

        v1 = iota(axis=0)
        for t in 0..T, h from h:
            v2 = broadcast(v1[t], dims=[N], axes=[])
            v3 = compare(v2, lengths, kind=lt)
            v4 = broadcast(v3, dims=[N, 4], axes=[0])
            v5 = matmul(h[t-1], u)
            v6 = select(v4, v5, h[t-1])
            h[t] = v6
        return h[T-1]

    After:

        v1 = iota(axis=0)
        v2 = broadcast(v1, dims=[T, N], axes=[0])
        v3 = broadcast(lengths, dims=[T, N], axes=[1])
        v4 = compare(v2, v3, kind=lt)
        for t in 0..T, h from h:
            v5 = broadcast(v4[t], dims=[N, 4], axes=[0])
            v6 = matmul(h[t-1], u)
            v7 = select(v5, v6, h[t-1])
            h[t] = v7
        return h[T-1]
    """

    name = "rnn-mask-rows"

    def rewrite(self, net: Net) -> bool:
        return run_all(_rewrite(scan) for scan in scans_of(net.body.block))


def _rewrite(scan: Scan) -> bool:
    # behind a gate nothing is computed in bulk, and one step has nothing ahead of it
    if scan.gate is not None or scan.steps == 1 or not isinstance(scan.parent_op(), Net):
        return False
    kinds = kinds_of(scan)
    masks = _useful(scan, _candidates(scan, kinds))
    if not masks:
        return False
    loop = Loop(scan)
    consts = {c.arg: c.outer for c in loop.consts}
    outside = Outside(scan, loop.steps, kinds, consts, {x.arg: x.outer for x in loop.xs})
    for mask in masks:
        row = loop.add_arg(mask.type)
        loop.xs.append(LoopSequence(outside.all_steps(mask), row))
        loop.swap(mask, row)
    dce(loop.body)
    loop.drop_unused()
    loop.rebuild()
    return True


def _candidates(scan: Scan, kinds: dict[SSAValue, Kind]) -> list[SSAValue]:
    """Values by which the body selects rows, and that can be had for all steps at once."""
    consts, _, rows = scan.groups
    able = {*consts, *rows}
    masks: list[SSAValue] = []
    ops = scan.body.block.ops
    for op in (op for op in ops if isinstance(op, RnnOp)):
        bulk = kinds[op.y] == Kind.CONST or can_batch(op, kinds)
        if bulk and able.issuperset(op.operands):
            able.add(op.y)
    values = [v for op in ops for v in op.results]
    selecting = (chosen_by(op, values) for op in ops if isinstance(op, Select))
    for mask in (rows.mask for rows in selecting if rows is not None):
        # A list is of rows, one number each: the mask must not vary along further axes.
        if mask in able and kinds[mask] == Kind.ROW and len(wide_axes(dims_of(mask))) <= 1:
            masks.append(mask)
    return list(dict.fromkeys(masks))


def _useful(scan: Scan, masks: list[SSAValue]) -> list[SSAValue]:
    """Those that keep rows of a product from being read."""
    needed = active_rows(scan.body.block, masks)
    products = [op.y for op in scan.body.block.ops if isinstance(op, Matmul)]
    kept = {needed[y].mask for y in products if y in needed}
    return [mask for mask in masks if mask in kept]
