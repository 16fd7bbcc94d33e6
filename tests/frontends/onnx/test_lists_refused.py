"""Lists that are refused, each for its reason."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import helper
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import rnncc
from rnncc import onnx_backend
from rnncc.errors import CompileError
from rnncc.frontends.onnx.scope import schema_of
from rnncc.frontends.onnx.table import OPERATORS
from tests.frontends.onnx.list_models import (
    APPENDS,
    CONSTANTS,
    COUNTS,
    X,
    choice,
    iteration,
    loop,
)
from tests.frontends.onnx.models import (
    imported,
    info,
    interpreted,
    model,
    node,
)
from tests.frontends.onnx.random_lists import list_info

LISTED = node("SequenceConstruct", "x x", "s")
REFUSED: dict[str, tuple[list[Any], str]] = {
    "a place beyond": (
        [LISTED, node("SequenceAt", "s far", "y")],
        "node 'y' (SequenceAt): takes place 7 of a list of 2",
    ),
    "erased beyond": (
        [LISTED, node("SequenceErase", "s far", "y")],
        "node 'y' (SequenceErase): takes place 7 of a list of 2",
    ),
    "of nothing": (
        [node("SequenceEmpty", "", "s"), node("SequenceErase", "s", "y")],
        "node 'y' (SequenceErase): takes an element from an empty list",
    ),
    "a list for a tensor": (
        [LISTED, node("Exp", "s", "y")],
        "node 'y' (Exp): input \"s\" is a list of 2, not a tensor",
    ),
    "a tensor for a list": (
        [node("SequenceAt", "x zero", "y")],
        "node 'y' (SequenceAt): input \"x\" is a tensor, not a list",
    ),
    "a list in a list": (
        [LISTED, node("SequenceInsert", "s s", "y")],
        "node 'y' (SequenceInsert): input \"s\" is a list of 2, not a tensor",
    ),
    "elements of two types": (
        [node("SequenceConstruct", "x zero", "y")],
        "node 'y' (SequenceConstruct): has inputs of types float32 and int64, which must be equal",
    ),
    "a computed place": (
        [LISTED, node("SequenceAt", "s k", "y")],
        "node 'y' (SequenceAt): input \"k\" is computed by the model, and must be known "
        "(it decides the shape or form of the result)",
    ),
    "parts that do not fit": (
        [node("SplitToSequence", "x ones", "y", axis=1)],
        "node 'y' (SplitToSequence): splits an axis of 3 into [1, 1]",
    ),
    "parts of an open axis": (
        [node("SplitToSequence", "x ones", "y")],
        "node 'y' (SplitToSequence): splits an axis of N elements, which is open "
        "(--shape gives an input's sizes)",
    ),
    "an open list as an output": (
        [node("SplitToSequence", "x", "y")],
        'output "y": takes a list of N elements apart, whose length is open '
        "(--shape gives an input's sizes)",
    ),
    "nothing's element": (
        [
            helper.make_node("Optional", [], ["o"], type=info("x", None).type),
            node("OptionalGetElement", "o", "y"),
        ],
        "node 'y' (OptionalGetElement): takes the element of an optional value that has none",
    ),
    "branches of two lengths": (
        [choice([node("SequenceConstruct", "x x", "a")], [node("SequenceConstruct", "x", "b")])],
        "node 'y' (If): has branches that give \"y\" as a list of 2: f32 N x 3, f32 N x 3 and as "
        "a list of 1: f32 N x 3 (--bind c=VALUE may decide the condition)",
    ),
    "a length that a run decides": (
        loop(APPENDS, "e", "k"),
        "node 'y' (Loop): runs as often as the run decides, and has scan outputs, whose number of "
        "rows the run would decide (--max-iterations bounds it)",
    ),
    "some in front of others": (
        [
            LISTED,
            node(
                "Loop",
                "_ c x s",
                "v9 y",
                body=iteration(
                    [
                        *[node("Exp", "v", "v2"), node("SequenceInsert", "s v zero", "s2")],
                        *[node("ReduceSum", "v", "sum", keepdims=0)],
                        *[node("Less", "sum limit", "b"), node("Less", "i three", "d")],
                        node("And", "b d", "go2"),
                    ],
                    "s",
                ),
            ),
        ],
        "node 'v9' (Loop): puts elements in front of those of a list, and the run decides how many "
        "(in front of none that is supported)",
    ),
    "many iterations that read what they append": (
        loop([node("SequenceAt", "s zero", "k"), *COUNTS[1:]], "e", "many"),
        "node 'y' (Loop): node 'k' (SequenceAt): reads a list that the iterations of a loop "
        "append to (a loop of up to 64 known iterations may)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    nodes, told = REFUSED[name]
    inputs = [info("x", ["N", 3]), info("k", [], "i64"), info("c", [], "i1")]
    made = model(nodes, inputs, [list_info("y")], CONSTANTS, opset=18)
    with pytest.raises(CompileError) as error:
        rnncc.compile(made)
    assert str(error.value) == f"<model>: {told}"


def test_two_outputs_of_one_name() -> None:
    nodes = [LISTED, node("Exp", "x", "s.1")]
    made = model(nodes, [info("x", [3])], [info("s.1", None), list_info("s")])
    with pytest.raises(CompileError, match='output "s": has an element of the name of another'):
        imported(made)


def test_lists_of_lists_are_refused() -> None:
    nested = helper.make_sequence_type_proto(list_info("s").type)
    made = model([node("SequenceLength", "s", "y")], [helper.make_value_info("s", nested)], [])
    made.graph.output.append(info("y", None, "i64"))
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="a list of tensors, and the file"):
        onnx_backend.run_model(made, [[X, X]])


@pytest.mark.parametrize("given", ["s", "o", "e"])
def test_no_operator_breaks_on_what_is_no_tensor(given: str) -> None:
    """Each takes a list or an optional value for what it is, or says that it does not."""
    nodes = [LISTED, node("SequenceEmpty", "", "e")]
    nodes.append(helper.make_node("Optional", [], ["o"], type=info("x", None).type))
    for kind in OPERATORS:
        schema = None if "." in kind else schema_of(kind, 18, "")
        if schema is None or schema.domain:
            continue
        for at in range(max(1, min(len(schema.inputs), 6))):
            names = ["x"] * max(at + 1, min(schema.min_input, 6))
            names[at] = given
            made = helper.make_node(kind, names, ["y"], axis=0)
            try:
                interpreted(
                    model([*nodes, made], [info("x", [2, 3])], [info("y", None)], opset=18),
                    {"x": X[:2]},
                )
            except CompileError:
                continue
