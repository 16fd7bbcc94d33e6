"""Reshapes that FC makes unneeded, and those that it does not; what pruning says it did."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rnncc.netdef import NetDef, OperatorDef, export, parameters, prune, remove_reshape_before_fc
from tests.frontends.caffe2.nets import net, op
from tests.netdef.random_nets import outputs_of

PARAMS = {
    "w0": np.arange(12, dtype=np.float32).reshape(4, 3) / 10,
    "b0": np.ones(4, np.float32),
    "w": np.arange(8, dtype=np.float32).reshape(2, 4) / 10,
    "b": np.ones(2, np.float32),
    "minus": np.array([-1], np.int64),
    "flat": np.array([0, -1], np.int64),
    "two": np.array([-1, 2], np.int64),
    "w2": np.ones((2, 2), np.float32),
}
INIT = export(NetDef(), PARAMS)[0]
X = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}

FIRST = op("FC", "x w0 b0", "h")
LAST = op("FC", "r w b", "y")
SIZES = [op("Shape", "h", "s"), op("Slice", "s", "d", starts=[0], ends=[1])]
TWO = [op("FC", "r w b", "t"), op("FC", "h w b", "u")]
JOINED = op("Concat", "d minus", "n split", axis=0)


def with_reshape(*between: OperatorDef, last: OperatorDef = LAST) -> NetDef:
    return net([FIRST, *between, last], f"x {' '.join(PARAMS)}", "y")


@pytest.mark.parametrize(
    "between",
    [
        [op("Reshape", "h flat", "r old")],
        [op("Reshape", "h", "r old", shape=[0, -1])],
        [*SIZES, JOINED, op("Reshape", "h n", "r old")],
        [*SIZES, op("Cast", "d", "d", to=10), JOINED, op("Reshape", "h n", "r old")],
    ],
)
def test_a_reshape_that_flattens_as_fc_does_goes(between: list[OperatorDef]) -> None:
    whole = with_reshape(*between)
    made, gone = prune(whole, parameters(INIT))
    assert [o.type for o in made.op] == ["FC", "FC"]
    assert [r.index for r in gone] == list(range(1, len(whole.op) - 1))
    assert {r.reason for r in gone} == {"flattens as FC does by itself"}
    hidden = X["x"] @ PARAMS["w0"].T + PARAMS["b0"]
    got = outputs_of(made, INIT, X)["y"]
    np.testing.assert_allclose(got, hidden @ PARAMS["w"].T + PARAMS["b"], 1e-6)


@pytest.mark.parametrize(
    ("between", "last"),
    [
        ([op("Reshape", "h two", "r old")], op("FC", "r w2 b", "y")),
        ([op("Reshape", "h flat", "r old")], op("FC", "x r b0", "y")),
        ([op("Reshape", "h flat", "r old")], op("FC", "r w b", "y", axis=0)),
        ([op("Reshape", "h x", "r old")], LAST),
        ([*SIZES, op("Concat", "minus d", "n split", axis=0), op("Reshape", "h n", "r o")], LAST),
        ([op("Shape", "x", "s"), SIZES[1], JOINED, op("Reshape", "h n", "r old")], LAST),
        ([op("Reshape", "h flat", "r old"), op("Tanh", "h", "h"), *TWO], op("Sum", "t u", "y")),
        ([op("Reshape", "h flat", "r old"), op("FC", "r w b", "y")], op("Sum", "old y", "y")),
    ],
)
def test_any_other_reshape_stays(between: list[OperatorDef], last: OperatorDef) -> None:
    whole = with_reshape(*between, last=last)
    made, gone = prune(whole, parameters(INIT))
    assert "Reshape" in {o.type for o in made.op}
    assert "Reshape" not in {r.type for r in gone}


def test_without_arrays_no_reshape_is_known_to_be_unneeded() -> None:
    whole = with_reshape(op("Reshape", "h flat", "r old"))
    assert prune(whole) == (whole, [])
    made, names = remove_reshape_before_fc(whole, list(PARAMS))
    assert [o.type for o in made.op] == ["FC", "FC"]
    assert "flat" not in names


def test_what_went_is_told_in_the_nets_order() -> None:
    ops = [
        op("Copy", "x", "a"),
        op("CopyCPUToGPU", "a", "b"),
        op("Tanh", "x", "unread"),
        op("CopyGPUToCPU", "b", "c"),
        op("Relu", "c", "y"),
    ]
    made, gone = prune(net(ops, "x", "y"))
    assert [str(r) for r in gone] == [
        'op 0 (Copy "a"): copies what may be read itself',
        'op 1 (CopyCPUToGPU "b"): copies there and back',
        'op 2 (Tanh "unread"): no external output depends on it',
        'op 3 (CopyGPUToCPU "c"): copies there and back',
    ]
    assert [(list(o.input), list(o.output)) for o in made.op] == [(["x"], ["y"])]


@pytest.mark.parametrize(
    "ops",
    [
        [op("Copy", "x", "y")],
        [op("Copy", "x", "a"), op("Tanh", "x", "x"), op("Sum", "a x", "y")],
        [op("Copy", "x", "a"), op("Tanh", "a", "x"), op("Sum", "x x", "y")],
        [op("CopyCPUToGPU", "x", "y"), op("CopyGPUToCPU", "y", "a")],
        [op("Copy", "x", "a"), op("TanhGradient", "a a", "y")],
    ],
)
def test_copies_that_are_needed_stay(ops: list[OperatorDef]) -> None:
    made, gone = prune(net(ops, "x", "y"))
    assert made.op[0] == ops[0]
    assert all(r.reason.startswith("no external output") for r in gone)


def test_chains_of_copies_go_whole() -> None:
    names = ["x", *(f"a{i}" for i in range(9))]
    ops = [op("Copy", a, b) for a, b in pairwise(names)]
    made, gone = prune(net([*ops, op("Relu", "a8", "y")], "x", "y"))
    assert [list(o.input) for o in made.op] == [["x"]]
    assert len(gone) == 9


def test_copies_that_come_together_when_others_go_are_a_pair() -> None:
    ops = [
        op("CopyGPUToCPU", "x", "b"),
        op("Tanh", "x", "a"),  # which the next one writes anew
        op("Alias", "b", "a"),
        op("Tanh", "b", "d"),
        op("CopyCPUToGPU", "a", "c"),
        op("Tanh", "c", "y"),
    ]
    made, gone = prune(net(ops, "x", "y"))
    assert [(list(o.input), list(o.output)) for o in made.op] == [(["x"], ["y"])]
    assert prune(made)[0] == made and len(gone) == 5
