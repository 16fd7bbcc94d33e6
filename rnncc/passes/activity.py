"""Active values: those on a path from what is differentiated by to what has a gradient.

Both walks enter the bodies of scans and go round their carries to a fixed point.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of

Found = set[SSAValue]


def active_values(
    ops: Iterable[Operation], sources: Iterable[SSAValue], targets: Iterable[SSAValue]
) -> Found:
    """The floats of a block's ops and of the bodies below on a path from `sources` to `targets`."""
    order, leading = list(ops), set(targets)
    dependent = dependent_values(order, sources)
    _trace(order, leading)
    return dependent & leading


def dependent_values(ops: Iterable[Operation], sources: Iterable[SSAValue]) -> Found:
    """The floats, in a block's ops and in the bodies below, that change with some values."""
    dependent = set(sources)
    _follow(list(ops), dependent)
    return dependent


def sources_of(program: Program, name: str) -> frozenset[str]:
    """The inputs of a program that an output has gradients for."""
    net, leading = program.net, {program.net.outputs[name]}
    _trace(net.body.block.ops, leading)
    return frozenset(key for key, value in net.inputs.items() if value in leading)


def _floats(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [v for v in values if dtype_of(v) in FLOATS]


def _follow(ops: Iterable[Operation], dependent: Found) -> None:
    """Add what depends on the values that are there."""
    for op in ops:
        if isinstance(op, Scan):
            _follow_scan(op, dependent)
        # Through the others, such as indices and conditions, no gradient flows.
        elif isinstance(op, RnnOp) and not dependent.isdisjoint(op.differentiable):
            dependent.update(_floats([op.y]))


def _follow_scan(scan: Scan, dependent: Found) -> None:
    args = scan.body.block.args
    dependent.update(arg for arg, v in zip(args, scan.operands, strict=True) if v in dependent)
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    # Sets only grow, so that a round which adds nothing is the last.
    before = -1
    while before < len(dependent):
        before = len(dependent)
        _follow(scan.body.block.ops, dependent)
        dependent.update(arg for arg, value in zip(carry, nexts, strict=True) if value in dependent)
    dependent.update(
        final for final, arg in zip(scan.finals, carry, strict=True) if arg in dependent
    )
    dependent.update(y for y, row in zip(scan.ys, rows, strict=True) if row in dependent)


def _trace(ops: Iterable[Operation], leading: Found) -> None:
    """Add what leads to the values that are there."""
    for op in reversed(list(ops)):
        if isinstance(op, Scan):
            _trace_scan(op, leading)
        elif isinstance(op, RnnOp) and op.y in leading:
            leading.update(_floats(op.differentiable))


def _trace_scan(scan: Scan, leading: Found) -> None:
    args = scan.body.block.args
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    leading.update(arg for arg, final in zip(carry, scan.finals, strict=True) if final in leading)
    leading.update(row for row, y in zip(rows, scan.ys, strict=True) if y in leading)
    # As forward: the set only grows.
    before = -1
    while before < len(leading):
        before = len(leading)
        leading.update(value for arg, value in zip(carry, nexts, strict=True) if arg in leading)
        _trace(scan.body.block.ops, leading)
    leading.update(v for arg, v in zip(args, scan.operands, strict=True) if arg in leading)
