"""Random numbers that follow from a seed: their distributions, and others in each iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc.nn.random import SPREAD
from tests.frontends.onnx.models import body, graph, info, interpreted, model, node

TIMES, MANY = 6, 500


def rows(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def seeded(number: int) -> np.ndarray[Any, Any]:
    return np.array(number, np.int32)


DRAWN = {
    "RandomNormalLike": (0.5, 2.0, {"mean": 0.5, "scale": 2.0}),
    "RandomUniformLike": (1.5, 0.5 / np.sqrt(12), {"low": 1.25, "high": 1.75}),
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers(name: str) -> None:
    mean, deviation, attributes = DRAWN[name]
    nodes = [node(name, "x", "y", **attributes), node(name, "x", "z", **attributes)]
    made = model(nodes, [info("x", ["N", 1000])], [info("y", None), info("z", None)])
    compiled, x = rnncc.compile(made), rows(50, 1000)
    one, again, other = (compiled.run({"x": x, "seed": seeded(seed)}) for seed in (1, 1, 2))
    np.testing.assert_allclose(
        interpreted(made, {"x": x, "seed": seeded(1)})["y"], one["y"], 1e-4, 1e-6
    )
    assert np.array_equal(one["y"], again["y"]) and not np.array_equal(one["y"], other["y"])
    assert abs(np.corrcoef(one["y"].ravel(), one["z"].ravel())[0, 1]) < 0.02
    assert abs(one["y"].mean() - mean) < 0.02 * deviation
    assert abs(one["y"].std() - deviation) < 0.02 * deviation


def test_random_numbers_of_a_shape() -> None:
    nodes = [
        *(node("RandomUniform", "", "u", shape=[40, 50]), node("Bernoulli", "p", "y")),
        node("RandomNormal", "", "z", shape=[3], dtype=11),
    ]
    made = model(nodes, [info("p", [2000])], [info(name, None) for name in "uyz"])
    got = rnncc.compile(made).run({"p": np.full(2000, 0.25, np.float32), "seed": seeded(5)})
    assert got["u"].shape == (40, 50) and got["z"].dtype == np.float64
    assert set(got["y"]) == {0, 1} and abs(got["y"].mean() - 0.25) < 0.04


DRAW = node("RandomNormalLike", "x", "r")
CONTROL: dict[str, list[Any]] = {
    "loop": [
        node("Loop", "times yes x", "v y", body=body([DRAW, node("Identity", "v", "v2")], "v", "r"))
    ],
    "data ends it": [
        node(
            "Loop",
            "times yes x",
            "v y",
            body=body(
                [
                    *(DRAW, node("Identity", "v", "v2"), node("ReduceMax", "r", "m", keepdims=0)),
                    node("Less", "m ten", "more"),
                ],
                "v",
                "r",
                condition="more",
            ),
        )
    ],
    "scan": [
        node(
            "Scan",
            "turns",
            "y",
            body=graph([DRAW], [info("t", [])], [info("r", None)]),
            num_scan_inputs=1,
        )
    ],
    "a branch in a loop in a loop": [
        node(
            "Loop",
            "three yes x",
            "v z",
            body=body(
                [
                    node(
                        "Loop",
                        "two yes x",
                        "w y1",
                        body=body(
                            [
                                node("Identity", "v", "v2"),
                                node(
                                    "If",
                                    "chosen",
                                    "r1",
                                    then_branch=graph([DRAW], [], [info("r", None)]),
                                    else_branch=graph(
                                        [node("RandomUniformLike", "x", "u")], [], [info("u", None)]
                                    ),
                                ),
                            ],
                            "v",
                            "r1",
                            first="j go1",
                            condition="go1",
                        ),
                    ),
                    node("Identity", "q", "q2"),
                ],
                "q",
                "y1",
            ),
        ),
        node("Reshape", "z shape", "y"),
    ],
}


@pytest.mark.parametrize("name", CONTROL)
def test_each_iteration_draws_others(name: str) -> None:
    numbers: dict[str, Any] = {"times": np.array(TIMES), "two": np.array(2), "three": np.array(3)}
    numbers |= {"yes": np.array(True), "ten": np.float32(10), "turns": np.arange(6, dtype="f")}
    inputs = [info("x", ["N"]), info("chosen", [], "i1")]
    shape = np.array([TIMES, -1])
    made = model(CONTROL[name], inputs, [info("y", None)], {**numbers, "shape": shape})
    compiled: Any = rnncc.compile(made)
    given = {"x": rows(MANY), "chosen": np.array(True)}
    given = {n: a for n, a in given.items() if n in compiled.inputs}
    one, again, other = (compiled.run({**given, "seed": seeded(s)})["y"] for s in (1, 1, 2))
    assert one.shape == (TIMES, MANY)
    assert np.array_equal(one, again) and abs(one.std() - 1) < 0.05
    want = interpreted(made, {**given, "seed": seeded(1)})["y"]
    np.testing.assert_allclose(one, want, 1e-4, 1e-5)
    together = np.corrcoef([*one, *other])
    assert np.abs(together - np.eye(2 * TIMES)).max() < 0.2


def test_seeds_of_iterations_are_others() -> None:
    outer, inner = np.meshgrid(np.arange(1000), np.arange(1000))
    assert len(np.unique((SPREAD * outer + inner) % (1 << 32))) == outer.size


@pytest.mark.parametrize("samples", [1, 3])
def test_categories(samples: int) -> None:
    chances = np.array([0.1, 0.0, 0.6, 0.3], np.float32)
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(chances) + np.float32(2), (9000 // samples, 1))
    made = model(
        [node("Multinomial", "x", "y", sample_size=samples, dtype=7)],
        [info("x", ["N", 4])],
        [info("y", None)],
    )
    compiled: Any = rnncc.compile(made)
    drawn = compiled.run({"x": logs, "seed": seeded(4)})["y"]
    assert drawn.shape == (9000 // samples, samples) and drawn.dtype == np.int64
    counts = np.bincount(drawn.ravel(), minlength=4) / drawn.size
    assert counts[1] == 0 and np.abs(counts - chances).max() < 0.02


def test_a_sampler() -> None:
    """Each token is drawn by what the one before it makes likely."""
    follows = np.full((5, 5), -np.inf, np.float32)
    follows[np.arange(5), (np.arange(5) + 1) % 5] = follows[np.arange(5), np.arange(5)] = 0
    nodes = [
        *(node("Gather", "f t", "l"), node("Multinomial", "l", "k", dtype=7)),
        node("Reshape", "k last", "t2"),
    ]
    loop = node(
        "Loop", "times yes x", "t y", body=body([*nodes, node("Identity", "t2", "r")], "t", "r")
    )
    numbers: dict[str, Any] = {"f": follows, "last": np.array([-1]), "times": np.array(50)}
    made = model(
        [loop], [info("x", ["N"], "i64")], [info("y", None)], numbers | {"yes": np.array(True)}
    )
    compiled: Any = rnncc.compile(made)
    tokens = compiled.run({"x": np.zeros(4, np.int64), "seed": seeded(0)})["y"]
    steps = np.diff(tokens, axis=0) % 5
    assert set(steps.ravel()) == {0, 1} and 0.35 < steps.mean() < 0.65
    assert not np.array_equal(tokens[:, 0], tokens[:, 1])


def test_dropout_in_training_mode() -> None:
    drop = node("Dropout", "x ratio on", "y kept")
    numbers = {"ratio": np.float32(0.25), "on": np.array(True)}
    outputs = [info("y", None), info("kept", None, "i1")]
    compiled: Any = rnncc.compile(model([drop], [info("x", ["N", 8])], outputs, numbers))
    x = rows(1000, 8)
    got = compiled.run({"x": x, "seed": seeded(7)})
    np.testing.assert_allclose(got["y"], np.where(got["kept"], x / np.float32(0.75), 0), 1e-6)
    assert abs(got["kept"].mean() - 0.75) < 0.02
