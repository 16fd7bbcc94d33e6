"""Every activation against its formula in NumPy, its slope at and around 0; and in a layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.cells import ACTIVATIONS, GATE_ACTIVATIONS, graves_lstm
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.passes.gradients.differentiate import differentiate
from tests.cells.helpers import assert_all_close, compiled, exact, inputs_of
from tests.passes.gradients import check_gradients

Array = np.ndarray[Any, Any]
GRID = np.linspace(-8, 8, 129)


def rational(x: Array) -> Array:
    u = np.abs(2 * x / 3)
    return 1.7159 * np.sign(x) * (1 - 1 / (1 + u + u**2 + 1.41645 * u**4))


FORMULAS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hardsigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "relu": lambda x: np.where(x > 0, x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "identity": lambda x: x,
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "rationaltanh": rational,
    "rectifiedtanh": lambda x: np.maximum(0, np.tanh(x)),
    "leakyrelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "relu6": lambda x: np.clip(x, 0, 6),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "cube": lambda x: x**3,
}
KINKS = {"relu": 0.0, "hardsigmoid": 0.2, "rectifiedtanh": 0.0, "leakyrelu": 0.01, "relu6": 0.0}
"""Slopes at 0 where the formula has none, or that of one side."""


def net_of(name: str) -> Program:
    b = Builder.net(name)
    x = b.input("x", ["N"])
    return b.finish({"y": ACTIVATIONS[name](b, x)})


def test_all_are_here() -> None:
    assert FORMULAS.keys() == ACTIVATIONS.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_values(name: str) -> None:
    want = FORMULAS[name](GRID)
    np.testing.assert_allclose(run(net_of(name), {"x": GRID}, np.float64)["y"], want, 1e-12, 1e-12)
    got = rnncc.compile(net_of(name)).run({"x": GRID.astype(np.float32)})["y"]
    np.testing.assert_allclose(got, want, 2e-6, 1e-6)


@pytest.mark.parametrize("name", FORMULAS)
def test_far_out(name: str) -> None:
    """Nothing overflows on the way to a value or slope that does not."""
    ends = np.array([-200.0, 200.0], np.float32)
    both = differentiate(net_of(name), ["y"], ["x"])
    got = rnncc.compile(both).run({"x": ends, "grad:y": np.ones(2, np.float32)})
    with np.errstate(over="ignore"):
        want = FORMULAS[name](ends.astype(np.float64))
    assert np.isfinite(want).all()
    np.testing.assert_allclose(got["y"], want, 1e-5, 1e-5)
    assert np.isfinite(got["grad:x"]).all()


@pytest.mark.parametrize("name", FORMULAS)
def test_slopes(name: str) -> None:
    check_gradients(net_of(name), {"T": 1, "N": 50})
    x = np.array([0.0, 1e-3, -1e-3])
    both = differentiate(net_of(name), ["y"], ["x"])
    got = run(both, {"x": x, "grad:y": np.ones(3)}, np.float64)["grad:x"]
    step = 1e-7
    want = (FORMULAS[name](x + step) - FORMULAS[name](x - step)) / (2 * step)
    want[0] = KINKS.get(name, want[0])
    if name == "selu":
        want[0] = 1.0507009873554805 * 1.6732632423543772
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize(("name", "gate"), list(zip(FORMULAS, cycle(GATE_ACTIVATIONS))))
def test_in_a_layer(name: str, gate: str) -> None:
    layer = graves_lstm(3, 4, activation=name, gate_activation=gate)
    inputs = inputs_of(layer)
    f, s = FORMULAS[name], FORMULAS[gate]
    p = {n: a.astype(np.float64) for n, a in layer.parameters.items()}
    h = c = np.zeros((3, 4))
    for x in np.moveaxis(inputs["x"].astype(np.float64), 2, 0):
        z_i, z_f, z_o, z_g = np.split(x @ p["W"] + h @ p["RW"][:, :16] + p["b"], 4, 1)
        ff, oo, gg = p["RW"][:, 16:].T
        c = s(z_f + c * ff) * c + s(z_g + c * gg) * f(z_i)
        h = f(c) * s(z_o + c * oo)
    got = exact(layer, inputs)
    np.testing.assert_allclose(got["h_last"], h, 1e-9, 1e-9)
    assert_all_close(compiled(layer, inputs), got)


def test_own_functions() -> None:
    """A function of a build and a value stands for an activation without a name."""
    inputs = inputs_of(graves_lstm(3, 4))

    def halved(b: Builder, x: Any) -> Any:
        return b.mul(
            b.add(b.tanh(b.mul(x, b.full_like(x, 0.5))), b.full_like(x, 1.0)), b.full_like(x, 0.5)
        )

    own = graves_lstm(3, 4, activation=lambda b, x: b.tanh(x), gate_activation=halved)
    assert_all_close(exact(own, inputs), exact(graves_lstm(3, 4), inputs), 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("option", "name"), [("activation", "tan"), ("gate_activation", "tanh"), ("activation", "")]
)
def test_unknown_names(option: str, name: str) -> None:
    options: Any = {option: name}
    with pytest.raises(CompileError, match=f"^{option} '{name}' is not one of .*sigmoid"):
        graves_lstm(3, 4, **options)
