"""Models whose results' ranks or bounds depend on sizes that are open at import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError
from rnncc_runtime.errors import ModelError

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    graph,
    info,
    interpreted,
    model,
    node,
)
from tests.frontends.onnx.open_models import of_x, vector


@pytest.mark.parametrize("name", ["?", "*", ""])
def test_names_of_no_letters_name_no_size(name: str) -> None:
    """Paddle's exporter writes "?" for every axis that is open."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(interpreted(of_x("Neg", "", [name, name]), {"x": x})["y"], -x)


def test_a_size_without_a_name_is_no_other_input_s() -> None:
    """Even where one of that input has the name that it is given."""
    inputs = [info("x", [""]), info("z", ["x_0"])]
    made = model([node("Concat", "x z", "y", axis=0)], inputs, [info("y", None)])
    x, z = np.ones(2, np.float32), np.zeros(3, np.float32)
    assert list(interpreted(made, {"x": x, "z": z})["y"]) == [1, 1, 0, 0, 0]


HUGE = 1 << 40
SLICES = {
    "from the end": (slice(-3, None), [-3, HUGE, 1]),
    "behind the end": (slice(3, None), [3, HUGE, 1]),
    "of half": (slice(2, -1), [2, -1, 1]),
    "of both halves": (slice(-4, -2), [-4, -2, 1]),
    "up to a number": (slice(None, 5), [0, 5, 1]),
    "up to INT32_MAX": (slice(1, None), [1, 2**31 - 1, 1]),
    "every other": (slice(1, None, 2), [1, 2**31 - 1, 2]),
    "every third but the last": (slice(-7, -1, 3), [-7, -1, 3]),
    "backwards": (slice(None, None, -1), [-1, -HUGE, -1]),
    "every other backwards": (slice(4, 0, -2), [4, 0, -2]),
    "backwards from the end": (slice(-1, -5, -1), [-1, -5, -1]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_cut_to_their_axis(name: str) -> None:
    index, (start, end, step) = SLICES[name]
    bounds = {"s": vector(start), "e": vector(end), "a": vector(0), "t": vector(step)}
    made = of_x("Slice", "s e a t", ["N"], **bounds)
    compiled: Any = rnncc.compile(made)
    for size in range(1, 10):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], x[index])
        np.testing.assert_array_equal(interpreted(made, {"x": x})["y"], x[index])


def test_an_axis_of_open_size_is_not_empty() -> None:
    made = of_x("Slice", "s e", ["N"], s=vector(-1), e=vector(HUGE))
    compiled: Any = rnncc.compile(made)
    with pytest.raises(ArrayError, match="a size N - 1 would be -1 "):
        compiled.run({"x": np.zeros(0, np.float32)})
    with pytest.raises(CompileError, match="a size N - 1 is negative"):
        interpreted(made, {"x": np.zeros(0, np.float32)})


def test_the_size_of_a_slice_is_not_below_0() -> None:
    """PyTorch asks whether the size of x[1:] is -1 where it writes into the slice."""
    nodes = [node("Slice", "x one end", "z"), node("Shape", "z", "s"), node("Neg", "one", "m")]
    nodes += [node("Equal", "s m", "c"), node("Where", "c one s", "t"), node("Expand", "v t", "y")]
    numbers = {"one": vector(1), "end": vector(HUGE), "v": np.array([3], np.float32)}
    made = model(nodes, [info("x", ["N"])], [info("y", None)], numbers)
    compiled: Any = rnncc.compile(made)
    for size in (1, 4):
        assert compiled.run({"x": np.zeros(size, np.float32)})["y"].tolist() == [3] * (size - 1)


@pytest.mark.parametrize("upper", [0, 1])
def test_a_diagonal_by_open_sizes(upper: int) -> None:
    nodes = [node("Shape", "x", "s", end=1), node("Sub", "s five", "k")]
    nodes += [node("Squeeze", "k", "k0"), node("Trilu", "x k0", "y", upper=upper)]
    inputs, numbers = [info("x", ["N", "M"])], {"five": vector(5)}
    compiled: Any = rnncc.compile(model(nodes, inputs, [info("y", None)], numbers))
    for shape in ((3, 4), (7, 6)):
        x = np.ones(shape, np.float32)
        expected = np.triu(x, shape[0] - 5) if upper else np.tril(x, shape[0] - 5)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], expected)


@pytest.mark.parametrize("train", [False, True])
def test_a_slice_by_the_size_of_another_input(train: bool) -> None:
    nodes = [node("Shape", "z", "e"), node("Slice", "x s e", "t"), node("ReduceSum", "t", "y")]
    inputs = [info("x", ["N"]), info("z", ["M"])]
    made = model(nodes, inputs, [info("y", None)], {"s": vector(0)})
    compiled: Any = rnncc.compile(made, train=train)
    x = np.ones(3, np.float32)
    assert compiled.run({"x": x, "z": x[:2]})["y"] == 2
    assert compiled.run({"x": x[:1], "z": x})["y"] == 1


def test_a_stream_takes_pieces_that_are_shorter_than_a_bound() -> None:
    nodes = [
        node("Slice", "c s e", "d"),
        node("Add", "x d", "y"),
    ]
    inputs = [info("x", ["T", "N"]), info("c", ["M"])]
    limits = {"s": vector(-1), "e": vector(1 << 40)}
    made: Any = rnncc.compile(model(nodes, inputs, [info("y", ["T", "N"])], limits))
    stream = made.stream(inputs={"c": np.ones(2, np.float32)})
    assert stream.step({"x": np.ones((1, 1), np.float32)})["y"] == 2


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (node("Reshape", "x to", "cut"), "cannot bring N x 4 into the shape 3 x -1"),
        (node("Squeeze", "x", "cut"), "drops axes of size 1 of N x 4, and N may be 1"),
    ],
    ids=["reshape", "squeeze"],
)
def test_calls_are_not_refused_for_a_branch_that_may_not_be_taken(then: Any, why: str) -> None:
    branches = [
        graph([made], [], [info("cut", None)]) for made in (then, node("Identity", "x", "cut"))
    ]
    choice = node("If", "flag", "y", then_branch=branches[0], else_branch=branches[1])
    inputs = [info("x", ["N", 4]), info("flag", [], "i1")]
    made = model([choice], inputs, [info("y", None)], {"to": vector(3, -1)})
    with pytest.raises(CompileError, match=why):
        interpreted(made, {})


@pytest.mark.parametrize(("shift", "least"), [(-1, 1), (-3, 3), (2, 3)])
def test_rows_moved_round_an_axis(shift: int, least: int) -> None:
    """x.roll, whose start is the shift modulo the size."""
    nodes = [
        node("Shape", "x", "T", end=1),
        node("Mod", "shift T", "at"),
        node("Slice", "x at end zero", "a"),
        node("Slice", "x zero at zero", "b"),
        node("Concat", "a b", "y", axis=0),
    ]
    constants = {"shift": vector(shift), "zero": vector(0), "end": vector((1 << 63) - 1)}
    made = model(nodes, [info("x", ["T"])], [info("y", None)], constants)
    compiled: Any = rnncc.compile(made)
    for size in range(least, 6):
        x = np.arange(size, dtype=np.float32)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], np.roll(x, -shift))
    with pytest.raises(ArrayError, match="would be -"):
        compiled.run({"x": np.zeros(least - 1, np.float32)})


@pytest.mark.parametrize("row", [2, -3])
def test_a_row_that_an_axis_may_not_have(row: int) -> None:
    """Calls without it are refused; in a branch, where it is read."""
    gather = node("Gather", "x row", "y", axis=0)
    constants = {"row": np.array(row)}
    read: Any = rnncc.compile(model([gather], [info("x", ["T"])], [info("y", None)], constants))
    x = np.arange(4, dtype=np.float32)
    assert read.run({"x": x})["y"] == x[row]
    with pytest.raises(ArrayError, match="a size T - 3 would be -1"):
        read.run({"x": x[:2]})
    branches = [graph([made], [], [info("y", None)]) for made in (gather, node("Neg", "one", "y"))]
    choice = node("If", "flag", "z", then_branch=branches[0], else_branch=branches[1])
    inputs = [info("x", ["T"]), info("flag", [], "i1")]
    constants["one"] = np.array(1, np.float32)
    chosen: Any = rnncc.compile(model([choice], inputs, [info("z", None)], constants))
    assert chosen.run({"x": x, "flag": np.array(True)})["z"] == x[row]
    assert chosen.run({"x": x[:2], "flag": np.array(False)})["z"] == -1
    with pytest.raises(ModelError, match="outside of its table"):
        chosen.run({"x": x[:2], "flag": np.array(True)})


@pytest.mark.peers
def test_statistics_of_a_batch_of_any_size() -> None:
    nodes = [node("BatchNormalization", "x s b m v", "y mean var", training_mode=1, momentum=0.75)]
    rng = np.random.default_rng(0)
    constants = {name: rng.random(3).astype(np.float32) for name in "sbmv"}
    outputs = [info(name, None) for name in ("y", "mean", "var")]
    made = model(nodes, [info("x", ["N", 3, "T"])], outputs, constants)
    compiled: Any = rnncc.compile(made)
    for shape in ((1, 3, 4), (2, 3, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        got, want = compiled.run({"x": x}), by_onnxruntime(made, {"x": x})
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, 1e-5, 1e-6)
    del made.graph.node[0].attribute[:]
    with pytest.raises(CompileError, match="statistics outside of the training mode of opset 14"):
        import_model(made)


@pytest.mark.peers
def test_a_vector_is_a_batch_of_one_channel() -> None:
    outputs = [info(name, None) for name in ("y", "mean", "var")]
    constants = {name: np.array([0.5 + i], np.float32) for i, name in enumerate("sbmv")}
    for trains in (0, 1):
        names = "y mean var" if trains else "y"
        nodes = [node("BatchNormalization", "x s b m v", names, training_mode=trains)]
        made = model(nodes, [info("x", ["N"])], outputs[: len(names.split())], constants)
        x = np.arange(5, dtype=np.float32)
        assert_close(interpreted(made, {"x": x}), by_onnxruntime(made, {"x": x}))


@pytest.mark.peers
def test_channels_that_the_numbers_tell() -> None:
    """Those of a normalisation and of scales: the open size of the input is theirs."""
    nodes = [
        node("BatchNormalization", "x s b m v", "n"),
        node("QuantizeLinear", "n v", "y", axis=1),
    ]
    constants = {name: np.arange(1, 4, dtype=np.float32) for name in "sbmv"}
    made = model(nodes, [info("x", ["N", "C", "T"])], [info("y", None, "u8")], constants)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert_close(interpreted(made, {"x": x}), by_onnxruntime(made, {"x": x}))


@pytest.mark.peers
def test_antialias_beside_an_open_axis() -> None:
    nodes = [node("Resize", "x _ scales", "y", mode="linear", antialias=1)]
    constants = {"scales": np.array([1, 0.5], np.float32)}
    made = model(nodes, [info("x", ["N", 8])], [info("y", None)], constants, opset=18)
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    got = rnncc.compile(made).run({"x": x})["y"]
    np.testing.assert_allclose(got, by_onnxruntime(made, {"x": x})["y"], 1e-5, 1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"},
        {"mode": "linear", "antialias": 1},
        {"mode": "linear", "antialias": 1, "keep_aspect_ratio_policy": "not_larger"},
        {"mode": "cubic", "coordinate_transformation_mode": "half_pixel_symmetric"},
    ],
)
def test_no_elements_of_a_resized_axis(options: dict[str, Any]) -> None:
    """The scale of such an axis is 0, by which nothing may be divided."""
    constants = {"sizes": np.array([3, 0])}
    resize = node("Resize", "x _ _ sizes", "y", **options)
    made = model([resize], [info("x", [3, 8])], [info("y", None)], constants, opset=18)
    y = rnncc.compile(made).run({"x": np.ones((3, 8), np.float32)})["y"]
    assert y.shape[1] == 0


@pytest.mark.peers
@pytest.mark.parametrize("steps", [6, 7, 10, 13])
def test_the_last_whole_parts(steps: int) -> None:
    """x[-4 * ((T - 2) // 4):], whose start counts from the end for all but small T."""
    nodes = [
        node("Shape", "x", "T", end=1),
        node("Sub", "T two", "a"),
        node("Div", "a four", "b"),
        node("Mul", "b minus", "c"),
        node("Slice", "x c end first", "y"),
    ]
    numbers = {"two": 2, "four": 4, "minus": -4, "first": 0, "end": (1 << 63) - 1}
    constants = {name: vector(n) for name, n in numbers.items()}
    made = model(nodes, [info("x", ["T", 2])], [info("y", None)], constants)
    x = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)
    compiled: Any = rnncc.compile(made)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], by_onnxruntime(made, {"x": x})["y"])
    with pytest.raises(ModelError, match="would be -1"):
        compiled.run({"x": x[:5]})


@pytest.mark.peers
def test_one_hot_of_as_many_as_there_are_rows() -> None:
    made = model(
        [
            node("Shape", "x", "s", end=1),
            node("OneHot", "i s values", "y", axis=-1),
        ],
        [info("x", ["T", 2]), info("i", ["N"], "i64")],
        [info("y", None)],
        {"values": np.array([0, 1], np.float32)},
    )
    x, i = np.zeros((5, 2), np.float32), vector(0, -1, 4, 7)
    y: Any = rnncc.compile(made).run({"x": x, "i": i})["y"]
    np.testing.assert_array_equal(y, by_onnxruntime(made, {"x": x, "i": i})["y"])


@pytest.mark.peers
def test_a_table_of_positions_is_cut_around_its_middle() -> None:
    """Of 2 T - 1 positions, as relative attention needs them: sizes that the table is too small for
    are refused."""
    nodes = [
        *(
            node("Shape", "x", "t", end=1),
            node("Sub", "ten t", "from"),
            node("Add", "nine t", "to"),
        ),
        *(node("Slice", "table from to", "p"), node("Shape", "p", "s", end=1)),
        *(node("Concat", "less s", "shape", axis=0), node("Reshape", "p shape", "q")),
        *(node("Sub", "t one", "u"), node("Add", "u t", "both"), node("Expand", "x1 both", "z")),
        *(node("Mul", "q z", "y"),),
    ]
    constants: dict[str, Any] = {"ten": np.array([10]), "nine": np.array([9]), "one": np.array([1])}
    constants |= {"less": np.array([-1]), "x1": np.ones(1, np.float32)}
    constants |= {"table": np.random.default_rng(0).random((19, 1), np.float32)}
    made = model(nodes, [info("x", ["T"])], [info("y", None)], constants)
    compiled: Any = rnncc.compile(made)
    for size in (1, 4, 10):
        inputs = {"x": np.ones(size, np.float32)}
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))
    with pytest.raises(ArrayError, match="would be -1"):
        compiled.run({"x": np.ones(11, np.float32)})


@pytest.mark.peers
@pytest.mark.parametrize("parts", [3, 300])
def test_an_axis_of_which_a_part_is_kept(parts: int) -> None:
    """Of 1/k float32 holds what is near it: products with it are rounded as ONNX Runtime does."""
    resize = node("Resize", "x _ scale", "y", mode="linear")
    constants = {"scale": np.array([1, 1 / parts], np.float32)}
    made = model([resize], [info("x", [2, "T"])], [info("y", None)], constants)
    compiled: Any = rnncc.compile(made)
    for size in (parts, 2 * parts - 1, 2 * parts, 7 * parts + 1, 4096 * parts - 1):
        inputs = {"x": np.random.default_rng(size).random((2, size), np.float32)}
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))
