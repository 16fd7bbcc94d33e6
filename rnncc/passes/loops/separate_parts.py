"""Splits what is computed of concatenated gates, so that each gate is finished where it is made."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Elementwise
from rnncc.ir.ops.control import Net, Yield
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.shape import Concat, Slice
from rnncc.ir.rewriting import NetPass, dce, replace, run_all, scans_of
from rnncc.ir.types import dims_of
from rnncc.records import record


@record
class SeparateParts(NetPass):
    """f(concat(a, b), x) → concat(f(a, part of x), f(b, part of x)) in bodies of loops, and a
    product that leaves a loop, and is read part by part there, leaves as the concat of these parts.

    One kernel then makes gates and what follows from them, or a product and what a step makes of
    it, where else a second one waits for the first. Bits stay what they are.

    Before:

        for t in 0..T, h from h:
            v1 = matmul(h[t-1], w)
            v2 = slice(v1, axis=1, start=0, size=2)
            v3 = slice(v1, axis=1, start=2, size=2)
            v4 = sigmoid(v2)
            v5 = tanh(v3)
            v6 = concat(v4, v5, axis=1)
            v7 = mul(v6, x[t])
            v8 = mul(v2, v3)
            h[t] = v8
            v9[t] = v1
            v10[t] = v7
        return v9, v10

    After:

        for t in 0..T, h from h:
            v1 = matmul(h[t-1], w)
            v2 = slice(v1, axis=1, start=0, size=2)
            v3 = slice(v1, axis=1, start=2, size=2)
            v4 = sigmoid(v2)
            v5 = tanh(v3)
            v6 = slice(x[t], axis=1, start=0, size=2)
            v7 = mul(v4, v6)
            v8 = slice(x[t], axis=1, start=2, size=2)
            v9 = mul(v5, v8)
            v10 = concat(v7, v9, axis=1)
            v11 = mul(v2, v3)
            v12 = slice(v1, axis=1, start=0, size=2)
            v13 = slice(v1, axis=1, start=2, size=2)
            v14 = concat(v12, v13, axis=1)
            h[t] = v11
            v15[t] = v14
            v16[t] = v10
        return v15, v16
    """

    name = "rnn-separate-parts"

    def rewrite(self, net: Net) -> bool:
        return run_all(_rewrite(scan.body.block) for scan in scans_of(net.body.block))


def _rewrite(block: Block) -> bool:
    changed = run_all([_separate_elementwise(block), _separate_products(block)])
    if changed:
        dce(block)
    return changed


def _separate_elementwise(block: Block) -> bool:
    changed = False
    for op in list(block.ops):  # in order: what is made of parts here may be an operand of the next
        if isinstance(op, Elementwise) and (concat := _joined(op)) is not None:
            replace(op, [_of_parts(op, concat)])
            changed = True
    return changed


def _joined(op: Elementwise) -> Concat | None:
    """What an op reads that joins results of elementwise ops."""
    for operand in op.operands:
        concat = operand.owner
        if isinstance(concat, Concat) and any(isinstance(x.owner, Elementwise) for x in concat.xs):
            return concat
    return None


def _of_parts(op: Elementwise, concat: Concat) -> SSAValue:
    b, axis = Builder.before(op), concat.axis.data
    parts = list[SSAValue]()
    for start, joined in concat.parts:
        size = dims_of(joined)[axis]
        operands = [_part(b, x, axis, start, size) for x in op.operands]
        parts.append(b.like(op, operands))
    return b.concat(parts, axis)


def _part(b: Builder, x: SSAValue, axis: int, start: Dim, size: Dim) -> SSAValue:
    """A slice; what was joined there, if it is one of its operands."""
    if isinstance(concat := x.owner, Concat) and concat.axis.data == axis:
        for at, joined in concat.parts:
            if at == start and dims_of(joined)[axis] == size:
                return joined
    return b.slice(x, axis, start, size)


def _separate_products(block: Block) -> bool:
    changed = False
    for op in list(block.ops):
        if isinstance(op, Matmul) and (runs := _runs_read(op)):
            leaving = [use for use in op.y.uses if isinstance(use.operation, Yield)]
            b, last = Builder.before(leaving[0].operation), len(dims_of(op.y)) - 1
            whole = b.concat([b.slice(op.y, last, *run) for run in runs], last)
            for use in leaving:
                use.operation.operands[use.index] = whole
            changed = True
    return changed


def _runs_read(op: Matmul) -> Sequence[tuple[Dim, Dim]]:
    """The runs of columns, each from where and how many, that a body reads of a product that leaves
    the loop, if it reads nothing else of it, elementwise ops aside."""
    last, size_from = len(dims_of(op.y)) - 1, dict[Dim, Dim]()
    work, seen, leaves = [op.y], set[SSAValue](), False
    while work:
        value = work.pop()
        for use in value.uses:
            match use.operation:
                case Yield() if value is op.y:
                    leaves = True
                case Elementwise() as reader:
                    work += [reader.y] if reader.y not in seen else []
                    seen.add(reader.y)
                case Slice() as part if part.axis.data == last:
                    size_from[get_dim(part.start)] = get_dim(part.size)
                case _:
                    return ()
    # Side by side the runs have to make up all columns: their concat leaves the loop in the
    # product's place.
    runs, start = list[tuple[Dim, Dim]](), Dim.of(0)
    while leaves and start in size_from:
        runs.append((start, size_from[start]))
        start = start + size_from[start]
    return runs if len(runs) > 1 and start == dims_of(op.y)[last] else ()
