"""Models with lists of several tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from rnncc import onnx_backend
from tests.frontends.onnx.models import (
    body,
    by_onnxruntime,
    graph,
    node,
)
from tests.frontends.onnx.random_lists import list_info

PLACES = {
    "zero": np.array(0),
    "one": np.array(1),
    "last": np.array(-1),
    "before": np.array(-2),
    "far": np.array(7),
}
X = np.arange(12, dtype=np.float32).reshape(4, 3)
TURNS = {"two": np.array(2), "three": np.array(3), "many": np.array(100)}
CONSTANTS = {**PLACES, **TURNS, "ones": np.array([1, 1]), "limit": np.float32(1)}
GROWS = [node("Add", "x v", "v2"), node("Identity", "go", "go2")]
APPENDS = [node("SequenceInsert", "s v2", "s2")]
COUNTS = [node("SequenceLength", "s", "k"), node("Cast", "k", "q", to=1)]


def assert_same(got: Any, want: Any) -> None:
    """Arrays, or lists of them."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
        return
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    assert got.shape == want.shape and got.dtype == want.dtype


def check(made: Any, inputs: dict[str, Any]) -> None:
    want = list(by_onnxruntime(made, inputs).values())
    for backend in (onnx_backend.Interpreter, onnx_backend.Backend):
        assert_same(list(backend.prepare(made).run(inputs)), want)


def iteration(nodes: list[Any], lists: str, states: str = "v") -> Any:
    """A loop's body that carries lists too, each named by a letter."""
    inside = body(nodes, states=states, condition="go2")
    inside.input.extend(list_info(name) for name in lists)
    inside.output.extend(list_info(f"{name}2") for name in lists)
    return inside


def loop(nodes: list[Any], carried: str, iterations: str = "three") -> list[Any]:
    """A loop that carries x and lists, s and t in its body, from these; it gives y, z and w."""
    lists = "st"[: len(carried.split())]
    inside = iteration([*GROWS, *nodes], lists)
    outputs = " ".join("yzw"[: 1 + len(lists)])
    return [
        node("SequenceEmpty", "", "e"),
        node("SequenceConstruct", "x x", "d"),
        node("Loop", f"{iterations} _ x {carried}", outputs, body=inside),
    ]


def choice(one: list[Any], other: list[Any]) -> Any:
    """An If whose branches end in `a` and `b`."""
    then, otherwise = graph(one, [], [list_info("a")]), graph(other, [], [list_info("b")])
    return node("If", "c", "y", then_branch=then, else_branch=otherwise)
