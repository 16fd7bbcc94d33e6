"""Random loops, and branches and loops around nets, against what the real Caffe2 computed
(real_links.py, real_control.py)."""

from __future__ import annotations

import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.real import DATA, arrays_by_case, assert_near, net_of

CASES = {
    f"{file}-{name}": case
    for file in ("links", "control")
    for name, case in arrays_by_case(DATA / f"caffe2_{file}.npz").items()
}


@pytest.mark.parametrize("name", CASES)
def test_outputs(name: str) -> None:
    net, init, inputs = net_of(CASES[name])
    program = import_net(net, init, shapes={x: array.shape for x, array in inputs.items()})
    assert_near(run(program, {x: inputs[x] for x in program.net.inputs}), CASES[name])
