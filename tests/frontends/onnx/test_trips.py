"""How many iterations a Loop has, by its condition and counters, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from rnncc_runtime import ArrayError

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from rnncc.ir.types import dims_of
from rnncc.passes.gradients.differentiate import differentiate
from tests.frontends.onnx.models import (
    assert_close,
    body,
    by_onnxruntime,
    graph,
    imported,
    info,
    interpreted,
    model,
    node,
)

W = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, 0.2], [0.3, 0.0, 0.6]], np.float32)
H = np.array([[0.5, -1.0, 2.0], [0.1, 0.2, 0.3]], np.float32)
NUMBERS = {
    **{"zero0": np.array([0]), "one0": np.array([1]), "w": W, "yes": np.array(True)},
    **{"zero": np.int32(0), "one": np.int32(1), "two": np.int32(2), "five": np.int32(5)},
    **{"no": np.array(False), "most_m": np.float32(0.97)},
    **{"fzero": np.float32(0), "most": np.array(2**31 - 1), "half": np.float32(0.5)},
    **{"fone": np.float32(1)},
}
SIZES = [
    node("Shape", "x", "s64"),
    node("Cast", "s64", "s", to=6),
    node("Slice", "s zero0 one0 zero0", "t0"),
    node("Squeeze", "t0 zero0", "t"),
    node("Cast", "t", "tf", to=1),
    node("Cast", "t", "t64", to=7),
]
"""`t`, `tf` and `t64` are the first size of x as int32, float32 and int64."""
STEP = [node("Gather", "x k", "row"), node("MatMul", "v w", "p"), node("Add", "p row", "q")]
STEP += [node("Tanh", "q", "v2"), node("ReduceSum", "v2", "r", keepdims=0)]
COUNTED = [node("Cast", "k2", "kf", to=1), node("Cast", "i", "if", to=1)]


def looped(
    condition: list[Any],
    first: list[Any],
    start: str = "zero",
    step: str = "one",
    most: str = "_",
    next_: list[Any] | None = None,
) -> Any:
    """A loop over rows of x, whose counter k becomes k2; `go` and `first` decide how often."""
    counter = next_ or [node("Add", f"k {step}", "k2")]
    nodes = [*counter, *COUNTED, *STEP, *condition]
    inside = body(nodes, "k v", "r", condition="go2")
    inside.input[2].type.tensor_type.elem_type = 6
    inside.output[1].type.tensor_type.elem_type = 6
    nodes = [*SIZES, *first, node("Loop", f"{most} first {start} h", "k3 y ys", body=inside)]
    outputs = [info("k3", None, "i32"), info("y", None), info("ys", None)]
    inputs = [info("x", ["T", 2, 3]), info("h", [2, 3])]
    return model(nodes, inputs, outputs, NUMBERS)


STARTS = [node("Less", "zero t", "first")]
ALWAYS = [node("Identity", "yes", "first")]
IF_TWO = [node("Less", "one t", "first")]
CASES: dict[str, tuple[Any, str]] = {
    "int32": (looped([node("Less", "k2 t", "go2")], STARTS), "T"),
    "in float32": (
        looped([node("Less", "kf tf", "go2")], [node("Less", "fzero tf", "first")]),
        "T",
    ),
    "by the iteration": (looped([node("Less", "if tf", "go2")], STARTS, most="t64"), "T"),
    "both": (
        looped(
            [node("Less", "if tf", "a"), node("Less", "kf tf", "b"), node("And", "a b", "go2")],
            [node("Less", "fzero tf", "a1"), node("And", "a1 a1", "first")],
            most="t64",
        ),
        "T",
    ),
    "trip count without an end": (looped([node("Less", "k2 t", "go2")], STARTS, most="most"), "T"),
    "up to, from one": (
        looped([node("LessOrEqual", "k2 t1", "go2")], [node("Sub", "t one", "t1"), *IF_TWO], "one"),
        "T - 1",
    ),
    "not beyond": (
        looped([node("GreaterOrEqual", "k2 t", "end"), node("Not", "end", "go2")], STARTS),
        "T",
    ),
    "neither": (
        looped(
            [
                node("Greater", "k2 t", "over"),
                node("Equal", "one two", "never"),
                node("Sub", "t k2", "left"),
                node("Less", "left one", "none"),
                node("Or", "over never", "a"),
                node("Or", "a none", "end"),
                node("Not", "end", "go2"),
            ],
            STARTS,
        ),
        "T",
    ),
    "every second": (looped([node("LessOrEqual", "k2 five", "go2")], ALWAYS, step="two"), "3"),
    "given": (looped([node("Identity", "go", "go2")], ALWAYS, most="t64"), "T"),
    "a counter that turns": (
        looped(
            [node("Identity", "go", "go2")],
            ALWAYS,
            start="five",
            most="t64",
            next_=[
                *[node("Sub", "k one", "less"), node("Less", "k zero", "below")],
                node("Where", "below five less", "k2"),
            ],
        ),
        "T",
    ),
    "counted in float32": (
        looped(
            [node("Less", "k2 t", "go2")],
            STARTS,
            next_=[
                *[node("Cast", "k", "kx", to=1), node("Mul", "kx fone", "kx1")],
                *[node("Add", "kx1 fone", "kx2"), node("Cast", "kx2", "k2", to=6)],
            ],
        ),
        "T",
    ),
    "never": (looped([node("Less", "k2 t", "go2")], [node("Less", "two one", "first")]), "0"),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", CASES)
def test_trip_counts(name: str) -> None:
    pytest.importorskip("onnxruntime")
    made, rows = CASES[name]
    (_, _, ys) = imported(made).net.outputs.values()
    assert str(dims_of(ys)[0]) == rows
    compiled = rnncc.compile(made)
    for steps in (6, 7, 13):
        x = np.random.default_rng(steps).standard_normal((steps, 2, 3)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x, "h": H})
        assert_close(interpreted(made, {"x": x, "h": H}), want)
        assert_close(compiled.run({"x": x, "h": H}), want)


def test_no_iterations() -> None:
    """Of a sequence without rows."""
    x = np.zeros((0, 2, 3), np.float32)
    got = rnncc.compile(CASES["both"][0]).run({"x": x, "h": H})
    assert_close(got, {"k3": np.int32(0), "y": H, "ys": np.zeros(0, np.float32)})


@pytest.mark.parametrize(
    "condition",
    [
        [node("Less", "r half", "go2")],
        [node("Greater", "k2 t", "go2")],
        [node("Mul", "k2 t", "kt"), node("Less", "t kt", "go2")],
        [node("Less", "k2 t", "a"), node("Less", "k2 five", "b"), node("Or", "a b", "go2")],
        [node("Add", "kf half", "kh"), node("Less", "kh tf", "go2")],
    ],
    ids=["data", "upwards", "steps of a size", "either", "fractions"],
)
def test_ends_that_are_no_formulas(condition: list[Any]) -> None:
    with pytest.raises(CompileError, match="may end early, and has scan outputs"):
        imported(looped(condition, STARTS))


BOTH = [
    *[node("Less", "k2 t", "b"), node("ReduceMax", "v2", "m", keepdims=0)],
    node("Less", "m most_m", "a"),
]
BRANCHES = {
    f"{name}_branch": graph([node("Identity", value, name)], [], [info(name, [], "i1")])
    for name, value in (("then", "b"), ("else", "no"))
}
FOLDED = graph([], [], [info("else", [], "i1")], {"else": np.array(False)})
AGAIN = graph([node("Identity", "b", "again")], [], [info("again", [], "i1")])
SHARED = [
    node("If", "a", "both", **{**BRANCHES, "else_branch": FOLDED}),
    node("If", "both", "go2", then_branch=AGAIN, else_branch=FOLDED),
]


@pytest.mark.parametrize(
    ("condition", "first"),
    [
        ([*BOTH, node("And", "a b", "go2")], ALWAYS),
        ([node("Less", "kf tf", "b"), *BOTH[1:], node("And", "a b", "go2")], ALWAYS),
        ([*BOTH, node("If", "a", "go2", **BRANCHES)], STARTS),  # a and b, as Python's are exported
        ([*BOTH, node("If", "a", "go2", **{**BRANCHES, "else_branch": FOLDED})], STARTS),
        ([*BOTH, *SHARED], STARTS),  # an optimiser writes one constant into both branches
        ([node("Less", "k2 t", "go2")], IF_TWO),
    ],
    ids=["and", "as float32", "if", "folded if", "folded ifs", "a start that is no formula"],
)
def test_data_may_end_a_loop_whose_counter_bounds_it(condition: Any, first: Any) -> None:
    """Scan outputs have the rows that the run counts, of those that a formula allows."""
    pytest.importorskip("onnxruntime")
    made = looped(condition, first)
    compiled = rnncc.compile(made)
    assert compiled.metadata["counts"] == {"ys": ["ys.count", 0]}
    rows = set[int]()
    for steps in (1, 2, 9):
        x = np.random.default_rng(steps).standard_normal((steps, 2, 3)).astype(np.float32)
        want = by_onnxruntime(made, {"x": x, "h": H})
        rows.add(len(want["ys"]))
        for got in (interpreted(made, {"x": x, "h": H}), compiled.run({"x": x, "h": H})):
            assert got.pop("ys.count") == len(want["ys"])
            assert_close(got, want)
    assert len(rows) > 1


@pytest.mark.peers
def test_values_that_start_with_another_shape() -> None:
    """As Paddle writes names that the first iteration gives a value: a number that none reads."""
    pytest.importorskip("onnxruntime")
    nodes = [node("Gather", "x i", "row"), node("Add", "row row", "v2"), node("Tanh", "v2", "y2")]
    inside = body([*nodes, node("Identity", "w", "w2")], "v y w", "y2", condition="go")
    loop = node("Loop", "t _ half half half", "v y w ys", body=inside)
    made = model(
        [*SIZES[:1], node("Gather", "s64 zero0", "t0"), node("Squeeze", "t0 zero0", "t"), loop],
        [info("x", ["T", "N", 3])],
        [info(name, None) for name in ("v", "y", "w", "ys")],
        {"zero0": NUMBERS["zero0"], "half": NUMBERS["half"]},
    )
    compiled = rnncc.compile(made)
    for steps, batch in ((1, 1), (5, 2), (66, 1)):
        x = np.random.default_rng(steps).standard_normal((steps, batch, 3)).astype(np.float32)
        assert_close(compiled.run({"x": x}), by_onnxruntime(made, {"x": x}))
    with pytest.raises(ArrayError, match="a size T - 1 would be -1"):
        compiled.run({"x": np.zeros((0, 2, 3), np.float32)})
    inside.output[4].CopyFrom(info("y2", ["N", 3]))
    loop = node("Loop", "none _ half half half", "v y w ys", body=inside)
    numbers = {"none": np.array(0), "half": NUMBERS["half"]}
    never = model([loop], [info("x", ["T", "N", 3])], [info("v", None)], numbers)
    assert rnncc.compile(never).run({"x": x})["v"] == NUMBERS["half"]


def test_sizes_that_float32_rounds_are_errors_of_the_run() -> None:
    """Up to 2^24 it holds every integer; a loop over more rows might end one too early."""
    nodes = [
        *[node("Shape", "x", "s"), node("Gather", "s zero", "t"), node("Cast", "t", "tf", to=1)],
        node("Less", "fzero tf", "first"),
        node(
            "Loop",
            "_ first h",
            "y",
            body=body(
                [
                    node("Add", "i one", "i1"),
                    node("Cast", "i1", "if", to=1),
                    node("Less", "if tf", "go2"),
                    node("Identity", "v", "v2"),
                ],
                condition="go2",
            ),
        ),
    ]
    numbers = {"zero": np.array(0), "one": np.array(1), "fzero": np.float32(0)}
    made = model(nodes, [info("x", ["T"]), info("h", [1])], [info("y", None)], numbers)
    compiled = rnncc.compile(made)
    compiled.run({"x": np.zeros(5, np.float32), "h": np.zeros(1, np.float32)})
    with pytest.raises(Exception, match=r"-T \+ 16777216 would be -1"):
        compiled.run({"x": np.zeros(2**24 + 1, np.float32), "h": np.zeros(1, np.float32)})


def test_a_loop_over_rows_streams() -> None:
    """Whose end a condition decides."""
    nodes = [*CASES["both"][0].graph.node[:-1]]
    loop = CASES["both"][0].graph.node[-1]
    made = model(
        [*nodes, loop], [info("x", ["T", 2, 3]), info("h", [2, 3])], [info("ys", None)], NUMBERS
    )
    compiled: Any = rnncc.compile(made)
    x = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    stream = compiled.stream(inputs={"h": H})
    rows = [stream.step({"x": row[None]})["ys"] for row in x]
    np.testing.assert_array_equal(np.concatenate(rows), compiled.run({"x": x, "h": H})["ys"])


@pytest.mark.peers
def test_rows_by_the_numbers_of_two_turns() -> None:
    """A loop in a loop, which takes x[i, j]."""
    pytest.importorskip("onnxruntime")
    inner = [
        *[node("Unsqueeze", "i zero0", "i0"), node("Unsqueeze", "j zero0", "j0")],
        *[node("Concat", "i0 j0", "at", axis=0), node("Add", "at one0", "end")],
        *[node("Slice", "x at end axes", "part"), node("Squeeze", "part axes", "row")],
        *[node("MatMul", "u w", "p"), node("Add", "p row", "q"), node("Tanh", "q", "u2")],
        node("Identity", "more", "more2"),
    ]
    outer = [
        node("Loop", "n1 yes v", "v2", body=body(inner, "u", condition="more2", first="j more")),
        *[node("Identity", "v2", "r"), node("Identity", "go", "go2")],
    ]
    nodes = [
        *[node("Shape", "x", "s"), node("Gather", "s zero", "n0"), node("Gather", "s one", "n1")],
        node("Loop", "n0 yes h", "y ys", body=body(outer, "v", "r", condition="go2")),
    ]
    numbers = {
        **{"zero0": np.array([0]), "one0": np.array([1]), "w": W, "yes": np.array(True)},
        **{"zero": np.array(0), "one": np.array(1), "axes": np.array([0, 1])},
    }
    inputs = [info("x", ["T", "M", 3]), info("h", [2, 3])]
    made = model(nodes, inputs, [info("y", None), info("ys", None)], numbers)
    x = np.random.default_rng(0).standard_normal((3, 4, 3)).astype(np.float32)
    want = by_onnxruntime(made, {"x": x, "h": H})
    assert_close(interpreted(made, {"x": x, "h": H}), want)
    assert_close(rnncc.compile(made).run({"x": x, "h": H}), want)


def test_gradients_of_a_loop_that_a_condition_ends() -> None:
    """As those of a loop that a count ends."""
    with_end, by_count = CASES["both"][0], CASES["given"][0]
    x = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
    found = list[Any]()
    for made in (with_end, by_count):
        program = differentiate(imported(made), ["ys"], ["x", "h"])
        found.append(run(program, {"x": x, "h": H, "grad:ys": np.ones(4, np.float32)}))
    for name in ("grad:x", "grad:h"):
        np.testing.assert_array_equal(found[0][name], found[1][name])
        assert np.abs(found[0][name]).max() > 0.01


def test_tokens_that_a_loop_carries_are_no_counters() -> None:
    """Known at first, they choose rows of a table that is known too."""
    nodes = [node("Gather", "w k", "row"), node("Add", "row v", "q"), node("Tanh", "q", "v2")]
    nodes += [node("ArgMax", "v2", "at", axis=1, keepdims=0), node("Gather", "at zero", "k2")]
    inside = body(nodes, "k v")
    inside.input[2].type.tensor_type.elem_type = inside.output[1].type.tensor_type.elem_type = 7
    loop = [node("Loop", "five64 _ start h", "k3 y", body=inside)]
    numbers = {**NUMBERS, "five64": np.array(5), "start": np.array(0)}
    inside.output[0].name = "go"
    outputs = [info("k3", None, "i64"), info("y", None)]
    made = model(loop, [info("h", [2, 3])], outputs, numbers)
    assert_close(rnncc.compile(made).run({"h": H}), by_onnxruntime(made, {"h": H}))


def test_conditions_that_readers_do_not_agree_on() -> None:
    """The standard ignores one without a first value; ONNX Runtime does not."""
    made = looped([node("Less", "r half", "go2")], [], most="five64")
    made.graph.node[-1].input[1] = ""
    made.graph.initializer.append(numpy_helper.from_array(np.array(5), "five64"))
    with pytest.raises(CompileError, match="a condition without a first one"):
        imported(made)
