"""Tensors of which the run decides how many rows count along two axes, against ONNX Runtime."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from tests.frontends.onnx.models import (
    EXAMPLES,
    assert_close,
    by_onnxruntime,
    graph,
    imported,
    info,
    model,
    node,
)
from tests.frontends.onnx.partial_rows import compared, flags, rows
from tests.frontends.onnx.random_pairs import cut_model, pair_model

CONSTANTS: dict[str, Any] = {
    **{"half": np.float32(0.5), "none": np.float32(-1e4), "zero": np.array(0), "one": np.array(1)},
    **{"first": np.array([0]), "last": np.array([-1]), "keep": np.array([1, -1, 2, 3])},
    **{"heads": np.array([2]), "single": np.array([1]), "w": rows(4, 6)},
    **{"middle": np.array([1, 2]), "lw": rows(12, 1)[None], "lr": rows(12, 3)[None]},
}
"""`first`, `last`, `single`, `heads`: axes; `keep`: a shape."""
ROWS = [node("Compress", "x m", "r", axis=0)]
COLUMNS = [node("Transpose", "r", "c", perm=[1, 0])]
SCORES = [*ROWS, *COLUMNS, node("MatMul", "r c", "a"), node("Mul", "a half", "s")]
OTHERS = [node("Compress", "x k", "q", axis=0)]
NODES: dict[str, list[Any]] = {
    "attention": [*SCORES, node("Softmax", "s", "p", axis=-1), node("MatMul", "p r", "y")],
    "attention to other rows": [
        *(*ROWS, *COLUMNS, *OTHERS, node("MatMul", "q c", "s"), node("Softmax", "s", "p")),
        node("MatMul", "p r", "y"),
    ],
    "heads and a mask": [
        *(*ROWS, node("MatMul", "r w", "rw"), node("Reshape", "rw keep", "h")),
        *(node("Transpose", "h", "rows", perm=[0, 2, 1, 3]),),
        *(
            node("Transpose", "h", "columns", perm=[0, 2, 3, 1]),
            node("MatMul", "rows columns", "a"),
        ),
        *(node("ReduceSum", "r last", "u", keepdims=0), node("Greater", "u half", "masked")),
        *(node("Where", "masked none a", "s"), node("Softmax", "s", "p", axis=-1)),
        *(node("Transpose", "h", "v", perm=[0, 2, 1, 3]), node("MatMul", "p v", "y")),
    ],
    "an output": [*SCORES, node("Neg", "s", "y")],
    "an output of three axes": [
        *(*SCORES, node("Unsqueeze", "s last", "t"), node("Add", "t r", "y")),
    ],
    "steps of a batch": [
        *(*SCORES, node("Unsqueeze", "s last", "t")),
        node("LSTM", "t lw lr", "y _ _", hidden_size=3),
    ],
    "steps of a batch, both ways, to the last state": [
        *(*ROWS, *OTHERS, *COLUMNS, node("MatMul", "q c", "a"), node("Unsqueeze", "a last", "t")),
        *(node("Concat", "lw lw", "w2", axis=0), node("Concat", "lr lr", "r2", axis=0)),
        node("LSTM", "t w2 r2", "_ y", hidden_size=3, direction="bidirectional"),
    ],
    "scores of scores": [*SCORES, node("MatMul", "s s", "t"), node("MatMul", "t r", "y")],
    "by letters": [
        *(*ROWS, node("Einsum", "r r", "a", equation="id,jd->ij"), node("Softmax", "a", "p")),
        node("Einsum", "p r", "y", equation="ij,jd->id"),
    ],
    "distances": [
        *(*ROWS, node("ReduceSum", "r last", "u", keepdims=0), node("Unsqueeze", "u last", "i")),
        *(node("Sub", "u i", "d"), node("Abs", "d", "e"), node("ReduceMin", "e", "y", axes=[0])),
    ],
    "means of both": [
        *(*SCORES, node("ReduceMean", "s", "a1", axes=[1], keepdims=0)),
        *(node("ReduceMean", "s", "a0", axes=[0], keepdims=1), node("Squeeze", "a0 first", "b")),
        node("Add", "a1 b", "y"),
    ],
    "chosen": [
        *(*SCORES, node("Unsqueeze", "s first", "t"), node("Gather", "t zero", "u", axis=0)),
        node("ReduceSum", "u last", "y", keepdims=0),
    ],
    "less the first of each": [
        *(*SCORES, node("Slice", "s first single last", "e0"), node("Sub", "s e0", "d")),
        *(node("Slice", "d first single first", "r0"), node("Mul", "d r0", "e")),
        node("ReduceSum", "e last", "y", keepdims=0),
    ],
    "sizes": [*SCORES, node("Shape", "s", "y")],
    "reshaped": [
        *(*SCORES, node("Shape", "s", "sizes"), node("Concat", "single sizes", "to", axis=0)),
        *(node("Reshape", "s to", "t"), node("Squeeze", "t first", "u")),
        *(node("ReduceMax", "u", "y", axes=[0], keepdims=0),),
    ],
    "beside each other": [
        *(*SCORES, node("Unsqueeze", "s first", "t"), node("Neg", "t", "n")),
        *(node("Concat", "t n", "both", axis=0), node("ReduceSum", "both last", "y", keepdims=0)),
    ],
    "read by a branch": [
        *SCORES,
        node(
            "If",
            "which",
            "y",
            then_branch=graph([node("ReduceMax", "s", "y1", axes=[1])], [], [info("y1", None)]),
            else_branch=graph([node("ReduceMin", "s", "y2", axes=[1])], [], [info("y2", None)]),
        ),
    ],
}
MASKS = (flags(1, 0, 1, 1, 0), flags(0, 0, 1, 0, 0), flags(1, 1, 1, 1, 1))


def _model(nodes: list[Any]) -> Any:
    inputs = [info("x", ["T", 4]), info("m", ["T"], "i1"), info("k", ["T"], "i1")]
    inputs.append(info("which", [], "i1"))
    read = {name for made in nodes for name in made.input}
    inputs = [one for one in inputs if one.name in read]
    dtype = "i64" if nodes[-1].op_type == "Shape" else "f32"
    return model(nodes, inputs, [info("y", None, dtype)], CONSTANTS)


@pytest.mark.parametrize("name", NODES)
def test_rows_along_two_axes(name: str) -> None:
    pytest.importorskip("onnxruntime")
    made = _model(NODES[name])
    shared = {"x": rows(5), "k": flags(0, 1, 1, 0, 1), "which": np.array(True)}
    calls = [{**shared, "m": mask} for mask in MASKS]
    compared(made, [{i.name: call[i.name] for i in made.graph.input} for call in calls])


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(EXAMPLES // 4))
def test_random_chains(seed: int) -> None:
    made = pair_model(random.Random(seed))
    program = imported(made)
    for count, mask in enumerate(MASKS):
        inputs = {"x": rows(count + 5)[:5], "m": mask}
        want = by_onnxruntime(made, inputs)
        assert_close({"y": run(program, inputs)["y"]}, want)


def test_of_no_rows() -> None:
    pytest.importorskip("onnxruntime")
    for name in ("sizes", "attention"):
        compared(_model(NODES[name]), [{"x": rows(5), "m": flags(0, 0, 0, 0, 0)}])


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(EXAMPLES // 2))
def test_random_cuts(seed: int) -> None:
    """Chains over `x[:, :a.max(), :b.max()]`, with axes shorter than the other's bound."""
    made, rng = cut_model(random.Random(seed)), np.random.default_rng(seed)
    program = imported(made)
    for n, t, u in ((1, 4, 4), (2, 5, 3), (3, 4, 6)):
        lengths = {"a": rng.integers(1, t + 1, n), "b": rng.integers(1, u + 1, n)}
        inputs = {"x": rng.standard_normal((n, t, u)).astype(np.float32), **lengths}
        want, got = by_onnxruntime(made, inputs), run(program, inputs)
        # the mean of none is NaN, and 0 for ONNX Runtime
        none = np.isnan(got["y"]) if got["y"].shape == want["y"].shape else False
        assert_close({"y": np.where(none & (want["y"] == 0), 0, got["y"])}, want)


@pytest.mark.parametrize("ending", ["sum", "flat", "both again"])
def test_cuts_as_machine_code(ending: str) -> None:
    pytest.importorskip("onnxruntime")
    starts, ends = np.array([0, 0]), np.array([2**62, 2**62])
    constants = {"z": starts, "big": ends, "axes": np.array([1, 2]), "k": np.array([0, -1])}
    nodes = [
        *(node("ReduceMax", "a", "ma", keepdims=1), node("ReduceMax", "b", "mb", keepdims=1)),
        *(node("Concat", "ma mb", "e", axis=0), node("Slice", "x z e axes", "s")),
        *{
            "sum": [node("ReduceSum", "s axes", "y")],
            "flat": [node("Reshape", "s k", "y")],
            "both again": [node("Slice", "s k big axes", "t"), node("ReduceMax", "t", "y")],
        }[ending],
    ]
    inputs = [info("x", ["N", "T", "U"]), info("a", ["N"], "i64"), info("b", ["N"], "i64")]
    made = model(nodes, inputs, [info("y", None)], constants)
    calls = [
        {"x": np.stack([rows(5, 3)] * len(a)), "a": np.array(a), "b": np.array(b)}
        for a, b in (([5], [3]), ([1, 4], [2, 1]), ([2, 3, 2], [3, 3, 1]))
    ]
    compared(made, calls)


REFUSED = {
    "sums along one of them": [*SCORES, node("CumSum", "s zero", "y")],
    "a third": [
        *(*SCORES, node("Unsqueeze", "s last", "t"), node("Unsqueeze", "r middle", "u")),
        node("Add", "t u", "y"),
    ],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(CompileError, match=r"numbers? of rows"):
        rnncc.compile(_model(REFUSED[name]))
