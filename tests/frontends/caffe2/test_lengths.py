"""Operators on parts of which a run tells how long they are, as machine code, sizes left open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError, TrainableModel

import rnncc
from rnncc import CompileError
from rnncc.frontends.caffe2 import import_net
from tests.frontends.caffe2.nets import net, op

LENGTHS = [[2, 0, 3, 1], [0, 0, 6, 0], [1, 2, 3, 0], [6]]
SHAPES = {"x": "S,3", "w": "S", "i": "S", "l": "N", "table": "9,3", "places": "7"}
REDUCED = {
    "LengthsSum": ("x l", lambda x, w, part: x.sum(0)),
    "LengthsMean": ("x l", lambda x, w, part: x.sum(0) / max(1, len(x))),
    "LengthsMax": ("x l", lambda x, w, part: x.max(0) if len(x) else 0 * x.sum(0)),
    "LengthsWeightedSum": ("x w l", lambda x, w, part: (x * w[part, None]).sum(0)),
}


def compiled(ops: list[Any], inputs: str, outputs: str, **options: Any) -> Any:
    """A model whose inputs have the shapes above."""
    made = net(ops, inputs, outputs)
    shapes = {name: SHAPES[name] for name in inputs.split()}
    return rnncc.compile(made, shapes=shapes, **options)


def drawn(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((6, 3), np.float32),
        "w": rng.standard_normal(6, np.float32),
        "i": rng.integers(0, 9, 6).astype(np.int32),
        "table": rng.standard_normal((9, 3), np.float32),
        "places": rng.standard_normal(7, np.float32),
    }


def parts(lengths: list[int]) -> list[slice]:
    ends = np.cumsum(lengths)
    return [slice(end - count, end) for end, count in zip(ends, lengths, strict=True)]


@pytest.mark.parametrize(
    ("kind", "sparse"),
    [(kind, sparse) for kind in REDUCED for sparse in (False, True)[: 1 + (kind != "LengthsMax")]],
)
def test_reductions(kind: str, sparse: bool) -> None:
    inputs, function = REDUCED[kind]
    if sparse:
        inputs = " ".join({"x": "table", "l": "i l"}.get(name, name) for name in inputs.split())
    model = compiled([op(f"Sparse{kind}" if sparse else kind, inputs, "y")], inputs, "y")
    for seed, lengths in enumerate(LENGTHS):
        given = drawn(seed)
        rows = given["table"][given["i"]] if sparse else given["x"]
        want = [function(rows[part], given["w"], part) for part in parts(lengths)]
        given["l"] = np.array(lengths, np.int32)
        got = model.run({name: given[name] for name in inputs.split()})["y"]
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


BAD = [[2, 3], [2, 5], [7, -1], [-1, 7], [2**31 - 1, 7]]


@pytest.mark.parametrize("lengths", BAD)
def test_lengths_that_do_not_fit_make_a_call_fail(lengths: list[int]) -> None:
    ops = [op("PackSegments", "l x", "p", max_length=4), op("UnpackSegments", "l p", "u")]
    ops += [op("LengthsMean", "x l", "y"), op("LengthsTile", "y l", "t")]
    for outputs in ("p", "u", "y", "t"):
        model = compiled(ops, "x l", outputs)
        with pytest.raises(RunError):
            model.run({"x": drawn(0)["x"], "l": np.array(lengths, np.int32)})


def test_a_part_that_is_longer_than_what_is_unpacked_makes_a_call_fail() -> None:
    ops = [op("PackSegments", "l x", "p", max_length=2), op("UnpackSegments", "l p", "u")]
    model = compiled(ops, "x l", "u")
    x = drawn(0)["x"]
    np.testing.assert_array_equal(
        model.run({"x": x, "l": np.array([2, 0, 2, 2], np.int32)})["u"], x
    )
    with pytest.raises(RunError):
        model.run({"x": x, "l": np.array([2, 3, 1], np.int32)})


def test_gradients_through_segments() -> None:
    """Of rows that a loop's layer would read, packed, and sums over what comes back."""
    ops = [op("PackSegments", "l x", "p", max_length=4), op("Tanh", "p", "h")]
    ops += [op("UnpackSegments", "l h", "u"), op("LengthsWeightedSum", "u w l", "y")]
    model = compiled(ops, "x w l", "y", train=True)
    assert isinstance(model, TrainableModel)
    given = drawn(1)
    x, w = given["x"], given["w"]
    outputs, tape = model.forward({"x": x, "w": w, "l": np.array([2, 0, 4], np.int32)})
    slopes = np.random.default_rng(0).standard_normal((3, 3), np.float32)
    grads = model.backward(tape, {"y": slopes})
    rows = slopes[[0, 0, 2, 2, 2, 2]]
    np.testing.assert_allclose(outputs["y"][2], (np.tanh(x) * w[:, None])[2:].sum(0), 1e-5, 1e-6)
    np.testing.assert_allclose(grads["x"], rows * w[:, None] * (1 - np.tanh(x) ** 2), 1e-4, 1e-6)
    np.testing.assert_allclose(grads["w"], (rows * np.tanh(x)).sum(1), 1e-4, 1e-6)


def test_lengths_of_other_totals_are_refused() -> None:
    ops = [op("LengthsSum", "x l", "y"), op("LengthsSum", "z l", "y2")]
    with pytest.raises(CompileError, match="lengths of 5 rows together, of 6"):
        import_net(net(ops, "x z l", "y y2"), shapes={"x": (5, 3), "z": (6, 3), "l": "N"})


def test_weights_by_place() -> None:
    ops = [op("SparseLengthsPositionalWeightedSum", "table places i l", "y")]
    model = compiled(ops, "table places i l", "y")
    given = drawn(4) | {"l": np.array([2, 0, 4], np.int32)}
    rows = given["table"][given["i"]] * given["places"][[0, 1, 0, 1, 2, 3], None]
    want = [rows[part].sum(0) for part in parts([2, 0, 4])]
    given = {name: given[name] for name in ("table", "places", "i", "l")}
    np.testing.assert_allclose(model.run(given)["y"], want, 1e-5, 1e-6)


def test_padded_parts() -> None:
    model = compiled([op("LengthsPad", "x l", "y", target_length=3)], "x l", "y")
    x = drawn(1)["x"]
    for lengths in ([2, 0, 3, 1], [3, 3]):
        y = model.run({"x": x, "l": np.array(lengths, np.int32)})["y"].reshape(-1, 3, 3)
        for rows, part, length in zip(y, parts(lengths), lengths, strict=True):
            np.testing.assert_array_equal(rows[:length], x[part])
            assert (rows[length:] == -1).all()
    for wrong in ([6], [2, 4], [3, 2], [-1, 7]):
        with pytest.raises(RunError, match="outside of its table"):
            model.run({"x": x, "l": np.array(wrong, np.int32)})


@pytest.mark.parametrize(
    ("kind", "inputs", "shapes"),
    [
        ("LengthsWeightedSumGradient", "g w l", {"g": (), "w": (), "l": (1,)}),
        ("RemovePadding", "x l", {"x": (), "l": (2,)}),
        ("GatherPadding", "x l", {"x": (), "l": (2,)}),
        ("LengthsPad", "x l", {"x": (), "l": (1,)}),
    ],
)
def test_data_without_rows(kind: str, inputs: str, shapes: dict[str, tuple[int, ...]]) -> None:
    args = {"target_length": 2} if kind == "LengthsPad" else {}
    with pytest.raises(CompileError, match="without axes, expected rows"):
        import_net(net([op(kind, inputs, "y", **args)], inputs, "y"), shapes=shapes)


def test_segments_below_the_first() -> None:
    fill = net([op("GivenTensorIntFill", "", "i", shape=[2], values=[-1, 0])], "", "")
    made = net([op("SortedSegmentSum", "x i", "y")], "x i", "y")
    with pytest.raises(CompileError, match="do not increase from 0"):
        import_net(made, fill, shapes={"x": (2, 3)})
