"""Which values gradients flow through: they depend on what is asked for and lead to what is given.

Both walks go into the bodies of scans and round their carries until nothing more is found.
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
    ops: Iterable[Operation], asked: Iterable[SSAValue], given: Iterable[SSAValue]
) -> Found:
    """The floats, in a block's ops and in the bodies below, on a way from `asked` to `given`."""
    order, leading = list(ops), set(given)
    dependent = dependent_values(order, asked)
    _trace(order, leading)
    return dependent & leading


def dependent_values(ops: Iterable[Operation], asked: Iterable[SSAValue]) -> Found:
    """The floats, in a block's ops and in the bodies below, that change with some values."""
    dependent = set(asked)
    _follow(list(ops), dependent)
    return dependent


def sources_of(program: Program, name: str) -> frozenset[str]:
    """The inputs of a program that an output has gradients for."""
    net, leading = program.net, {program.net.outputs[name]}
    _trace(net.body.block.ops, leading)
    return frozenset(key for key, value in net.inputs.items() if value in leading)


def _floats(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [v for v in values if dtype_of(v) in FLOATS]


def _follow(ops: Iterable[Operation], found: Found) -> None:
    """Add what depends on the values found."""
    for op in ops:
        if isinstance(op, Scan):
            _follow_scan(op, found)
        elif isinstance(op, RnnOp) and not found.isdisjoint(op.differentiable):
            found.update(_floats([op.y]))


def _follow_scan(scan: Scan, found: Found) -> None:
    args = scan.body.block.args
    found.update(arg for arg, v in zip(args, scan.operands, strict=True) if v in found)
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    before = -1
    while before < len(found):
        before = len(found)
        _follow(scan.body.block.ops, found)
        found.update(arg for arg, value in zip(carry, nexts, strict=True) if value in found)
    found.update(final for final, arg in zip(scan.finals, carry, strict=True) if arg in found)
    found.update(y for y, row in zip(scan.ys, rows, strict=True) if row in found)


def _trace(ops: Iterable[Operation], found: Found) -> None:
    """Add what leads to the values found."""
    for op in reversed(list(ops)):
        if isinstance(op, Scan):
            _trace_scan(op, found)
        elif isinstance(op, RnnOp) and op.y in found:
            found.update(_floats(op.differentiable))


def _trace_scan(scan: Scan, found: Found) -> None:
    args = scan.body.block.args
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    found.update(arg for arg, final in zip(carry, scan.finals, strict=True) if final in found)
    found.update(row for row, y in zip(rows, scan.ys, strict=True) if y in found)
    before = -1
    while before < len(found):
        before = len(found)
        found.update(value for arg, value in zip(carry, nexts, strict=True) if arg in found)
        _trace(scan.body.block.ops, found)
    found.update(v for arg, v in zip(args, scan.operands, strict=True) if arg in found)
