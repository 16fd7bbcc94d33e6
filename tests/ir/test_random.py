"""Random numbers: the published generator, and the same stream in NumPy and in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.driver import compiling
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.ops.random import philox
from rnncc.ir.program import Program
from rnncc.options import Options

Values = Sequence[SSAValue]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # the known answers that Random123, the authors' library, is tested by
        ((0, 0), 0, (0xFF1DAE59, 0x6CD10DF2)),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
    ],
)
def test_philox(counter: tuple[int, int], key: int, words: tuple[int, int]) -> None:
    x, y = (np.array([word], np.uint64) for word in counter)
    got = philox((x, y), np.array([key], np.uint64))
    assert tuple(int(word[0]) for word in got) == words


def numbers(stream: int = 0) -> Program:
    """Numbers in bulk, where the width is no multiple of a vector, and in each step of a loop."""
    b = Builder.net("numbers")
    seed, x = b.input("seed", [], "i32"), b.input("x", ["T", 3])
    bulk = b.uniform(seed, b.iota([1000], 0), stream)

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        index = i.add(i.mul(rows[1], i.fill(3, [], "i32")), i.iota([3], 0))
        return [], [i.uniform(consts[0], index, stream)]

    _, (steps,) = b.scan([seed], [], [x, b.iota(["T"], 0)], body)
    return b.finish({"bulk": bulk, "steps": b.add(steps, b.mul(x, b.fill(0.0, [])))})


@pytest.mark.parametrize("cpu", [None, "x86-64-v2"])
@pytest.mark.parametrize("seed", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_code_and_numpy_give_the_same_bits(seed: int, cpu: str | None) -> None:
    inputs: dict[str, Any] = {"seed": np.int32(seed), "x": np.zeros((5, 3), np.float32)}
    want = {real: run(numbers(7), inputs, real) for real in (np.float32, np.float64)}
    options = Options(cpu=cpu)
    model = compiling.load_library(compiling.build_library(numbers(7), None, options), options)
    got = model.run({**inputs, "seed": np.array(seed, np.int32)})
    for name, array in got.items():
        for known in want.values():
            np.testing.assert_array_equal(array, known[name])
    np.testing.assert_array_equal(got["steps"].ravel(), got["bulk"][:15])


def test_streams_and_seeds_are_uniform_and_independent() -> None:
    def draw(seed: int, stream: int) -> np.ndarray:
        b = Builder.net("draw")
        y = b.uniform(b.fill(seed, [], "i32"), b.iota([20000], 0), stream)
        return run(b.finish({"y": y}), {})["y"].astype(np.float64)

    drawn = np.array([draw(seed, stream) for seed in (0, 1) for stream in (0, 1)])
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for row in drawn:
        counts, _ = np.histogram(row, 20, (0, 1))
        assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # χ² of 19 degrees, 1 in 1000
    off = np.corrcoef(drawn) - np.eye(4)
    assert np.abs(off).max() < 4 / np.sqrt(20000)


def test_seeds_are_i32() -> None:
    b = Builder.net("wrong")
    with pytest.raises(CompileError, match="seed is i64, expected i32"):
        b.uniform(b.fill(0, [], "i64"), b.iota([3], 0), 0)
