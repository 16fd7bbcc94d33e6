"""Small files that ask for much: refused by node, at once and without the memory."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import onnx
import pytest

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.onnx.importer import import_model
from rnncc.frontends.onnx.reading import MAX_NAMES, MAX_NODES
from rnncc.ir.dims import MOST_TERMS
from rnncc.stages.reading import MOST_SIZES
from tests.frontends.onnx.models import imported, info, model, node


def multiplied(count: int, own: bool, *first: Any) -> list[Any]:
    """x plus the `count`-th power of a size s, or s squared so many times."""
    nodes = [*first, node("Identity", "s", "m0")]
    nodes += [node("Mul", f"m{i} {f'm{i}' if own else 's'}", f"m{i + 1}") for i in range(count)]
    return [*nodes, node("Cast", f"m{count}", "f", to=1), node("Add", "x f", "y")]


SIZE = [node("Shape", "x", "sizes"), node("Gather", "sizes zero", "s")]
SUM = [node("Shape", "x", "sizes"), node("ReduceSum", "sizes", "s", keepdims=0)]
ONE_MORE = [*SIZE[:1], node("Gather", "sizes zero", "n"), node("Add", "n one", "s")]
WIDE = [node("Mul", "column row", "a"), node("Mul", "a cube", "b"), node("ReduceSum", "b", "y")]
CONSTANTS = {
    "zero": np.array(0),
    "one": np.array(1),
    "large": np.array(2**62),
    "column": np.ones((1000, 1, 1, 1), np.float32),
    "row": np.ones((1, 1000, 1, 1), np.float32),
    "cube": np.ones((1, 1, 100, 1000), np.float32),
    "numbers": np.zeros(2**20, np.int64),
    "axes": np.ones(2**13, np.int64),
    "rows": np.zeros((1, 2**14), np.float32),
}
CASES: dict[str, tuple[list[Any], str]] = {
    "squares": (
        multiplied(40, True, *SIZE),
        "node 'm5' (Mul): gives a size formula with a product",
    ),
    "powers": (
        multiplied(40, False, *SIZE),
        "node 'm16' (Mul): gives a size formula with a product",
    ),
    "squares of sums": (multiplied(40, True, *ONE_MORE), "node 'm5' (Mul): gives a size formula"),
    "powers of sums": (multiplied(40, False, *SUM), "node 'm16' (Mul): gives a size formula"),
    "large numbers": (
        multiplied(
            40, True, *SIZE[:1], node("Gather", "sizes zero", "n"), node("Mul", "n large", "s")
        ),
        "node 'm1' (Mul): computes a size beyond int64",
    ),
    "products of known numbers": (WIDE, "node 'b' (Mul): gives a tensor of shape 1000 x 1000"),
    "sizes without number": (
        [node("Expand", "x numbers", "y")],
        "node 'y' (Expand): input \"numbers\" holds 1048576 sizes, at most 16384",
    ),
    "axes without number": (
        [node("Expand", "x axes", "y")],
        "node 'y' (Expand): gives a tensor of 8192 axes, at most 64",
    ),
    "rows of known numbers": (
        [node("Gather", "rows numbers", "y", axis=0)],
        "node 'y' (Gather): gives a tensor of shape 1048576 x 16384, which is too large",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    nodes, message = CASES[name]
    made = model(nodes, [info("x", ["N", "a", "b", "c"])], [info("y", None)], CONSTANTS)
    source = made.SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(CompileError) as caught:
            imported(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message in str(caught.value)
    assert peak < 512 << 20


def test_an_input_of_too_many_axes() -> None:
    made = model([node("Relu", "x", "y")], [info("x", ["N"] * 65)], [info("y", None)])
    with pytest.raises(CompileError, match='input "x": has 65 axes, at most 64'):
        imported(made)


def test_more_nodes_than_are_read() -> None:
    """Refused before any node is built."""
    nodes = [node("Relu", "x", f"y{i}") for i in range(MAX_NODES + 1)]
    made = model(nodes, [info("x", [2])], [info("y0", None)])
    start = process_time()
    with pytest.raises(CompileError, match="has 30001 nodes; at most 30000 are read"):
        imported(made)
    assert process_time() - start < 1


def test_nodes_inside_others_are_counted_before_one_is_looked_at() -> None:
    """Though neither operator, opset nor outputs are told: a node of two bytes takes a thousand."""
    inside = onnx.GraphProto(node=[onnx.NodeProto()] * (MAX_NODES + 1))
    outer = onnx.NodeProto(attribute=[onnx.AttributeProto(g=inside)])
    data = onnx.ModelProto(graph=onnx.GraphProto(node=[outer])).SerializeToString()
    with pytest.raises(CompileError, match="has 30002 nodes; at most 30000 are read"):
        import_model(data)


@pytest.mark.parametrize("part", ["node", "graph", "attribute"])
def test_more_names_than_are_read(part: str) -> None:
    """Refused before one of them is looked at: each takes 20 us of later steps."""
    many = {"node": 1, "graph": 1, "attribute": 1} | {part: MAX_NAMES + 1}
    made = onnx.NodeProto(op_type="Sum", input=["x"] * many["node"], output=["y"])
    inside = [onnx.GraphProto()] * many["attribute"]
    made.attribute.append(onnx.AttributeProto(name="a", graphs=inside))
    inputs = [onnx.ValueInfoProto(name="x")] * many["graph"]
    data = onnx.ModelProto(graph=onnx.GraphProto(node=[made], input=inputs)).SerializeToString()
    start = process_time()
    with pytest.raises(CompileError, match="has more than 300000 names"):
        import_model(data)
    assert process_time() - start < 5


def test_a_sum_of_very_many_sizes() -> None:
    names = [f"x{i}" for i in range(MOST_TERMS + 1)]
    inputs = [info(name, [f"S_{name}", 4]) for name in names]
    joined = node("Concat", " ".join(names), "y", axis=0)
    with pytest.raises(CompileError, match=r"'y' \(Concat\): gives a size formula of more than"):
        imported(model([joined], inputs, [info("y", None)]))


def test_very_many_sizes() -> None:
    nodes = [node("Tanh", f"x{i}", f"y{i}") for i in range(MOST_SIZES)]
    inputs = [info(f"x{i}", [f"S{i}", 4]) for i in range(MOST_SIZES)]
    made = model(nodes, inputs, [info(f"y{i}", None) for i in range(MOST_SIZES)])
    told = f"has {MOST_SIZES + 2} open sizes; at most {MOST_SIZES} are compiled"
    with pytest.raises(CompileError, match=told):
        rnncc.compile(made)


def test_parts_of_what_has_many_parts() -> None:
    """As many as it joins others: looking for each is no way along all of them."""
    count = 1000
    nodes = [node("Concat", " ".join(["x", "y"] * (count // 4)), "joined", axis=1)]
    parts = " ".join(f"v{i}" for i in range(count))
    nodes += [node("Split", "joined", parts, axis=1, num_outputs=count), node("Sum", parts, "s")]
    made = model(nodes, [info(n, ["T", 2]) for n in "xy"], [info("s", None)], opset=18)
    start = process_time()
    model_of_parts = rnncc.compile(made)
    assert process_time() - start < 20
    x, y = np.random.default_rng(0).standard_normal((2, 3, 2), np.float32)
    total = (x + y).sum(1, keepdims=True) * (count // 4)
    np.testing.assert_allclose(model_of_parts.run({"x": x, "y": y})["s"], total, 1e-3, 1e-3)


def test_joins_of_joins_stay_few() -> None:
    """Twenty nodes, each of which joins a value with itself: a million parts of x."""
    names = ["x", *(f"v{i}" for i in range(20))]
    nodes = [node("Concat", f"{a} {a}", b, axis=1) for a, b in pairwise(names)]
    made = model([*nodes, node("Relu", names[-1], "y")], [info("x", [1, 1])], [info("y", None)])
    start = process_time()
    y = rnncc.compile(made).run({"x": np.ones((1, 1), np.float32)})["y"]
    assert process_time() - start < 10
    np.testing.assert_array_equal(y, np.ones((1, 1 << 20), np.float32))


def test_what_is_computed_at_import_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen results of one constant: those beyond the bound are left to later passes."""
    from rnncc.frontends.onnx import model as context

    monkeypatch.setattr(context, "MAX_FOLDED_BYTES", 1 << 20)
    count, size = 16, 1 << 17
    nodes = [node("Range", "zero size one", "r"), node("Identity", "zero", "a0")]
    for i in range(count):
        nodes += [node("Add", f"r k{i}", f"d{i}"), node("ReduceMax", f"d{i}", f"m{i}", keepdims=0)]
    nodes += [node("Add", f"a{i} m{i}", f"a{i + 1}") for i in range(count)]
    nodes += [node("Cast", f"a{count}", "f", to=1), node("Add", "x f", "y")]
    constants = {f"k{i}": np.array(i) for i in range(count)}
    constants |= {"zero": np.array(0), "one": np.array(1), "size": np.array(size)}
    made = model(nodes, [info("x", ["N"])], [info("y", None)], constants)
    source = made.SerializeToString()
    tracemalloc.start()
    try:
        imported(source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < count * 8 * size // 2
    y = rnncc.compile(source).run({"x": np.zeros(1, np.float32)})["y"]
    assert y[0] == count * (size - 1) + sum(range(count))
