"""Rows whose number the run decides as a batch, as steps of time, joined; slices that cut them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from rnncc_runtime.errors import ModelError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import body, graph, info, model, node
from tests.frontends.onnx.partial_rows import compared, flags, rows

MICROSOFT = "com.microsoft"
pytestmark = pytest.mark.peers


def numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


CONSTANTS = {
    **{"w": numbers(5, 2, 3), "w1": numbers(2, 3, 2), "v": numbers(4, 2), "m": numbers(6, 3)},
    **{"s": numbers(4), "s2": numbers(2), "wx": numbers(1, 9, 4), "wh": numbers(1, 9, 3)},
    **{"last": np.array(-1), "first": np.array(0), "one": np.array([1]), "two": np.array([2])},
    **{"nought": np.array([0]), "big": np.array([99]), "pads": np.array([0, 0, 1, 0, 0, 2])},
    **{"w8": np.arange(-12, 12, dtype=np.int8).reshape(4, 2, 3), "z8": np.int8(0)},
    **{"to4": np.array([-1, 4, 1, 2]), "to3": np.array([0, 4, -1]), "to8": np.array([8, -1])},
    **{"to44": np.array([-1, 4]), "axes12": np.array([1, 2]), "limit": np.float32(0.9)},
    **{"to24": np.array([2, 4]), "rest": np.array([2, -1])},
    **{"last1": np.array([-1]), "both": np.array([[0, -1]]), "before": np.array([-2])},
    **{"f0": np.float32(0.05), "z0": np.uint8(128), "m8": numbers(3, 8)},
    **{"apart": np.array([3, 1]), "axis2": np.array([2]), "x0": numbers(2, 4)},
}
TURNED = [node("Flatten", "r", "f"), node("Transpose", "f", "t", perm=[1, 0])]
"""r has rows of 2 x 4 numbers, as many as the condition chooses."""
BATCHES = {
    "Conv": [node("Conv", "r w", "y", pads=[1, 1])],
    "ConvTranspose": [node("ConvTranspose", "r w1", "y")],
    "MaxPool": [node("MaxPool", "r", "y", kernel_shape=[2])],
    "AveragePool": [node("AveragePool", "r", "y", kernel_shape=[3], pads=[1, 1])],
    "GlobalMaxPool": [node("GlobalMaxPool", "r", "y")],
    "BatchNormalization": [
        node("Abs", "s2", "s3"),
        node("BatchNormalization", "r s2 s2 s2 s3", "y"),
    ],
    "InstanceNormalization": [node("InstanceNormalization", "r s2 s2", "y")],
    "LayerNormalization": [node("LayerNormalization", "r s s", "y")],
    "LpNormalization": [node("LpNormalization", "r", "y")],
    "TopK": [node("TopK", "r two", "y k")],
    "Split": [node("Split", "r apart", "y q", axis=2)],
    "CumSum": [node("CumSum", "r last", "y", reverse=1)],
    "CumSum of rows": [node("CumSum", "r first", "y", exclusive=1)],
    "Pad": [node("Pad", "r pads", "y")],
    "Slice": [node("Slice", "r one big axis2", "y")],
    "Flatten": [node("Flatten", "r", "y")],
    "Reshape": [node("Reshape", "r to4", "y")],
    "Reshape, rows kept": [node("Reshape", "r to3", "y")],
    "Reshape, rows last": [
        node("Transpose", "r", "t", perm=[1, 2, 0]),
        node("Reshape", "t to8", "y"),
    ],
    "ConstantOfShape": [
        *(node("Shape", "r", "n", end=2), node("ConstantOfShape", "n", "o")),
        *(node("ReduceMax", "r last1", "h", keepdims=0), node("Add", "h o", "y")),
    ],
    "GatherElements": [
        node("ArgMax", "r", "a", axis=2),
        node("GatherElements", "r a", "y", axis=2),
    ],
    "products with columns": [*TURNED, node("MatMul", "v0 t", "y")],
    "matrices": [node("MatMul", "r v", "y")],
    "columns": [node("Transpose", "r", "t", perm=[1, 2, 0]), node("MatMul", "x0 t", "y")],
    "sums of rows": [*TURNED, node("Softmax", "t", "p", axis=-1), node("MatMul", "p f", "y")],
    "Slice of rows": [node("Slice", "r one big nought", "y")],
    "Slice of the last rows": [node("Slice", "r before big nought", "y")],
    "Slice of the first rows": [node("Slice", "r nought two nought", "y")],
    "Gather of rows": [node("Gather", "r both", "y")],
    "Gather of the last row": [*TURNED, node("Gather", "t last", "y", axis=1)],
    "Softmax": [node("Softmax", "r", "y", axis=0)],
    "Hardmax": [node("Hardmax", "r", "y", axis=0)],
    "LpNormalization of rows": [node("LpNormalization", "r", "y", axis=0)],
    "CumSum backwards": [node("CumSum", "r first", "y", reverse=1)],
    "CastLike": [node("CastLike", "r s", "y")],
    "Dropout": [node("Dropout", "r", "y")],
    "Reshape, rows together": [
        *(node("Reshape", "r to44", "p"), node("Exp", "p", "e"), node("Reshape", "e to4", "y")),
    ],
    "Reshape by their number": [
        *(node("Shape", "r", "n"), node("Slice", "n nought one", "k")),
        *(node("Concat", "k rest", "sh", axis=0), node("Reshape", "r sh", "p")),
        *(node("Concat", "one k to24", "th", axis=0), node("Reshape", "p th", "y")),
    ],
    "GroupNormalization": [node("GroupNormalization", "r s2 s2", "y", num_groups=2)],
    "Compress again": [
        *(node("ReduceMax", "r axes12", "h", keepdims=0), node("Greater", "h limit", "d")),
        node("Compress", "r d", "y", axis=0),
    ],
    "NonZero again": [
        *(node("Greater", "r limit", "d"), node("NonZero", "d", "z")),
        node("Cast", "z", "y", to=TensorProto.FLOAT),
    ],
    "ArgMax": [node("ArgMax", "r", "i", axis=0), node("Relu", "r", "y")],
    "PRelu": [node("PRelu", "r s", "y")],
    "FusedConv": [node("FusedConv", "r w", "y", activation="Relu", domain=MICROSOFT)],
    "FusedMatMul": [node("FusedMatMul", "r v", "y", alpha=0.5, domain=MICROSOFT)],
    "FusedMatMul of columns": [
        *(node("Flatten", "r", "a"), node("Relu", "a", "p")),
        node("FusedMatMul", "p a", "y", transA=1, alpha=0.5, domain=MICROSOFT),
    ],
    "FusedMatMul of scores": [
        *(node("Flatten", "r", "a"), node("Relu", "a", "p")),
        node("FusedMatMul", "m8 p", "q", transB=1, domain=MICROSOFT),
        *(node("Softmax", "q", "s8"), node("MatMul", "s8 a", "y")),
    ],
    "BiasGelu": [node("BiasGelu", "r s", "y", domain=MICROSOFT)],
    "SkipLayerNormalization": [
        node("Relu", "r", "k"),
        node("SkipLayerNormalization", "r k s s", "y", domain=MICROSOFT),
    ],
    "QLinearConv": [
        node("QuantizeLinear", "r f0 z0", "q"),
        node("QLinearConv", "q f0 z0 w8 f0 z8 f0 z0", "p"),
        node("DequantizeLinear", "p f0 z0", "y"),
    ],
    "joined": [node("Concat", "r x r", "y", axis=0)],
    "joined behind": [node("Concat", "x r", "y", axis=0)],
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches(name: str) -> None:
    nodes = [node("Compress", "x c", "r", axis=0), *BATCHES[name]]
    whole = name == "ArgMax"
    outputs = [info("y", None), *([info("i", None, "i64")] if whole else [])]
    constants = CONSTANTS | {"v0": numbers(3, 8)}
    made = model(
        nodes,
        [info("x", ["N", 2, 4]), info("c", ["N"], "i1")],
        outputs,
        constants,
        18,
        domains={MICROSOFT: 1},
    )
    chosen = (flags(0, 1, 1), flags(1, 1, 1), flags(0, 0, 1))
    compared(made, [{"x": rows(6).reshape(3, 2, 4), "c": c} for c in chosen])


@pytest.mark.parametrize("op", ["GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("axis", [0, 1])
def test_recurrent_layers(op: str, direction: str, axis: int) -> None:
    """So many steps, or sequences."""
    gates, ways = {"GRU": 3, "LSTM": 4}[op], 1 + (direction == "bidirectional")
    constants = {"w": numbers(ways, gates * 3, 4), "u": numbers(ways, gates * 3, 3)}
    states = "y h c2" if op == "LSTM" else "y h"
    nodes = [node("Compress", "x c", "r", axis=axis)]
    nodes += [node(op, "r w u", states, direction=direction, hidden_size=3)]
    outputs = [info(name, None) for name in states.split()]
    made = model(nodes, [info("x", ["T", "N", 4]), info("c", ["K"], "i1")], outputs, constants)
    x = rows(12).reshape(3, 4, 4)
    chosen = (flags(0, 1, 1), flags(1, 1, 1)) if axis == 0 else (flags(0, 1, 1, 0), flags(1, 1))
    compared(made, [{"x": x, "c": c} for c in chosen])


def cut(bounds: str, outputs: int = 1) -> Any:
    """x cut by bounds that are the model's inputs, used row by row and as a whole."""
    nodes = [node("Slice", f"x {bounds} axis2", "r"), node("Exp", "r", "y")]
    nodes += [node("ReduceSum", "r axis2", "t"), node("Shape", "r", "n")]
    inputs = [info("x", [2, 3, "T"])]
    inputs += [info(name, [1], "i64") for name in bounds.split() if name in ("a", "b")]
    told = [info("y", None), info("t", None), info("n", None, "i64")]
    return model(nodes, inputs, told, CONSTANTS)


@pytest.mark.parametrize("bounds", ["nought b", "a b", "a big", "one b", "a two"])
def test_slices_of_computed_bounds(bounds: str) -> None:
    """Whatever they are: behind each other, beyond the axis, from its end."""
    made, x = cut(bounds), numbers(2, 3, 5)
    calls = list[Any]()
    for a, b in [(0, 3), (1, 4), (2, 2), (4, 1), (-3, -1), (0, 9), (-9, 2), (7, 9), (1, 2**40)]:
        given = {"a": np.array([a]), "b": np.array([b])}
        calls.append({"x": x, **{k: v for k, v in given.items() if k in bounds.split()}})
    compared(made, calls)


def test_slices_of_chosen_rows() -> None:
    """By bounds that are inputs, too."""
    nodes = [node("Compress", "x c", "r", axis=0), node("Slice", "r a b nought", "y")]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
    inputs += [info(name, [1], "i64") for name in "ab"]
    made, x, all_of = model(nodes, inputs, [info("y", None)], CONSTANTS), rows(5), 2**63
    bounds = [(0, 2), (1, all_of - 1), (-2, 9), (2, 1), (-all_of, -1)]
    calls = [{"x": x, "a": np.array([a]), "b": np.array([b])} for a, b in bounds]
    chosen = flags(0, 1, 1, 0, 1), flags(0, 0, 0, 0, 0)
    compared(made, [{**call, "c": c} for call in calls for c in chosen])


@pytest.mark.parametrize("place", [2, -3])
def test_rows_that_are_not_chosen_are_not_there(place: int) -> None:
    nodes = [node("Compress", "x c", "r", axis=0), node("Gather", "r i", "y")]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("i", [], "i64")]
    made = model(nodes, inputs, [info("y", None)])
    with pytest.raises(ModelError, match="outside"):
        rnncc.compile(made).run({"x": rows(3), "c": flags(0, 1, 1), "i": np.array(place)})


def test_rows_that_leave_some_over() -> None:
    nodes = [node("Compress", "x c", "r", axis=0), node("Reshape", "r pairs", "y")]
    inputs = [info("x", [4, 3]), info("c", ["N"], "i1")]
    made = model(nodes, inputs, [info("y", None)], {"pairs": np.array([-1, 2, 3])})
    compared(made, [{"x": rows(4, 3), "c": c} for c in (flags(0, 1, 0, 1), flags(1, 1, 1, 1))])
    with pytest.raises(ModelError, match="a number of rows"):
        rnncc.compile(made).run({"x": rows(4, 3), "c": flags(0, 1, 1, 1)})


def test_a_box_around_a_mask() -> None:
    """The largest int64, which is the minimum of nothing, is no float."""
    nodes = [node("NonZero", "m", "i"), node("ReduceMin", "i", "y", axes=[1], keepdims=0)]
    nodes += [node("ReduceMax", "i", "z", axes=[1], keepdims=0)]
    outputs = [info(name, None, "i64") for name in "yz"]
    made = model(nodes, [info("m", ["N", "T"], "i1")], outputs)
    masks = flags(0, 0, 1, 0, 1, 0), flags(1, 1, 1, 1, 1, 1), flags(0, 0, 0, 0, 0, 0)
    compared(made, [{"m": mask.reshape(2, 3)} for mask in masks])


def test_slices_in_training_need_numbers() -> None:
    with pytest.raises(CompileError, match="must be known"):
        rnncc.compile(cut("nought b"), train=True)


def test_places_that_do_not_count() -> None:
    """What is not chosen may be no row of a table."""
    nodes = [node("Greater", "i no", "c"), node("Compress", "i c", "r", axis=0)]
    nodes += [node("Gather", "m r", "y", axis=0)]
    made = model(
        nodes, [info("i", ["N"], "i64")], [info("y", None)], CONSTANTS | {"no": np.array(-1)}
    )
    compared(made, [{"i": np.array(i)} for i in ([-100, 5, 2], [3, -100], [-100], [1, 2])])


@pytest.mark.parametrize("other", [flags(1, 1, 0), flags(1, 0, 0), flags(1, 1, 1)])
def test_rows_of_two_conditions(other: Any) -> None:
    """They must be as many, or one."""
    nodes = [node("Compress", "x c", "r", axis=0), node("Compress", "x d", "q", axis=0)]
    nodes += [node("Sub", "r q", "y")]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1"), info("d", ["N"], "i1")]
    made, call = model(nodes, inputs, [info("y", None)]), {"x": rows(3), "c": flags(0, 1, 1)}
    if other.sum() < 3:
        compared(made, [{**call, "d": other}])
        return
    with pytest.raises(ModelError, match="a number of rows"):
        rnncc.compile(made).run({**call, "d": other})


def test_rows_of_branches() -> None:
    """Each branch cuts as many as it wants."""
    then = graph([node("Slice", "x nought b", "p")], [], [info("p", None)])
    other = graph([node("Slice", "x b all", "q")], [], [info("q", None)])
    nodes = [node("If", "go", "r", then_branch=then, else_branch=other), node("Exp", "r", "y")]
    inputs = [info("x", ["T", 4]), info("b", [1], "i64"), info("go", [], "i1")]
    made = model(nodes, inputs, [info("y", None)], CONSTANTS | {"all": np.array([2**63 - 1])})
    calls = [
        {"x": rows(5), "b": np.array([b]), "go": np.array(go)} for b in (2, 5) for go in (0, 1)
    ]
    compared(made, [{**call, "go": call["go"].astype(bool)} for call in calls])


def test_bags_of_a_loop() -> None:
    """Means of so many rows of a table for each iteration, as exported of `EmbeddingBag`."""
    inside = [node("Gather", "starts i", "a"), node("Gather", "ends i", "z")]
    inside += [node("Unsqueeze", "a nought", "a1"), node("Unsqueeze", "z nought", "z1")]
    inside += [node("Slice", "places a1 z1 nought", "p"), node("Gather", "m p", "g")]
    inside += [node("ReduceMean", "g", "y2", axes=[0], keepdims=0)]
    nodes = [node("Shape", "starts", "n"), node("Loop", "n _", "y", body=body(inside, "", "y2"))]
    inputs = [info(name, ["N"], "i64") for name in ("starts", "ends")]
    made = model(nodes, [info("places", ["K"], "i64"), *inputs], [info("y", None)], CONSTANTS, 13)
    starts, ends = np.array([0, 2, 3]), np.array([2, 3, 7])
    compared(made, [{"places": np.array([5, 0, 1, 3, 3, 2, 4]), "starts": starts, "ends": ends}])


def test_rows_that_a_loop_reads() -> None:
    """In each iteration the same ones, of the graph around it."""
    inside = [node("Add", "r v", "o"), node("ReduceMax", "o", "v2", axes=[0])]
    nodes = [node("Compress", "x c", "r", axis=0), node("ReduceSum", "r nought", "s0")]
    nodes += [node("Loop", "three _ s0", "y", body=body(inside))]
    made = model(
        nodes,
        [info("x", ["N", 4]), info("c", ["N"], "i1")],
        [info("y", None)],
        CONSTANTS | {"three": np.array(3)},
        13,
    )
    compared(made, [{"x": rows(3), "c": c} for c in (flags(0, 1, 1), flags(1, 0, 0))])


def test_ranges_of_an_open_step() -> None:
    nodes = [node("Shape", "x", "d"), node("ReduceProd", "d", "p", keepdims=0)]
    nodes += [node("Gather", "d last", "k"), node("Range", "first p k", "y")]
    made = model(nodes, [info("x", ["N", "K"])], [info("y", None, "i64")], CONSTANTS)
    compared(made, [{"x": numbers(3, 4)}, {"x": numbers(1, 1)}, {"x": numbers(5, 2)}])


def test_what_is_refused() -> None:
    """What reads rows together otherwise."""
    inputs = [info("x", ["N", 2, 4]), info("c", ["N"], "i1"), info("b", [1], "i64")]
    for nodes in (
        [node("ArgMax", "r", "y", axis=0, select_last_index=1)],
        [node("LayerNormalization", "r s s", "y", axis=0)],
        [node("Cast", "r", "h", to=TensorProto.INT32), node("ReverseSequence", "h c2", "y")],
    ):
        made = model(
            [node("Compress", "x c", "r", axis=0), *nodes],
            inputs,
            [info("y", None)],
            CONSTANTS | {"c2": np.array([1, 1])},
            18,
        )
        with pytest.raises(CompileError, match="number of rows the run decides"):
            rnncc.compile(made)
