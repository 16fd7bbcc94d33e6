"""Nodes that contradict the standard's schema of their operator, and errors that nobody foresaw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from rnncc.cli import main
from rnncc.errors import CompileError, InternalError, Location
from rnncc.frontends.onnx.importer import import_model
from rnncc.frontends.onnx.node import OnnxOperator
from rnncc.frontends.onnx.table import OPERATORS
from tests.frontends.onnx.models import info, model, node

F, WHOLE, B = np.ones((2, 3), np.float32), np.ones((2, 3), np.int64), np.ones((2, 3), bool)
BYTES = np.ones((2, 3), np.uint8)
EMPTY = np.zeros(0, bool)


def of(op: str, *arrays: Any, opset: int = 17, **attributes: Any) -> Any:
    """A node over x [2, 3] and constants."""
    names = [f"c{i}" for i in range(len(arrays))]
    constants = dict(zip(names, arrays, strict=True))
    nodes = [node(op, " ".join(["x", *names]), "y", **attributes)]
    return model(nodes, [info("x", [2, 3])], [info("y", None)], constants, opset)


def with_attributes(made: Any, *attributes: Any) -> Any:
    """The model with further attributes of its node."""
    made.graph.node[0].attribute.extend(attributes)
    return made


REFERRING = helper.make_attribute("axis", 1)
REFERRING.ref_attr_name = "a"
TWICE = helper.make_attribute("axis", 0)
CASES = {
    "types that differ": (of("Add", WHOLE), "has inputs of types float32 and int64, which must be"),
    "type that is not allowed": (of("And", B), 'input "x" is float32 (allowed: bool)'),
    "unknown attribute": (of("Neg", axis=1), "has the unknown attribute 'axis' (attributes: it"),
    "attribute of later versions": (
        of("Split", split=[1, 1]),
        "has the unknown attribute 'split' (attributes: axis)",
    ),
    "flag that is neither": (
        of("ArgMin", keepdims=-100),
        "attribute keepdims is -100, expected 0 or 1",
    ),
    "flag of infinities": (
        of("IsInf", opset=20, detect_negative=3),
        "attribute detect_negative is 3, expected 0 or 1",
    ),
    "flag of a sum": (of("ReduceSum", keepdims=2), "attribute keepdims is 2, expected 0 or 1"),
    "flag of a product": (of("Gemm", F, transB=-1), "attribute transB is -1, expected 0 or 1"),
    "attribute of another kind": (
        of("Softmax", axis=1.0),
        "attribute 'axis' is of another type than it should be",
    ),
    "attribute twice": (
        with_attributes(of("Softmax", axis=1), TWICE),
        "has the attribute 'axis' twice",
    ),
    "attribute of no function": (
        with_attributes(of("Softmax"), REFERRING),
        "takes the attribute 'axis' from a function, and stands in none",
    ),
    "limit of several numbers": (of("Clip", F), "has a limit of shape 2 x 3, expected one number"),
    "scale that is larger": (
        of("LayerNormalization", np.ones((2, 2, 3), np.float32)),
        "would broadcast 2 x 3 to 2 x 2 x 3",
    ),
    "addend that is larger": (
        of("Gemm", np.ones((3, 1), np.float32), np.ones((4, 2, 1), np.float32)),
        "would broadcast 2 x 1 to 4 x 2 x 1",
    ),
    "channels": (
        of("InstanceNormalization", np.ones(1, np.float32), np.ones(3, np.float32)),
        "has 1 numbers for the channels of 2 x 3",
    ),
    "channels of a vector": (
        model(
            [node("BatchNormalization", "x c c c c", "y")],
            [info("x", [3])],
            [info("y", None)],
            {"c": np.ones(3, np.float32)},
        ),
        "has 3 numbers for the channels of 3",
    ),
    "repeats below zero": (of("Tile", np.array([-1, 1])), "has the repeats -1, 1"),
    "size below zero": (of("Expand", np.array([2, -1])), "cannot expand 2 x 3 to 2 x -1"),
    "equation": (of("Einsum", equation="1j->j"), "has the equation '1j->j', which holds more"),
    "windows": (
        of("ConvTranspose", np.ones((3, 1, 2), np.float32)),
        "has data 2 x 3 and weights 3 x 1 x 2",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str) -> None:
    made, message = CASES[name]
    with pytest.raises(CompileError) as caught:
        import_model(made)
    op = made.graph.node[0].op_type
    assert str(caught.value).startswith(f"<model>: node 'y' ({op}): {message}")


FOLDED = {
    "sum": ("Add", [np.ones(2), np.ones(3)], {}, "shapes do not broadcast: 2 and 3"),
    "choice": ("Where", [B, F[:, :2], F], {}, "shapes do not broadcast: 2 x 3 and 2 x 2 and 2 x 3"),
    "quotient": ("Div", [WHOLE, WHOLE - WHOLE], {}, "divides integers by 0"),
    "axis": ("CumSum", [F, np.array(2)], {}, "axis 2 of a tensor of rank 2"),
    "row": ("Gather", [F, np.array(2)], {}, "has an index outside of -2..1"),
    "row at once": ("Concat", [F, F[0]], {"axis": 0}, "has inputs of shapes 2 x 3 and 3, which"),
    "elements": ("Reshape", [F, np.array([4])], {}, "cannot bring 2 x 3 into the shape 4"),
    "growth": ("Expand", [F, np.array([4, 3])], {}, "cannot expand 2 x 3 to 4 x 3"),
    "step": ("Range", [np.array(0), np.array(2), np.array(0)], {}, "counts from 0 to 2 in steps"),
    "many": (
        *("Range", [np.array(0), np.array(1 << 40), np.array(1)], {}),
        "counts from 0 to 1099511627776 in steps of 1, to 4194304 numbers at most",
    ),
    "end": (
        *("Range", [np.float32(0), np.float32("nan"), np.float32(1)], {}),
        "counts from 0.0 to nan in steps of 1.0",
    ),
    "zero points": (
        *("MatMulInteger", [BYTES, BYTES.T, BYTES[0, 0], BYTES[:, :1]], {}),
        "has zero points (2, 1) for data (3, 2)",
    ),
    "places": ("ScatterND", [F, np.array([[0, 3]]), F[0, :1]], {}, "has an index outside of -3"),
}


@pytest.mark.parametrize("name", FOLDED)
def test_constants(name: str) -> None:
    op, arrays, attributes, message = FOLDED[name]
    names = [f"c{i}" for i in range(len(arrays))]
    nodes = [node(op, " ".join(names), "y", **attributes)]
    made = model(nodes, [], [info("y", None)], dict(zip(names, arrays, strict=True)))
    with pytest.raises(CompileError) as caught:
        import_model(made)
    assert str(caught.value).startswith(f"<model>: node 'y' ({op}): {message}")


def test_a_size_beyond_int64() -> None:
    huge = [info("x", [1 << 40, 1 << 40])]
    with pytest.raises(CompileError, match=r"node 'y' \(Size\): computes a size beyond int64"):
        import_model(model([node("Size", "x", "y")], huge, [info("y", None)]))


def test_a_condition_of_no_numbers() -> None:
    branches = {
        f"{name}_branch": model([node("Neg", "x", "y")], [], [info("y", None)]).graph
        for name in ("then", "else")
    }
    nodes = [node("If", "c", "z", **branches)]
    made = model(nodes, [info("x", [2])], [info("z", None)], {"c": EMPTY})
    with pytest.raises(CompileError, match='input "c" holds 0 numbers, not one'):
        import_model(made)


def test_what_nobody_foresaw_is_our_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(n: Any) -> Any:
        return n.b.transpose(n.x(), None)

    monkeypatch.setitem(OPERATORS, "Neg", OnnxOperator(build))
    (tmp_path / "m.onnx").write_bytes(of("Neg").SerializeToString())
    with pytest.raises(InternalError) as caught:
        import_model(tmp_path / "m.onnx")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/m.onnx: node 'y' (Neg): ir/builder.py:")
    assert "TypeError: 'NoneType' object is not iterable (please report this line, " in text
    assert main(["check", str(tmp_path / "m.onnx")]) == 1
    shown = capsys.readouterr().err
    assert shown == f"rnncc: error: internal error: {text} (RNNCC_DEBUG=1 shows where)\n"


def test_what_nobody_foresaw_is_told_in_short() -> None:
    error = InternalError.at(Location("m.onnx"), ValueError("x\n" * 5000))
    assert len(str(error)) < 2100 and "\n" not in str(error)
    assert str(error).endswith("x (please report this line, with the model if you can)")
