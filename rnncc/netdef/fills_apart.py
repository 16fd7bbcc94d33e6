"""Taking a net that fills its own parameters apart: the fills, and what computes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from rnncc.netdef.checks import copy_of
from rnncc.netdef.fills import FILLS, declared_fills
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef
from rnncc.netdef.versions import ssa


def fills_apart(net: NetDef) -> tuple[NetDef, NetDef]:
    """The operators that fill parameters, and the net without them.

    A fill makes a parameter if nothing else ever writes the blob and it is no output of the net:
    a counter's start is none. Fills of float64 stay, since an init net cannot hold their arrays.

    Returns:
        An init net, and a net that reads the parameters, which it does not declare.
    Raises:
        CompileError: a fill with wrong arguments.
    """
    writes = Counter(name for _, outputs in ssa(expose(net))[0] for name, _ in outputs)
    ends = {*net.external_output, *net.external_input}
    init, rest = NetDef(), copy_of(net)
    del rest.op[:]
    for op in net.op:
        once = len(op.output) == 1 and writes[op.output[0]] == 1
        apart = once and op.output[0] not in ends and _fills_parameter(op)
        (init if apart else rest).op.append(op)
    return init, rest


def _fills_parameter(op: OperatorDef) -> bool:
    if op.type not in FILLS or op.input:
        return False
    (fill,) = declared_fills(NetDef(op=[op])).values()
    return fill.dtype != np.float64
