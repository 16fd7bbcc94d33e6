"""Active values: those on a path from what is differentiated by to what has a gradient.

Both walks enter the bodies of scans and go round their carries to a fixed point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdsl.ir import Operation, SSAValue

from rnncc.ir.ops.base import RnnOp, Slopes
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import FLOATS, dtype_of

Found = set[SSAValue]


def active_values(
    ops: Iterable[Operation], sources: Iterable[SSAValue], targets: Iterable[SSAValue]
) -> Found:
    """The floats of a block's ops and of the bodies below on a path from `sources` to `targets`."""
    order = list(ops)
    return dependent_values(order, sources) & values_leading_to(order, targets)


def values_leading_to(ops: Iterable[Operation], targets: Iterable[SSAValue]) -> Found:
    """The floats, in a block's ops and in the bodies below, whose gradients targets give, and the
    targets."""
    leading = set(targets)
    _trace(ops, leading)
    return leading


def dependent_values(ops: Iterable[Operation], sources: Iterable[SSAValue]) -> Found:
    """The floats, in a block's ops and in the bodies below, that change with some values."""
    return {value for value, bits in _origins(ops, [sources]).items() if bits}


def sources_of_outputs(program: Program) -> dict[str, frozenset[str]]:
    """The inputs of a program that each output has gradients for."""
    net = program.net
    origins = _origins(net.body.block.ops, [[value] for value in net.inputs.values()])
    return {
        key: frozenset(
            name for bit, name in enumerate(net.inputs) if origins.get(value, 0) >> bit & 1
        )
        for key, value in net.outputs.items()
    }


def has_slopes_of_others(program: Program, names: Collection[str]) -> bool:
    """Whether slopes that depend on values lie only on the way from inputs to other outputs.

    Gradients of zeros for those would be multiplied by the slopes, and zero times an infinite one
    is NaN.
    """
    net = program.net
    ops, outputs = list(net.body.block.ops), net.outputs
    every, own = (
        active_values(ops, net.inputs.values(), [outputs[name] for name in chosen])
        for chosen in (outputs, names)
    )
    owners = (value.owner for value in every - own)
    return any(isinstance(op, RnnOp) and op.slopes is not Slopes.FIXED for op in owners)


def _origins(ops: Iterable[Operation], groups: Iterable[Iterable[SSAValue]]) -> dict[SSAValue, int]:
    """Which groups of values each float depends on, as a set of bits."""
    origins = dict[SSAValue, int]()
    for bit, values in enumerate(groups):
        for value in _floats(values):
            origins[value] = origins.get(value, 0) | 1 << bit
    _follow(list(ops), origins)
    return origins


def _union(origins: dict[SSAValue, int], values: Iterable[SSAValue]) -> int:
    bits = 0
    for value in values:
        bits |= origins.get(value, 0)
    return bits


def _floats(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [v for v in values if dtype_of(v) in FLOATS]


def _follow(ops: list[Operation], origins: dict[SSAValue, int]) -> None:
    """Add what depends on the values that are there."""
    for op in ops:
        if isinstance(op, Scan):
            _follow_scan(op, origins)
        # Through the others, such as indices and conditions, no gradient flows.
        elif isinstance(op, RnnOp) and dtype_of(op.y) in FLOATS:
            # A parameter that is a source keeps its own bit.
            origins[op.y] = _union(origins, [op.y, *_floats(op.differentiable)])


def _follow_scan(scan: Scan, origins: dict[SSAValue, int]) -> None:
    for arg, value in zip(scan.body.block.args, scan.operands, strict=True):
        # A loop within a loop starts over in each iteration of the outer search, from what is known
        # by then.
        origins[arg] = origins.get(value, 0)
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    ops, settled = list(scan.body.block.ops), False
    # Sets only grow, so that an iteration which adds nothing is the last.
    while not settled:
        _follow(ops, origins)
        met = [_union(origins, pair) for pair in zip(carry, nexts, strict=True)]
        settled = met == [origins[arg] for arg in carry]
        origins.update(zip(carry, met, strict=True))
    # After a step that surely runs, nothing of the initial value need be left.
    last = nexts if scan.gate is None and is_natural(scan.steps - 1) else carry
    for final, value in zip(scan.finals, last, strict=True):
        origins[final] = origins.get(value, 0)
    origins.update((y, origins.get(row, 0)) for y, row in zip(scan.ys, rows, strict=True))


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
    # As forward: sets only grow.
    before = -1
    while before < len(leading):
        before = len(leading)
        leading.update(value for arg, value in zip(carry, nexts, strict=True) if arg in leading)
        _trace(scan.body.block.ops, leading)
    leading.update(v for arg, v in zip(args, scan.operands, strict=True) if arg in leading)
