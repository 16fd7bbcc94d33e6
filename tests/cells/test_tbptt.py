"""Truncated gradients: those of the last k steps alone, from the states before them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.cells import Layer, graves_lstm, gru
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.interpreter import run
from rnncc.passes.gradients.differentiate import differentiate
from tests.cells.helpers import assert_all_close, compiled, exact, gradients, inputs_of
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is
from tests.golden import Arrays
from tests.passes.gradients import sunk

IN, H, STEP = 3, 4, 1e-6
BUILDERS = [graves_lstm, gru]
each_cell = pytest.mark.parametrize("build", BUILDERS, ids=lambda f: f.__name__)


def parts(inputs: Arrays, k: int, reverse: bool) -> tuple[Arrays, Arrays]:
    """The inputs of the steps before the last k in processing order, and of those k."""
    steps = len(inputs["x"])
    k = min(k, steps)
    early, late = slice(0, steps - k), slice(steps - k, steps)
    if reverse:
        early, late = slice(k, steps), slice(0, k)
    timed = {name: a for name, a in inputs.items() if name in ("x", "mask")}
    return {n: a[early] for n, a in timed.items()}, {n: a[late] for n, a in timed.items()}


def truncated_gradients(layer: Layer, inputs: Arrays, weights: Arrays, k: int) -> Arrays:
    """By the layer without truncation, on the last k steps alone."""
    reverse = layer.settings.direction == "backward"
    states = {name: inputs[name] for name in ("h0", "c0") if name in inputs}
    early, late = parts(inputs, k, reverse)
    before = exact(layer, {**early, **states})
    handed = {name: before[f"{name[0]}_last"] for name in states}
    told = dict(weights)
    cut = len(inputs["x"]) - len(late["x"])
    told["y"] = weights["y"][: len(late["x"])] if reverse else weights["y"][cut:]
    got = gradients(layer, {**late, **handed}, told)
    for name in late:
        zeros = np.zeros(early[name].shape)
        got[name] = np.concatenate([got[name], zeros] if reverse else [zeros, got[name]])
    if cut:
        got |= {name: np.zeros(array.shape) for name, array in states.items()}
    return got


@each_cell
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("k", "steps"), [(1, 5), (3, 5), (5, 5), (7, 5), (2, 1), (2, 0)])
def test_gradients(build: Any, direction: Any, k: int, steps: int) -> None:
    options: dict[str, Any] = {"initial_state": True, "masked": True, "layout": "TNC"}
    layer = build(IN, H, tbptt=k, direction=direction, **options)
    whole = build(parameters=layer.parameters, direction=direction, **options)
    inputs = inputs_of(layer, steps)
    rng = np.random.default_rng(1)
    weights = {n: rng.standard_normal(a.shape) for n, a in exact(layer, inputs).items()}
    want = truncated_gradients(whole, inputs, weights, k)
    assert_all_close(gradients(layer, inputs, weights), want, 1e-9, 1e-9)


@each_cell
def test_outputs_are_those_of_the_whole(build: Any) -> None:
    layer = build(IN, H, tbptt=2)
    whole = build(parameters=layer.parameters)
    inputs = inputs_of(layer)
    assert_all_close(exact(layer, inputs), exact(whole, inputs), 0, 0)
    assert_all_close(compiled(layer, inputs), compiled(whole, inputs), 0, 0)


def test_machine_code() -> None:
    layer = graves_lstm(IN, H, tbptt=2, masked=True, direction="both", initial_state=True)
    of = [name for name in layer.net.inputs if name != "mask"]
    both = differentiate(layer, list(layer.net.outputs), [*of, *layer.parameters])
    code = both.copy()
    sunk(code)
    bare = Bare(as_it_is(code), resolve_target())
    for steps in (5, 2, 1):
        inputs = inputs_of(layer, steps)
        rng = np.random.default_rng(1)
        for name, array in exact(layer, inputs).items():
            inputs[f"grad:{name}"] = rng.standard_normal(array.shape).astype(np.float32)
        with guards(True) as memory:
            got = bare.run(inputs, {"T": steps, "N": 3}, memory)
        assert_all_close(got, run(both, inputs, np.float64))


def test_finite_differences() -> None:
    """Of the last three steps from states that stay as they are."""
    layer = graves_lstm(IN, H, tbptt=3, layout="TNC")
    inputs = inputs_of(layer)
    weight = np.random.default_rng(1).standard_normal((5, 3, H))
    late = graves_lstm(parameters=layer.parameters, layout="TNC", initial_state=True)
    before = exact(layer, {"x": inputs["x"][:2]})
    handed = {"h0": before["h_last"], "c0": before["c_last"]}
    got = gradients(layer, inputs, {"y": weight})

    def loss(arrays: Arrays) -> float:
        moved = {name: arrays[name] for name in layer.parameters}
        late.arrays.update(moved)
        return float((exact(late, {"x": arrays["x"], **handed})["y"] * weight[2:]).sum())

    point: Arrays = {"x": inputs["x"][2:].astype(np.float64)}
    point |= {name: a.astype(np.float64) for name, a in layer.parameters.items()}
    for name, array in point.items():
        direction = np.random.default_rng(2).choice([-1.0, 1.0], array.shape)
        ends = [loss({**point, name: array + side * STEP * direction}) for side in (1, -1)]
        told = got[name][2:] if name == "x" else got[name]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose((told * direction).sum(), slope, 1e-6, 1e-6, err_msg=name)
    assert (got["x"][:2] == 0).all()
