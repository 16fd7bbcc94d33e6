"""Random nets with Do, If and While: the imported program computes what blobs by name compute."""

from __future__ import annotations

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.control_reference import RandomNet, execute

SHAPES = {"x": (3,), "w": (3,), "p0": (1,), "n": (1,)}


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_nets(first: int) -> None:
    for seed in range(first, first + 20):
        made = RandomNet(seed).make()
        program = import_net(made, shapes=SHAPES, max_iterations=3)
        program.module.verify()
        rng = np.random.default_rng(seed)
        for turns in range(3):
            blobs = {"x": rng.standard_normal(3), "w": rng.standard_normal(3)}
            blobs |= {"p0": rng.random(1) < 0.5, "n": np.array([turns])}
            inputs = {name: blobs[name] for name in program.net.inputs}
            got = run(program, inputs, np.float64)
            execute(made, blobs)
            for name, array in got.items():
                np.testing.assert_allclose(array, blobs[name], 1e-12, err_msg=f"{name} of {seed}")
