"""Reshapes and squeezes of tensors whose sizes are open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, numpy_helper
from rnncc_runtime.errors import ModelError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)
from tests.frontends.onnx.open_models import of_x, vector


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("dims", [["N"], ["N", 2], [1, "N"], ["T", "N", 1]])
def test_squeeze_of_sizes_that_may_be_1(dims: list[int | str], empty: bool) -> None:
    """A size that is 1 would make another rank: calls with one are refused. Empty axes are none, as
    keras2onnx writes them."""
    made = of_x("Squeeze", "", dims)
    if empty:
        made.opset_import[0].version = 11
        made.graph.node[0].attribute.add(name="axes", type=AttributeProto.INTS)
    for size in (2, 3):
        x = np.ones([size if isinstance(d, str) else d for d in dims], np.float32)
        assert interpreted(made, {"x": x})["y"].shape == x.squeeze().shape
    x = np.ones([1 if isinstance(d, str) else d for d in dims], np.float32)
    with pytest.raises(CompileError, match="is negative"):
        interpreted(made, {"x": x})
    with pytest.raises(ModelError, match="would be -1"):
        rnncc.compile(made).run({"x": x})


@pytest.mark.parametrize("rows", [5, 6, 7])
def test_reshape_to_parts_that_may_not_divide(rows: int) -> None:
    made: Any = rnncc.compile(of_x("Reshape", "s", ["N", 4], s=vector(3, -1)))
    x = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
    if rows % 3 == 0:
        np.testing.assert_array_equal(made.run({"x": x})["y"], x.reshape(3, -1))
        return
    with pytest.raises(ModelError, match="would be -"):
        made.run({"x": x})


@pytest.mark.peers
def test_numbers_of_steps_without_range() -> None:
    """As opset 10 has none: the places of as many ones as there are steps, and of a matrix."""
    nodes = [
        node("Shape", "x", "s"),
        node("ConstantOfShape", "s", "ones", value=numpy_helper.from_array(np.ones(1, np.int64))),
        node("NonZero", "ones", "places"),
        node("Transpose", "places", "rows", perm=[1, 0]),
        node("ReduceSum", "places", "sums", axes=[0], keepdims=0),
        node("Reshape", "sums s", "each"),
        node("Cast", "each", "floats", to=TensorProto.FLOAT),
        node("Add", "x floats", "y"),
    ]
    outputs = [info("y", None), info("rows", None, "i64")]
    made = model(nodes, [info("x", ["N", "T"])], outputs, opset=10)
    compiled: Any = rnncc.compile(made)
    assert compiled.outputs["rows"].shape == ("T*N", 2)
    for shape in ((2, 3), (1, 7), (5, 1)):
        inputs = {"x": np.ones(shape, np.float32)}
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))


def test_reshape_of_pairs_of_steps() -> None:
    """What is left beside an open batch, of as many steps as may not be even."""
    nodes = [node("Shape", "x", "n", end=1), node("Concat", "n rest", "s", axis=0)]
    nodes += [node("Reshape", "x s", "y")]
    x = info("x", ["N", "T", 2])
    made = model(nodes, [x], [info("y", None)], {"rest": vector(-1, 4)})
    compiled: Any = rnncc.compile(made)
    assert compiled.outputs["y"].shape == ("N", "T/2", 4)
    for steps in (2, 6):
        x = np.arange(6 * steps, dtype=np.float32).reshape(3, steps, 2)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], x.reshape(3, -1, 4))
    with pytest.raises(ModelError, match="would be -"):
        compiled.run({"x": np.ones((3, 5, 2), np.float32)})


def test_reshape_to_sizes_of_another_input() -> None:
    """A batch and its steps, which an exporter gave other names in each input: calls check them."""
    nodes = [node("Reshape", "x rows", "all"), node("Shape", "act", "n")]
    nodes += [node("Concat", "n rest", "s", axis=0), node("Reshape", "all s", "y")]
    x, act = info("x", ["x_0", "x_1", 3]), info("act", ["act_0", "act_1"])
    made = model(nodes, [x, act], [info("y", None)], {"rows": vector(-1, 3), "rest": vector(-1)})
    compiled: Any = rnncc.compile(made)
    inputs = {"x": np.arange(24, dtype=np.float32).reshape(2, 4, 3), "act": np.ones((2, 4), "f")}
    np.testing.assert_array_equal(compiled.run(inputs)["y"], inputs["x"])
    with pytest.raises(ModelError, match="would be -"):
        compiled.run(inputs | {"act": np.ones((2, 3), np.float32)})


def test_reshape_that_holds_for_some_sizes() -> None:
    """A size of the example in the shape: of longer sequences elements would be lost."""
    nodes = [node("Shape", "x", "n", start=1, end=2), node("Concat", "five n", "s", axis=0)]
    nodes += [node("Reshape", "x s", "y")]
    made = model(nodes, [info("x", ["T", "N", 1])], [info("y", None)], {"five": vector(5)})
    compiled: Any = rnncc.compile(made)
    assert compiled.run({"x": np.ones((5, 2, 1), np.float32)})["y"].shape == (5, 2)
    for steps in (4, 6):
        with pytest.raises(ModelError, match="would be -2"):
            compiled.run({"x": np.ones((steps, 2, 1), np.float32)})


def test_squeeze_of_sizes_that_are_given() -> None:
    x = np.ones((1, 1, 2), np.float32)
    made = of_x("Squeeze", "", ["T", "N", 2])
    assert interpreted(made, {"x": x}, shapes={"x": [1, 1, 2]})["y"].shape == (2,)
    assert interpreted(of_x("Squeeze", "a", ["T", 1, 2], a=vector(1)), {"x": x})["y"].shape == (
        1,
        2,
    )


def test_squeeze_of_a_size_that_is_never_1() -> None:
    twice = node("Concat", "x x", "z", axis=0)
    made = model([twice, node("Squeeze", "z", "y")], [info("x", ["N", 1])], [info("y", None)])
    assert interpreted(made, {"x": np.ones((1, 1), np.float32)})["y"].shape == (2,)


def test_squeeze_of_a_named_axis_that_may_be_longer() -> None:
    made: Any = rnncc.compile(of_x("Squeeze", "a", ["N", 2], a=vector(0)))
    assert made.run({"x": np.ones((1, 2), np.float32)})["y"].shape == (2,)
    with pytest.raises(ModelError):
        made.run({"x": np.ones((2, 2), np.float32)})


@pytest.mark.peers
def test_beams_of_a_batch_of_another_name() -> None:
    """`h.reshape(3 * len(x), -1)`, where h has as many rows as x has."""
    nodes = [
        *(node("Shape", "x", "n", end=1), node("Mul", "n three", "rows")),
        *(node("Concat", "rows rest", "to", axis=0), node("Reshape", "h to", "f")),
        node("MatMul", "f w", "y"),
    ]
    inputs = [info("x", ["N", 2]), info("h", ["M", 3, 4])]
    constants = {"three": np.array([3]), "rest": np.array([-1]), "w": np.ones((4, 2), np.float32)}
    made = model(nodes, inputs, [info("y", None)], constants)
    x, h = np.zeros((2, 2), np.float32), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert_close(interpreted(made, {"x": x, "h": h}), by_onnxruntime(made, {"x": x, "h": h}))
    with pytest.raises(ModelError):
        rnncc.compile(made).run({"x": x, "h": h[:1]})
