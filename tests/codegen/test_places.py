"""Kernels that run place by place, and windows that are read in strides: the interpreter's values,
and the bits of kernels one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from rnncc_runtime import Pool

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.sums import strided_rows
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern.program import KernelProgram
from rnncc.nn.convolution import convolution
from rnncc.nn.pooling import max_pool
from rnncc.nn.windows import Window
from rnncc.options import Options
from rnncc.planning import place_runs
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

Arrays = dict[str, np.ndarray[Any, Any]]
CPUS = [None, "x86-64-v3", "x86-64-v2"]


def depthwise(
    batch: Dim | int, channels: int, sizes: tuple[int, int], windows: Sequence[Window]
) -> Program:
    """A sum over windows with weights of each channel, and what follows it."""
    b = Builder.net("planes")
    x = b.input("x", (batch, channels, *sizes))
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((channels, 1, *(w.taps for w in windows)), np.float32)
    bias = rng.standard_normal(channels, np.float32)
    w, c = b.param("w", weights.shape), b.param("c", bias.shape)
    y = convolution(b, x, w, c, windows, channels)
    return b.finish({"y": b.relu(y), "z": y}, {"w": weights, "c": bias})


def pooled(
    batch: Dim | int, channels: int, sizes: tuple[int, int], windows: Sequence[Window]
) -> Program:
    b = Builder.net("planes")
    x = b.input("x", (batch, channels, *sizes))
    return b.finish({"y": max_pool(b, x, windows)})


def runs_of(kernels: KernelProgram) -> list[place_runs.PlaceRun]:
    return place_runs.place_runs(kernels.func, 1 << 18, lambda _: True, lambda _: True)


def check(program: Program, inputs: Arrays, sizes: Mapping[str, int], cpu: str | None) -> None:
    want = run(program, inputs, sizes=sizes)
    kernels = lower(program.copy(), Options(cpu=cpu))
    code = Bare(kernels, resolve_target(None, cpu))
    for end in (True, False):
        with guards(end) as memory:
            every = code.run(inputs, sizes, memory)
            for name, array in want.items():
                np.testing.assert_allclose(every[name], array, 1e-5, 1e-5)
                others = want.keys() - {name}
                alone = code.run(inputs, sizes, memory, absent=others)
                np.testing.assert_array_equal(alone[name], every[name])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("seed", range(6))
def test_drawn_planes(cpu: str | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        channels, batch = int(rng.integers(1, 20)), int(rng.integers(1, 3))
        windows = [
            Window(
                int(rng.integers(1, 6)),
                int(rng.integers(1, 4)),
                int(rng.integers(1, 3)),
                (int(rng.integers(0, 3)), int(rng.integers(0, 3))),
            )
            for _ in range(2)
        ]
        sizes = int(rng.integers(9, 60)), int(rng.integers(9, 60))
        x = rng.standard_normal((batch, channels, *sizes), np.float32)
        make = depthwise if rng.random() < 0.7 else pooled
        given = Dim.of("N") if rng.random() < 0.5 else batch
        check(make(given, channels, sizes, windows), {"x": x}, {"N": batch}, cpu)


def plane(stride: int) -> Program:
    return depthwise(1, 18, (48, 48), (Window(3, stride, 1, (1, 1)),) * 2)


@pytest.mark.parametrize("stride", [1, 2])
def test_bits_do_not_change(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((1, 18, 48, 48), np.float32)
    kernels, found = lower(plane(stride)), list[bytes]()
    assert runs_of(kernels)
    for least in (place_runs.LEAST, 1 << 30):
        monkeypatch.setattr(place_runs, "LEAST", least)
        assert bool(runs_of(kernels)) == (least < 1 << 30)
        for shares in (True, False):
            if not shares:
                monkeypatch.setattr(strided_rows.StridedRows, "of", lambda *_: None)
            code = Bare(kernels, resolve_target())
            with guards(end=True) as memory:
                found.append(code.run({"x": x}, {}, memory)["y"].tobytes())
        monkeypatch.undo()
    assert len(set(found)) == 1


def test_threads_share_places() -> None:
    x = np.random.default_rng(0).standard_normal((1, 18, 48, 48), np.float32)
    alone, team = rnncc.compile(plane(2)), rnncc.compile(plane(2), threads=True)
    want = alone.run({"x": x})
    for threads in (1, 2, 3):
        with Pool(threads) as pool:
            found = team.run({"x": x}, pool=pool)
        for name, array in want.items():
            np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("turned", [False, True])
def test_places_that_read_each_other(turned: bool) -> None:
    """They stay one kernel after the other."""
    b = Builder.net("apart")
    wide = b.exp(b.input("x", (20, 20, 60)))
    most = b.reduce("max", wide, [2])
    most = b.transpose(most, (1, 0)) if turned else most
    y = b.sub(wide, b.broadcast(most, (20, 20, 60), [0, 1]))
    program = b.finish({"y": y})
    assert bool(runs_of(lower(program.copy()))) != turned
    x = np.random.default_rng(1).standard_normal((20, 20, 60), np.float32)
    check(program, {"x": x}, {}, None)
