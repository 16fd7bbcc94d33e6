"""Sizes that the run decides, which the rest of a model needs to be other ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.numpy_helper import from_array
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from tests.frontends.onnx.models import assert_close, by_onnxruntime, info, model, node

NUMBERS: dict[str, Any] = {
    "zero": np.array(0),
    "one": np.array(1),
    "last": np.array([-1]),
    "middle": np.array([1]),
}
X, LENGTHS = info("x", ["N", "T", 2]), info("lengths", ["N"], "i64")
LONGEST = [
    node("ReduceMax", "lengths", "longest", keepdims=0),
    node("Range", "zero longest one", "steps"),
    node("Unsqueeze", "lengths last", "ends"),
]


def masked() -> Any:
    """A mask as long as the longest sequence, on steps of the batch."""
    nodes = [
        *LONGEST,
        node("Less", "steps ends", "within"),
        node("Unsqueeze", "within last", "mask"),
        node("Where", "mask x zeros", "y"),
    ]
    return _model(nodes, [X, LENGTHS], zeros=np.float32(0))


def counted_without_range() -> Any:
    """As opset 10 writes it: the places of as many ones."""
    nodes = [
        node("ReduceMax", "lengths", "longest", keepdims=1),
        node("ConstantOfShape", "longest", "ones", value=from_array(np.ones(1, np.int64))),
        node("NonZero", "ones", "places"),
        node("Transpose", "places", "column", perm=[1, 0]),
        node("Squeeze", "column", "steps", axes=[1]),
        node("Unsqueeze", "lengths", "ends", axes=[1]),
        node("Less", "steps ends", "within"),
        node("Unsqueeze", "within", "mask", axes=[2]),
        node("Cast", "mask", "floats", to=1),
        node("Mul", "x floats", "y"),
    ]
    return _model(nodes, [X, LENGTHS], opset=10)


def expanded() -> Any:
    """As the second exporter of PyTorch writes it: steps repeated for each of the batch."""
    nodes = [
        *LONGEST,
        node("Shape", "lengths", "n"),
        node("Reshape", "longest last", "t"),
        node("Concat", "n t", "sizes", axis=0),
        node("Expand", "steps sizes", "all"),
        node("Less", "all ends", "within"),
        node("Cast", "within", "floats", to=1),
        node("Shape", "x", "shape", start=0, end=2),
        node("Concat", "shape middle", "column", axis=0),
        node("Reshape", "floats column", "mask"),
        node("Mul", "x mask", "y"),
    ]
    return _model(nodes, [X, LENGTHS])


def expanded_as_the_first_exporter_writes_it() -> Any:
    """Where a size is -1, one stays: 1 is expanded to instead."""
    nodes = [
        *LONGEST,
        *(node("Shape", "lengths", "n"), node("Unsqueeze", "longest first", "t")),
        *(node("Concat", "n t", "sizes", axis=0), node("Shape", "sizes", "two")),
        node("ConstantOfShape", "two", "ones", value=from_array(np.ones(1, np.int64))),
        *(node("Mul", "ones last", "less"), node("Equal", "sizes less", "kept")),
        *(node("Where", "kept ones sizes", "shape"), node("Unsqueeze", "steps first", "row")),
        *(node("Expand", "row shape", "all"), node("Less", "all ends", "within")),
        *(node("Unsqueeze", "within last", "mask"), node("Where", "mask x zeros", "y")),
    ]
    return _model(nodes, [X, LENGTHS], zeros=np.float32(0), first=np.array([0]))


def every_second_of_one_more() -> Any:
    """As ESPnet's encoders mask what is left of the steps: of a mask of one step more, which is cut
    to the longest sequence."""
    nodes = [
        *(node("ReduceMax", "lengths", "longest", keepdims=0), node("Add", "longest one", "more")),
        *(node("Range", "zero more one", "steps"), node("Unsqueeze", "lengths last", "ends")),
        *(node("Less", "steps ends", "all"), node("Unsqueeze", "longest first", "end")),
        *(
            node("Slice", "all first end middle", "within"),
            node("Unsqueeze", "within last", "mask"),
        ),
        *(
            node("Slice", "mask first far middle two", "m"),
            node("Slice", "x first far middle two", "z"),
        ),
        node("Where", "m z zeros", "y"),
    ]
    numbers = {"first": np.array([0]), "two": np.array([2]), "far": np.array([2**63 - 1])}
    return _model(nodes, [X, LENGTHS], 17, zeros=np.float32(0), **numbers)


def masked_by_floats() -> Any:
    """As FunASR's exporter writes it: the numbers of the steps are floats."""
    nodes = [
        node("ReduceMax", "lengths", "longest", keepdims=0),
        node("Cast", "longest", "end", to=TensorProto.FLOAT),
        node("Range", "begin end delta", "numbers"),
        node("Cast", "numbers", "steps", to=TensorProto.INT64),
        *LONGEST[2:],
        node("Less", "steps ends", "within"),
        node("Unsqueeze", "within last", "mask"),
        node("Where", "mask x begin", "y"),
    ]
    return _model(nodes, [X, LENGTHS], begin=np.float32(0), delta=np.float32(1))


def counted() -> Any:
    """How many steps there are, as an input."""
    nodes = [
        node("Range", "zero count one", "steps"),
        node("Cast", "steps", "times", to=1),
        node("Unsqueeze", "times last", "column"),
        node("Add", "x column", "y"),
    ]
    return _model(nodes, [X, info("count", [], "i64")])


def _model(nodes: list[Any], inputs: list[Any], opset: int = 17, **constants: Any) -> Any:
    return model(nodes, inputs, [info("y", None)], NUMBERS | constants, opset=opset)


def _inputs(made: Any, steps: int, longest: int) -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal((3, steps, 2)).astype(np.float32)
    names = {i.name for i in made.graph.input}
    lengths = np.array([1, longest, 2])
    more = {"lengths": lengths} if "lengths" in names else {"count": np.array(longest)}
    return {"x": x, **more}


MAKERS = [
    *(masked, masked_by_floats, expanded, expanded_as_the_first_exporter_writes_it, counted),
    *(counted_without_range, every_second_of_one_more),
]


@pytest.mark.peers
@pytest.mark.parametrize("make", MAKERS)
def test_a_size_is_that_of_what_it_meets(make: Any) -> None:
    made = make()
    compiled: Any = rnncc.compile(made)
    for steps in (2, 7):
        inputs = _inputs(made, steps, steps)
        assert_close(compiled.run(inputs), by_onnxruntime(made, inputs))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("longest", [4, 6])
def test_another_size_is_an_error_of_the_run(make: Any, longest: int) -> None:
    """ONNX Runtime fails too, where the sizes do not broadcast."""
    made = make()
    with pytest.raises(RunError):
        rnncc.compile(made).run(_inputs(made, 5, longest))


def test_a_size_that_meets_no_other_is_refused() -> None:
    made = _model([*LONGEST, node("Add", "steps ends", "y")], [LENGTHS])
    with pytest.raises(CompileError, match="nothing shows which of the others it is"):
        rnncc.compile(made)
