"""Golden nets, lowered and planned, in the kern interpreter, over one workspace as compiled."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from rnncc.driver.compiling import build_library
from rnncc.frontends.caffe2 import import_net
from rnncc.ir import interpreter
from rnncc.ir.program import Program
from rnncc.kern.interpreter import run
from rnncc.kern.library import Library
from rnncc.kern.program import KernelProgram
from rnncc.options import Options
from rnncc.planning.layout import make_plan
from tests.compiling import lower
from tests.golden import CASES, random_inputs
from tests.planning.helpers import check_apart

SIZES = [(0, 2), (1, 1), (5, 3), (13, 20)]
PLANNED_FOR = [
    *((1, 1, 3), (4, 2, 5), (5, 3, 4), (20, 2, 6), (13, 20, 7), (3, 200, 5), (0, 2, 3)),
    *((50, 8, 50), (50, 32, 50), (100, 1, 50), (200, 64, 60), (1000, 32, 50), (2000, 1, 10)),
]
"""T, N and any other symbol; nothing is saved at T = 0."""
TRIPLE = "x86_64-unknown-linux-gnu"
TARGETS = [(TRIPLE, "x86-64-v4"), (TRIPLE, "x86-64-v2"), ("aarch64-unknown-linux-gnu", "generic")]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)


def imported(case: Path) -> Program:
    return import_net(case / "net.pb", case / "init.pb")


def lowered(case: Path, target: tuple[str, str] = TARGETS[0], known: bool = True) -> KernelProgram:
    """`known`: the parameters are packed in; else the caller gives them."""
    program = imported(case)
    program.arrays = program.arrays if known else {}
    return lower(program, Options(target=target[0], cpu=target[1]))


def compare(case: Path, kernels: KernelProgram, steps: int, batch: int, absent: bool) -> None:
    """Kernels against the net: all outputs, and, if asked, again with each one absent."""
    program = imported(case)
    sizes = dict.fromkeys(program.symbols, 4) | {"T": steps, "N": batch}
    inputs = random_inputs(program, sizes)
    want = interpreter.run(program, inputs, sizes=sizes)
    missing: list[set[str]] = [{name} for name in want] if absent else []
    for left_out in [set[str](), *missing]:
        got = run(kernels, program.arrays | inputs, sizes, left_out)
        assert set(got) == set(want) - left_out
        for name, array in got.items():
            scale = max(1.0, float(np.abs(want[name]).max(initial=0.0)))
            np.testing.assert_allclose(array, want[name], 1e-5, 1e-5 * scale, err_msg=name)


@each_case
def test_kernels_compute_what_the_net_says(case: Path) -> None:
    kernels = lowered(case)
    for steps, batch in SIZES:
        compare(case, kernels, steps, batch, absent=steps == 5)


@each_case
@pytest.mark.parametrize("target", TARGETS[1:], ids=lambda target: target[1])
def test_other_panels(case: Path, target: tuple[str, str]) -> None:
    compare(case, lowered(case, target), 4, 3, absent=False)


@each_case
def test_weights_from_the_caller(case: Path) -> None:
    kernels = lowered(case, known=False)
    assert not kernels.parameters
    compare(case, kernels, 4, 3, absent=False)


def trained(case: Path, half: str) -> KernelProgram:
    """Forward or backward."""
    return library(case).programs[half]


@lru_cache(maxsize=1)  # a case's tests follow each other
def library(case: Path) -> Library:
    options = Options(target=TARGETS[0][0], cpu=TARGETS[0][1], train=True)
    return build_library(imported(case), None, options)


@pytest.mark.parametrize("half", ["inference", "forward", "backward"])
@each_case
def test_plan(case: Path, half: str) -> None:
    """Buffers alive at once lie apart; the workspace is hardly more than the least possible."""
    kernels = lowered(case) if half == "inference" else trained(case, half)
    planned = make_plan(kernels)
    for steps, batch, other in PLANNED_FOR:
        sizes = dict.fromkeys(kernels.symbols, other) | {"T": steps, "N": batch}
        check_apart(planned, sizes)
        assert not steps or planned.peak(sizes) <= 1.05 * planned.bound(sizes), sizes
