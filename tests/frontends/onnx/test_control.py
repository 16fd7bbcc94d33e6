"""If, Loop and Scan against ONNX Runtime, by the interpreter and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    Arrays,
    assert_close,
    body,
    by_onnxruntime,
    graph,
    imported,
    info,
    interpreted,
    model,
    node,
    random_models,
)
from tests.frontends.onnx.random_scans import Case, scans, scans_8

STATE, FLAG, COUNT = info("h", ["N", 3]), info("c", [], "i1"), info("n", [], "i64")
H = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]], np.float32)
W = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.3, 0.0, 0.6]], np.float32)


def check(made: Any, inputs: Arrays, **options: Any) -> None:
    want = by_onnxruntime(made, inputs)
    given = {k: v for k, v in inputs.items() if k in imported(made, **options).net.inputs}
    assert_close(interpreted(made, given, **options), want)
    assert_close(rnncc.compile(made, **options).run(given), want)


def branches(inner: bool = False) -> Any:
    """Both read outer values; one branch has a branch of its own."""
    one = [node("Add", "h b", "a")]
    if inner:
        less = graph([node("Tanh", "b", "a0")], [], [info("a0", None)])
        more = graph([node("Neg", "b", "a0")], [], [info("a0", None)])
        one = [node("If", "d", "a1", then_branch=less, else_branch=more), node("Add", "a1 h", "a")]
    then = graph(one, [], [info("a", None)])
    other = graph([node("Mul", "h h", "a")], [], [info("a", None)])
    return [node("Exp", "h", "b"), node("If", "c", "y", then_branch=then, else_branch=other)]


@pytest.mark.peers
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_if(taken: bool, inner: bool) -> None:
    inputs = [STATE, FLAG, info("d", [], "i1")]
    made = model(branches(inner), inputs if inner else inputs[:2], [info("y", None)])
    check(made, {"h": H, "c": np.array(taken), "d": np.array(not taken)})


def test_if_on_a_constant_is_its_branch() -> None:
    """Where shapes decide, too; the other branch may be anything."""
    nodes = [
        node("Shape", "h", "s"),
        node("Gather", "s one", "width", axis=0),
        node("Equal", "width three", "c"),
        node(
            "If",
            "c",
            "y",
            then_branch=graph([node("Relu", "h", "a")], [], [info("a", None)]),
            else_branch=graph([node("Nothing", "h", "a")], [], [info("a", None)]),
        ),
    ]
    made = model(nodes, [STATE], [info("y", None)], {"one": np.array(1), "three": np.array(3)})
    assert "rnn.scan" not in str(imported(made))
    np.testing.assert_array_equal(interpreted(made, {"h": H})["y"], np.maximum(H, 0))


GROW = [node("MatMul", "v w", "p"), node("Tanh", "p", "v2")]
SMALL = [node("ReduceMax", "v2", "m", keepdims=0), node("Greater", "m limit", "more")]


@pytest.mark.peers
@pytest.mark.parametrize("iterations", [0, 1, 4])
def test_loop_that_a_count_ends(iterations: int) -> None:
    """With rows of each iteration; the count is known."""
    nodes = [node("Loop", "n yes h", "y ys", body=body([*GROW, node("Exp", "v2", "r")], rows="r"))]
    constants = {"n": np.array(iterations), "yes": np.array(True), "w": W}
    made = model(nodes, [info("h", [2, 3])], [info("y", None)], constants)
    check(made, {"h": H})
    if iterations:
        made.graph.output.append(info("ys", None))
        check(made, {"h": H})


@pytest.mark.peers
@pytest.mark.parametrize("limit", [0.01, 0.3, 5.0])
def test_loop_that_a_condition_ends(limit: float) -> None:
    inside = body([*GROW, *SMALL], condition="more")
    nodes = [node("Loop", "_ yes h", "y", body=inside)]
    constants = {"yes": np.array(True), "w": W, "limit": np.float32(limit)}
    check(model(nodes, [STATE], [info("y", None)], constants), {"h": H})


@pytest.mark.peers
@pytest.mark.parametrize("iterations", [0, 2, 50])
@pytest.mark.parametrize("starts", [True, False])
def test_loop_that_both_end(iterations: int, starts: bool) -> None:
    """The count, the first condition and the number of the iteration are those of the run."""
    count = [node("Cast", "i", "f", to=1), node("Add", "p0 f", "p"), node("Tanh", "p", "v2")]
    inside = body([node("MatMul", "v w", "p0"), *count, *SMALL], condition="more")
    nodes = [node("Loop", "n c h", "y", body=inside)]
    made = model(nodes, [STATE, FLAG, COUNT], [info("y", None)], {"w": W, "limit": np.float32(0.9)})
    check(made, {"h": H, "c": np.array(starts), "n": np.array(iterations)})


@pytest.mark.peers
def test_loop_whose_value_grows_is_built_turn_by_turn() -> None:
    inside = body([node("Concat", "v h", "v2", axis=0)])
    nodes = [node("Loop", "n yes h", "y", body=inside)]
    made = model(nodes, [STATE], [info("y", None)], {"n": np.array(3), "yes": np.array(True)})
    check(made, {"h": H})
    assert "rnn.scan" not in str(imported(made))


def test_loops_that_call_functions_whose_shapes_a_turn_decides() -> None:
    """Each is built twice, as a scan and by turns: neither calls nor parameters add up."""
    from onnx import parser

    body = """(int64 i, bool c, float[N] v) => (bool d, float[M] w) {
        d = Identity (c)
        w = own.f (v, i)
    }"""
    loops = [f"v{k + 1} = Loop (once, yes, v{k}) <body = b{k} {body}>" for k in range(30)]
    made = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[1] v0) => (float[M] v30) {{
            once = Constant <value = int64 {{1}}> ()
            yes = Constant <value = bool {{1}}> ()
            {" ".join(loops)}
        }}
        <domain: "own", opset_import: ["" : 17]>
        f (v, i) => (w) {{
            row = Constant <value_floats = [{", ".join(f"{k}.0" for k in range(20))}]> ()
            square = MatMul (row, row)
            one = Constant <value_ints = [1]> ()
            iteration = Reshape (i, one)
            count = Add (iteration, one)
            sum = Add (v, square)
            w = Expand (sum, count)
        }}
    """)
    program = imported(made)
    assert len(program.arrays) == 30
    assert interpreted(made, {"v0": np.zeros(1, np.float32)})["v30"] == [30 * 2470]


@pytest.mark.peers
def test_loop_over_rows_of_a_sequence() -> None:
    """The way in which exporters write a cell of their own: x[i], and the outputs as rows."""
    cell = [node("Gather", "x i", "row", axis=0), node("MatMul", "v w", "p0")]
    cell += [node("Add", "p0 row", "p"), node("Tanh", "p", "v2"), node("Identity", "v2", "r")]
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Loop", "n yes h", "last ys", body=body(cell, rows="r")),
    ]
    constants = {"zero": np.array(0), "yes": np.array(True), "w": W}
    outputs = [info("last", None), info("ys", None)]
    made = model(nodes, [info("x", ["T", "N", 3]), STATE], outputs, constants)
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    check(made, {"x": x, "h": H})


def test_a_limit_is_an_error_of_the_run() -> None:
    inside = body([node("Neg", "v", "v2"), node("Identity", "go", "again")], condition="go")
    nodes = [node("Loop", "n yes h", "y", body=inside)]
    made = model(nodes, [STATE, COUNT], [info("y", None)], {"yes": np.array(True)})
    compiled = rnncc.compile(made, max_iterations=10)
    compiled.run({"h": H, "n": np.array(10)})
    with pytest.raises(Exception, match="a loop takes more iterations than its limit"):
        compiled.run({"h": H, "n": np.array(11)})


@pytest.mark.parametrize("declared", [None, ["N", 2], ["M", "K"]])
def test_no_rows_of_a_loop_without_turns_have_the_shape_of_rows(declared: Any) -> None:
    """Without a declared shape there was one axis alone; with an open size, that was 0."""
    body = graph(
        [
            node("MatMul", "x w", "row"),
            node("Identity", "c", "d"),
        ],
        [info("i", [], "i64"), info("c", [], "i1")],
        [info("d", [], "i1"), info("row", declared)],
    )
    made = model(
        [node("Loop", "count _", "y", body=body)],
        [info("x", ["N", 3])],
        [info("y", None)],
        {"count": np.array(0), "w": np.ones((3, 2), np.float32)},
    )
    (y,) = interpreted(made, {"x": np.ones((5, 3), np.float32)}).values()
    assert y.shape == (0, 5, 2)


def test_rows_of_unknown_number_are_refused() -> None:
    inside = body([*GROW, *SMALL], rows="m", condition="more")
    nodes = [node("Loop", "_ yes h", "y ms", body=inside)]
    constants = {"yes": np.array(True), "w": W, "limit": np.float32(1)}
    with pytest.raises(CompileError, match="may end early, and has scan outputs, whose number"):
        imported(model(nodes, [STATE], [info("ms", None)], constants))


def scan_8(nodes: list[Any], dtype: str) -> Any:
    """A sum of what nodes make of each row, by the lengths that the sequences have."""
    inside = graph(
        [*nodes, node("Add", "h row", "h2")],
        [info("h", [3]), info("v", [3] if dtype == "f32" else [], dtype)],
        [info("h2", [3])],
    )
    steps = ["N", "T", 3] if dtype == "f32" else ["N", "T"]
    return model(
        [node("Scan", "n h v", "y", body=inside, num_scan_inputs=1)],
        [info("n", ["N"], "i64"), STATE, info("v", steps, dtype)],
        [info("y", ["N", 3])],
        {"w": W},
        opset=8,
    )


@pytest.mark.peers
def test_rows_behind_the_end_of_a_sequence_may_be_no_index() -> None:
    ids = np.array([[2, -100, 99], [1, 0, 2]])
    made = scan_8([node("Gather", "w v", "row")], "i64")
    check(made, {"n": np.array([1, 3]), "h": H, "v": ids})


def test_gradients_of_rows_behind_the_end_of_a_sequence() -> None:
    """They are 0, even where the row's slope would be infinite."""
    net = rnncc.compile(scan_8([node("Log", "v", "row")], "f32"), train=True)
    v = np.array([[[0.5] * 3, [0.0] * 3], [[2.0] * 3, [4.0] * 3]], np.float32)
    _, tape = net.forward({"n": np.array([1, 2]), "h": H, "v": v})
    slopes = net.backward(tape, {"y": np.ones((2, 3), np.float32)})["v"]
    np.testing.assert_allclose(slopes[..., 0], [[2, 0], [0.5, 0.25]], 1e-6)


@pytest.mark.peers
@random_models
@given(st.one_of(scans(), scans_8()))
def test_scan(case: Case) -> None:
    check(case.model, case.inputs)
