"""Loops over time that run at the speed of memory: their steps are elementwise and sums alone."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import Elementwise, Source, View
from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.linear import Matmul, Reduce, SumRows
from rnncc.ir.types import dims_of
from rnncc.passes.dependence import Kind

WIDE = 64
"""Elements of a step's state that fill the vectors of any machine a few times over."""


def is_light(scan: Scan, kinds: Mapping[SSAValue, Kind]) -> bool:
    """Whether what needs the carry is elementwise, or a sum, over a state that fills vectors.

    A product of stacks of matrices is a sum of products, as `kern.reduce` computes it.

    Functions of such a loop's rows cost within it what they cost in bulk, without a sequence that
    is written and read again. Where steps hold a product, they wait for its sums, and functions
    in bulk shorten the wait; where a step is a few numbers, only many steps fill vectors.
    """
    ops = [op for op in scan.body.block.ops if op.results]
    steps = (op for op in ops if kinds[op.results[0]] == Kind.STEP)
    return all(map(_is_light, steps)) and _width(scan) >= WIDE


def _is_light(op: Operation) -> bool:
    if isinstance(op, Matmul):
        # By one matrix it is a `kern.gemm`, for whose sums the step waits.
        return len(dims_of(op.b)) > 2
    return isinstance(op, Elementwise | View | Source | Reduce | SumRows)


def _width(scan: Scan) -> int:
    """The elements of the largest carry, of one sequence."""
    return max((_units(dims_of(v)) for v in scan.inits), default=0)


def _units(dims: tuple[Dim, ...]) -> int:
    # A first axis may be the batch, and that may be 1; units of which any number fits are many.
    width = int(product([d for d in dims if d.is_static]))
    return width if all(d.is_static for d in dims[1:]) else max(width, WIDE)
