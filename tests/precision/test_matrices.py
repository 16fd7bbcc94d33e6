"""Products by instructions for matrices: the bits of vectors, and the order that is documented."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rnncc_runtime import Pool, load

import rnncc
from rnncc.codegen.cpu.machine.permitted import ARCH_PRCTL, TILE_DATA
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.ir.precision import from_bf16, to_bf16
from rnncc.kern.program import KernelProgram
from rnncc.lowering.lower import lower
from rnncc.planning.layout import plan
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.precision.nets import Low, drawn, product

SHAPES = [(32, 16), (63, 5), (64, 16), (65, 17), (96, 33), (130, 48), (257, 70), (701, 100)]
"""K and units: whole registers of k, and some words more."""
ROWS = [1, 2, 15, 16, 17, 31, 32, 33, 97, 131]
PORTABLE = "x86-64-v3,sapphirerapids,graniterapids"

pytestmark = pytest.mark.skipif(not resolve_target().tiles, reason="no AMX here")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers_are_those_of_vectors(shape: tuple[int, int]) -> None:
    own, weights = resolve_target(), drawn(*shape)
    others = [Bare(_planned(weights, target), target) for target in (own, replace(own, tiles=()))]
    for rows in ROWS:
        inputs = {"x": drawn(rows, shape[0])}
        results: list[np.ndarray] = []
        for bare in others:
            with guards(end=True) as memory:
                results.append(bare.run(inputs, {"T": rows}, memory)["y"])
        np.testing.assert_array_equal(results[0], results[1])


def _planned(weights: np.ndarray, target: CpuTarget) -> KernelProgram:
    kernels = lower(product(weights), target, "int8")
    plan(kernels)
    return kernels


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_order_of_sums_of_bf16(shape: tuple[int, int]) -> None:
    """Of each 32 terms the even and the odd ones are summed apart, then added to those before."""
    weights = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x = np.random.default_rng(2).standard_normal((33, shape[0])).astype(np.float32)
    left, right = (from_bf16(to_bf16(array)) for array in (x, weights))
    total = np.zeros((33, shape[1]), np.float32)
    for terms in _registers(shape[0]):
        sums = np.zeros((2, *total.shape), np.float32)
        for k in terms:
            sums[k % 2] += np.outer(left[:, k], right[k])  # exact: two numbers of 8 bits
        total = total + (sums[0] + sums[1])
    low = Low(product(weights), "bf16")
    for rows in (1, 7, 33):
        got = low.run({"x": x[:rows]}, {"T": rows})["y"]
        np.testing.assert_array_equal(got, total[:rows])


def _registers(depth: int) -> list[range]:
    """The k of each register; the last one counts those alone that no other had."""
    return [range(first, min(first + 32, depth)) for first in range(0, depth, 32)]


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_threads(precision: str) -> None:
    net, x = rnncc.cells.lstm(70, 130), np.ones((5, 45, 70), np.float32)
    x *= np.random.default_rng(0).standard_normal(x.shape)
    model = rnncc.compile(net, precision=precision, threads=True)
    alone = model.run({"x": x})["y"]
    for count in (2, 3):
        with Pool(count) as pool:
            np.testing.assert_array_equal(model.run({"x": x}, pool=pool)["y"], alone)


def test_a_program_that_asks_nothing(tmp_path: Path) -> None:
    """A library asks Linux for the registers as it is loaded, if it needs them."""
    granted = {}
    for precision in ("fp32", "int8"):
        made = rnncc.build(rnncc.cells.lstm(64, 64), out=tmp_path / precision, precision=precision)
        text = f"""if True:
            import ctypes
            ctypes.CDLL({str(made.library)!r})
            told = ctypes.c_uint64()
            assert ctypes.CDLL(None).syscall({ARCH_PRCTL}, 0x1022, ctypes.byref(told)) == 0
            print(told.value >> {TILE_DATA} & 1)
        """
        run = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True)
        granted[precision] = int(run.stdout)
    assert granted == {"fp32": 0, "int8": 1}


def test_versions(tmp_path: Path) -> None:
    """Several of which need AMX."""
    net, x = rnncc.cells.lstm(64, 64), np.ones((3, 20, 64), np.float32)
    made = rnncc.build(net, out=tmp_path, precision="int8", cpu=PORTABLE)
    assert made.library is not None
    model, here = load(made.library), rnncc.compile(net, precision="int8")
    assert "graniterapids" in {version["cpu"] for version in model.metadata["versions"]}
    np.testing.assert_array_equal(model.run({"x": x})["y"], here.run({"x": x})["y"])


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_one_step_of_one_sequence(precision: str) -> None:
    """Which has code of its own where it is short."""
    net, x = rnncc.cells.lstm(48, 40), np.random.default_rng(0).standard_normal((9, 1, 48))
    model = rnncc.compile(net, precision=precision)
    whole = model.run({"x": x.astype(np.float32)})["y"]
    stream = model.stream(batch=1)
    steps = [stream.step({"x": x[t : t + 1].astype(np.float32)})["y"] for t in range(len(x))]
    np.testing.assert_array_equal(np.concatenate(steps), whole)
