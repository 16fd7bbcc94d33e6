"""HSoftmax and its gradient, against the sum along each word's path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rnncc_runtime import RunError

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from tests.frontends.caffe2.hierarchies import PATHS, ROWS, WIDTH, made, shapes, tree

RANDOM = np.random.default_rng(3)
X, W, BIAS = (RANDOM.normal(size=shape) for shape in ((4, WIDTH), (ROWS, WIDTH), (ROWS,)))
LABELS = np.array([2, 0, 1, 2], np.int32)
DY = RANDOM.normal(size=4)


def expected(x: Any, w: Any, bias: Any) -> Any:
    losses = np.zeros(len(x))
    for n, word in enumerate(LABELS):
        for index, length, target in PATHS[word]:
            scores = w[index : index + length] @ x[n] + bias[index : index + length]
            p = np.exp(scores - scores.max())
            losses[n] -= np.log(max(p[target] / p.sum(), 1e-20))
    return losses


@pytest.mark.parametrize("order", [(), (2, 0, 1)])
def test_sums_along_paths(order: tuple[int, ...]) -> None:
    paths = [PATHS[word] for word in order or range(3)]
    model = rnncc.compile(made(tree(paths, order)), shapes=shapes())
    arrays = {name: a.astype(np.float32) for name, a in (("x", X), ("w", W), ("b", BIAS))}
    got = model.run({**arrays, "labels": LABELS})["y"]
    np.testing.assert_allclose(got, expected(X, W, BIAS), 1e-5)


def test_only_rows_of_the_path_count() -> None:
    """Not even where the others are NaN, in the gradient neither."""
    program = import_net(made(tree(PATHS), gradient=True), shapes=shapes())
    w = W.copy()
    w[5:] = np.nan
    labels = np.array([0, 1, 1, 0], np.int32)
    got = run(program, {"x": X, "w": w, "b": BIAS, "labels": labels, "dy": DY}, np.float64)
    assert all(np.isfinite(array).all() for array in got.values())
    assert (got["dw"][5:] == 0).all()


def test_least_probability() -> None:
    program = import_net(made(tree(PATHS), gradient=True), shapes=shapes())
    bias = BIAS.copy()
    bias[0] = -1e3
    inputs = {"x": X, "w": 0 * W, "b": bias, "labels": np.zeros(4, np.int32), "dy": DY}
    np.testing.assert_allclose(run(program, inputs, np.float64)["y"], -np.log(1e-20))
    # the slope is that of a probability of 1e-20, and the softmax's of 0
    assert (run(program, inputs, np.float64)["db"] == 0).all()


def test_gradient_is_the_limit_of_differences() -> None:
    program = import_net(made(tree(PATHS), gradient=True), shapes=shapes())
    inputs = {"x": X, "w": W, "b": BIAS}
    got = run(program, {**inputs, "labels": LABELS, "dy": DY}, np.float64)
    for name, array in inputs.items():
        for at in np.ndindex(array.shape):
            ends: list[float] = []
            for by in (1e-6, -1e-6):
                moved = {n: a.copy() for n, a in inputs.items()}
                moved[name][at] += by
                ends.append(float(expected(*moved.values()) @ DY))
            slope = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(got[f"d{name}"][at], slope, 1e-5, 1e-7)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_that_is_no_word_fails(label: int) -> None:
    model = rnncc.compile(made(tree(PATHS)), shapes=shapes())
    arrays = {name: a.astype(np.float32) for name, a in (("x", X), ("w", W), ("b", BIAS))}
    with pytest.raises(RunError, match="outside of its table"):
        model.run({**arrays, "labels": np.array([0, 1, label, 0], np.int32)})


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        (b"\xff\xff", "no HierarchyProto"),
        (b"", "the words 0, 1, 2"),
        (3, "holds an integer"),
        (tree(PATHS, (0, 1, 1)), "the words 0, 1, 2"),
        (tree(PATHS, (0, 1, 3)), "the words 0, 1, 2"),
        (tree([PATHS[0], []]), "paths of no nodes"),
        (tree([[(0, 3, 3)]]), "node 0 of 3 rows and target 3"),
        (tree([[(0, 3, -1)]]), "target -1"),
        (tree([[(-1, 3, 0)]]), "node -1"),
        (tree([[(9, 3, 0)]]), "has 12 rows, the matrix 11"),
        (tree([[(2**31 - 1, 2, 0)]]), "beyond those of any matrix"),
        (tree([PATHS[0] * 5000, *[PATHS[0]] * 5000]), "of no nodes, or of 5000"),
    ],
)
def test_refused(hierarchy: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        import_net(made(hierarchy), shapes=shapes())


def test_what_has_no_meaning_is_not_read() -> None:
    read = made(tree(PATHS))
    read.external_output[:] = ["scratch"]
    with pytest.raises(CompileError, match="scratch"):
        import_net(read, shapes=shapes())
    other = made(tree(PATHS), gradient=True)
    other.op[1].arg[0].s = tree(PATHS[::-1])
    with pytest.raises(CompileError, match="argument 'hierarchy' is not that of the other"):
        import_net(other, shapes=shapes())
