"""Which states a step may replace where they lie, rather than in the workspace first.

In: the planned kernel program of a step, and which of its outputs replaces which of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

from rnncc.kern.dialect import Limit
from rnncc.kern.kernels import Map
from rnncc.kern.moves import IndexedMove, Reverse
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import Use, timeline

MAY_FAIL = (IndexedMove, Limit, Reverse)
"""They may end the call with an error, after which the state must be what it was before."""


def in_place(step: KernelProgram, nexts: Mapping[str, str]) -> set[str]:
    """The inputs whose memory may also be that of the outputs that replace them.

    An output is written element for element by one map. Nothing behind it reads the input or may
    fail, and what it reads of the input itself is the element that it writes.
    """
    line = timeline(step.func)
    uses = {buffer.label.data: touches for buffer, touches in line.uses.items()}
    fails = max(
        (u.position for us in uses.values() for u in us if isinstance(u.op, MAY_FAIL)), default=-1
    )

    def may(old: str, new: str) -> bool:
        reads = uses.get(old, [])
        match uses.get(new, []):
            # One write, of all rows, outside of loops: after it the whole state is the new one.
            # Before what may fail it would leave a call that is refused with half a step.
            case [Use(op=Map(rows=None) as op, loops=()) as write] if write.position > fails:
                own = op.out_accesses[list(op.outs).index(write.value)]
            case _:
                return False
        here = {u.value for u in reads if u.position == write.position}
        same = all(a == own for v, a in zip(op.ins, op.in_accesses, strict=True) if v in here)
        return same and all(u.position <= write.position for u in reads)

    return {old for old, new in nexts.items() if may(old, new)}
