"""Inputs and outputs in unusual roles."""

from __future__ import annotations

import numpy as np
from rnncc_runtime import Model

from rnncc.driver import compiling
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.options import Options

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def compiled(program: Program) -> Model:
    options = Options(name=program.name)
    model = compiling.load_library(compiling.build_library(program, None, options), options)
    assert isinstance(model, Model)
    return model


def test_an_output_may_be_an_input_under_its_own_name() -> None:
    b = Builder.net("identity")
    x = b.input("x", ("N", 4))
    result = compiled(b.finish({"x": x})).run({"x": X})
    np.testing.assert_array_equal(result["x"], X)


def test_one_value_under_several_names() -> None:
    b = Builder.net("twins")
    y = b.tanh(b.input("x", ("N", 4)))
    result = compiled(b.finish({"y": y, "also": y, "flat": b.reshape(y, ("N", 1, 4))})).run(
        {"x": X}
    )
    np.testing.assert_allclose(result["y"], np.tanh(X), 1e-6)
    np.testing.assert_array_equal(result["also"], result["y"])
    np.testing.assert_array_equal(result["flat"][:, 0], result["y"])


def test_an_output_may_be_a_parameter_or_a_constant() -> None:
    b = Builder.net("constants")
    b.input("x", ("N", 4))
    outputs = {"w": b.param("w", (2, 3)), "c": b.constant(X[0]), "f": b.fill(7, (2,))}
    w = np.ones((2, 3), np.float32)
    result = compiled(b.finish(outputs, {"w": w})).run({"x": X})
    np.testing.assert_array_equal(result["w"], w)
    np.testing.assert_array_equal(result["c"], X[0])
    np.testing.assert_array_equal(result["f"], [7, 7])


def test_an_optional_input_takes_the_callers_value_or_its_own() -> None:
    b = Builder.net("optional")
    x, bias = b.input("x", ("N", 4)), b.input("bias", (4,))
    model = compiled(b.finish({"y": b.add(x, bias)}, {"bias": np.full(4, 2, np.float32)}))
    assert model.inputs["bias"].optional
    np.testing.assert_array_equal(model.run({"x": X})["y"], X + 2)
    given = np.full(4, 5, np.float32)
    np.testing.assert_array_equal(model.run({"x": X, "bias": given})["y"], X + 5)


def test_weights_may_be_inputs() -> None:
    """Without an init net they are packed at each call."""
    b = Builder.net("weights")
    x, w = b.input("x", ("N", 4)), b.param("w", (5, 4))
    model = compiled(b.finish({"y": b.matmul(x, w, transpose_b=True)}))
    assert list(model.inputs) == ["x", "w"]
    w_array = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_allclose(model.run({"x": X, "w": w_array})["y"], X @ w_array.T, 1e-6)


def test_two_products_of_one_shape_are_both_outputs() -> None:
    """Only one can be the product of the kernel that they would share."""
    b = Builder.net("products")
    x, w = b.input("x", ("N", 4)), b.param("w", (4, 4))
    y, z = b.matmul(x, w, transpose_b=True), b.matmul(b.mul(x, x), w)
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    outputs = {"y": b.mul(y, b.fill(0.5, ())), "z": z, "sum": b.add(y, z)}
    result = compiled(b.finish(outputs, {"w": array})).run({"x": X})
    np.testing.assert_allclose(result["y"], X @ array.T / 2, 1e-6)
    np.testing.assert_allclose(result["z"], (X * X) @ array, 1e-6)
    np.testing.assert_allclose(result["sum"], X @ array.T + (X * X) @ array, 1e-6)
