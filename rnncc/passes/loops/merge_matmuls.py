"""Products that read the same left operand become one product with joined right operands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.source import Param
from rnncc.ir.rewriting import Loop, NetPass, replace, run_all, scans_of
from rnncc.ir.types import dims_of, dtype_of
from rnncc.records import record


@record
class MergeMatmuls(NetPass):
    """a·b, a·c → slices of a·[b c]: one pass over a, and one larger product.

    Right operands are matrices that cost nothing to join: parameters, inputs of the net, consts
    of a scan. The join stands outside of all loops that the matrices come from outside of; where
    their values are known, `fold_constants` makes it a parameter.

    Before:

        v1 = matmul(x, w)
        v2 = tanh(v1)
        v3 = matmul(x, u)
        return v2, v3

    After:

        v1 = concat(w, u, axis=1)
        v2 = matmul(x, v1)
        v3 = slice(v2, axis=1, start=0, size=4)
        v4 = slice(v2, axis=1, start=4, size=4)
        v5 = tanh(v3)
        return v5, v4
    """

    name = "rnn-merge-matmuls"

    def rewrite(self, net: Net) -> bool:
        in_loops = run_all(_merge_body(scan) for scan in scans_of(net.body.block))
        groups = _groups(net.body.block, net.body.block.args)
        for group in groups:
            b = Builder.before(group[0])
            right = _join(b, group, {})
            _split(b, group, right, None)
        return in_loops or bool(groups)


def _merge_body(scan: Scan) -> bool:
    groups = _groups(scan.body.block, scan.body.block.args[: len(scan.consts)])
    if not groups:
        return False
    loop = Loop(scan)
    outer = {const.arg: const.outer for const in loop.consts}
    for group in groups:
        right = loop.add_const(_join(Builder.before(scan), group, outer))
        _split(Builder.before(group[0]), group, right, loop)
    loop.rebuild()
    return True


def _groups(block: Block, fixed: Sequence[SSAValue]) -> list[list[Matmul]]:
    """The products of a block that share a left operand, where there are several."""
    groups: dict[Hashable, list[Matmul]] = {}
    for op in block.ops:
        if not isinstance(op, Matmul) or len(dims_of(op.b)) != 2:
            continue  # stacks of matrices are no `kern.gemm`, which larger products are for
        if isinstance(op.b.owner, Param) or op.b in fixed:
            groups.setdefault((op.a, op.transpose_a, op.transpose_b), []).append(op)
    return [group for group in groups.values() if len(group) > 1]


def _join(b: Builder, group: list[Matmul], outer: dict[SSAValue, SSAValue]) -> SSAValue:
    """The right operands side by side; a parameter is named anew, as it may come later."""
    parts: list[SSAValue] = []
    for op in group:
        owner = op.b.owner
        if isinstance(owner, Param):
            parts.append(b.param(owner.param_name.data, dims_of(op.b), dtype_of(op.b)))
        else:
            parts.append(outer.get(op.b, op.b))
    return b.concat(parts, axis=0 if group[0].transpose_b else 1)


def _split(b: Builder, group: list[Matmul], right: SSAValue, loop: Loop | None) -> None:
    """Put slices of one product in the place of the products."""
    product = b.like(group[0], [group[0].a, right])
    axis, start = len(dims_of(product)) - 1, Dim.of(0)
    parts: list[SSAValue] = []
    for op in group:
        parts.append(b.slice(product, axis, start, dims_of(op.y)[-1]))
        start = start + dims_of(op.y)[-1]
    # Only now: the builder stands in front of the first product, which goes here.
    for op, part in zip(group, parts, strict=True):
        if loop is not None:
            loop.swap(op.y, part)
        replace(op, [part])
