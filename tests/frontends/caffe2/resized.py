"""Golden nets with other sizes of state and input than those they were recorded with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rnncc.netdef import NetDef, OperatorDef, load
from tests.frontends.caffe2.nets import op
from tests.golden import GOLDEN

HIDDEN, WIDTH = 6, 5
"""The sizes of the recordings."""

CASES = [
    path.parent.name
    for path in sorted(GOLDEN.glob("caffe2/*/net.pb"))
    if not path.parent.name.startswith(("lstm_two", "milstm_three", "sum_cell"))
]
"""Cases whose states all have one size, so that every number in them can be told apart."""


def resized(case: str, hidden: int, width: int) -> tuple[NetDef, NetDef]:
    """The net and init net of a case for states of `hidden` and inputs of `width` elements.

    Parameters are random, between -0.5 and 0.5.
    """
    sizes = {HIDDEN * n: hidden * n for n in (1, 2, 3, 4)} | {WIDTH: width}
    folder: Path = GOLDEN / "caffe2" / case
    net, init = load(folder / "net.pb"), load(folder / "init.pb")
    for operator in _operators(net):
        for arg in operator.arg:
            if operator.type == "Reshape" and arg.name == "shape":
                arg.ints[:] = [sizes.get(size, size) for size in arg.ints]
    fills = list[OperatorDef]()
    for fill in init.op:
        shape = next(arg for arg in fill.arg if arg.name == "shape").ints
        new = [sizes.get(size, size) for size in shape]
        fills.append(op("UniformFill", "", fill.output[0], shape=new, min=-0.5, max=0.5))
    return net, NetDef(name=init.name, op=fills, external_output=init.external_output)


def _operators(net: NetDef) -> Iterator[OperatorDef]:
    for operator in net.op:
        yield operator
        for arg in operator.arg:
            if arg.HasField("n"):
                yield from _operators(arg.n)
