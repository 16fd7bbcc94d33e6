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


def sources_of_outputs(program: Program) -> dict[str, frozenset[str]]:
    """The inputs of a program that each output has gradients for."""
    net = program.net
    bits = {value: 1 << number for number, value in enumerate(net.inputs.values())}
    _gather(list(net.body.block.ops), bits)
    return {
        key: frozenset(name for name, x in net.inputs.items() if bits.get(value, 0) & bits[x])
        for key, value in net.outputs.items()
    }


def _gather(ops: Iterable[Operation], bits: dict[SSAValue, int]) -> None:
    """Add the inputs, a bit each, that values have gradients for."""
    for op in ops:
        if isinstance(op, Scan):
            _gather_scan(op, bits)
        elif isinstance(op, RnnOp):
            bits[op.y] = _union(bits, _floats(op.differentiable))


def _gather_scan(scan: Scan, bits: dict[SSAValue, int]) -> None:
    for arg, value in zip(scan.body.block.args, scan.operands, strict=True):
        bits[arg] = bits.get(value, 0)
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    ops, settled = list(scan.body.block.ops), False
    while not settled:  # as below: sets only grow
        _gather(ops, bits)
        known = [_union(bits, pair) for pair in zip(carry, nexts, strict=True)]
        settled = known == [bits[arg] for arg in carry]
        bits.update(zip(carry, known, strict=True))
    bits.update((final, bits[arg]) for final, arg in zip(scan.finals, carry, strict=True))
    bits.update((y, bits.get(row, 0)) for y, row in zip(scan.ys, rows, strict=True))


def _union(bits: dict[SSAValue, int], values: Iterable[SSAValue]) -> int:
    found = 0
    for value in values:
        found |= bits.get(value, 0)
    return found


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
