"""Products of a single step pack their weights as they read them: the same bits, by any threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from rnncc_runtime import Pool, TrainableModel

import rnncc
from rnncc.cells import gru, lstm
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.kern.library import Library
from rnncc.planning.late_packs import late_packs
from tests.codegen.streamed import library_of

Arrays = Mapping[str, np.ndarray]
GRU, LSTM = gru(16, 83), lstm(16, 83)


def training(program: Program, max_steps: int | None) -> Library:
    return library_of(program.copy(), train=True, max_steps=max_steps)


def test_weights_are_packed_late_where_they_are_read_once() -> None:
    assert len(late_packs(training(GRU, 1))) > 2
    assert not late_packs(training(GRU, 2))


def test_weights_that_two_products_read_are_packed_before() -> None:
    b = Builder.net("twice")
    x, z = (b.input(name, ["T", "N", 40], "f32") for name in "xz")
    w = b.param("w", (40, 40))
    program = b.finish(
        {"y": b.matmul(x, w), "v": b.matmul(z, w)}, {"w": np.zeros((40, 40), np.float32)}
    )
    library = training(program, 1)
    late = late_packs(library)
    assert not any(gemm in late for gemm in library.programs["forward"].func.walk())


def trained(model: TrainableModel, steps: int, batch: int, pool: Pool | None) -> Arrays:
    rng = np.random.default_rng(steps)
    x = rng.standard_normal((steps, batch, 16)).astype(np.float32)
    outputs, tape = model.forward({"x": x}, pool=pool)
    grads = {name: np.cos(array) for name, array in outputs.items()}
    return outputs | model.backward(tape, grads, pool=pool)


@pytest.mark.parametrize("cell", [GRU, LSTM], ids=["gru", "lstm"])
def test_bits_stay(cell: Program) -> None:
    plain, single = (
        rnncc.compile(cell.copy(), train=True, threads=True, max_steps=most) for most in (None, 1)
    )
    for steps, batch, threads in ((1, 1, 1), (1, 7, 1), (1, 1, 3), (1, 33, 2), (0, 2, 2)):
        want = trained(plain, steps, batch, None)
        with Pool(threads) as pool:
            got = trained(single, steps, batch, pool)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name, strict=True)
