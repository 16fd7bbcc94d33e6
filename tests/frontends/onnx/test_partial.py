"""Results whose number of rows the run decides, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from rnncc_runtime.errors import ModelError

import rnncc
from rnncc import onnx_backend
from rnncc.errors import CompileError
from tests.frontends.onnx.models import (
    KINDS,
    body,
    graph,
    imported,
    info,
    model,
    node,
)
from tests.frontends.onnx.partial_rows import compared, flags, rows

CONSTANTS = {
    **{"w": np.arange(12, dtype=np.float32).reshape(4, 3), "table": np.eye(3, dtype=np.float32)},
    **{"last": np.array([-1]), "flat": np.array([-1]), "b": np.ones(3, np.float32)},
    **{
        "one": np.array(1),
        "nought": np.array(0),
        "limit": np.float32(0.3),
        "many": np.array(9),
        "most": np.array(40),
    },
}
MASK = [node("NonZero", "m", "i"), node("Transpose", "i", "j", perm=[1, 0])]
MASK += [node("GatherND", "x j", "y"), node("Shape", "y", "s")]
ROWS = [node("Compress", "x c", "r", axis=0), node("MatMul", "r w", "p"), node("Add", "p b", "q")]
ROWS += [node("Softmax", "q", "y", axis=-1), node("ArgMax", "y", "k", axis=1, keepdims=0)]
ROWS += [node("Gather", "table k", "g"), node("Concat", "y g", "z", axis=1)]
ROWS += [node("ReduceMax", "z", "top", axes=[1], keepdims=0), node("Unsqueeze", "top one1", "t1")]
ROWS += [node("Squeeze", "t1 one1", "t2"), node("Reshape", "t2 flat", "t3")]
NUMBERS = {**CONSTANTS, "one1": np.array([1])}


def test_masks() -> None:
    pytest.importorskip("onnxruntime")
    outputs = [info("y", None), info("i", None, "i64"), info("s", None, "i64")]
    made = model(MASK, [info("x", ["N", "T"]), info("m", ["N", "T"], "i1")], outputs)
    calls = [{"x": rows(2, 3), "m": flags(1, 0, 1, 0, 1, 1).reshape(2, 3)}]
    calls += [{"x": rows(1, 1), "m": flags(each).reshape(1, 1)} for each in (0, 1)]
    compared(made, [*calls, {"x": rows(0, 2), "m": np.zeros((0, 2), bool)}])
    told = rnncc.compile(made).metadata
    assert told["counts"] == {"y": ["y.count", 0], "i": ["y.count", 1]}
    assert told["stream"] == {"refused": "the run decides how many rows an output has"}
    (y, i, _) = onnx_backend.run_model(made, list(calls[0].values()))
    assert y.shape == (4,) and i.shape == (2, 4)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_norms_of_old_opsets(op: str) -> None:
    """Before opset 13 they reach over all axes from one on."""
    pytest.importorskip("onnxruntime")
    nodes = [node("Compress", "x c", "r", axis=0), node(op, "r", "y")]
    made = model(
        nodes, [info("x", ["N", 2, 3]), info("c", ["N"], "i1")], [info("y", None)], opset=12
    )
    inputs = {"x": rows(8, 3).reshape(4, 2, 3), "c": flags(1, 0, 1, 0)}
    compared(made, [inputs])
    made.graph.node[1].attribute.append(helper.make_attribute("axis", 0))
    with pytest.raises(CompileError, match="number of rows the run decides"):
        rnncc.compile(made)


PLACES = [node("NonZero", "m", "i"), node("Transpose", "i", "j", perm=[1, 0])]
COUNT = [node("Reshape", "m flat", "f"), node("Cast", "f", "n", to=TensorProto.INT64)]
COUNT += [node("ReduceSum", "n", "k", keepdims=1)]
ALL = [node("Unsqueeze", "m last", "mu"), node("Shape", "x", "sx"), node("Expand", "mu sx", "mx")]
ALL += [node("NonZero", "mx", "ix"), node("Transpose", "ix", "jx", perm=[1, 0])]
ROW_COUNT = [node("Concat", "k four", "to", axis=0), node("Expand", "r to", "v")]
CUT = [node("Shape", "j", "s1", end=1), node("Slice", "r start s1 start", "v")]
NEGATED = [*MASK, node("Neg", "y", "r")]
PUT = {
    "one number": [*PLACES, *COUNT, node("Expand", "limit k", "u"), node("Reshape", "u flat", "v")],
    "rows": [*NEGATED, *COUNT, *ROW_COUNT],
    "rows that are cut": [*NEGATED, *CUT],
    "elements of rows": [*NEGATED, node("Reshape", "r flat", "v"), *ALL],
}


MARKED = ("101010011", "000000000", "111111111")


@pytest.mark.parametrize("name", PUT)
def test_rows_are_put_where_a_mask_says(name: str) -> None:
    """y[m] = v, as PyTorch's exporters write it."""
    pytest.importorskip("onnxruntime")
    shape = ["N", "T"] if name == "one number" else ["N", "T", 4]
    last = node("ScatterND", f"x {'jx' if name == 'elements of rows' else 'j'} v", "z")
    numbers = CONSTANTS | {"four": np.array([4]), "start": np.array([0])}
    inputs = [info("x", shape), info("m", ["N", "T"], "i1")]
    made = model([*PUT[name], last], inputs, [info("z", None)], numbers)
    masks = [np.array(m, bool).reshape(2, 3) for m in ([1, 0, 1, 0, 1, 1], [0] * 6, [1] * 6)]
    x = rows(6, 4).reshape(2, 3, 4)
    compared(made, [{"x": x[..., 0] if len(shape) == 2 else x, "m": m} for m in masks])


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
def test_rows_are_folded_where_a_mask_says(kind: str) -> None:
    """Several for one place too, and none, which leave what is there, be it infinite."""
    nodes = [*PLACES, node("GatherND", "v j", "r"), node("Div", "j two", "half")]
    nodes += [node("ScatterND", "x half r", "z", reduction=kind)]
    inputs = [info("x", ["N", 2]), info("v", ["N", 2]), info("m", ["N"], "i1")]
    made = model(nodes, inputs, [info("z", None)], {"two": np.array(2)}, 18)
    x, v = rows(9, 2), rows(18, 1).reshape(9, 2)
    x[0] = np.inf, -np.inf
    compared(made, [{"x": x, "v": v, "m": np.array([int(c) for c in m], bool)} for m in MARKED])


def test_of_several_for_one_place_the_last_stays() -> None:
    """In the order of all places, along whichever axis of these they count."""
    nodes = [node("Compress", f"{name} c", f"{name}2", axis=1) for name in "vp"]
    nodes += [node("Unsqueeze", "p2 last", "j"), node("ScatterND", "x j v2", "y")]
    inputs = [info("x", ["K"]), info("v", ["N", "T"]), info("p", ["N", "T"], "i64")]
    made = model(nodes, [*inputs, info("c", ["T"], "i1")], [info("y", None)], CONSTANTS)
    given = {"x": rows(6, 1)[:, 0], "v": rows(3), "p": np.arange(3)[:, None] + np.arange(4)}
    compared(made, [given | {"c": flags(*c)} for c in ([1, 1, 1, 1], [0, 1, 1, 0], [0] * 4)])


@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_rows_of_half_precision_are_read_together(stored: str) -> None:
    """As rows of float32 that are as exact."""
    made: list[Any] = []
    for kind in (stored, "f32"):
        cast = {"to": KINDS[kind]}
        nodes = [node("Compress", "x c", "r0", axis=0), node("Cast", "r0", "r", **cast)]
        nodes += [node(f"Reduce{op}", "r", op, axes=[0]) for op in ("Mean", "Max", "Min")]
        nodes += [node("Softmax", "r", "Softmax", axis=0), node("ArgMax", "r", "k", axis=0)]
        floats = ["Mean", "Max", "Min", "Softmax"]
        if stored == "f16":  # of the other the standard has no order
            nodes, floats = [*nodes, node("TopK", "r one", "Top j", axis=0)], [*floats, "Top"]
        nodes += [node("Cast", name, f"{name}_y", to=1) for name in floats]
        outputs = [*(info(f"{name}_y", None) for name in floats), info("k", None, "i64")]
        inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
        made.append(rnncc.compile(model(nodes, inputs, outputs, {"one": np.array([1])})))
    for count in (1, 3, 8):
        x = np.round(rows(count) * 8) / 8 + np.arange(count, dtype=np.float32)[:, None]
        inputs = {"x": -x, "c": np.arange(count) % 3 == 0}
        got, want = (each.run(inputs) for each in made)
        assert all(np.allclose(got[name], want[name], 0.01, 1e-3) for name in want)


def test_several_places_for_each_row() -> None:
    """Places with axes behind that of the rows, and with one of size 1 before it."""
    pytest.importorskip("onnxruntime")
    nodes = [
        *(*PLACES, node("Unsqueeze", "j one", "ju"), node("Add", "ju apart", "to")),
        *(node("GatherND", "v j", "r"), node("ScatterND", "x to r", "x2")),
        *(node("Unsqueeze", "to zero", "to2"), node("Unsqueeze", "r zero", "r2")),
        *(
            node("Neg", "r2", "r3"),
            node("Add", "to2 one", "to3"),
            node("ScatterND", "x2 to3 r3", "z"),
        ),
    ]
    numbers = {"one": np.array([1]), "zero": np.array([0]), "apart": np.array([[[0], [20]]])}
    inputs = [info("x", [50]), info("v", ["N", 2]), info("m", ["N"], "i1")]
    made = model(nodes, inputs, [info("z", None)], numbers)
    x, v = rows(50, 1)[:, 0], rows(9, 2)
    compared(made, [{"x": x, "v": v, "m": np.array([int(c) for c in m], bool)} for m in MARKED])


def test_other_numbers_of_rows_than_places_are_errors() -> None:
    nodes = [*PLACES, node("Compress", "v c", "r", axis=0), node("ScatterND", "x j r", "z")]
    inputs = [info("x", ["N"]), info("v", ["N"]), info("m", ["N"], "i1"), info("c", ["N"], "i1")]
    compiled: Any = rnncc.compile(model(nodes, inputs, [info("z", None)]))
    arrays = {"x": rows(3, 1)[:, 0], "v": rows(4, 3)[0], "m": flags(1, 0, 1)}
    assert compiled.run({**arrays, "c": flags(0, 1, 1)})["z"][2] == arrays["v"][2]
    with pytest.raises(ModelError, match="a number of rows"):
        compiled.run({**arrays, "c": flags(0, 1, 0)})


def test_rows_that_a_condition_chooses_are_passed_on() -> None:
    pytest.importorskip("onnxruntime")
    outputs = [info("z", None), info("k", None, "i64"), info("t3", None)]
    made = model(ROWS, [info("x", ["N", 4]), info("c", ["N"], "i1")], outputs, NUMBERS)
    compared(made, [{"x": rows(3), "c": flags(0, 1, 1)}, {"x": rows(1), "c": flags(0)}])


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min", "Prod", "L2", "LogSumExp"])
def test_rows_are_reduced(kind: str) -> None:
    """Together, and with other axes; of none the mean is NaN, which ONNX Runtime has as 0."""
    pytest.importorskip("onnxruntime")
    nodes = [node("Compress", "x c", "r", axis=0), node(f"Reduce{kind}", "r", "z", keepdims=0)]
    nodes += [node(f"Reduce{kind}", "r first", "y"), node("Sub", "r y", "d")]
    constants = {"first": np.array([0])}
    outputs = [info(name, None) for name in ("y", "z", "d")]
    made = model(nodes, [info("x", ["N", 4]), info("c", ["N"], "i1")], outputs, constants, 18)
    chosen = [flags(0, 1, 1), flags(1, 1, 1), flags(1, 0, 0)]
    compared(made, [{"x": rows(3) - 3, "c": c} for c in chosen])
    if kind == "Mean":
        none = rnncc.compile(made).run({"x": rows(2), "c": flags(0, 0)})
        assert np.isnan(none["y"]).all() and np.isnan(none["z"])


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "i8", "u8", "i1"])
def test_extrema_of_integers(kind: str, dtype: str) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [node("Compress", "x c", "r", axis=0), node(f"Reduce{kind}", "r first", "y")]
    inputs = [info("x", ["N", 4], dtype), info("c", ["N"], "i1")]
    made = model(nodes, inputs, [info("y", None, dtype)], {"first": np.array([0])}, 20)
    x = (rows(3) * 3).astype(helper.tensor_dtype_to_np_dtype(KINDS[dtype]))
    compared(made, [{"x": x, "c": c} for c in (flags(0, 1, 1), flags(1, 0, 0))])


def test_rows_are_quantised_by_their_range() -> None:
    """What is behind the rows that count is not in it."""
    pytest.importorskip("onnxruntime")
    constants = {"w": np.arange(-6, 6, dtype=np.int8).reshape(4, 3), "zw": np.array(1, np.int8)}
    nodes = [node("Compress", "x c", "r", axis=0), node("Exp", "r", "e")]
    nodes += [node("DynamicQuantizeLinear", "e", "q s z"), node("MatMulInteger", "q w z zw", "p")]
    nodes += [node("Cast", "p", "f", to=TensorProto.FLOAT), node("Mul", "f s", "y")]
    outputs = [info("q", None, "u8"), info("s", None), info("z", None, "u8"), info("y", None)]
    made = model(nodes, [info("x", ["N", 4]), info("c", ["N"], "i1")], outputs, constants)
    compared(made, [{"x": rows(3) - 3, "c": flags(0, 1, 1)}, {"x": rows(2), "c": flags(0, 0)}])


def test_quantised_rows_are_passed_on() -> None:
    pytest.importorskip("onnxruntime")
    constants = {"s": np.float32(0.02), "z": np.array(9, np.uint8), "zw": np.array(1, np.int8)}
    constants |= {"w": np.arange(-6, 6, dtype=np.int8).reshape(4, 3)}
    constants |= {"k": np.array([3, 5, 70, 200], np.uint8), "b": np.array([9, -700, 40], np.int32)}
    nodes = [node("Compress", "x c", "r", axis=0), node("QuantizeLinear", "r s z", "q")]
    nodes += [node("QLinearMul", "q s z k s z s z", "m", domain="com.microsoft")]
    nodes += [node("QLinearSigmoid", "m s z s z", "g", domain="com.microsoft")]
    nodes += [node("QLinearMatMul", "g s z w s zw s z", "p")]
    nodes += [node("QGemm", "g s z w s zw b s z", "h", domain="com.microsoft")]
    outputs = [info(name, None, "u8") for name in "mph"]
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
    made = model(nodes, inputs, outputs, constants, domains={"com.microsoft": 1})
    compared(made, [{"x": rows(3), "c": flags(0, 1, 1)}, {"x": rows(1), "c": flags(0)}])


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("scales", [1, 4])
def test_rows_are_quantised(scales: int, domain: str) -> None:
    pytest.importorskip("onnxruntime")
    numbers = {"s": np.linspace(0.1, 0.2, scales).astype("f4"), "z": np.full(scales, 7, np.uint8)}
    numbers = {k: a if scales > 1 else a[0] for k, a in numbers.items()}
    nodes = [node("Compress", "x c", "r", axis=0)]
    nodes += [node("QuantizeLinear", "r s z", "q", domain=domain)]
    nodes += [node("DequantizeLinear", "q s z", "y", domain=domain)]
    outputs = [info("q", None, "u8"), info("y", None)]
    inputs, both = [info("x", ["N", 4]), info("c", ["N"], "i1")], {"com.microsoft": 1}
    made = model(nodes, inputs, outputs, numbers, domains=both)
    compared(made, [{"x": rows(3), "c": flags(0, 1, 1)}, {"x": rows(1), "c": flags(0)}])
    for each in nodes[1:]:
        each.attribute.append(helper.make_attribute("axis", 0))
    if scales > 1:
        made = model(nodes, inputs, outputs, numbers, domains=both)
        with pytest.raises(
            CompileError, match=r"\(QuantizeLinear\): reads a tensor whose number of"
        ):
            imported(made)


@pytest.mark.parametrize("axis", [None, 1])
def test_compress(axis: int | None) -> None:
    pytest.importorskip("onnxruntime")
    made = model(
        [node("Compress", "x c", "y", **({} if axis is None else {"axis": axis}))],
        [info("x", ["N", 4]), info("c", ["K"], "i1")],
        [info("y", None)],
    )
    compared(made, [{"x": rows(2), "c": flags(0, 1, 1)}, {"x": rows(3), "c": flags(1, 0, 0, 1)}])


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 1])
def test_distinct_elements_and_columns(axis: int | None, ordered: int) -> None:
    pytest.importorskip("onnxruntime")
    along = {} if axis is None else {"axis": axis}
    made = model(
        [node("Unique", "x", "y i r c", sorted=ordered, **along), node("Exp", "y", "z")],
        [info("x", [2, "N"])],
        [info(name, None, "f32" if name in "yz" else "i64") for name in "yircz"],
    )
    x = np.array([[3, 1, 3, 2, 1, 3, 2], [0, 5, 0, 2, 5, 1, 2]], np.float32)
    compared(made, [{"x": x}, {"x": x[:, :1]}, {"x": x[:, ::-1].copy()}])


def until(outputs: list[Any], count: str = "_", extra: Sequence[Any] = ()) -> Any:
    """x is halved until no element is above a limit; a row an iteration, and a list of them."""
    nodes = [node("Mul", "v half", "v2"), node("ReduceMax", "v2", "m", keepdims=0)]
    nodes += [node("Greater", "m limit", "go2"), node("SequenceInsert", "l v2", "l2")]
    listed = helper.make_tensor_sequence_value_info("l", TensorProto.FLOAT, None)
    after = helper.make_tensor_sequence_value_info("l2", TensorProto.FLOAT, None)
    go = [info("i", [], "i64"), info("go", [], "i1")]
    inside = graph(
        nodes,
        [*go, info("v", ["N", 4]), listed],
        [info("go2", [], "i1"), info("v2", ["N", 4]), after, info("m", [])],
        {"half": np.float32(0.5)},
    )
    loop = [node("SequenceEmpty", "", "e"), node("Loop", f"{count} yes x e", "h f ms", body=inside)]
    behind = [node("ConcatFromSequence", "f", "y", axis=1, new_axis=1)]
    behind += [node("SequenceLength", "f", "n"), node("Exp", "ms", "em"), *extra]
    constants = {**CONSTANTS, "yes": np.array(True)}
    inputs = [info("x", ["N", 4]), *([info("k", [], "i64")] if count == "k" else [])]
    return model([*loop, *behind], inputs, outputs, constants)


OUTPUTS = [info("h", None), info("y", None), info("n", None, "i64"), info("em", None)]


@pytest.mark.parametrize(("count", "limit"), [("most", None), ("_", 40), ("k", 40)])
def test_loops_that_data_ends(count: str, limit: int | None) -> None:
    pytest.importorskip("onnxruntime")
    more = {"k": np.array(3)} if count == "k" else {}
    calls = [{"x": abs(rows(2)) * scale, **more} for scale in (1, 1000, 1e-6)]
    compared(until(OUTPUTS, count), calls, max_iterations=limit)


def test_what_is_refused() -> None:
    def refused(made: Any, what: str, **options: Any) -> None:
        with pytest.raises(CompileError, match=what):
            rnncc.compile(made, **options)

    refused(until(OUTPUTS), "number of rows the run would decide .--max-iterations bounds it")
    refused(until(OUTPUTS, "most"), "for inference", train=True)
    made = until([info("d", None)], "most", [node("SequenceAt", "f one", "d")])
    refused(made, "takes a tensor whose number of rows the run decides for a tensor")
    last = [node("ArgMax", "ms", "a", axis=0, select_last_index=1), node("Cast", "a", "f", to=1)]
    inside = body([*last, node("Add", "v f", "v2")], "v")
    made = until([info("o", None)], "most", [node("Loop", "many _ x", "o", body=inside)])
    refused(made, "reads a tensor whose number of rows the run decides .operators that")
