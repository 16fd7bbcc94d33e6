"""Images of a batch one by one, and windows in one pass with the map behind them: the bits of
kernels one after the other, within memory that ends where the workspace does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rnncc.codegen.cpu import function
from rnncc.codegen.cpu.finished_sums import finished_sums
from rnncc.codegen.cpu.library import entries
from rnncc.codegen.cpu.outlined import OutlinedKernels
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.kern.program import KernelProgram
from rnncc.nn.convolution import convolution
from rnncc.nn.windows import Window
from rnncc.options import Options
from rnncc.planning.batch_runs import BatchRun, JoinedKernels, batch_runs
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower

PLAIN = partial(Window, 1)
THREE = Window(3, pads=(1, 1))
SIZE = 16


def blocks(count: int, residual: bool = False) -> Program:
    """Blocks of depthwise windows, an activation with weights of each channel, and a product."""
    b, rng = Builder.net("blocks"), np.random.default_rng(4)
    arrays, y = dict[str, Any](), b.input("x", ("N", 8, SIZE, SIZE))
    inside = list[Any]()
    for number in range(count):
        channels = 8 if number == 0 else 32
        for name, shape in {
            f"point{number}": (32, channels, 1, 1),
            f"deep{number}": (32, 1, 3, 3),
            f"scale{number}": (32, 1, 1),
            f"shift{number}": (32, 1, 1),
            f"bias{number}": (32,),
        }.items():
            arrays[name] = rng.standard_normal(shape, np.float32)
        point, deep, scale, shift, bias = (
            b.param(f"{kind}{number}", arrays[f"{kind}{number}"].shape)
            for kind in ("point", "deep", "scale", "shift", "bias")
        )
        before = b.relu(convolution(b, y, point, bias, [PLAIN(), PLAIN()], 1))
        y = convolution(b, before, deep, None, [THREE, THREE], 32)
        y = b.relu(b.add(b.mul(y, scale), shift))
        y = b.add(y, before) if residual else y
        inside.append(y)
    # what is read behind the run, too
    means = b.reduce("sum", inside[count // 2], [2, 3])
    return b.finish({"y": y, "means": means}, arrays)


def outputs(kernels: KernelProgram, cpu: str | None) -> list[bytes]:
    code, draw = Bare(kernels, resolve_target(None, cpu)), np.random.default_rng(5)
    x = draw.standard_normal((5, 8, SIZE, SIZE), np.float32)
    with guards(end=True) as memory:
        every = [code.run({"x": x[:n]}, {"N": n}, memory) for n in (1, 2, 5)]
    return [array.tobytes() for made in every for array in made.values()]


def runs_of(kernels: KernelProgram, near: int = 0) -> list[BatchRun]:
    return batch_runs(kernels.func, kernels.symbols, near)


@pytest.mark.parametrize(
    ("large", "parts", "residual", "cpu"),
    [
        (False, False, True, None),
        (True, False, False, "x86-64-v3"),
        (True, False, True, None),
        (True, True, False, None),
    ],
)
def test_bits(
    large: bool, residual: bool, parts: bool, cpu: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = lower(blocks(2, residual), Options())
    [run] = runs_of(kernels)
    assert sum(stride == 0 for stride in run.strides.values()) > 1  # which images share
    assert finished_sums([kernels])
    monkeypatch.setattr("rnncc.codegen.cpu.outlined.MANY", 0 if large else 1000)
    if parts:
        monkeypatch.setattr("rnncc.codegen.cpu.parts.MANY", 0)
        monkeypatch.setattr("rnncc.codegen.cpu.parts.PART", 4)

    def some_near(near: int) -> None:
        runs = partial(batch_runs, kernels.func, kernels.symbols, near)
        monkeypatch.setattr(function, "batch_runs", lambda *arguments: runs(*arguments[3:]))

    some_near(1 << 40)
    with monkeypatch.context() as alone:
        alone.setattr(entries, "finished_sums", lambda programs: {})
        expected = outputs(kernels, cpu)
    assert outputs(kernels, cpu) == expected
    some_near(0)
    assert outputs(kernels, cpu) == expected


def test_small_images_go_together() -> None:
    """What fits next to the core is as near for all images."""
    assert not runs_of(lower(blocks(2), Options()), near=1 << 20)


def test_no_run_begins_between_two_kernels_of_one_pass() -> None:
    """Its rows would have but the first one's share of what the pass writes for all."""
    kernels = lower(blocks(2), Options())
    pairs = finished_sums([kernels])
    joined = JoinedKernels(pairs.keys(), {op.outs[0] for op in pairs})
    runs = batch_runs(kernels.func, kernels.symbols, 0, pairs.keys(), joined)
    assert runs
    assert not {op for run in runs for op in run.ops} & set(pairs.values())


def test_a_map_that_another_reads_between() -> None:
    """Sums that an output of the model gives, too, are stored."""
    b = Builder.net("sums")
    x, w = b.input("x", ("N", 32, 8, 8)), b.param("w", (32, 1, 3, 3))
    y = convolution(b, x, w, None, [THREE, THREE], 32)
    weights = np.ones((32, 1, 3, 3), np.float32)
    kernels = lower(b.finish({"y": b.relu(y), "sums": y}, {"w": weights}), Options())
    assert not finished_sums([kernels])


def test_forms_of_pairs_differ() -> None:
    """Equal sums with other maps behind them are functions of their own."""
    kernels = lower(blocks(3), Options())
    pairs = finished_sums([kernels])
    shared = OutlinedKernels([kernels], resolve_target(None, None), lambda *_: None, finished=pairs)
    assert not shared.thens  # of a small program none is a function
