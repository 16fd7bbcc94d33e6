"""Places outside of tensors, and results that the standard fixes to the element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from rnncc_runtime import ArrayError, RunError

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    info,
    interpreted,
    model,
    node,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def over_x(op: str, inputs: str, extra: dict[str, Any], fixed: bool, **attributes: Any) -> Any:
    """A node over x [2, 3] whose other inputs are constants, or inputs too."""
    names = {np.dtype(np.int64): "i64", np.dtype(np.float32): "f32"}
    given = [] if fixed else [info(n, a.shape, names[a.dtype]) for n, a in extra.items()]
    nodes = [node(op, inputs, "y", **attributes)]
    return model(nodes, [info("x", [2, 3]), *given], [info("y", None)], extra if fixed else {})


OUTSIDE: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "GatherND in another row": ("GatherND", "x i", {"i": np.array([[0, 4]])}, {}),
    "GatherND before the first": ("GatherND", "x i", {"i": np.array([[1, -4]])}, {}),
    "GatherElements in another row": ("GatherElements", "x i", {"i": np.array([[2, 0, 0]])}, {}),
    "GatherElements along rows": ("GatherElements", "x i", {"i": np.array([[3]])}, {"axis": 1}),
    "ScatterElements": (
        "ScatterElements",
        "x i u",
        {"i": np.array([[2, 0, 0]]), "u": np.ones((1, 3), np.float32)},
        {},
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_places_outside_are_errors(name: str) -> None:
    op, inputs, extra, attributes = OUTSIDE[name]
    computed = over_x(op, inputs, extra, False, **attributes)
    compiled: Any = rnncc.compile(computed)
    with pytest.raises(RunError, match="an index is outside of its table"):
        compiled.run({"x": X, **extra})
    with pytest.raises(ValueError, match="an index outside"):
        interpreted(computed, {"x": X, **extra})
    try:  # known ones are found at import, or when the model runs
        known: Any = rnncc.compile(over_x(op, inputs, extra, True, **attributes))
    except CompileError as error:
        assert f"node 'y' ({op}): has an index outside of" in str(error)
    else:
        with pytest.raises(RunError, match="an index is outside of its table"):
            known.run({"x": X})


@pytest.mark.peers
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_products_at_places(op: str) -> None:
    """Several factors for one place; open sizes of data and places; errors of places outside."""
    deep = op == "ScatterND"
    inputs = [
        info("x", ["T", 3]),
        info("i", ["K", 1 if deep else 3], "i64"),
        info("u", ["K", 3]),
    ]
    made = model([node(op, "x i u", "y", reduction="mul")], inputs, [info("y", None)])
    compiled: Any = rnncc.compile(made)
    rng = np.random.default_rng(0)
    for rows, count in ((4, 3), (9, 7)):
        x, u = (rng.standard_normal((n, 3)).astype(np.float32) for n in (rows, count))
        i = rng.integers(-2, 2, (count, 1 if deep else 3))
        given = {"x": x, "i": i, "u": u}
        want = by_onnxruntime(made, given)
        assert_close(compiled.run(given), want)
        assert_close(interpreted(made, given), want)
        with pytest.raises(RunError, match="an index is outside of its table"):
            compiled.run({**given, "i": i + 2 * rows})


@pytest.mark.peers
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [1, -2, 3])
def test_rows_written_into_caches(mode: str, axis: int) -> None:
    """At places by the batch, all other sizes open; behind the end an error, or at its start."""
    sizes: list[int | str] = ["B", "H", "M", 2]
    sizes[axis] = 5
    update = [*sizes]
    update[axis] = 3
    inputs = [info("x", sizes), info("u", update), info("i", ["B"], "i64")]
    nodes = [node("TensorScatter", "x u i", "y", axis=axis, mode=mode)]
    made = model(nodes, inputs, [info("y", None)], opset=24)
    compiled: Any = rnncc.compile(made)
    rng = np.random.default_rng(0)
    for known in ({"B": 1, "H": 2, "M": 3}, {"B": 3, "H": 4, "M": 6}):
        shapes = ([known[s] if isinstance(s, str) else s for s in each] for each in (sizes, update))
        x, u = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
        ends = np.arange(known["B"]) % 3 if mode == "linear" else np.arange(known["B"]) + 3
        given = {"x": x, "u": u, "i": ends}
        want = by_onnxruntime(made, given)["y"]
        np.testing.assert_array_equal(compiled.run(given)["y"], want)
    if mode == "linear":
        with pytest.raises(RunError, match="an index is outside of its table"):
            compiled.run({**given, "i": ends + 3})


def test_rows_that_do_not_fit_a_cache_are_refused() -> None:
    nodes = [node("TensorScatter", "x u", "y")]
    made = [
        model(nodes, [info("x", ["B", 5, 2]), info("u", update)], [info("y", None)], opset=24)
        for update in (["B", 6, 2], ["B", "S", 2])
    ]
    with pytest.raises(CompileError, match="along axis 1"):
        import_model(made[0])
    given = {"x": np.zeros((2, 5, 2), np.float32), "u": np.ones((2, 6, 2), np.float32)}
    compiled: Any = rnncc.compile(made[1])
    assert compiled.run({**given, "u": given["u"][:, :3].copy()})["y"].sum() == 12
    with pytest.raises(ArrayError, match="would be -1"):
        compiled.run(given)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
@pytest.mark.parametrize("rows", [2, "M"])
def test_indices_of_fewer_rows_than_data_of_open_size(op: str, rows: int | str) -> None:
    """The calls whose data have fewer are refused; in a branch that may not be taken, the model."""
    inputs = [info("x", ["N", 5]), info("i", [rows, 3], "i64"), info("u", [rows, 3])]
    chosen = node(op, "x i" if op == "GatherElements" else "x i u", "y", axis=1)
    made = model([chosen], inputs, [info("y", None)], opset=18)
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"x": rng.random((4, 5), np.float32)}
    given["u"] = rng.random((2, 3), np.float32)
    given["i"] = np.stack([rng.permutation(5)[:3] for _ in range(2)])
    compiled: Any = rnncc.compile(made)
    np.testing.assert_array_equal(compiled.run(given)["y"], by_onnxruntime(made, given)["y"])
    with pytest.raises(ArrayError, match="would be -1"):
        compiled.run({**given, "x": given["x"][:1]})
    branches = {
        f"{name}_branch": helper.make_graph([branch], name, [], [info("y", None)])
        for name, branch in (("then", chosen), ("else", node("Identity", "x", "y")))
    }
    nodes = [node("If", "c", "z", **branches)]
    inputs.append(info("c", [], "i1"))
    with pytest.raises(CompileError, match="may be larger than N"):
        import_model(model(nodes, inputs, [info("z", None)], opset=18))


MEL = "filters length rate low high"


def mel(*numbers: float) -> Any:
    """A filter bank of constants beside a model's input."""
    kinds = (np.int64, np.int64, np.int64, np.float32, np.float32)
    given = zip(MEL.split(), numbers, kinds, strict=True)
    constants = {name: np.array(number, kind) for name, number, kind in given}
    nodes = [node("MelWeightMatrix", MEL, "m"), node("MatMul", "x m", "y")]
    inputs = [info("x", ["T", int(numbers[1]) // 2 + 1])]
    return model(nodes, inputs, [info("y", None)], constants)


@pytest.mark.peers
@pytest.mark.parametrize(
    "numbers", [(8, 16, 8192, 0, 4096), (40, 512, 16000, 20, 7600), (128, 2048, 44100, 0, 22050)]
)
def test_mel_filters(numbers: tuple[float, ...]) -> None:
    """Several filters within one bin among them."""
    made = mel(*numbers)
    for rows in (1, 3):
        x = np.random.default_rng(rows).standard_normal((rows, int(numbers[1]) // 2 + 1))
        given = {"x": x.astype(np.float32)}
        assert_close(interpreted(made, given), by_onnxruntime(made, given))


def test_mel_filters_that_are_refused() -> None:
    with pytest.raises(CompileError, match="has an edge at bin 23 of 9, beyond the last"):
        import_model(mel(8, 16, 8192, 0, 16000))
    with pytest.raises(CompileError, match="has 8 filters of 16 elements at 0 Hz"):
        import_model(mel(8, 16, 0, 0, 4096))


def test_slopes_of_products_at_places() -> None:
    """y = x0 * u0 * u1 at row 0, beside x1: each slope is the product of the others."""
    inputs = [info("x", [2, 1]), info("u", [2, 1])]
    nodes = [node("ScatterND", "x i u", "y", reduction="mul")]
    made = model(nodes, inputs, [info("y", None)], {"i": np.zeros((2, 1), np.int64)})
    trained: Any = rnncc.compile(made, train=True)
    x, u = (np.array(numbers, np.float32) for numbers in ([[2], [3]], [[5], [7]]))
    y, tape = trained.forward({"x": x, "u": u})
    np.testing.assert_array_equal(y["y"], [[70], [3]])
    grads = trained.backward(tape, {"y": np.ones((2, 1), np.float32)})
    np.testing.assert_array_equal(grads["x"], [[35], [1]])
    np.testing.assert_array_equal(grads["u"], [[14], [10]])


MISFITS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], str]] = {
    "batch of another size": (
        *("GatherND", "x i", {"i": np.zeros((3, 1), np.int64)}, {"batch_dims": 1}),
        "attribute 'batch_dims' = 1 for data 2 x 3 and indices 3 x 1",
    ),
    "no axis behind the batch": (
        *("GatherND", "x i", {"i": np.zeros(1, np.int64)}, {"batch_dims": 1}),
        "attribute 'batch_dims' = 1 for data 2 x 3 and indices 1",
    ),
    "places of too many axes": (
        *("GatherND", "x i", {"i": np.zeros((1, 3), np.int64)}, {}),
        "has indices 1 x 3 for data 2 x 3, of which 2 axes can be counted",
    ),
    "indices larger than the data": (
        "ScatterElements",
        "x i u",
        {"i": np.zeros((3, 3), np.int64), "u": np.zeros((3, 3), np.float32)},
        {"axis": 1},
        "has indices of shape 3 x 3 for data 2 x 3 along axis 1",
    ),
    "updates of another shape": (
        "ScatterElements",
        "x i u",
        {"i": np.zeros((1, 2), np.int64), "u": np.zeros((2, 1), np.float32)},
        {},
        "has updates of shape 2 x 1, expected 1 x 2",
    ),
    "updates turned": (
        "ScatterND",
        "x i u",
        {"i": np.zeros((1, 1), np.int64), "u": np.zeros((3, 1), np.float32)},
        {},
        "has updates of shape 3 x 1, expected 1 x 3",
    ),
}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("name", MISFITS)
def test_indices_that_do_not_fit(name: str, fixed: bool) -> None:
    op, inputs, extra, attributes, message = MISFITS[name]
    if op == "ScatterND" and not fixed:
        pytest.skip("its places are constants")
    with pytest.raises(CompileError) as caught:
        import_model(over_x(op, inputs, extra, fixed, **attributes))
    assert str(caught.value) == f"<model>: node 'y' ({op}): {message}"


def test_batches_of_places() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    places = np.array([[1], [0]])
    nodes = [node("GatherND", "x i", "y", batch_dims=1)]
    made = model(nodes, [info("x", [2, 2, 2])], [info("y", None)], {"i": places})
    np.testing.assert_array_equal(interpreted(made, {"x": x})["y"], [[2, 3], [4, 5]])


def test_the_larger_half_of_an_odd_padding_is_in_front() -> None:
    x = np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)
    w = np.array([[[1, 10, 100]]], np.float32)
    for auto, start in (("NOTSET", [203, 30, 304]), ("SAME_UPPER", [20, 203, 30])):
        attributes = {"strides": [2], "output_shape": [8], "auto_pad": auto}
        nodes = [node("ConvTranspose", "x w", "y", **attributes)]
        made = model(nodes, [info("x", [1, 1, 7])], [info("y", None)], {"w": w})
        np.testing.assert_array_equal(interpreted(made, {"x": x})["y"][0, 0, :3], start)


def test_a_slice_backwards_from_before_the_first_takes_it() -> None:
    limits = {"s": [-5], "e": [-5], "a": [0], "t": [-1]}
    extra = {name: np.array(values) for name, values in limits.items()}
    made = over_x("Slice", "x s e a t", extra, True)
    np.testing.assert_array_equal(interpreted(made, {"x": X})["y"], X[:1])


def test_a_mean_never_counts_what_is_behind_the_pads() -> None:
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 0, 0]}
    nodes = [node("AveragePool", "x", "y", count_include_pad=1, ceil_mode=1, **attributes)]
    made = model(nodes, [info("x", [1, 1, 5, 4])], [info("y", None)])
    y = interpreted(made, {"x": np.ones((1, 1, 5, 4), np.float32)})["y"]
    assert y[0, 0, 2].tolist() == [0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("count", [0, 2])
def test_an_open_number_of_updates_may_be_none(count: int) -> None:
    made = model(
        [node("ScatterND", "x i u", "y")],
        [info("x", [2, 3]), info("i", ["K", 1], "i64"), info("u", ["K", 3])],
        [info("y", None)],
    )
    inputs = {"x": X, "i": np.zeros((count, 1), np.int64), "u": np.ones((count, 3), np.float32)}
    assert_close(rnncc.compile(made).run(inputs), by_onnxruntime(made, inputs))


@pytest.mark.parametrize("k", [-(1 << 63), -(1 << 31), 1 << 31, (1 << 63) - 1])
def test_a_diagonal_beyond_any_matrix_is_empty(k: int) -> None:
    nodes = [node("EyeLike", "x", "y", k=k), node("Trilu", "x k", "z", upper=int(k > 0))]
    made = model(
        nodes, [info("x", [2, 3])], [info(name, None) for name in "yz"], {"k": np.array(k)}
    )
    for result in rnncc.compile(made).run({"x": X}).values():
        np.testing.assert_array_equal(result, np.zeros((2, 3)))
