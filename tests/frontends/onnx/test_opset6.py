"""Opset 6: operands that are broadcast where a node says so, from an axis on; training mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from tests.frontends.onnx.models import imported, info, model, node

X = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)
PER_AXIS = {axis: np.arange(2, 4 + axis, dtype=np.float32) for axis in range(3)}


def _result(nodes: list[Any], constants: Any = None, **inputs: Any) -> Any:
    declared = [info(name, ["N", *array.shape[1:]]) for name, array in inputs.items()]
    made = model(nodes, declared, [info("y", None)], constants, opset=6)
    return run(imported(made), inputs)["y"]


@pytest.mark.parametrize("axis", [1, 2, -2])
@pytest.mark.parametrize("is_constant", [True, False])
def test_an_operand_is_broadcast_from_an_axis_on(axis: int, is_constant: bool) -> None:
    k = PER_AXIS[axis % 3]
    nodes = [node("Identity", "c", "k"), node("Div", "x k", "y", broadcast=1, axis=axis)]
    if not is_constant:
        nodes[0] = node("ReduceMean", "x", "mean", axes=[0, 3 - axis % 3], keepdims=0)
        nodes.insert(1, node("Sub", "mean mean", "zero"))
        nodes.insert(2, node("Add", "zero c", "k"))
    wide = k.reshape([-1 if a == axis % 3 else 1 for a in range(3)])
    assert np.array_equal(_result(nodes, {"c": k}, x=X), X / wide)


def test_an_operand_is_broadcast_along_the_last_axes() -> None:
    k = X[0]
    y = _result([node("Sub", "x k", "y", broadcast=1)], {"k": k}, x=X)
    assert np.array_equal(y, X - k)
    y = _result([node("Mul", "x k", "y", broadcast=1)], {"k": np.float32(3)}, x=X)
    assert np.array_equal(y, X * 3)


def test_operands_of_other_shapes_are_refused_unless_they_are_broadcast() -> None:
    with pytest.raises(CompileError, match="of shapes N x 3 x 4 and 4, and broadcast is 0"):
        _result([node("Add", "x k", "y")], {"k": PER_AXIS[2]}, x=X)
    with pytest.raises(CompileError, match="axis 2, from which on 2 of 3 axes do not fit"):
        _result([node("Add", "x k", "y", broadcast=1, axis=2)], {"k": X[0]}, x=X)


def test_slopes_are_those_of_channels() -> None:
    y = _result([node("PRelu", "x k", "y")], {"k": PER_AXIS[1]}, x=-X)
    assert np.array_equal(y, -X * PER_AXIS[1].reshape(3, 1))
    assert np.array_equal(
        _result([node("PRelu", "x k", "y")], {"k": np.array([2], np.float32)}, x=-X), -2 * X
    )


def test_training_mode_is_refused() -> None:
    with pytest.raises(CompileError, match="is in training mode"):
        _result([node("Dropout", "x", "y")], x=X)
    assert np.array_equal(_result([node("Dropout", "x", "y", is_test=1)], x=X), X)
