"""The loops of a net with gradients, in pairs: a forward one and the one that runs back over it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.shape import Shift


def late_ops(net: Net) -> set[Operation]:
    """The ops of the net's block that depend on an outside gradient: the backward pass."""
    late, reached = set[Operation](), set(net.inputs_of("grad").values())
    for op in net.body.block.ops:
        if op.results and not reached.isdisjoint(op.operands):
            late.add(op)
            reached.update(op.results)
    return late


@dataclass(eq=False)
class Pair:
    """A loop and its gradient's.

    Attributes:
        rows: backward argument -> the value of the forward body that it holds, step by step.
    """

    forward: Scan
    backward: Scan
    rows: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


def pairs_of(net: Net) -> list[Pair]:
    """Each backward loop that reads what a forward loop yields, with the one it reads most of."""
    late = late_ops(net)
    pairs: list[Pair] = []
    for backward in (op for op in net.body.block.ops if isinstance(op, Scan) and op in late):
        rows_of: dict[Scan, dict[SSAValue, SSAValue]] = {}
        for arg, x in _read_rows(backward):
            for forward, row in _rows_behind(x, backward):
                if forward not in late:
                    rows_of.setdefault(forward, {})[arg] = row
        if rows_of:
            # a backward body can compute the values of one forward body again, not of several
            forward, rows = max(rows_of.items(), key=lambda item: len(item[1]))
            rows |= _inputs_of(forward, backward, rows)
            pairs.append(Pair(forward, backward, rows))
    return pairs


def _read_rows(backward: Scan) -> list[tuple[SSAValue, SSAValue]]:
    """The names of rows and their sequences, but for a gate, which a loop must be given."""
    pairs = zip(backward.groups[2], backward.xs, strict=True)
    return [(arg, x) for arg, x in pairs if arg is not backward.open]


def _rows_behind(x: SSAValue, backward: Scan) -> list[tuple[Scan, SSAValue]]:
    """The loop that yields a sequence, and the value of its body; a shifted one is a state."""
    op = x.owner
    if isinstance(op, Shift) and isinstance(scan := op.x.owner, Scan) and op.x in scan.ys:
        # Shifted the other way, row t is the state after step t + 1: no value of step t's body.
        if scan.steps != backward.steps or bool(op.reverse) != bool(scan.reverse):
            return []
        after = scan.row_of(op.x)
        for arg, init, row in zip(scan.groups[1], scan.inits, scan.yields[0], strict=True):
            if init is op.init and row is after:
                return [(scan, arg)]
    if isinstance(op, Scan) and op.steps == backward.steps and x in op.ys:
        return [(op, op.row_of(x))]
    return []


def _inputs_of(
    forward: Scan, backward: Scan, known: dict[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """What both loops read alike."""
    args = dict(zip(forward.xs, forward.groups[2], strict=True))
    pairs = _read_rows(backward)
    return {arg: args[x] for arg, x in pairs if arg not in known and x in args}
