"""Products whose rows are windows over bytes: copied run by run, or all at once before."""

from __future__ import annotations

import numpy as np
import pytest
from rnncc_runtime import Pool

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.kernels import Gemm
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

CPUS = [None, "x86-64-v3", "x86-64-v2"]
N, H, W = (Dim.of(name) for name in "NHW")
UNITS = 21
SHAPES = [(1, 3, 4), (2, 5, 9), (1, 4, 123), (0, 3, 4)]


def convolved(channels: int, stride: int = 1) -> Program:
    """Windows of 3 by 2 over [N, H, W, channels], every so many columns."""
    b = Builder.net("made")
    x, height, width = b.input("x", (N, H, W, channels), "i8"), H - 2, (W - 2).under(stride) + 1
    rows = b.windows(b.windows(x, 1, 0, height, 1, 3), 3, 0, width, stride, 2)
    rows = b.transpose(rows, (0, 1, 3, 2, 4, 5))
    depth = 6 * channels
    weights = np.random.default_rng(1).integers(-128, 128, (depth, UNITS)).astype(np.int8)
    w = b.param("w", weights.shape, "i8")
    y = b.matmul(b.reshape(rows, (N, height, width, depth)), w)
    return b.finish({"y": b.add(y, b.fill(3, (), "i32"))}, {"w": weights})


def drawn(shape: tuple[int, int, int], channels: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.integers(-128, 128, (*shape, channels)).astype(np.int8)}


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("channels", "whole"), [(8, True), (16, True), (32, True), (3, False)])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows(cpu: str | None, channels: int, whole: bool, stride: int) -> None:
    program = convolved(channels, stride)
    made = lower(program.copy(), Options(cpu=cpu))
    gemms = [op for op in made.module.walk() if isinstance(op, Gemm)]
    assert [op.k_sizes is not None for op in gemms] == [whole]
    code = Bare(made, resolve_target(None, cpu))
    for shape in SHAPES:
        sizes, inputs = dict[str, int](zip("NHW", shape, strict=True)), drawn(shape, channels)
        want = run(program, inputs, sizes=sizes)["y"]
        np.testing.assert_array_equal(kern_interpreter.run(made, inputs, sizes)["y"], want)
        for end in (True, False):
            with guards(end) as memory:
                found = code.run(inputs, {"T": 1, **sizes}, memory)["y"]
            np.testing.assert_array_equal(found, want)


def test_threads() -> None:
    program = convolved(16)
    model = rnncc.compile(program, threads=True)
    for shape in SHAPES[:3]:
        inputs = drawn(shape, 16)
        want = run(program, inputs, sizes=dict(zip("NHW", shape, strict=True)))["y"]
        with Pool(2) as pool:
            np.testing.assert_array_equal(model.run(inputs, pool=pool)["y"], want)
