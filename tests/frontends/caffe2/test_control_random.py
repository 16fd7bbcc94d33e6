"""Random nets with Do, If and While: the imported program computes what blobs by name compute, and
its gradients are the limits of differences."""

from __future__ import annotations

import numpy as np
import pytest

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.gradients.differentiate import differentiate
from tests.frontends.caffe2.control_reference import RandomNet, execute
from tests.golden import Arrays

OUTPUTS = "abc"
SHAPES = {"x": (3,), "w": (3,), "p0": (1,), "n": (1,)}


@pytest.mark.parametrize("first", range(0, 80, 5))
def test_random_nets(first: int) -> None:
    for seed in range(first, first + 5):
        made = RandomNet(seed).make()
        program = import_net(made, shapes=SHAPES, max_iterations=3)
        program.module.verify()
        rng = np.random.default_rng(seed)
        for iterations in range(3):
            blobs = {"x": rng.standard_normal(3), "w": rng.standard_normal(3)}
            blobs |= {"p0": rng.random(1) < 0.5, "n": np.array([iterations])}
            inputs = {name: blobs[name] for name in program.net.inputs}
            got = run(program, inputs, np.float64)
            execute(made, blobs)
            for name, array in got.items():
                np.testing.assert_allclose(array, blobs[name], 1e-12, err_msg=f"{name} of {seed}")


@pytest.mark.parametrize("first", range(0, 40, 2))
def test_gradients_of_random_nets(first: int) -> None:
    for seed in range(first, first + 2):
        program = import_net(RandomNet(seed).make(), shapes=SHAPES, max_iterations=3, training=True)
        both = differentiate(program, list(OUTPUTS), ["x", "w"])
        both.module.verify()
        rng = np.random.default_rng(seed)
        outside = {f"grad:{name}": rng.standard_normal(3) for name in OUTPUTS}
        for iterations in range(3):
            inputs = {"x": rng.random(3), "w": rng.random(3), "p0": rng.random(1) < 0.5}
            inputs = {**inputs, "n": np.array([iterations])}
            got = run(both, {**inputs, **outside}, np.float64)
            for name in ("x", "w"):
                want = slopes(program, inputs, outside, name)
                scale = max(1.0, float(np.abs(want).max()))
                text = f"{name} of {seed}"
                gradient = got[f"grad:{name}"]
                np.testing.assert_allclose(gradient, want, 1e-4, 1e-6 * scale, err_msg=text)


def slopes(program: Program, inputs: Arrays, outside: Arrays, name: str) -> np.ndarray:
    """Central differences of the weighted sum of the outputs."""

    def loss(at: int, by: float) -> float:
        moved = {**inputs, name: inputs[name].copy()}
        moved[name][at] += by
        got = run(program, moved, np.float64)
        return float(sum((got[n] * outside[f"grad:{n}"]).sum() for n in OUTPUTS))

    return np.array([(loss(at, 1e-6) - loss(at, -1e-6)) / 2e-6 for at in range(3)])
