"""Places and orders of numbers among which there are NaNs: always places that there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import ArrayError

import rnncc
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import info, interpreted, model, node

NAN, INF = np.nan, np.inf
KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
X = np.array([[1, NAN, 3, NAN], [NAN] * 4, [-INF, INF, INF, -INF], [2, 2, 0, 2]], np.float32)


def both(made: Any) -> list[dict[str, Any]]:
    """By the interpreter and by machine code."""
    return [interpreted(made, {"x": X}), rnncc.compile(made.SerializeToString()).run({"x": X})]


@pytest.mark.parametrize(("kind", "numpy"), [("ArgMax", np.argmax), ("ArgMin", np.argmin)])
def test_the_first_nan_is_the_extremum(kind: str, numpy: Any) -> None:
    made = model([node(kind, "x", "y", axis=1, keepdims=0)], [info("x", [4, 4])], [info("y", None)])
    for outputs in both(made):
        np.testing.assert_array_equal(outputs["y"], numpy(X, 1))


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_sorted_as_the_largest(largest: int) -> None:
    top = node("TopK", "x k", "y i", axis=1, largest=largest)
    outputs = [info("y", None), info("i", None, "i64")]
    made = model([top], [info("x", [4, 4])], outputs, {"k": np.array([3])})
    number = np.isnan(X)
    keys = (np.where(number, 0, -X), ~number) if largest else (np.where(number, 0, X), number)
    order = np.lexsort(keys, axis=1)
    for results in both(made):
        np.testing.assert_array_equal(results["i"], order[:, :3])
        np.testing.assert_array_equal(results["y"], np.take_along_axis(X, order[:, :3], 1))


def of_kind(dtype: str, *dims: int) -> np.ndarray[Any, Any]:
    """Few numbers, and limits of the type, at random places."""
    kind, rng = np.dtype(KINDS[dtype]), np.random.default_rng(0)
    rows = rng.integers(-9, 9, dims).astype(kind)
    if kind.kind == "f":
        ends: list[Any] = [0.0, -0.0, NAN, INF, -INF, -np.finfo(kind).smallest_subnormal]
    else:
        ends = [np.iinfo(kind).min, np.iinfo(kind).max, np.iinfo(kind).min + 1]
    where = rng.random(dims) < 0.2
    rows[where] = rng.choice(np.array(ends, kind), where.sum())
    return rows


def in_order(rows: np.ndarray[Any, Any], axis: int, largest: int) -> np.ndarray[Any, Any]:
    """The places of the elements in order, of equal ones the earlier first."""
    if not largest:
        return np.argsort(rows, axis, kind="stable")
    backwards = np.argsort(np.flip(rows, axis), axis, kind="stable")
    return rows.shape[axis] - 1 - np.flip(backwards, axis)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("axis", "count"),
    [
        (5000, 3),
        (90, 40),
        ("T", 40),
        (24, 23),
        (12, 12),
        ("T", 90),
        (130, 130),
        (1000, 50),
        (128, 3),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_the_first_of_many(dtype: str, axis: int | str, count: int, largest: int) -> None:
    """Equal ones in the order of their places, limits of the type and both zeros among them."""
    size = 90 if isinstance(axis, str) else axis
    rows = of_kind(dtype, 2, size, 3)
    top = node("TopK", "x k", "y i", axis=1, largest=largest)
    outputs = [info("y", None, dtype), info("i", None, "i64")]
    made = model([top], [info("x", ["N", axis, 3], dtype)], outputs, {"k": np.array([count])})
    order = in_order(rows, 1, largest)[:, :count]
    for results in (interpreted(made, {"x": rows}), rnncc.compile(made).run({"x": rows})):
        np.testing.assert_array_equal(results["i"], order)
        np.testing.assert_array_equal(results["y"], np.take_along_axis(rows, order, 1))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", list(KINDS))
def test_half_of_an_open_axis_in_blocks(dtype: str, largest: int) -> None:
    """Of less than a block, of several, of whole ones; none at all."""
    nodes = [
        node("Shape", "x", "size", start=1, end=2),
        node("Div", "size two", "k"),
        node("TopK", "x k", "y i", axis=1, largest=largest),
    ]
    outputs = [info("y", None, dtype), info("i", None, "i64")]
    made = model(nodes, [info("x", ["N", "S"], dtype)], outputs, {"two": np.array([2])})
    compiled = rnncc.compile(made)
    for size in (1, 2, 16, 17, 64, 300):
        rows = of_kind(dtype, 3, size)
        order = in_order(rows, 1, largest)[:, : size // 2]
        for results in (interpreted(made, {"x": rows}), compiled.run({"x": rows})):
            np.testing.assert_array_equal(results["i"], order)
            np.testing.assert_array_equal(results["y"], np.take_along_axis(rows, order, 1))


@pytest.mark.parametrize("size", [0, 1, 5, 128])
def test_a_known_axis_by_an_open_number(size: int) -> None:
    """None of them among the numbers."""
    nodes = [node("Shape", "q", "k"), node("TopK", "x k", "y i", axis=1)]
    inputs = [info("x", [2, size]), info("q", ["Q"])]
    outputs = [info("y", None), info("i", None, "i64")]
    compiled = rnncc.compile(model(nodes, inputs, outputs))
    rows = of_kind("f32", 2, size)
    for count in {0, size // 2, size}:
        order = in_order(rows, 1, 1)[:, :count]
        results = compiled.run({"x": rows, "q": np.zeros(count, np.float32)})
        np.testing.assert_array_equal(results["i"], order)
        np.testing.assert_array_equal(results["y"], np.take_along_axis(rows, order, 1))
    with pytest.raises(ArrayError):
        compiled.run({"x": rows, "q": np.zeros(size + 1, np.float32)})


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_zeros_keep_their_signs(dtype: str) -> None:
    """Those of elements that are compared each with each, too."""
    rows = np.array([[-0.0, 1, 0.0], [0.0, -0.0, -1]], KINDS[dtype])
    outputs = [info("y", None, dtype), info("i", None, "i64")]
    top = node("TopK", "x k", "y i")
    made = model([top], [info("x", [2, 3], dtype)], outputs, {"k": np.array([3])})
    for results in (interpreted(made, {"x": rows}), rnncc.compile(made).run({"x": rows})):
        np.testing.assert_array_equal(
            np.signbit(results["y"]), [[False, True, False], [False, True, True]]
        )


def test_an_open_axis_takes_no_room_for_each_with_each() -> None:
    """A call with few compares them; what it keeps grows with the elements."""
    nodes = [node("Shape", "x", "k", start=1, end=2), node("TopK", "x k", "y i", axis=1)]
    outputs = [info("y", None), info("i", None, "i64")]
    made = model(nodes, [info("x", ["N", "S"])], outputs)
    text = str(import_model(made.SerializeToString()).module)
    assert "rnn.scan" in text
    assert '"S", "S"' in text
    workspace = rnncc.compile(made).metadata["workspace"]
    assert "N*S" in workspace
    assert "S*S" not in workspace
    assert "S^2" not in workspace


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64"])
@pytest.mark.parametrize(
    ("shape", "axis"), [("T", 0), ("N T", 1), ("T N", 0), ("T N", 1), ("T N F", 2), ("N F T", 1)]
)
def test_all_of_an_open_axis(shape: str, axis: int, dtype: str) -> None:
    """Of equal ones, both zeros among them, the earlier first."""
    sizes = shape.split()
    nodes = [
        node("Shape", "x", "k", start=axis, end=axis + 1),
        node("TopK", "x k", "y i", axis=axis, largest=0),
    ]
    outputs = [info("y", None, dtype), info("i", None, "i64")]
    compiled = rnncc.compile(model(nodes, [info("x", sizes, dtype)], outputs))
    for given in ({"T": 7, "N": 2, "F": 5}, {"T": 1, "N": 3, "F": 1}):
        dims = [given[size] for size in sizes]
        x = np.random.default_rng(0).integers(-3, 3, dims).astype(KINDS[dtype])
        x = np.where(x == 1, -0.0, x).astype(x.dtype)
        order = np.argsort(x, axis, kind="stable")
        got = compiled.run({"x": x})
        np.testing.assert_array_equal(got["i"], order)
        want = np.take_along_axis(x, order, axis)
        np.testing.assert_array_equal(got["y"], want)
        np.testing.assert_array_equal(np.signbit(got["y"]), np.signbit(want))


@pytest.mark.parametrize("shape", ["T N F", "N F"])
def test_gradients_of_all_of_an_open_axis(shape: str) -> None:
    """Each goes to its element, infinite ones and zeros of both signs among them."""
    sizes = shape.split()
    axis = len(sizes) - 1
    nodes = [node("Shape", "x", "k", start=axis), node("TopK", "x k", "y i", axis=axis)]
    compiled: Any = rnncc.compile(model(nodes, [info("x", sizes)], [info("y", None)]), train=True)
    x = np.array([[3, -np.inf, 0, -0.0, np.inf, -np.inf], [1, 2, np.nan, 5, -2, 7]], np.float32)
    x = x.reshape([1, 2, 6][-len(sizes) :])
    _, tape = compiled.forward({"x": x})
    slopes = np.arange(1, 13, dtype=np.float32).reshape(x.shape)
    want = np.zeros_like(x)
    np.put_along_axis(want, in_order(x, axis, 1), slopes, axis)
    np.testing.assert_array_equal(compiled.backward(tape, {"y": slopes})["x"], want)


def test_a_stream_sorts_each_step() -> None:
    nodes = [node("Shape", "x", "k", start=2, end=3), node("TopK", "x k", "y i", axis=2)]
    outputs = [info("y", None), info("i", None, "i64")]
    compiled: Any = rnncc.compile(model(nodes, [info("x", ["T", "N", "F"])], outputs))
    x = np.random.default_rng(0).integers(-3, 3, (3, 2, 8)).astype(np.float32)
    want, stream = compiled.run({"x": x}), compiled.stream(batch=2)
    for step, rows in enumerate(x):
        np.testing.assert_array_equal(stream.step({"x": rows})["i"], want["i"][step])


def test_as_many_as_an_open_axis_has() -> None:
    made = model(
        [node("TopK", "x k", "y i")],
        [info("x", ["T"])],
        [info("y", None), info("i", None, "i64")],
        {"k": np.array([2])},
    )
    compiled: Any = rnncc.compile(made)
    assert compiled.run({"x": np.array([1, 3, 2], np.float32)})["i"].tolist() == [1, 2]
    with pytest.raises(ArrayError, match="a size T - 2 would be -1"):
        compiled.run({"x": np.ones(1, np.float32)})
