"""Small nets of one operator in a form that may be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rnncc.netdef import NetDef
from tests.frontends.caffe2.bad.cases import CASES
from tests.frontends.caffe2.nets import net, op

Shapes = Mapping[str, Sequence[int | str]]
Made = tuple[NetDef, Shapes]
Maker = Callable[[str], Made]

INT, BOOL, INT64, DOUBLE = 2, 5, 10, 13
X23: Shapes = {"x": (2, 3)}


def one(
    inputs: str = "x",
    outputs: str = "y",
    shapes: Shapes | None = None,
    cast: int | None = None,
    **args: Any,
) -> Maker:
    """A net of one operator, after a cast of its first input if that is asked for."""

    def make(kind: str) -> Made:
        read = inputs.split()
        ops = [op(kind, " ".join(["cast", *read[1:]] if cast else read), outputs, **args)]
        if cast:
            ops.insert(0, op("Cast", read[0], "cast", to=cast))
        return net(ops, inputs or "none", outputs.split()[0]), X23 if shapes is None else shapes

    return make


def with_cast(to: int, outputs: str = "y") -> Maker:
    """A net of one operator, of x and of x as another element type."""

    def make(kind: str) -> Made:
        ops = [op("Cast", "x", "cast", to=to), op(kind, "x cast", outputs)]
        return net(ops, "x", outputs.split()[0]), X23

    return make


def bad(name: str) -> Maker:
    """A case of the corpus of bad nets."""

    def make(kind: str) -> Made:
        case = CASES[name]
        assert isinstance(case.net, NetDef)
        return case.net, case.shapes

    return make


def read_mask(kind: str) -> Made:
    ops = [op(kind, "x", "y m", is_test=1), op("Cast", "m", "z", to=1)]
    return net(ops, "x", "z"), X23


def negative_lengths(kind: str) -> Made:
    fill = op("GivenTensorIntFill", "", "n", shape=[2], values=[2, -1])
    return net([fill, op(kind, "n", "y")], "none", "y"), {}


def written_later(kind: str) -> Made:
    ops = [op(kind, "x", "z"), op("Relu", "z", "z"), op("Copy", "z", "y")]
    return net(ops, "x", "y"), X23


def mixed(kind: str) -> Made:
    """Two operands, one of integers and one of floats."""
    ops = [op("Cast", "x", "i", to=INT), op("Sigmoid", "z", "f"), op(kind, "i f", "y")]
    return net(ops, "x z", "y"), {"x": (2, 3), "z": (2, 3)}


def unit(cast: int | None = None, shape: Sequence[int | str] = (1, 2, 3)) -> Maker:
    """A recurrent unit; its number of states follows from its type."""

    def make(kind: str) -> Made:
        states, gates = (["h", "c"], 4) if kind == "LSTMUnit" else (["h"], 3)
        inputs, outputs = [*states, "g", "n", "t"], [f"{name}2" for name in states]
        sizes = dict.fromkeys(states, shape)
        width = shape[2]
        if isinstance(width, int):
            sizes["g"] = (1, 2, gates * width)
        ops = [op(kind, " ".join(inputs), " ".join(outputs))]
        if cast:
            ops.insert(0, op("Cast", "x", states[-1], to=cast))
            sizes.pop(states[-1])
            inputs.remove(states[-1])
            inputs.append("x")
        return net(ops, " ".join(inputs), outputs[0]), sizes

    return make


def lengths64(kind: str, **args: Any) -> Made:
    ops = [op("Cast", "n", "n64", to=INT64), op(kind, "x n64", "y", **args)]
    return net(ops, "x n", "y"), {"x": (3, 2), "n": (3 if args else 2,)}
