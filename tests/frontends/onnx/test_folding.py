"""What is known at import: shape arithmetic with open sizes, and exporters' detours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import read_model
from rnncc.frontends.onnx.inputs import Given
from rnncc.ir.types import dims_of, shape_text
from tests.frontends.onnx.models import (
    assert_close,
    by_onnxruntime,
    imported,
    info,
    interpreted,
    model,
    node,
)

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SIZES = {
    "zero": np.array(0),
    "one": np.array([1]),
    "two": np.array([2]),
    "minus": np.array([-1]),
    "four": np.array([4]),
}


def of_x(nodes: list[Any], dims: list[Any] | None = None) -> Any:
    """A model of x [T, N, 4] that gives y."""
    return model(nodes, [info("x", dims or ["T", "N", 4])], [info("y", None)], SIZES)


def shape_of(made: Any, **options: Any) -> str:
    return shape_text(dims_of(imported(made, **options).net.outputs["y"]))


SHAPE = [node("Shape", "x", "s"), node("Gather", "s zero", "t", axis=0)]
CASES: dict[str, tuple[list[Any], str]] = {
    "half of an axis, rounded up": (
        [
            node("Shape", "x", "s"),
            node("Gather", "s one", "n", axis=0),
            node("Add", "n one", "more"),
            node("Div", "more two", "half"),
            node("Slice", "x zero1 half one", "y"),
        ],
        "T x N/2 x 4",
    ),
    "sizes put together": (
        [
            *SHAPE,
            node("Unsqueeze", "t one0", "t1"),
            node("Concat", "t1 minus", "to", axis=0),
            node("Reshape", "x to", "y"),
        ],
        "T x 4*N",
    ),
    "a product of sizes": (
        [
            node("Shape", "x", "s"),
            node("Slice", "s zero1 two", "lead"),
            node("ReduceProd", "lead", "count", keepdims=1),
            node("Concat", "count four", "to", axis=0),
            node("Reshape", "x to", "y"),
        ],
        "T*N x 4",
    ),
    "a quotient of sizes": (
        [
            node("Size", "x", "count"),
            node("Div", "count four0", "rows"),
            node("Unsqueeze", "rows one0", "r1"),
            node("Concat", "r1 four", "to", axis=0),
            node("Reshape", "x to", "y"),
        ],
        "T*N x 4",
    ),
    "zeros as states": (
        [
            node("Shape", "x", "s", start=1, end=2),
            node("Concat", "two s four", "to", axis=0),
            node("ConstantOfShape", "to", "y"),
        ],
        "2 x N x 4",
    ),
    "a choice between sizes": (
        [
            *SHAPE,
            node("Equal", "s minus", "open"),
            node("Where", "open one s", "to"),
            node("Expand", "x to", "y"),
        ],
        "T x N x 4",
    ),
    "sizes as int32": (
        [
            *[node("Shape", "x", "s"), node("Cast", "s", "si", to=6)],
            *[node("Slice", "si zero1 one", "t"), node("Mul", "t two32", "tt")],
            *[node("Concat", "tt minus32", "to32", axis=0), node("Cast", "to32", "to", to=7)],
            node("Reshape", "x to", "y"),
        ],
        "2*T x 2*N",
    ),
    "sizes as float32": (
        [
            *[*SHAPE, node("Cast", "t", "tf", to=1), node("Max", "tf tf", "most")],
            *[node("Min", "most huge", "least"), node("Cast", "least", "back", to=7)],
            *[node("Unsqueeze", "back one0", "t1"), node("Concat", "t1 minus", "to", axis=0)],
            node("Reshape", "x to", "y"),
        ],
        "T x 4*N",
    ),
    "sizes beside the end": (
        [
            *[*SHAPE, node("Unsqueeze", "t one0", "t1"), node("Min", "t1 far", "near")],
            *[node("Less", "far t1", "none"), node("Where", "none far near", "to1")],
            *[node("Concat", "to1 minus", "to", axis=0), node("Reshape", "x to", "y")],
        ],
        "T x 4*N",
    ),
    "the largest of some sizes": (
        [
            *[*SHAPE, node("Unsqueeze", "t one0", "t1"), node("Add", "t1 t1", "tt")],
            *[node("Concat", "t1 tt", "both", axis=0), node("ReduceMax", "both", "m", keepdims=1)],
            *[node("Concat", "m minus", "to", axis=0), node("Reshape", "x to", "y")],
        ],
        "2*T x 2*N",
    ),
    "floats up to a size": (
        [*SHAPE, node("Cast", "t", "tf", to=1), node("Range", "fzero tf fone", "y")],
        "T",
    ),
    "numbers up to a size": (
        [*SHAPE, node("Range", "zero t one00", "y")],
        "T",
    ),
    "the last of a sequence": (
        [node("Gather", "x last", "y", axis=0)],
        "N x 4",
    ),
    "all but the first": (
        [node("Slice", "x one end zero1", "y")],
        "T - 1 x N x 4",
    ),
    "two axes swapped, as MXNet writes it": (
        [
            *(node("Shape", "x", "s"), node("GatherND", "s first", "parts")),
            *(
                node("ScatterND", "s swapped parts", "turned"),
                node("Pad", "s pads one00", "longer"),
            ),
            *(node("Reshape", "x longer", "l"), node("Transpose", "l", "r", perm=[1, 0, 2, 3])),
            node("Reshape", "r turned", "y"),
        ],
        "N x T x 4",
    ),
    "sizes in another order": (
        [
            node("Shape", "x", "s"),
            node("GatherElements", "s order", "o"),
            node("Reshape", "x o", "y"),
        ],
        "N x 4 x T",
    ),
}
MORE = {
    "one0": np.array([0]),
    "zero1": np.array([0]),
    "four0": np.array(4),
    **{"two32": np.int32(2), "minus32": np.array([-1], np.int32)},
    **{"far": np.array([10**9])},
    **{"fzero": np.float32(0), "fone": np.float32(1), "huge": np.float32(1e9)},
    "one00": np.array(1),
    "last": np.array(-1),
    "end": np.array([(1 << 63) - 1]),
    **{"first": np.array([[0], [1]]), "swapped": np.array([[1], [0]]), "pads": np.array([0, 1])},
    "order": np.array([1, -1, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_stay_symbols(name: str) -> None:
    nodes, want = CASES[name]
    made = model(nodes, [info("x", ["T", "N", 4])], [info("y", None)], {**SIZES, **MORE}, opset=17)
    assert shape_of(made) == want
    y = interpreted(made, {"x": X})["y"]
    symbols = {"T": 2, "N": 3}
    dims = dims_of(imported(made).net.outputs["y"])
    assert y.shape == tuple(d.evaluate(symbols) for d in dims)
    np.testing.assert_array_equal(rnncc.compile(made).run({"x": X})["y"], y)


def test_shapes_that_the_user_gives() -> None:
    relu = [node("Relu", "x", "y")]
    assert shape_of(of_x(relu), shapes={"x": "TIME,3,?"}) == "TIME x 3 x 4"
    assert shape_of(of_x(relu, ["batch*2", None, -1])) == "batch_2 x x_1 x x_2"
    assert shape_of(of_x(relu, ["a", "a", 4]), shapes={"x": ("N", None, None)}) == "N x N x 4"
    for shapes, told in (
        ({"z": (1,)}, r"--shape z: is no input of the model \(inputs: x\)"),
        ({"x": (1,)}, r"--shape x: gives 1 sizes, the file says T x N x 4"),
        ({"x": (1, 1, 5)}, r"--shape x: gives 5 where the file says T x N x 4"),
        ({"x": (0, 1, 4)}, r"--shape x: 0 is no size"),
    ):
        with pytest.raises(CompileError, match=told):
            imported(of_x(relu), shapes=shapes)


def test_names_of_sizes_that_c_has_taken() -> None:
    made = of_x([node("Relu", "x", "y")], ["inputs", "int", "1 x"])
    assert shape_of(made) == "inputs_ x int_ x d_1_x"


def test_weights_behind_detours_are_parameters() -> None:
    """Slices and joins of initialisers are done at import."""
    weights = np.arange(32, dtype=np.float32).reshape(8, 4)
    nodes = [
        node("Slice", "w from_ to_", "a"),
        node("Slice", "w zero1 from_", "b"),
        node("Concat", "a b", "c", axis=0),
        node("Unsqueeze", "c zero1", "d"),
        node("Squeeze", "d zero1", "e"),
        node("Transpose", "e", "f"),
        node("MatMul", "x f", "y"),
    ]
    constants = {"w": weights, "from_": np.array([4]), "to_": np.array([8]), "zero1": np.array([0])}
    made = model(nodes, [info("x", ["N", 4])], [info("y", None)], constants)
    program = imported(made)
    assert [op.name for op in program.net.body.block.ops] == [
        "rnn.param",
        "rnn.matmul",
        "rnn.yield",
    ]
    x = np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(
        interpreted(made, {"x": x})["y"], np.concatenate([weights[4:], weights[:4]]).T
    )


def test_an_initialiser_that_is_an_input_is_a_default() -> None:
    made = model([node("Add", "x b", "y")], [info("x", [2]), info("b", [2])], [info("y", None)])
    made.graph.initializer.append(
        model([], [], [], {"b": np.ones(2, np.float32)}).graph.initializer[0]
    )
    compiled = rnncc.compile(made)
    x = np.zeros(2, np.float32)
    assert compiled.run({"x": x})["y"].tolist() == [1, 1]
    assert compiled.run({"x": x, "b": x + 2})["y"].tolist() == [2, 2]
    made.ir_version = 3
    assert list(rnncc.compile(made).inputs) == ["x"]


def test_the_last_of_several_initialisers_of_one_name_counts() -> None:
    """As ONNX Runtime has it; the standard does not allow several."""
    made = model([node("Mul", "x k", "y")], [info("x", [2])], [info("y", None)])
    for value in (2.0, 3.0):
        made.graph.initializer.append(numpy_helper.from_array(np.array([value], np.float32), "k"))
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(interpreted(made, {"x": x})["y"], 3 * x)


def test_functions_of_the_model() -> None:
    from onnx import parser

    made = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N] x) => (float[N] y) { z = own.line <by: float = 3.0> (x) y = own.line (z) }
        <domain: "own", opset_import: ["" : 17]>
        line <by: float = 2.0> (v) => (w) {
            c = Constant <value_float: float = @by> ()
            w = Mul (v, c)
        }
    """)
    y = interpreted(made, {"x": np.array([1, 2], np.float32)})["y"]
    assert y.tolist() == [6, 12]


def test_inputs_that_the_call_of_a_function_leaves_out() -> None:
    from onnx import parser

    made = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N] x, bool c, float top) => (float[N] y, float[N] z) {
            y = own.held (x, , c)
            z = own.held (x, top, c)
        }
        <domain: "own", opset_import: ["" : 17, "own" : 1]>
        held (v, most, c) => (w) {
            w = If (c) <
                then_branch = t () => (a) { a = own.within (v, , most) },
                else_branch = e () => (b) { b = Identity (v) }>
        }
        <domain: "own", opset_import: ["" : 17]>
        within (v, least, most) => (w) { w = Clip (v, least, most) }
    """)
    x = np.array([1, 5], np.float32)
    got = interpreted(made, {"x": x, "c": np.array(True), "top": np.float32(2)})
    assert [got["y"].tolist(), got["z"].tolist()] == [[1, 5], [1, 2]]


def test_overloads_of_a_function() -> None:
    """Of functions of one name, in a domain with two names, a node calls the one it says."""
    made = model([], [info("x", ["N"])], [info("y", None)])
    for overload, kind in (("first", "Neg"), ("second", "Exp")):
        call = made.graph.node.add(op_type="f", domain="own", overload=overload)
        call.input.append("x" if overload == "first" else "z")
        call.output.append("z" if overload == "first" else "y")
        imports = [helper.make_opsetid("ai.onnx", 17)]
        made.functions.append(
            helper.make_function("own", "f", ["a"], ["b"], [node(kind, "a", "b")], imports)
        )
        made.functions[-1].overload = overload
    made.opset_import.append(helper.make_opsetid("own", 1))
    y = interpreted(made, {"x": np.array([1, 2], np.float32)})["y"]
    np.testing.assert_allclose(y, np.exp([-1, -2]), 1e-6)


def calling(kind: str, domain: str, opset: int, functions: int = 1) -> Any:
    """A model of opset 17 with functions, of another one, that are its operators' opposite."""
    nodes = [node(kind, "x", "y", domain=domain)]
    made = model(nodes, [info("x", [1, 2, 3])], [info("y", None)], domains={domain: 17})
    inside = [node("Softmax", "a", "c"), node("Neg", "c", "b")]
    imports = [helper.make_opsetid("", opset)]
    for _ in range(functions):
        made.functions.append(helper.make_function(domain, kind, ["a"], ["b"], inside, imports))
    return made


def test_functions_named_as_operators_are() -> None:
    """ONNX Runtime takes the operator; of other versions within a function it takes the model's."""
    x = np.array([[[1, -2, 0.5], [-1, 2, 3]]], np.float32)
    made = calling("Relu", "", 17)
    np.testing.assert_array_equal(interpreted(made, {"x": x})["y"], np.maximum(x, 0))
    made = calling("f", "own", 13)
    assert_close(interpreted(made, {"x": x}), by_onnxruntime(made, {"x": x}))
    with pytest.raises(CompileError, match="opset 12, in which Softmax is another than in the mod"):
        imported(calling("f", "own", 12))
    with pytest.raises(CompileError, match=r"has two functions own\.f"):
        imported(calling("f", "own", 13, functions=2))


def test_constants_of_inputs() -> None:
    made = model(
        [node("Reshape", "x s", "y")], [info("x", [6]), info("s", [2], "i64")], [info("y", None)]
    )
    with pytest.raises(CompileError, match='input "s" is computed by the model'):
        imported(made)
    program = read_model(made, given=Given({"s": np.array([2, 3])})).program
    assert list(program.net.inputs) == ["x"]
    assert shape_text(dims_of(program.net.outputs["y"])) == "2 x 3"


@pytest.mark.peers
def test_the_least_integer_is_divided() -> None:
    """-128 has no magnitude among numbers of 8 bits."""
    numbers = {
        "a": np.array([-128, -128, 100, -7], np.int8),
        "b": np.array([-9, 5, -9, 2], np.int8),
    }
    made = model([node("Div", "a b", "y")], [], [info("y", [4], "i8")], numbers)
    assert interpreted(made, {})["y"].tolist() == by_onnxruntime(made, {})["y"].tolist()
