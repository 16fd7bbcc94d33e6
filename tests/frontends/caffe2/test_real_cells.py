"""Random nets of Caffe2's own cells against what the real Caffe2 computed (real_cells.py)."""

from __future__ import annotations

import numpy as np
import pytest

import rnncc
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.real import CELLS, assert_near, net_of


@pytest.mark.parametrize("name", CELLS)
def test_outputs_and_gradients(name: str) -> None:
    net, init, inputs = net_of(CELLS[name])
    program = import_net(net, init)
    assert_near(run(program, {n: inputs[n] for n in program.net.inputs}), CELLS[name])


@pytest.mark.parametrize("name", list(CELLS)[::6])
def test_compiled(name: str) -> None:
    net, init, inputs = net_of(CELLS[name])
    model = rnncc.compile(net, init)
    arrays = {n: np.asarray(inputs[n], model.inputs[n].dtype) for n in model.inputs}
    assert_near(model.run(arrays), CELLS[name])
