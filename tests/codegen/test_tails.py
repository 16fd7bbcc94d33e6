"""Ends of rows that fill no vector, and batches of one where the batch runs innermost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.golden import Arrays, random_inputs

UNITS = [1, 3, 4, 6, 8, 12, 20, 24, 28, 40, 66]
BATCHES = [1, 3, 8, 17]
both_ends = pytest.mark.parametrize("end", [False, True], ids=["before", "behind"])


class Compiled:
    """A program, and its code for this machine."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.bare = Bare(lower(program.copy(), Options()), resolve_target())

    def check(self, inputs: Arrays, sizes: Mapping[str, int], end: bool) -> Arrays:
        """Run in guarded memory, and compare with the interpreter."""
        with guards(end) as memory:
            got = self.bare.run(inputs, sizes, memory)
        for name, want in run(self.program, inputs, sizes=sizes).items():
            np.testing.assert_allclose(got[name], want, 1e-5, 1e-5, err_msg=name)
        return got


def layer(units: int) -> Program:
    """y = tanh(x·w), z = 3y + 1, of rows of so many units."""
    b = Builder.net("layer")
    x, w = b.input("x", ["T", "N", 5]), b.param("w", [5, units])
    y = b.tanh(b.matmul(x, w))
    given = b.input("given", ["T", "N", units])
    z = b.add(b.mul(given, b.full_like(given, 3.0)), b.full_like(given, 1.0))
    array = np.random.default_rng(units).standard_normal((5, units)).astype(np.float32)
    return b.finish({"y": y, "z": z}, {"w": array})


@both_ends
@pytest.mark.parametrize("units", UNITS)
def test_rows_of_any_width(units: int, end: bool) -> None:
    compiled = Compiled(layer(units))
    for batch in BATCHES:
        sizes = {"T": 2, "N": batch}
        inputs = random_inputs(compiled.program, sizes)
        got = compiled.check(inputs, sizes, end)
        one = {name: array[:, :1] for name, array in inputs.items()}
        alone = compiled.check(one, {"T": 2, "N": 1}, end)
        for name, array in alone.items():
            np.testing.assert_array_equal(array, got[name][:, :1], err_msg=name)


def softmax() -> Program:
    """Over the first axis, and the places of its elements."""
    b = Builder.net("softmax")
    x = b.input("x", ["T", "N"])
    y = b.exp(b.sub(x, b.broadcast(b.reduce("max", x, [0]), ["T", "N"], [1])))
    place = b.add(b.iota(["T", "N"], 0), b.iota(["T", "N"], 1))
    return b.finish({"y": y, "placed": b.mul(x, b.cast(place, "f32"))}, {})


@both_ends
def test_a_batch_that_runs_innermost(end: bool) -> None:
    compiled = Compiled(softmax())
    for steps in (1, 5, 16, 39):
        x = np.random.default_rng(steps).standard_normal((steps, 33)).astype(np.float32)
        for batch in (2, 33):
            got = compiled.check({"x": x[:, :batch]}, {"T": steps, "N": batch}, end)
            alone = compiled.check({"x": x[:, :1]}, {"T": steps, "N": 1}, end)
            for name, array in alone.items():
                np.testing.assert_array_equal(array, got[name][:, :1], err_msg=name)


@both_ends
def test_extrema_of_rows_of_any_length(end: bool) -> None:
    """Several vectors at a time, one, and a rest; NaN is found wherever it stands."""
    b = Builder.net("extrema")
    x, whole = b.input("x", ["N", "T"]), b.input("whole", ["N", "T"], "i32")
    outputs = {kind: b.reduce(kind, x, [1]) for kind in ("max", "min")}
    compiled = Compiled(b.finish({**outputs, "largest": b.reduce("max", whole, [1])}))
    for size in (1, 17, 64, 143, 200):
        rng = np.random.default_rng(size)
        rows = rng.standard_normal((size, size)).astype(np.float32)
        spoilt = np.concatenate([rows, np.where(np.eye(size, dtype=bool), np.nan, rows)])
        lowest = np.full((1, size), -np.inf, np.float32)
        given = np.concatenate([spoilt, lowest])
        numbers = rng.integers(-(2**31), 2**31, given.shape).astype(np.int32)
        sizes = {"N": len(given), "T": size}
        got = compiled.check({"x": given, "whole": numbers}, sizes, end)
        assert np.isnan(got["max"][size : 2 * size]).all() and got["max"][-1] == -np.inf


@pytest.mark.parametrize("narrow", ["i32", "i8", "u8", "i16", "f16", "bf16", "i1"])
@pytest.mark.parametrize("wide", ["i64", "f32"])
def test_one_narrow_element_behind_whole_vectors(wide: str, narrow: str) -> None:
    """A last element that is truncated is not written before it is, beyond the end."""
    for units in (1, 2, 5, 9, 17, 33):
        b = Builder.net("narrow")
        x, w = b.input("x", [units], wide), b.param("w", [5, units])
        sums = b.reshape(b.matmul(b.input("rows", ["N", 5]), w), ["N", units])
        outputs = {"y": b.cast(x, narrow), "z": b.cast(b.round("even", sums), narrow)}
        program = b.finish(outputs, {"w": np.ones((5, units), np.float32)})
        compiled = Compiled(program)
        rng = np.random.default_rng(units)
        inputs: Arrays = {
            "x": rng.integers(0, 9, units).astype({"i64": np.int64, "f32": np.float32}[wide]),
            "rows": rng.integers(0, 3, (3, 5)).astype(np.float32),
        }
        for end in (False, True):
            compiled.check(inputs, {"N": 3}, end)
