"""Whether values are constant, vary with the step, or depend on the carry: what hoisting asks."""

from __future__ import annotations

from enum import IntEnum

from xdsl.ir import SSAValue

from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan


class Kind(IntEnum):
    """What a value depends on; the larger includes the smaller."""

    CONST = 0
    ROW = 1
    STEP = 2


def kinds_of(op: Scan | Net) -> dict[SSAValue, Kind]:
    """The kind of every value of a scan's body or of a net.

    In a body: CONST on consts alone, ROW on rows of xs, STEP on the carry. In a net: CONST on
    parameters alone, else STEP.
    """
    block = op.body.block
    kinds: dict[SSAValue, Kind] = dict.fromkeys(block.args, Kind.STEP)
    if isinstance(op, Scan):
        consts, _, rows = op.groups
        kinds |= dict.fromkeys(consts, Kind.CONST) | dict.fromkeys(rows, Kind.ROW)
    for inner in block.ops:
        kind = max((kinds[v] for v in inner.operands), default=Kind.CONST)
        if isinstance(inner, RnnOp) and not inner.splits:
            kind = Kind.STEP  # stays in the loop, in one piece: its parts are not linear
        kinds |= dict.fromkeys(inner.results, kind)
    return kinds
