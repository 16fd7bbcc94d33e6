"""What the tests of layers share: random inputs, outputs, gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import rnncc
from rnncc.cells import Layer
from rnncc.ir.interpreter import run
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.gradients.differentiate import differentiate
from tests.golden import Arrays


def inputs_of(layer: Layer, steps: int = 5, batch: int = 3, seed: int = 0) -> Arrays:
    """Random numbers; masks of 0 and 1 with zeros in the middle."""
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for name, value in layer.net.inputs.items():
        shape = [d.evaluate({"T": steps, "N": batch}) for d in dims_of(value)]
        if name == "mask":
            arrays[name] = rng.integers(0, 2, shape).astype(np.float32)
        elif name == "seed":
            arrays[name] = np.array(5, np.int32)
        else:
            arrays[name] = rng.standard_normal(shape).astype(np.float32)
    return arrays


def exact(layer: Layer, inputs: Arrays) -> Arrays:
    """The outputs in float64."""
    return run(layer, inputs, np.float64)


def compiled(layer: Layer, inputs: Arrays) -> Arrays:
    return rnncc.compile(layer, verify_each=True).run(inputs)


def gradients(layer: Layer, inputs: Arrays, weights: Mapping[str, Any]) -> Arrays:
    """The gradients in float64 of Σ output · weight, by every float input and every parameter."""
    floats = [name for name, value in layer.net.inputs.items() if dtype_of(value) in FLOATS]
    both = differentiate(layer, list(weights), [*floats, *layer.parameters])
    given = {**inputs, **{f"grad:{name}": weight for name, weight in weights.items()}}
    got = run(both, given, np.float64)
    return {name.removeprefix("grad:"): a for name, a in got.items() if name.startswith("grad:")}


def assert_all_close(got: Arrays, want: Arrays, rtol: float = 1e-4, atol: float = 2e-5) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol, atol, err_msg=name)
