"""Which outputs a kernel serves: it is skipped where a caller passes none of them.

In: a kernel program. Out: for each of its ops that serve some of the outputs, but not all, which
ones. Such are, of a gradient that nobody asked for, the map that brings it into place, which writes
nothing else, but also the product that the map reads, and the packing of that product's weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from xdsl.ir import Operation, SSAValue

from rnncc.kern.dialect import Buffer, Limit
from rnncc.kern.program import KernelProgram
from rnncc.planning.uses import Targets, accesses, targets

MOST = 16
"""Outputs that are asked about before an op: what serves more is run in any case."""

Outputs = frozenset[Buffer] | None
"""What is served; None: more than can be asked about, or what a caller cannot do without."""

NOTHING: Outputs = frozenset()


def served_outputs(program: KernelProgram) -> dict[Operation, tuple[Buffer, ...]]:
    """The outputs that ops outside of loops serve, and the loops, where the program has others."""
    outputs = [op for op in program.buffers if op.role.data == "output"]
    # Backward wants all of a tape.
    asked = {port.name for port in program.outputs if port.kind in (None, "grad")}
    optional = frozenset(op for op in outputs if op.label.data in asked)
    if len(optional) < 2:
        return {}
    served: dict[Buffer, Outputs] = {op: frozenset([op]) & optional or None for op in outputs}
    by_op: dict[Operation, tuple[Buffer, ...]] = {}
    names, ops = targets(program.func), list(program.func.body.block.ops)
    # Who reads a value stands behind the op that writes it, or in the same loop.
    for op in reversed(ops):
        written, read = _touched(op, names)
        here = reduce(_joined, (served.get(buffer, NOTHING) for buffer in written), NOTHING)
        # What serves nothing runs all the same, and may fail at what it reads.
        if not here or any(isinstance(inner, Limit) for inner in op.walk()):
            here = None
        for buffer in read:
            served[buffer] = _joined(served.get(buffer, NOTHING), here)
        if here is not None and here != optional:
            by_op[op] = tuple(b for b in outputs if b in here)
    return by_op


def _touched(op: Operation, names: Mapping[SSAValue, Targets]) -> tuple[list[Buffer], list[Buffer]]:
    """What an op, with those inside, writes and reads."""
    written, read = list[Buffer](), list[Buffer]()
    for inner in op.walk():
        for value, writes, *_ in accesses(inner):
            (written if writes else read).extend(names[value])
    return written, read


def _joined(a: Outputs, b: Outputs) -> Outputs:
    both = None if a is None or b is None else a | b
    return None if both is None or len(both) > MOST else both
