"""Tile, OneHot, Size, Einsum and Resize of rows whose number the run decides, and loops and
branches that leave such rows, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rnncc.errors import CompileError
from tests.frontends.onnx.models import body, graph, imported, info, model, node
from tests.frontends.onnx.partial_rows import compared, flags, rows

pytest.importorskip("onnxruntime")
CONSTANTS = {
    **{"three": np.array(3), "values": np.array([0.5, 2], np.float32), "none": np.zeros(0, "f4")},
    **{"twice": np.array([2, 1]), "columns": np.array([1, 2]), "all": np.array([0, 1])},
    **{"scales": np.array([1, 2], np.float32), "w": rows(4, 3), "first": np.array([0])},
    **{"source": rows(2, 3), "one": np.array([1]), "around": np.array([3, 1, 1])},
    **{"minus": np.array([-1]), "last2": np.array([-2]), "two": np.array([2])},
    "end": np.array([(1 << 63) - 1]),
}
PARTS = [node("Slice", "r minus end first", "tail"), node("Slice", "r first minus first", "head")]
NODES: dict[str, list[Any]] = {
    "rows again": [node("Tile", "r twice", "y")],
    "columns again": [node("Tile", "r columns", "y")],
    "as often as rows": [
        *(node("Shape", "r", "s"), node("Gather", "s first", "k")),
        *(node("Concat", "k one", "t", axis=0), node("Tile", "source t", "y")),
    ],
    "one-hot": [node("Cast", "r", "i", to=7), node("OneHot", "i three values", "y", axis=1)],
    "one-hot before": [node("Cast", "r", "i", to=7), node("OneHot", "i three values", "y", axis=0)],
    "size": [node("Size", "r", "y")],
    "as many": [
        *(node("Size", "r", "k"), node("Reshape", "k one", "t")),
        node("ConstantOfShape", "t", "y"),
    ],
    "product": [node("Einsum", "r w", "y", equation="ij,jk->ki")],
    "sums": [node("Einsum", "r r", "y", equation="ij,ik->jk")],
    "squares": [node("Einsum", "r r", "y", equation="ij,ij->i")],
    "turned": [node("Einsum", "r", "y", equation="...i->i...")],
    "behind more axes": [node("Expand", "r around", "y")],
    "a number a row": [
        *(node("Shape", "r", "s"), node("ReduceSum", "r one", "t"), node("Expand", "t s", "y")),
    ],
    "rolled": [*PARTS, node("Concat", "tail head", "y", axis=0)],
    "next to each other": [
        *PARTS,
        node("Slice", "r one end first", "b"),
        node("Sub", "b head", "y"),
    ],
    "up to a row": [node("Slice", "r last2 two first", "y")],
    "larger": [node("Resize", "r none scales", "y", mode="linear")],
}


@pytest.mark.parametrize("name", NODES)
def test_chosen_rows(name: str) -> None:
    compress = node("Compress", "x c", "r", axis=0)
    inputs = [info("x", ["N", 4]), info("c", ["N"], "i1")]
    made = model([compress, *NODES[name]], inputs, [info("y", None)], CONSTANTS)
    made.graph.output[0].ClearField("type")
    calls = [{"x": rows(5), "c": flags(1, 0, 1, 1, 0)}, {"x": rows(2), "c": flags(0, 0)}]
    compared(made, [*calls, {"x": rows(1), "c": flags(1)}])


def test_rows_upsampled_as_old_opsets_write_it() -> None:
    nodes = [node("Compress", "x c", "r", axis=2), node("Upsample", "r scales", "y", mode="linear")]
    inputs = [info("x", [1, 2, "N"]), info("c", ["N"], "i1")]
    scales = {"scales": np.array([1, 1, 3], np.float32)}
    made = model(nodes, inputs, [info("y", None)], scales, opset=9)
    compared(made, [{"x": rows(2, 5)[None], "c": flags(1, 0, 1, 1, 0)}])


LESS = [
    *(node("ReduceSum", "v one", "s", keepdims=0), node("Greater", "s limit", "m")),
    *(node("Compress", "v m", "k", axis=0), node("Sub", "k step", "v2")),
]
LOOP = {"one": np.array([1]), "limit": np.float32(0), "step": np.float32(0.5), "t": np.array(True)}
LOOP |= {"zero": np.array(0), "often": np.array(1000), "five": np.array(5)}
KEPT = node("Identity", "go", "go2")


def calls_of(*counts: int, **more: Any) -> list[Any]:
    return [{"x": rows(count, 3), **more} for count in counts]


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_state_that_loses_rows(trips: int) -> None:
    loop = node("Loop", "n t x", "y", body=body([*LESS, KEPT], "v", condition="go2"))
    made = model([loop], [info("x", ["N", 3]), info("n", [], "i64")], [info("y", None)], LOOP)
    compared(made, calls_of(4, 1, 6, n=np.array(trips)))


def test_a_state_and_rows_of_known_iterations() -> None:
    total = node("ReduceSum", "v2 zero1", "r", keepdims=0)
    loop = node("Loop", "five t x", "y r", body=body([*LESS, total, KEPT], "v", "r", "go2"))
    outputs, constants = [info("y", None), info("r", None)], {**LOOP, "zero1": np.array([0])}
    compared(model([loop], [info("x", ["N", 3])], outputs, constants), calls_of(4, 1, 6))


def test_while_rows_are_left() -> None:
    ends = [
        node("Shape", "v2", "z"),
        node("Gather", "z zero", "k2"),
        node("Greater", "k2 zero", "g"),
    ]
    loop = node("Loop", "often t x", "y", body=body([*LESS, *ends], "v", condition="g"))
    compared(model([loop], [info("x", ["N", 3])], [info("y", None)], LOOP), calls_of(4, 1, 6))


def test_a_state_that_begins_with_chosen_rows() -> None:
    loop = node("Loop", "n t w", "y", body=body([*LESS, KEPT], "v", condition="go2"))
    nodes = [node("Compress", "x c", "w", axis=0), loop, node("Shape", "y", "s")]
    inputs = [info("x", ["N", 3]), info("c", ["N"], "i1"), info("n", [], "i64")]
    made = model(nodes, inputs, [info("y", None), info("s", None, "i64")], LOOP)
    chosen = {3: flags(1, 0, 1), 1: flags(0), 5: flags(1, 1, 1, 1, 1)}
    compared(made, [c for k in chosen for c in calls_of(k, c=chosen[k], n=np.array(k - 1))])


def test_a_branch_that_leaves_some_rows() -> None:
    some = graph([node("Compress", "x c", "p", axis=0)], [], [info("p", None)])
    every = graph([node("Neg", "x", "q")], [], [info("q", None)])
    chosen = node("If", "b", "y", then_branch=some, else_branch=every)
    inputs = [info("x", ["N", 3]), info("c", ["N"], "i1"), info("b", [], "i1")]
    made = model(
        [chosen, node("Shape", "y", "s")], inputs, [info("y", None), info("s", None, "i64")]
    )
    compared(made, [c for b in (0, 1) for c in calls_of(3, c=flags(1, 0, 1), b=np.array(bool(b)))])


@pytest.mark.parametrize(
    "pool",
    [
        node("MaxPool", "r", "y", kernel_shape=[3, 1], strides=[2, 1], pads=[1, 0, 1, 0]),
        node("MaxPool", "r", "y", kernel_shape=[2, 2], dilations=[2, 1]),
        node("AveragePool", "r", "y", kernel_shape=[2, 1], strides=[3, 1]),
        node("AveragePool", "r", "y", kernel_shape=[3, 1], pads=[0, 0, 1, 0], count_include_pad=1),
        node("GlobalMaxPool", "r", "y"),
        node("GlobalAveragePool", "r", "y"),
    ],
)
def test_pools_along_rows(pool: Any) -> None:
    """Windows have the elements that they would have without the rows that do not count."""
    nodes = [node("Compress", "x c", "r", axis=2), pool]
    inputs = [info("x", [1, 2, "N", 4]), info("c", ["N"], "i1")]
    made = model(nodes, inputs, [info("y", None)], {}, 19)
    calls = [(7, (1, 0, 1, 1, 0, 1, 0)), (3, (1, 1, 1)), (8, (1, 1, 1, 1, 0, 1, 1, 0))]
    compared(made, [{"x": rows(2 * n).reshape(1, 2, n, 4) - 3, "c": flags(*c)} for n, c in calls])


def test_means_within_pads_are_refused() -> None:
    """The rows that count decide how many elements such a window has."""
    pool = node("AveragePool", "r", "y", kernel_shape=[3], pads=[1, 1])
    inputs = [info("x", [1, 2, "N"]), info("c", ["N"], "i1")]
    nodes = [node("Compress", "x c", "r", axis=2), pool]
    with pytest.raises(CompileError, match="number of rows the run decides"):
        imported(model(nodes, inputs, [info("y", None)]))


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("taps", "stride"), [(3, 2), (4, 3), (2, 3)])
def test_a_window_for_each_stride(taps: int, stride: int, auto: str) -> None:
    """How many rows count decides the pads around them."""
    conv = node("Conv", "r w", "y", auto_pad=auto, strides=[stride, 1])
    nodes = [node("Compress", "x c", "r", axis=2), conv]
    inputs = [info("x", [1, 2, "N", 4]), info("c", ["N"], "i1")]
    made = model(nodes, inputs, [info("y", None)], {"w": rows(6 * taps, 2).reshape(3, 2, taps, 2)})
    calls = [(7, (1, 0, 1, 1, 0, 1, 0)), (3, (1, 0, 0)), (8, (1, 1, 1, 1, 0, 1, 1, 0))]
    compared(made, [{"x": rows(2 * n).reshape(1, 2, n, 4), "c": flags(*c)} for n, c in calls])


FILLED: dict[str, list[Any]] = {
    "by axes": [
        node("Concat", "zero missing", "pads", axis=0),
        node("Pad", "r pads fill axis", "y"),
    ],
    # as TorchScript's exporter writes `pad(y, (0, 0, 0, missing))`: pairs, from the last axis on
    "in pairs": [
        *(node("Concat", "zero zero zero missing", "p", axis=0), node("Reshape", "p pair", "q")),
        node("Slice", "q last first zero last", "s"),
        *(node("Transpose", "s", "t"), node("Reshape", "t last", "pads")),
        node("Pad", "r pads fill", "y"),
    ],
}


@pytest.mark.parametrize("way", FILLED)
def test_padded_to_a_size_of_the_net(way: str) -> None:
    """As many rows as are missing; where there are more than that they are cut off."""
    constants = {"zero": np.array([0]), "axis": np.array([0]), "pair": np.array([-1, 2])}
    constants |= {"last": np.array([-1]), "first": np.array([-(2**63)]), "fill": np.float32(7)}
    nodes = [node("Compress", "x c", "r", axis=0), node("Shape", "r", "shape")]
    nodes += [node("Gather", "shape zero", "count"), node("Shape", "k", "whole")]
    nodes += [node("Sub", "whole count", "missing"), *FILLED[way]]
    inputs = [info("x", ["T", 3]), info("c", ["T"], "i1"), info("k", ["K"])]
    made = model(nodes, inputs, [info("y", ["K", 3])], constants, opset=18)
    few, chosen, none = np.zeros(2, np.float32), flags(1, 0, 1, 1), flags(0, 0, 0, 0)
    calls = ((few, chosen), (np.zeros(5, np.float32), chosen), (few, none))
    compared(made, [{"x": rows(4, 3), "c": c, "k": k} for k, c in calls])
