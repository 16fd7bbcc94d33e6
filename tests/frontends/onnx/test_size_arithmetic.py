"""What models compute with sizes: formulas, as exact as integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto, helper, numpy_helper

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.formulas.sizes import divide
from rnncc.frontends.onnx.importer import import_model
from rnncc.ir.bounds import bounds_of, check_bounds
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from tests.frontends.onnx.exact_sums import exact_session
from tests.frontends.onnx.models import (
    by_onnxruntime,
    info,
    model,
    node,
    random_models,
)
from tests.frontends.onnx.open_models import vector
from tests.frontends.onnx.random_sizes import size_models


def counted_up_to(nodes: list[Any], **constants: Any) -> Any:
    """0, 1, ... up to the int64 `n`, which nodes compute from the T and N of x, as int64 too."""
    first = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "T", axis=0),
        node("Gather", "s one", "N", axis=0),
    ]
    zero, one = np.array(0, np.int64), np.array(1, np.int64)
    return model(
        [*first, *nodes, node("Range", "zero n one", "y")],
        [info("x", ["T", "N"])],
        [info("y", None, "i64")],
        {"zero": zero, "one": one, **constants},
    )


def as_floats(*nodes: Any, kind: int = TensorProto.FLOAT) -> list[Any]:
    """T and N as the floats t and m, and r as the int64 n."""
    casts = [node("Cast", "T", "t", to=kind), node("Cast", "N", "m", to=kind)]
    return [*casts, *nodes, node("Cast", "r", "n", to=7)]


EXACT = {
    "range(1, T) of TorchScript": [
        node("Sub", "t c1", "a"),
        node("Div", "a c1", "b"),
        node("Ceil", "b", "r"),
    ],
    "a product divided again": [
        node("Mul", "t m", "a"),
        node("Div", "a m", "b"),
        node("Round", "b", "r"),
    ],
    "a whole multiple": [
        node("Mul", "t c2", "a"),
        node("Add", "a c1", "b"),
        node("Floor", "b", "r"),
    ],
    "range(0, T, 2) of TorchScript": [node("Div", "t c2", "b"), node("Ceil", "b", "r")],
    "a part, rounded down": [
        node("Sub", "t c1", "a"),
        node("Div", "a c2", "b"),
        node("Floor", "b", "r"),
    ],
    "a part, cut off": [node("Div", "t c2", "r")],
    "half, rounded down": [node("Mul", "t half", "b"), node("Floor", "b", "r")],
    "half, cut off": [node("Mul", "half t", "r")],
    "windows of EnCodec": [
        node("Sub", "t c2", "a"),
        node("Div", "a c3", "b"),
        node("Add", "b c1", "q"),
        node("Ceil", "q", "r"),
    ],
    "a whole number less a third, rounded down": [
        node("Div", "t c3", "b"),
        node("Sub", "m b", "q"),
        node("Floor", "q", "r"),
    ],
    "1 and half, cut off": [node("Mul", "t half", "b"), node("Add", "c1 b", "r")],
    "3/2, rounded up": [
        node("Add", "half c1", "a"),
        node("Mul", "a t", "b"),
        node("Ceil", "b", "r"),
    ],
}


@pytest.mark.peers
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", EXACT)
def test_arithmetic_of_sizes_as_floats(name: str, dtype: Any) -> None:
    constants = {f"c{n}": np.array(n, dtype) for n in (1, 2, 3)} | {"half": np.array(0.5, dtype)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = counted_up_to(as_floats(*EXACT[name], kind=kind), **constants)
    compiled: Any = rnncc.compile(made)
    for steps, batch in ((1, 1), (4, 3), (7, 2)):
        x = np.ones((steps, batch), np.float32)
        np.testing.assert_array_equal(
            compiled.run({"x": x})["y"], by_onnxruntime(made, {"x": x})["y"]
        )


@pytest.mark.parametrize(("less", "by"), [(1, 2), (1, 3), (3, 2), (4, -2)])
def test_sizes_are_divided_towards_zero(less: int, by: int) -> None:
    nodes = [
        node("Shape", "x", "T", end=1),
        node("Sub", "T less", "a"),
        node("Div", "a by", "b"),
        node("Add", "b three", "c"),
        node("ConstantOfShape", "c", "y"),
    ]
    constants = {"less": vector(less), "by": vector(by), "three": vector(3)}
    made = model(nodes, [info("x", ["T"])], [info("b", None, "i64"), info("y", None)], constants)
    compiled: Any = rnncc.compile(made)
    for size in range(8):
        got = compiled.run({"x": np.zeros(size, np.float32)})
        assert got["b"] == int((size - less) / by)
        assert got["y"].shape == (int((size - less) / by) + 3,)


@pytest.mark.parametrize(
    ("last", "of_size"),
    {
        "clip": (node("Clip", "a one four", "n"), lambda a: min(max(a, 1), 4)),
        "clip above": (node("Clip", "a _ end", "n"), lambda a: a),
        "min": (node("Min", "end a", "n"), lambda a: a),
        "abs": (node("Abs", "a", "n"), abs),
        "relu": (node("Relu", "a", "n"), lambda a: max(a, 0)),
        "fmod": (node("Mod", "a two", "n", fmod=1), lambda a: int(np.fmod(a, 2))),
        "square": (node("Pow", "a two", "n"), lambda a: a * a),
    }.values(),
    ids=["clip", "clip above", "min", "abs", "relu", "fmod", "square"],
)
def test_functions_of_sizes(last: Any, of_size: Callable[[int], int]) -> None:
    numbers = {"one": 1, "two": 2, "four": 4, "end": (1 << 63) - 1}
    constants: dict[str, Any] = {name: np.array(n) for name, n in numbers.items()}
    nodes = [
        node("Shape", "x", "T", end=1),
        node("Sub", "T four", "a"),
        last,
        node("Add", "n four", "size"),
        node("ConstantOfShape", "size", "y"),
    ]
    made = model(nodes, [info("x", ["T"])], [info("y", None)], constants)
    compiled: Any = rnncc.compile(made)
    for size in range(9):
        assert len(compiled.run({"x": np.zeros(size, np.float32)})["y"]) == of_size(size - 4) + 4


@pytest.mark.peers
@random_models
@given(size_models())
def test_arithmetic_of_sizes_against_onnxruntime(made: Any) -> None:
    pytest.importorskip("onnxruntime")
    try:
        program = import_model(made)
    except CompileError as error:
        assert "is computed by the model, and must be known" in str(error)
        return
    session, bounds = (
        exact_session(made.SerializeToString()),
        bounds_of(program.net, program.bounds),
    )
    for steps, batch in ((0, 0), (1, 0), (0, 2), (1, 1), (2, 1), (3, 5), (4, 2), (7, 3)):
        x = np.zeros((steps, batch), np.float32)
        try:
            check_bounds(bounds, {"T": steps, "N": batch})
        except CompileError:
            continue
        got: Any = run(program, {"x": x})
        value, rows = session.run(None, {"x": x})
        assert (got["v"], got["y"].shape) == (value, rows.shape), (steps, batch)


def test_fractions_that_no_float_holds_are_no_formulas() -> None:
    made = counted_up_to(as_floats(node("Mul", "t c", "b"), node("Floor", "b", "r")))
    made.graph.initializer.append(numpy_helper.from_array(np.array(0.1, np.float32), "c"))
    with pytest.raises(CompileError, match="Range"):
        import_model(made)


@pytest.mark.parametrize(
    ("kind", "most"), [(TensorProto.FLOAT, 1 << 24), (TensorProto.FLOAT16, 1 << 11)]
)
def test_sizes_that_floats_would_round_are_refused_where_they_decide(kind: int, most: int) -> None:
    """(T · N) / N is not T where the floats do not hold the product."""
    nodes = as_floats(*EXACT["a product divided again"], kind=kind)
    program = import_model(counted_up_to(nodes))
    bounds = bounds_of(program.net, program.bounds)
    check_bounds(bounds, {"T": most // 8, "N": 8})
    with pytest.raises(CompileError, match="is negative"):
        check_bounds(bounds, {"T": most // 8, "N": 9})


def test_quotients_know_what_was_learnt_of_sizes() -> None:
    """One that is rounded towards zero is rounded down where it is not negative."""
    size = Dim.of("T") - 3
    assert divide(size, Dim.of(2), (size - 1,)) == size.under(2)
    assert divide(size, Dim.of(2)) != size.under(2)
