"""The search for the most likely labels as machine code, of sequences of every length."""

from __future__ import annotations

import numpy as np
import pytest
from rnncc_runtime import ArrayError, Model, RunError

import rnncc
from tests.frontends.caffe2.nets import net, op

LABELS = 5


def test_the_best_path_is_found_and_put_first() -> None:
    ops = [op("ViterbiPath", "x w", "y"), op("SwapBestPath", "x y", "z")]
    model = rnncc.compile(net(ops, "x w", "y z"), shapes={"x": ("T", LABELS)})
    assert isinstance(model, Model)
    rng = np.random.default_rng(0)
    for steps in (1, 2, 3, 4, 6):
        x = rng.standard_normal((steps, LABELS), np.float32)
        w = rng.standard_normal((LABELS, LABELS), np.float32)
        paths = np.indices([LABELS] * steps).reshape(steps, -1)
        sums = x[np.arange(steps)[:, None], paths].sum(0) + w[paths[:-1], paths[1:]].sum(0)
        got = model.run({"x": x, "w": w})
        assert got["y"].tolist() == paths[:, sums.argmax()].tolist()
        assert got["z"].argmax(1).tolist() == got["y"].tolist()
        np.testing.assert_array_equal(np.sort(got["z"]), np.sort(x))
    with pytest.raises(ArrayError, match="T - 1 would be -1"):
        model.run({"x": x[:0], "w": w})


def test_a_label_that_is_none_makes_a_call_fail() -> None:
    model = rnncc.compile(net([op("SwapBestPath", "x y", "z")], "x y", "z"), shapes={"x": "T,5"})
    assert isinstance(model, Model)
    for label in (-1, LABELS):
        path = np.array([0, label], np.int32)
        with pytest.raises(RunError):
            model.run({"x": np.zeros((2, LABELS), np.float32), "y": path})
