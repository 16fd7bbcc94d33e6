"""Slices whose bounds the run decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import assert_close, by_onnxruntime, info, interpreted, model, node
from tests.frontends.onnx.partial_rows import compared

TABLE = np.arange(24, dtype=np.float32).reshape(12, 2)
AXES: dict[str, Any] = {"zero": np.array([0]), "one": np.array(1), "four": np.array([4])}
AXES |= {f"{name}32": np.array([n], np.int32) for name, n in (("zero", 0), ("four", 4))}
AXES["huge32"] = np.array([(1 << 31) - 1], np.int32)


def positions() -> Any:
    """As exported of `x + table[at : at + x.size(0)]`."""
    nodes = [
        node("Shape", "x", "shape", start=0, end=1),
        node("Squeeze", "shape zero", "steps"),
        node("Gather", "at zero", "start", axis=0),
        node("Squeeze", "start zero", "from"),
        node("Add", "from steps", "to"),
        node("Unsqueeze", "from zero", "begin"),
        node("Unsqueeze", "to zero", "end"),
        node("Slice", "table begin end zero", "rows"),
        node("Add", "x rows", "y"),
    ]
    return _model(nodes, [info("x", ["T", 2]), info("at", [1], "i64")])


def window() -> Any:
    """Four rows before a computed end, both bounds out of one vector."""
    nodes = [
        node("Cast", "at", "last", to=7),
        node("Sub", "last four", "first"),
        node("Slice", "table first last zero", "y"),
    ]
    return _model(nodes, [info("at", [1], "i32")])


def of_two() -> Any:
    """Bounds that are parts of vectors."""
    nodes = [
        node("Add", "at four", "to"),
        node("Concat", "zero at", "starts", axis=0),
        node("Concat", "four to", "ends", axis=0),
        node("Slice", "x starts ends", "y"),
    ]
    return _model(nodes, [info("x", [5, "T"]), info("at", [1], "i64")])


def apart() -> Any:
    """In steps of four rows."""
    nodes = [node("Slice", "table at to zero four", "y")]
    return _model(nodes, [info("at", [1], "i64"), info("to", [1], "i64")])


def only() -> Any:
    """One row by bounds of 32 bits and a step beyond all rows, as TensorFlow writes it."""
    nodes = [
        node("Add", "at four32", "to"),
        node("Slice", "table at to zero32 huge32", "y"),
    ]
    return _model(nodes, [info("at", [1], "i32")])


def _model(nodes: list[Any], inputs: list[Any]) -> Any:
    return model(nodes, inputs, [info("y", None)], {"table": TABLE, **AXES})


def _at(value: int, kind: type = np.int64) -> Any:
    return np.array([value], kind)


def _x(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


CASES = {
    "first": (positions(), {"x": _x(5, 2), "at": _at(0)}),
    "last": (positions(), {"x": _x(5, 2), "at": _at(7)}),
    "one": (positions(), {"x": _x(1, 2), "at": _at(11)}),
    "window": (window(), {"at": _at(6, np.int32)}),
    "only": (only(), {"at": _at(6, np.int32)}),
    "parts": (of_two(), {"x": _x(5, 9), "at": _at(3)}),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    made, inputs = CASES[name]
    assert_close(rnncc.compile(made).run(inputs), by_onnxruntime(made, inputs))


@pytest.mark.parametrize("at", [-2, 8, 2**40])
def test_rows_that_are_not_there(at: int) -> None:
    """ONNX Runtime takes fewer rows, or counts from the end."""
    with pytest.raises(RunError):
        rnncc.compile(positions()).run({"x": _x(5, 2), "at": _at(at)})


@pytest.mark.peers
def test_an_open_number_of_rows_in_steps() -> None:
    bounds = [(0, 12), (1, 6), (3, 3), (5, 2), (-9, -1), (2, 99), (-99, 5), (11, 2**40)]
    compared(apart(), [{"at": _at(first), "to": _at(last)} for first, last in bounds])


def test_backwards() -> None:
    made = apart()
    made.graph.node[0].input[4] = "back"
    made.graph.initializer.append(numpy_helper.from_array(_at(-1), "back"))
    with pytest.raises(CompileError, match="must be known"):
        rnncc.compile(made)


@pytest.mark.peers
@pytest.mark.parametrize("bounds", [(1, 2**31 - 1), (-3, -1)])
def test_part_of_integers_of_open_number(bounds: tuple[int, int]) -> None:
    """As the ends of EmbeddingBag's bags: where they begin, without the first, then their total."""
    nodes = [node("Shape", "x", "n"), node("Concat", "x n", "all", axis=0)]
    nodes.append(node("Slice", "all start end", "y"))
    constants = dict(zip(("start", "end"), map(_at, bounds), strict=True))
    made = model(nodes, [info("x", ["N"], "i64")], [info("y", None, "i64")], constants)
    arrays = {"x": np.arange(5)}
    assert_close(interpreted(made, arrays), by_onnxruntime(made, arrays))
