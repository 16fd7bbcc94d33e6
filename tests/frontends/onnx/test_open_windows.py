"""Windows over axes of open size: at every size as ONNX Runtime, and refused where none fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import info, model, node
from tests.passes.gradients import check_gradients

onnxruntime: Any = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.peers


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def windowed(op: str, inputs: str = "x", **attributes: Any) -> Any:
    """One node over x [N, 2, W]."""
    made = [node(op, inputs, "y", **attributes)]
    constants = {"w": drawn(2, 2, 3)} if "w" in inputs else {}
    return model(made, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def depthwise(outputs: int, **attributes: Any) -> Any:
    """A convolution of each of the 2 channels of x alone, to several."""
    nodes = [node("Conv", "x w b", "a", group=2, **attributes), node("Relu", "a", "y")]
    constants = {"w": drawn(2 * outputs, 1, 3), "b": drawn(2 * outputs)}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def of_few(groups: int, channels: int, outputs: int, **attributes: Any) -> Any:
    """A convolution of many groups, each of a few channels and outputs, behind another."""
    nodes = [node("Conv", "x u", "c"), node("Conv", "c w b", "a", group=groups, **attributes)]
    nodes += [node("Relu", "a", "y")]
    inputs, units = groups * channels, groups * outputs
    constants = {"u": drawn(inputs, 2, 1), "w": drawn(units, channels, 3), "b": drawn(units)}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def of_many_channels(channels: int) -> Any:
    """Each of them laid over itself."""
    nodes = [node("Conv", "x u", "c")]
    nodes += [node("ConvTranspose", "c w", "y", group=channels, strides=[2])]
    constants = {"u": drawn(channels, 2, 1), "w": drawn(channels, 1, 3)}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def convolutions() -> Any:
    """Two convolutions and a pool, as audio front ends have them, and a loop over what is left."""
    nodes = [
        node("Conv", "x w", "a", strides=[2], pads=[1, 0]),
        node("Relu", "a", "b"),
        node("Conv", "b w", "c", strides=[3], dilations=[2]),
        node("MaxPool", "c", "d", kernel_shape=[2], strides=[2], ceil_mode=1),
        node("Transpose", "d", "e", perm=[2, 0, 1]),
        node("GRU", "e W R", "f h", hidden_size=3),
        node("Squeeze", "f one", "y"),
    ]
    constants = {"w": drawn(2, 2, 3), "W": drawn(1, 9, 2), "R": drawn(1, 9, 3)}
    return model(
        nodes,
        [info("x", ["N", 2, "W"])],
        [info("y", None), info("h", None)],
        {**constants, "one": np.array([1])},
    )


def halves() -> Any:
    """A pyramid's step: pairs of rows, joined; the last row of an odd number is left out."""
    nodes = [
        node("Shape", "x", "s", start=2),
        node("Div", "s two", "h"),
        node("Mul", "h two", "even"),
        node("Slice", "x zero even two", "cut"),
        node("Transpose", "cut", "rows", perm=[0, 2, 1]),
        node("Concat", "same h four", "shape", axis=0),
        node("Reshape", "rows shape", "y"),
    ]
    numbers = {"zero": 0, "two": 2, "four": 4, "same": 0}
    constants = {name: np.array([number]) for name, number in numbers.items()}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def laid_over() -> Any:
    """Down and up again; what is longer than x is cut off."""
    nodes = [
        node("Conv", "x w", "a", strides=[2], pads=[1, 1]),
        node("ConvTranspose", "a w", "b", strides=[2], pads=[1, 1], output_padding=[1]),
        node("Shape", "x", "size", start=2),
        node("Slice", "b zero size axis", "c"),
        node("Add", "x c", "y"),
    ]
    constants = {"w": drawn(2, 2, 3), "zero": np.array([0]), "axis": np.array([2])}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def filled_up() -> Any:
    """Padded or cut to 7 elements."""
    nodes = [
        node("Shape", "x", "size", start=2),
        node("Sub", "seven size", "room"),
        node("Concat", "zeros room", "pads", axis=0),
        node("Pad", "x pads", "y"),
    ]
    constants = {"seven": np.array([7]), "zeros": np.zeros(5, np.int64)}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants)


def joined(**attributes: Any) -> Any:
    """A pyramid's step: down, then as long as x again, whatever was rounded."""
    nodes = [
        node("Conv", "x w", "a", strides=[2], pads=[1, 1]),
        node("Shape", "x", "size"),
        node("Resize", "a _ _ size", "b", **attributes),
        node("Add", "x b", "y"),
    ]
    return model(
        nodes, [info("x", ["N", 2, "W"])], [info("y", None)], {"w": drawn(2, 2, 3)}, opset=18
    )


def longer(factor: float, **attributes: Any) -> Any:
    """By a factor, and half as long again."""
    nodes = [
        node("Resize", "x _ factor", "a", **attributes),
        node("Resize", "a _ less", "y", **attributes),
    ]
    numbers = {"factor": factor, "less": 0.5}
    constants = {name: np.array([1, 1, number], np.float32) for name, number in numbers.items()}
    return model(nodes, [info("x", ["N", 2, "W"])], [info("y", None)], constants, opset=18)


def unfolded(**attributes: Any) -> Any:
    """Largest elements and where they stand, put back there; beside them windows over half of the
    axis, added up."""
    nodes = [
        node("Shape", "x", "size", start=2),
        node("Div", "size two", "image"),
        node("Mul", "image two", "even"),
        node("Slice", "x zero even two", "cut"),
        node("MaxPool", "cut", "a i", kernel_shape=[2], strides=[2]),
        node("MaxUnpool", "a i", "y", kernel_shape=[2], strides=[2]),
        node("Concat", "a a", "columns", axis=1),
        node("Col2Im", "columns image two", "z", pads=[1, 0]),
        node("GlobalLpPool", "x", "norm", p=3),
    ]
    outputs = [
        info(name, None, "i64" if name == "i" else "f32") for name in ("y", "i", "z", "norm")
    ]
    constants = {"two": np.array([2]), "zero": np.array([0])}
    return model(nodes, [info("x", ["N", 2, "W"])], outputs, constants, opset=18)


WHOLE: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
POOL: dict[str, Any] = {"kernel_shape": [3], "strides": [2]}
MODELS: dict[str, tuple[Any, int]] = {
    "strides": (windowed("Conv", "x w", strides=[2]), 3),
    "strides, dilations and pads": (
        windowed("Conv", "x w", strides=[3], dilations=[2], pads=[1, 2]),
        2,
    ),
    "the same size": (windowed("Conv", "x w", strides=[2], auto_pad="SAME_UPPER"), 1),
    "the same size, pads in front": (
        windowed("Conv", "x w", strides=[3], auto_pad="SAME_LOWER"),
        1,
    ),
    "one output of each channel": (depthwise(1), 3),
    "two outputs of each channel": (depthwise(2), 3),
    "two outputs of each channel, pads": (depthwise(2, pads=[1, 1], strides=[2]), 1),
    "three outputs of each channel": (depthwise(3, dilations=[2]), 5),
    "five outputs of each channel": (depthwise(5), 3),
    "groups of two channels": (of_few(16, 2, 2), 3),
    "groups of two channels, pads": (of_few(8, 2, 3, pads=[1, 1], strides=[2]), 1),
    "groups of four channels": (of_few(9, 4, 1, dilations=[2]), 5),
    "groups of two channels, seven of them": (of_few(7, 2, 2), 3),
    "pool": (windowed("MaxPool", **POOL), 3),
    "pool, rounded up": (windowed("MaxPool", **POOL, pads=[1, 1], ceil_mode=1), 1),
    "pool, the one window beyond x": (windowed("MaxPool", **POOL, ceil_mode=1), 2),
    "mean of what is there": (windowed("AveragePool", **POOL, ceil_mode=1), 2),
    "pool of the same size": (windowed("MaxPool", **POOL, auto_pad="SAME_UPPER"), 1),
    "means": (windowed("AveragePool", **POOL, pads=[1, 1], ceil_mode=1), 1),
    "means, with pads": (windowed("AveragePool", **POOL, pads=[0, 2], count_include_pad=1), 1),
    "transposed": (windowed("ConvTranspose", "x w", strides=[2], pads=[1, 1]), 1),
    "convolutions, a pool and a loop": (convolutions(), 10),
    "halves": (halves(), 1),
    "laid over": (laid_over(), 1),
    "600 channels laid over": (of_many_channels(600), 1),
    "filled up": (filled_up(), 1),
    "as long as x": (joined(mode="linear"), 1),
    "as long as x, nearest": (joined(**WHOLE), 1),
    "ends on ends": (joined(mode="linear", coordinate_transformation_mode="align_corners"), 1),
    "there and back": (unfolded(), 2),
    "repeated": (longer(4, **WHOLE), 1),
    "in between": (longer(2.5, mode="linear"), 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_equals_onnxruntime_at_every_size(name: str) -> None:
    made, least = MODELS[name]
    compiled: Any = rnncc.compile(made)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for size in range(least, least + 24):
        x = drawn(1 + size % 2, 2, size)
        got = compiled.run({"x": x})
        for output, want in zip(session.get_outputs(), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(got[output.name], want, 1e-4, 1e-5, err_msg=f"W = {size}")
    if least > 1:
        with pytest.raises(ArrayError, match="would be -"):
            compiled.run({"x": drawn(1, 2, least - 1)})


@pytest.mark.parametrize(
    "name",
    [
        *["convolutions, a pool and a loop", "halves", "laid over", "as long as x"],
        *["two outputs of each channel, pads", "groups of two channels, pads"],
    ],
)
def test_gradients(name: str) -> None:
    made, least = MODELS[name]
    program = import_model(made)
    for size in (least, least + 5):
        check_gradients(program, {"N": 2, "W": size}, rtol=1e-5)


@pytest.mark.parametrize("size", [16, 21, 30])
def test_training(size: int) -> None:
    """Compiled gradients of the whole front end are those at the same sizes as numbers."""
    made, x = convolutions(), drawn(2, 2, size)
    grads = {"h": np.ones((1, 2, 3), np.float32)}
    found = list[Any]()
    for shapes in ({}, {"x": (2, 2, size)}):
        model: Any = rnncc.compile(made, train=True, shapes=shapes)
        given = {name: array for name, array in grads.items() if name in model.outputs}
        outputs, tape = model.forward({"x": x})
        whole = {n: given.get(n, np.zeros_like(y)) for n, y in outputs.items()}
        found.append(model.backward(tape, whole))
    for name, gradient in found[0].items():
        np.testing.assert_allclose(gradient, found[1][name], 1e-4, 1e-6, err_msg=name)


def test_a_size_that_is_a_formula() -> None:
    """What a stride divides leaves no rounding."""
    made, _ = MODELS["strides"]
    compiled: Any = rnncc.compile(made, shapes={"x": "N,2,2*W + 1"})
    assert compiled.outputs["y"].shape == ("N", 2, "W")
    assert compiled.run({"x": drawn(1, 2, 7)})["y"].shape == (1, 2, 3)
    with pytest.raises(ArrayError, match="determines W"):
        compiled.run({"x": drawn(1, 2, 8)})
    with pytest.raises(CompileError, match="'W/2' is no size"):
        import_model(made, shapes={"x": "N,2,W/2"})
