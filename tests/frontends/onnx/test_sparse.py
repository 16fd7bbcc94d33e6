"""Sparse tensors: initialisers, in graphs inside too, and constants of nodes; damaged ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    graph,
    imported,
    info,
    interpreted,
    model,
    node,
)

X = np.arange(8, dtype=np.float32).reshape(2, 4)
DENSE = np.array([[0, 1.5, 0, 0], [0, 0, -2, 0]], np.float32)
PLACES = {"numbers": ([2], [1, 6]), "coordinates": ([2, 2], [0, 1, 1, 2])}


def sparse(
    shape: Sequence[int] = (2, 4), dims: Sequence[int] = (2,), places: Sequence[int] = (1, 6)
) -> Any:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    indices = helper.make_tensor("w_places", TensorProto.INT64, dims, places)
    return helper.make_sparse_tensor(values, indices, shape)


def added(tensor: Any, x: Any = None) -> Any:
    """y = x + the tensor."""
    made = model([node("Add", "x w", "y")], [x or info("x", [2, 4])], [info("y", None)])
    made.graph.sparse_initializer.append(tensor)
    return made


@pytest.mark.parametrize("form", PLACES)
def test_an_initialiser(form: str) -> None:
    made = added(sparse((2, 4), *PLACES[form]))
    got = interpreted(made, {"x": X})
    assert_close(got, {"y": X + DENSE})
    assert_close(got, by_onnxruntime(made, {"x": X}))


def test_a_constant() -> None:
    constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse())
    nodes = [constant, node("Add", "x w", "y")]
    made = model(nodes, [info("x", ["N", 4])], [info("y", None)])
    got = interpreted(made, {"x": X})
    assert_close(got, {"y": X + DENSE})
    assert_close(got, by_onnxruntime(made, {"x": X}))


def test_in_a_branch() -> None:
    """It hides what has its name around the branch."""
    inner = graph([node("Add", "x w", "a")], [], [info("a", None)])
    inner.sparse_initializer.append(sparse())
    other = graph([node("Add", "x w", "b")], [], [info("b", None)])
    nodes = [node("Neg", "x", "w"), node("If", "c", "y", then_branch=inner, else_branch=other)]
    made = model(nodes, [info("x", [2, 4]), info("c", [], "i1")], [info("y", None)])
    for flag, want in ((True, X + DENSE), (False, X - X)):
        assert_close(interpreted(made, {"x": X, "c": np.array(flag)}), {"y": want})


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (sparse((1 << 20, 1 << 20)), "is too large, or negative"),
        (sparse((-2, 4)), "of shape [-2, 4] is too large, or negative"),
        (sparse(places=(1, 8)), "is damaged: index 8 is out of bounds"),
        (sparse(places=(1, 1)), "is damaged: 2 values have 2 places, or some share one"),
        (sparse(dims=(2, 2), places=(0, 1, 2, 0)), "is damaged: invalid entry in coordinates"),
        (sparse(dims=(1, 3), places=(0, 1, 2)), "is damaged: "),
        (sparse(dims=(3,), places=(0, 1, 2)), "is damaged: 2 values have 3 places"),
        (sparse(places=(-1, 1)), "is damaged: an index is below 0"),
    ],
)
def test_damaged(tensor: Any, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        imported(added(tensor))
    text = str(caught.value)
    assert text.startswith('<model>: initialiser "w": sparse tensor "w" ')
    assert message in text
