"""Lists of tensors and optional values: against ONNX Runtime, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper

import rnncc
from rnncc import onnx_backend
from rnncc.errors import CompileError
from tests.frontends.onnx.list_models import PLACES, assert_same, check, choice
from tests.frontends.onnx.models import (
    by_onnxruntime,
    graph,
    imported,
    info,
    interpreted,
    model,
    node,
    random_models,
)
from tests.frontends.onnx.random_lists import list_info, list_models

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.peers
@random_models
@given(list_models())
def test_random_compositions(case: tuple[Any, dict[str, Any]]) -> None:
    check(*case)


@pytest.mark.peers
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("equal", [True, False])
def test_if_on_lists(taken: bool, equal: bool) -> None:
    """Of equal lengths the program has both branches, else the back end compiles one."""
    one = [node("Exp", "x", "p"), node("SequenceConstruct", "p x", "a")]
    more = "x x" if equal else "x x x"
    chosen = choice(one, [node("SequenceConstruct", more, "b")])
    made = model([chosen], [info("x", [4, 3]), info("c", [], "i1")], [list_info("y")])
    check(made, {"x": X / 4, "c": np.array(taken)})
    if equal:
        assert "rnn.scan" in str(imported(made).module)


def test_outputs_of_a_compiled_list(tmp_path: Path) -> None:
    """They have names of their own, legal in C."""
    nodes = [node("SplitToSequence", "x two", "y", axis=0)]
    made = model(nodes, [info("x", [4, 3])], [list_info("y")], {"two": np.array(2)})
    found = rnncc.compile(made).run({"x": X})
    assert list(found) == ["y.0", "y.1"]
    np.testing.assert_array_equal(np.concatenate([*found.values()]), X)
    rnncc.build(made, out=tmp_path, name="parts")
    assert "float *y_0;" in (tmp_path / "parts.h").read_text()


def test_lists_of_other_lengths_are_compiled_anew() -> None:
    nodes = [node("ConcatFromSequence", "s", "y", axis=0), node("SequenceAt", "s last", "z")]
    outputs = [info("y", None), info("z", None)]
    prepared = onnx_backend.prepare(model(nodes, [list_info("s")], outputs, PLACES))
    for parts in ([X], [X, X[:1]], [X[:1], X], [X]):
        y, z = prepared.run([parts])
        np.testing.assert_array_equal(y, np.concatenate(parts))
        np.testing.assert_array_equal(z, parts[-1])


def test_sizes_beside_a_list_are_numbers() -> None:
    """Of one name in the file, they need not be of one symbol."""
    listed = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["N"])
    nodes = [node("SequenceAt", "s one", "a"), node("Add", "a x", "y")]
    made = model(nodes, [listed, info("x", ["N"])], [info("y", None)], PLACES)
    (y,) = onnx_backend.run_model(made, [[X[0, :2], X[1]], X[2]])
    np.testing.assert_array_equal(y, X[1] + X[2])


def test_elements_that_decide_a_shape_are_constants() -> None:
    sizes = helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None)
    nodes = [node("SequenceAt", "s zero", "k"), node("Reshape", "x k", "y")]
    prepared = onnx_backend.prepare(
        model(nodes, [info("x", ["N"]), sizes], [info("y", None)], PLACES)
    )
    for shape in ([3, 4], [2, 6], [12]):
        (y,) = prepared.run([X.reshape(-1), [np.array(shape)]])
        np.testing.assert_array_equal(y, X.reshape(shape))


def test_if_on_empty_lists() -> None:
    chosen = choice([node("SequenceEmpty", "", "a")], [node("SequenceEmpty", "", "b")])
    nodes = [chosen, node("SequenceLength", "y", "n")]
    made = model(nodes, [info("c", [], "i1")], [info("n", None, "i64")])
    assert interpreted(made, {"c": np.array(True)})["n"] == 0


def test_optional_values() -> None:
    type_ = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    then = graph([node("OptionalGetElement", "o", "a")], [], [info("a", None)])
    nodes = [
        node("OptionalHasElement", "o", "has"),
        node("If", "has", "y", then_branch=then, else_branch=graph([], [], [info("x", None)])),
        node("Identity", "o", "same"),
    ]
    inputs = [info("x", [4, 3]), helper.make_value_info("o", type_)]
    made = model(nodes, inputs, [info("y", None), helper.make_value_info("same", type_)], opset=18)
    prepared = onnx_backend.prepare(made)
    for element in (None, X[:2], np.float32(3), None):
        y, same = prepared.run([X, element])
        np.testing.assert_array_equal(y, X if element is None else element)
        assert same is None if element is None else (same == element).all()


@pytest.mark.peers
@pytest.mark.parametrize("name", ["first", "last", "last but one more", "chunks"])
def test_lists_of_open_length(name: str) -> None:
    """Elements are taken from their ends; a graph runs for each."""
    rows = node("SplitToSequence", "x", "s", axis=1)
    if name == "chunks":
        rows = node("SplitToSequence", "x three", "s", axis=1)
    taken = {
        "first": [rows, node("SequenceErase", "s zero", "t")],
        "last": [rows, node("SequenceErase", "s", "t")],
        "last but one more": [
            *(rows, node("SequenceInsert", "s x", "u"), node("SequenceErase", "u last", "t"))
        ],
        "chunks": [rows, node("SequenceLength", "s", "k")],
    }
    of_each = graph([node("Exp", "a", "b"), node("Add", "b x1", "e")], [], [info("e", None)])
    of_each.input.append(info("a", None))
    each = node("SequenceMap", "s" if name == "chunks" else "t", "m", body=of_each)
    nodes = [node("ReduceMax", "x", "x1", axes=[1]), *taken[name], each]
    nodes.append(node("ConcatFromSequence", "m", "y", axis=1))
    constants = {**PLACES, "three": np.array(3)}
    made = model(nodes, [info("x", ["N", "T"])], [info("y", None)], constants, opset=17)
    compiled: Any = rnncc.compile(made)
    for x in (X, X[:2, :2], np.tile(X, 2)[:, :5]):
        got = compiled.run({"x": np.ascontiguousarray(x) / 12})["y"]
        assert_same(got, by_onnxruntime(made, {"x": x / 12})["y"])


def test_one_node() -> None:
    made = node("SequenceInsert", "s x p", "y")
    (y,) = onnx_backend.run_node(made, [[X, X[:1]], X[1:], np.array(1)])
    assert_same(y, [X, X[1:], X[:1]])


def test_empty_and_nothing_alone() -> None:
    made = model([node("SequenceEmpty", "", "y")], [info("x", [3])], [list_info("y")])
    assert onnx_backend.run_model(made, [X[0]]) == ([],)
    with pytest.raises(CompileError, match="has outputs that are empty lists or nothing"):
        rnncc.compile(made)
