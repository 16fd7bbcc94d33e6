"""Damaged, wrong and hostile models, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.frontends.onnx.models import graph, info, model, node

X = info("x", ["N", 4])
Y = info("y", None)


def one(kind: str, inputs: str = "x", constants: Any = None, **attributes: Any) -> Any:
    """One node on x [N, 4]."""
    return model([node(kind, inputs, "y", **attributes)], [X], [Y], constants)


def changed(change: Callable[[Any], object], made: Any = None) -> Any:
    """A model after a change."""
    made = one("Relu") if made is None else made
    change(made)
    return made


def deep(levels: int) -> Any:
    """An If in an If in an If ..."""
    inner = other = graph([node("Neg", "x", "y")], [], [Y])
    for _ in range(levels):
        inner = graph([node("If", "c", "y", then_branch=inner, else_branch=other)], [], [Y])
    made = helper.make_model(inner, opset_imports=[helper.make_opsetid("", 17)])
    made.graph.input.extend([X, info("c", [], "i1")])
    return made


def calling(name: str, body: list[Any]) -> Any:
    """A model with a function of its own."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "f", ["a"], ["b"], body, imports)
    made = graph([helper.make_node(name, ["x"], ["y"], domain="own")], [X], [Y])
    return helper.make_model(made, opset_imports=imports, functions=[function])


def external(location: str) -> Any:
    made = one("Add", "x w", {"w": np.ones(4, np.float32)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return made


def loops(levels: int) -> Any:
    """Loops in loops, each of which changes its value's shape: iterations are built apart."""
    body = [node("Concat", "v v", "v2", axis=0)]
    for level in range(levels):
        inputs = [info("i", [], "i64"), info("c", [], "i1"), info("v", None)]
        outputs = [info("c", [], "i1"), info("v2", None)]
        inside = graph(body, inputs, outputs)
        names = "sixty yes x" if level == levels - 1 else "sixty yes v"
        body = [node("Loop", names, "y" if level == levels - 1 else "v2", body=inside)]
    constants = {"sixty": np.array(60), "yes": np.array(True)}
    return model(body, [X], [Y], constants)


def looped(kind: str, inputs: str) -> Any:
    """A loop whose condition and value are what one damaged node gives, and the Identity of it."""
    body = [node(kind, inputs, "go"), node("Identity", "v", "v2")]
    body = body if kind != "Identity" else [node("Identity", "", "v2"), node("Identity", "c", "go")]
    inside = graph(
        body,
        [info("i", [], "i64"), info("c", [], "i1"), info("v", None)],
        [info("go", [], "i1"), info("v2", None)],
    )
    constants = {"sixty": np.array(60), "yes": np.array(True)}
    return model([node("Loop", "sixty yes x", "y", body=inside)], [X], [Y], constants)


WHOLE = one("Relu").SerializeToString()
CASES: dict[str, tuple[Any, str]] = {
    "empty file": (b"", "is empty (an ONNX model is expected)"),
    "truncated": (WHOLE[:-9], "is no ONNX model, or a damaged one"),
    "other bytes": (b"\x08\x08\x12" + b"\xff" * 40, "is no ONNX model, or a damaged one"),
    "no opset": (
        changed(lambda m: m.ClearField("opset_import")),
        "does not say which opset its operators are of",
    ),
    "old opset": (
        changed(lambda m: setattr(m.opset_import[0], "version", 5)),
        "is of opset 5; 6 to",
    ),
    "new opset": (
        changed(lambda m: setattr(m.opset_import[0], "version", 9999)),
        "is of opset 9999; 6 to",
    ),
    "unknown operator": (
        one("Relux"),
        "node 'y' (Relux): operator Relux is not supported (rnncc ops --onnx lists those that are)",
    ),
    "unknown domain": (
        changed(lambda m: setattr(m.graph.node[0], "domain", "com.x")),
        "node 'y' (Relu): is of the domain 'com.x', which the model does not import",
    ),
    "refused operator": (
        one("StringNormalizer"),
        "node 'y' (StringNormalizer): operator StringNormalizer is not supported: compiled code "
        "does not see the characters of texts (rnncc ops --onnx lists those that are)",
    ),
    "missing value": (
        one("Add", "x nothing"),
        "node 'y' (Add): reads \"nothing\", which no node, input or initialiser gives",
    ),
    "cycle": (
        model([node("Add", "x z", "y"), node("Neg", "y", "z")], [X], [Y]),
        "node 'y' (Add): reads \"z\", which a later node gives (nodes may be in any order, unless "
        "they read each other's results in a circle)",
    ),
    "written twice": (
        model([node("Neg", "x", "y"), node("Neg", "x", "y")], [X], [Y]),
        "node 'y' (Neg): writes \"y\", which is there already",
    ),
    "output that nothing writes": (
        model([node("Neg", "x", "z")], [X], [Y]),
        'no node writes the output "y"',
    ),
    "no outputs": (model([node("Neg", "x", "y")], [X], []), "has no outputs"),
    "too few inputs": (one("Add"), "node 'y' (Add): has 1 inputs, expected 2"),
    "too many outputs": (
        model([node("Neg", "x", "y z")], [X], [Y]),
        "node 'y' (Neg): has 2 outputs, at most 1",
    ),
    "missing attribute": (one("Concat"), "node 'y' (Concat): lacks the attribute 'axis'"),
    "attribute of another type": (
        one("Concat", axis="one"),
        "node 'y' (Concat): attribute 'axis' is of another type than it should be",
    ),
    "attribute out of range": (
        one("LSTM", "x x x", direction="sideways"),
        "node 'y' (LSTM): attribute 'direction' = 'sideways' is not one of forward, reverse, "
        "bidirectional",
    ),
    "limit that leaves nothing": (
        one("RNN", "x x x", clip=0.0),
        "node 'y' (RNN): attribute 'clip' = 0 (a limit is above 0; without one nothing is clipped)",
    ),
    "wrong rank": (
        one("LSTM", "x w r", {"w": np.ones((1, 16, 4), "f4"), "r": np.ones((1, 16, 4), "f4")}),
        "node 'y' (LSTM): has data of shape N x 4, expected 3 axes",
    ),
    "axis out of range": (
        one("Softmax", axis=5),
        "node 'y' (Softmax): axis 5 of a tensor of rank 2",
    ),
    "transform of the axis of parts": (
        model([node("DFT", "v _ axis", "y")], [info("v", [2, 2])], [Y], {"axis": np.array(1)}, 20),
        "node 'y' (DFT): transforms the axis of real and imaginary parts",
    ),
    "sizes that differ": (
        one("MatMul", "x w", {"w": np.ones((3, 2), np.float32)}),
        "node 'y' (MatMul): product of N x 4 and 3 x 2: inner sizes are 4 and 3",
    ),
    "shapes that do not broadcast": (
        one("Add", "x w", {"w": np.ones(3, np.float32)}),
        "node 'y' (Add): shapes do not broadcast: N x 4 and 3",
    ),
    "reshape that does not fit": (
        one("Reshape", "x s", {"s": np.array([3, 5])}),
        "node 'y' (Reshape): N x 4 has 4*N elements, 3 x 5 has 15",
    ),
    "shape that is computed": (
        model(
            [
                node("Cast", "x", "i", to=7),
                node("Flatten", "i", "j", axis=0),
                node("Reshape", "x j", "y"),
            ],
            [X],
            [Y],
        ),
        "node 'y' (Reshape): input \"j\" is computed by the model, and must be known (it decides "
        "the shape or form of the result)",
    ),
    "computed bounds that are no vector": (
        model(
            [node("Cast", "x", "i", to=7), node("Slice", "x i i", "y")],
            [X],
            [Y],
        ),
        "node 'y' (Slice): input \"i\" is not a vector of integers",
    ),
    "absurd shape": (
        one("Expand", "x s", {"s": np.array([1 << 40, 1, 4])}),
        "node 'y' (Expand): gives a tensor of shape 1099511627776 x N x 4, which is too large",
    ),
    "absurd constant": (
        changed(lambda m: m.graph.initializer.add(name="w", dims=[1 << 40], data_type=1)),
        'initialiser "w": tensor "w" of shape [1099511627776] is too large',
    ),
    "short constant": (
        changed(lambda m: m.graph.initializer.add(name="w", dims=[9], data_type=1)),
        'initialiser "w": tensor "w" is damaged: ',
    ),
    "data twice": (
        changed(
            lambda m: m.graph.initializer.add(
                name="w", dims=[1], data_type=1, raw_data=bytes(4), float_data=[1]
            )
        ),
        'initialiser "w": tensor "w" has its data twice, in float_data and raw_data'
        " (ONNX allows one field)",
    ),
    "negative size": (
        changed(lambda m: m.graph.initializer.add(name="w", dims=[-1], data_type=1)),
        'initialiser "w": tensor "w" has the shape [-1]',
    ),
    "unknown type": (
        changed(lambda m: m.graph.initializer.add(name="w", dims=[1], data_type=99)),
        'initialiser "w": tensor "w" has the unknown type 99',
    ),
    "complex numbers": (
        changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 14)),
        'input "x": holds complex64; supported: float32, float64, int32, int64, bool, int8, uint8, '
        "int16, uint16, uint32, uint64, float16, bfloat16, text",
    ),
    "texts": (
        changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 8)),
        "node 'y' (Relu): input \"x\" is text (allowed: bfloat16, double, float, float16, int16, "
        "int32, int64, int8)",
    ),
    "sequence": (
        changed(lambda m: m.graph.input[0].type.sequence_type.elem_type.SetInParent()),
        'input "x": is a list of tensors, and the file does not say what it holds '
        "(rnncc.onnx_backend takes lists)",
    ),
    "map": (
        changed(lambda m: m.graph.input[0].type.map_type.value_type.SetInParent()),
        'input "x": is no tensor but a value of kind map, which is not supported',
    ),
    "no shape": (
        changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
        'input "x" has no shape (--shape x=... gives one)',
    ),
    "name of control characters": (
        changed(lambda m: setattr(m.graph.node[0], "name", "a\nb")),
        "the name 'a\\nb' holds a control character",
    ),
    "branches that differ": (
        model(
            [
                node(
                    "If",
                    "c",
                    "y",
                    then_branch=graph([node("Neg", "x", "a")], [], [info("a", None)]),
                    else_branch=graph([node("Size", "x", "a")], [], [info("a", None, "i64")]),
                )
            ],
            [X, info("c", [], "i1")],
            [Y],
        ),
        "node 'y' (If): has branches that give \"y\" as f32 N x 4 and as i64 scalar (--bind "
        "c=VALUE may decide the condition)",
    ),
    "deep": (deep(25), "has graphs inside each other, more than 24 deep"),
    "recursion": (
        calling("f", [helper.make_node("f", ["a"], ["b"], domain="own")]),
        "node 'y' (f): calls functions more than 24 deep, f among them (functions that do not call "
        "each other in a circle)",
    ),
    "loops in loops": (loops(4), ""),
    "endless loop": (
        model(
            [
                node(
                    "Loop",
                    "_ _ x",
                    "y",
                    body=graph(
                        [node("Identity", "c", "c2"), node("Neg", "v", "v2")],
                        [info("i", [], "i64"), info("c", [], "i1"), info("v", None)],
                        [info("c2", [], "i1"), info("v2", None)],
                    ),
                )
            ],
            [X],
            [Y],
        ),
        "node 'y' (Loop): has neither a trip count nor a condition that ends it",
    ),
    "data of another folder": (
        external("../w.bin"),
        'initialiser "w": tensor "w" has its data in \'../w.bin\', which is not in the model\'s '
        "folder",
    ),
    "data of the system": (
        external("/etc/passwd"),
        'initialiser "w": tensor "w" has its data in \'/etc/passwd\', which is not in the model\'s '
        "folder",
    ),
    "data behind a link": (
        external("link/w.bin"),
        'initialiser "w": tensor "w" has its data in \'link/w.bin\', which is not in the model\'s '
        "folder",
    ),
    "data of a folder": (
        external("."),
        'initialiser "w": tensor "w" has its data in \'.\', which is not in the model\'s folder',
    ),
    "a loop's value of an Identity of nothing": (
        looped("Identity", ""),
        "node 'y' (Loop): node 'v2' (Identity): has 0 inputs, expected 1",
    ),
    "a loop's condition of one side": (
        looped("Less", "i"),
        "node 'y' (Loop): node 'go' (Less): has 1 inputs, expected 2",
    ),
    "data that is missing": (
        external("w.bin"),
        'initialiser "w": tensor "w" has its data in \'w.bin\', which is no file',
    ),
    "data that is short": (
        external("short.bin"),
        'initialiser "w": tensor "w" wants 16 bytes from 0 on of short.bin, of 3',
    ),
}
STARTS = {
    "loops in loops": "node 'y' (Loop): ",
    "short constant": 'initialiser "w": tensor "w" is damaged: ',
    "old opset": "is of opset 5; 6 to",
    "new opset": "is of opset 9999; 6 to",
}
