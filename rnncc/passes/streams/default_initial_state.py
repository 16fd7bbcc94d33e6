"""Default initial state and lengths: zeros, and full length."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from rnncc.ir.ops.control import Scan
from rnncc.ir.ops.elementwise import Compare
from rnncc.ir.ops.shape import Broadcast, Reshape, Transpose
from rnncc.ir.types import dtype_of

_VIEWS = (Reshape, Transpose, Broadcast)


def default_initial_state(value: SSAValue) -> int | None:
    """The default of an input without an axis of time; None where it has none.

    0 for a state that loops start from; the largest number of its type for what only bounds from
    above, such as lengths. Any other use, and there is no value that means "not given".
    """
    uses = list(_uses(value))
    if all(isinstance(op, Scan) and 0 <= at - len(op.consts) < len(op.inits) for op, at in uses):
        return 0
    if dtype_of(value) in ("i32", "i64") and all(map(_bounds, *zip(*uses, strict=True))):
        return 2 ** (31 if dtype_of(value) == "i32" else 63) - 1
    return None


def _bounds(op: Operation, at: int) -> bool:
    """Whether a comparison asks if something is below an operand."""
    return isinstance(op, Compare) and (op.kind.data, at) in (("lt", 1), ("gt", 0))


def _uses(value: SSAValue) -> Iterator[tuple[Operation, int]]:
    """Who reads a value or a view of it, here or in loops: (op, number of the operand)."""
    work = [value]
    while work:
        for use in work.pop().uses:
            op = use.operation
            if isinstance(op, _VIEWS):
                work.append(op.y)
            elif isinstance(op, Scan) and use.index < len(op.consts):
                work.append(op.groups[0][use.index])
            else:
                yield op, use.index
