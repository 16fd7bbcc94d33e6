"""Operators on parts of which a run tells how long they are, as machine code, sizes left open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Model, RunError, TrainableModel

import rnncc
from rnncc import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
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


def largest(x: Any, lengths: list[int], count: int) -> tuple[Any, Any]:
    """Of each part the largest elements and their places, 0 and -1 behind them."""
    values, places = np.zeros((len(lengths), count)), np.full((len(lengths), count), -1)
    for n, part in enumerate(parts(lengths)):
        order = np.argsort(-x[part], kind="stable")[:count]
        values[n, : len(order)], places[n, : len(order)] = x[part][order], order
    return values, places


@pytest.mark.parametrize("kind", [*REDUCED, "LengthsTopK"])
def test_lengths_of_no_rows(kind: str) -> None:
    """They fit where all are 0."""
    inputs, args = ("w l", {"k": 2}) if kind == "LengthsTopK" else (REDUCED[kind][0], {})
    outputs = "y i" if args else "y"
    model = compiled([op(kind, inputs, outputs, **args)], inputs, "y")
    given = {name: array[:0] for name, array in drawn(0).items() if name in inputs}
    got = model.run(given | {"l": np.zeros(2, np.int32)})["y"]
    np.testing.assert_array_equal(got, np.zeros_like(got))
    for wrong in ([1], [2, 3], [-1, 1]):
        with pytest.raises(RunError):
            model.run(given | {"l": np.array(wrong, np.int32)})


@pytest.mark.parametrize("count", [1, 3, 8])
def test_largest_of_parts(count: int) -> None:
    ops = [op("LengthsTopK", "w l", "y i", k=count)]
    model = compiled(ops, "w l", "y i")
    rng = np.random.default_rng(0)
    for lengths in (*LENGTHS, [], [1] * 6):
        x = rng.integers(-2, 3, sum(lengths)).astype(np.float32)  # some are equal
        got = model.run({"w": x, "l": np.array(lengths, np.int32)})
        for array, want in zip((got["y"], got["i"]), largest(x, lengths, count), strict=True):
            np.testing.assert_array_equal(array, want)
    for wrong in BAD:
        with pytest.raises(RunError):
            model.run({"w": drawn(0)["w"], "l": np.array(wrong, np.int32)})


def test_gradients_of_the_largest_of_parts() -> None:
    """Caffe2's operator gives the one that training does."""
    ops = [op("LengthsTopK", "w l", "y i", k=2)]
    both = [*ops, op("LengthsTopKGradient", "l i g", "dw", k=2)]
    shapes = {"w": "S", "l": "N", "g": "N,2"}
    w, lengths = drawn(3)["w"], np.array([3, 0, 1, 2], np.int32)
    g = np.random.default_rng(1).standard_normal((4, 2), np.float32)
    trained = compiled(ops, "w l", "y", train=True)
    _, tape = trained.forward({"w": w, "l": lengths})
    grad = trained.backward(tape, {"y": g})["w"]
    made = rnncc.compile(net(both, "w l g", "y dw"), shapes=shapes)
    assert isinstance(made, Model)
    np.testing.assert_array_equal(made.run({"w": w, "l": lengths, "g": g})["dw"], grad)
    for n in range(6):  # by finite differences
        moved = [largest(w + d * (np.arange(6) == n), [3, 0, 1, 2], 2)[0] for d in (-1e-3, 1e-3)]
        np.testing.assert_allclose(((moved[1] - moved[0]) * g).sum() / 2e-3, grad[n], 1e-3, 1e-5)


def test_steps_that_an_input_tells() -> None:
    """They are as many as the longest part has rows, or the call fails."""
    ops = [
        op("PackRNNSequence", "x l", "p"),
        op("Mul", "p z", "y"),
        op("UnpackRNNSequence", "y l", "u"),
    ]
    model = rnncc.compile(net(ops, "x z l", "y u"), shapes={"x": "S,3", "z": "T,N,3"})
    assert isinstance(model, Model)
    x = drawn(2)["x"]
    for lengths, steps in (([2, 0, 3, 1], 3), ([6], 6), ([3, 3], 3), ([2, 4], 5), ([2, 4], 3)):
        z = np.random.default_rng(5).standard_normal((steps, len(lengths), 3), np.float32)
        given = {"x": x, "z": z, "l": np.array(lengths, np.int32)}
        if steps != max(lengths):
            with pytest.raises(RunError):
                model.run(given)
            continue
        got = model.run(given)
        rows = [x[part] * z[: part.stop - part.start, n] for n, part in enumerate(parts(lengths))]
        np.testing.assert_array_equal(got["u"], np.concatenate(rows))
        inside = np.arange(steps)[:, None] < np.array(lengths)
        assert not got["y"][~inside].any()


def test_a_size_of_a_loop_that_no_input_tells() -> None:
    """Though the loop shows that it is time."""
    step = net([op("Add", "h_t x_t", "h_n")], "h_t x_t", "h_n")
    links = {
        "recurrent_states": ["h"],
        "initial_recurrent_state_ids": [1],
        "link_internal": ["h_t", "h_n", "x_t"],
        "link_external": ["h", "h", "p"],
        "link_offset": [0, 1, 0],
        "alias_src": ["h"],
        "alias_dst": ["hs"],
        "alias_offset": [1],
    }
    ops = [
        op("PackRNNSequence", "x l", "p"),
        op("RecurrentNetwork", "p h0", "hs w", step_net=step, **links),
    ]
    ops += [op("UnpackRNNSequence", "hs l", "u")]
    with pytest.raises(CompileError, match=r'shape of "p" cannot be inferred .an input with as'):
        import_net(net(ops, "x l h0", "u"), shapes={"x": "S,3", "h0": "1,N,3"})


def test_parts_by_number() -> None:
    """With lengths that are sizes, too."""
    fill = net([op("GivenTensorIntFill", "", "i", shape=[3], values=[2, 0, 2])], "", "")
    ops = [
        op("Shape", "z", "long"),
        op("Cast", "long", "l", to=2),
        op("LengthsGather", "x l i", "y"),
    ]
    program = import_net(net(ops, "x z", "y"), fill, shapes={"z": "A,3,2", "x": "A + 5,2"})
    x = np.arange(18, dtype=np.float32).reshape(9, 2)
    got = run(program, {"x": x, "z": np.zeros((4, 3, 2), np.float32)})["y"]
    np.testing.assert_array_equal(got, np.concatenate([x[7:], x[:4], x[7:]]))


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
