"""Golden nets, lowered and planned, in the kern interpreter, over one workspace as compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rnncc.codegen.llvm import resolve_target
from rnncc.frontends.caffe2 import import_net
from rnncc.ir import interpreter
from rnncc.ir.kern_interpreter import run
from rnncc.ir.kernel_program import KernelProgram
from rnncc.ir.program import Program
from rnncc.lowering.lower import lower as lower_net
from rnncc.options import Options
from rnncc.passes.differentiate import differentiate
from rnncc.passes.simplify import Simplify
from rnncc.pipeline import lower
from rnncc.planning.layout import plan
from tests.golden import CASES, arrays_of, random_inputs
from tests.passes.test_sink import sunk
from tests.planning.test_layout import check

SIZES = [(0, 2), (1, 1), (5, 3), (13, 20)]
PLANNED_FOR = [
    *((1, 1, 3), (4, 2, 5), (5, 3, 4), (20, 2, 6), (13, 20, 7), (3, 200, 5), (0, 2, 3)),
    *((50, 8, 50), (50, 32, 50), (100, 1, 50), (200, 64, 60), (1000, 32, 50), (2000, 1, 10)),
]
"""T, N and any other symbol; nothing is saved at T = 0."""
TRIPLE = "x86_64-unknown-linux-gnu"
TARGETS = [(TRIPLE, "x86-64-v4"), (TRIPLE, "x86-64-v2"), ("aarch64-unknown-linux-gnu", "generic")]

pytestmark = pytest.mark.skipif(not CASES, reason="no golden data here")
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


def with_gradients(case: Path) -> KernelProgram:
    """Forward and backward as one program."""
    program = imported(case)
    Simplify().rewrite(program.net)
    weights, wanted = (list(arrays_of(case, f"{prefix}:")) for prefix in ("weight", "grad"))
    both = differentiate(program, weights, wanted)
    sunk(both)
    return lower_net(both, resolve_target(*TARGETS[0]))


@each_case
@pytest.mark.parametrize("made", [lowered, with_gradients])
def test_plan(case: Path, made: Callable[[Path], KernelProgram]) -> None:
    """Buffers alive at once lie apart; the workspace is hardly more than the least possible."""
    kernels = made(case)
    planned = plan(kernels)
    for steps, batch, other in PLANNED_FOR:
        sizes = dict.fromkeys(kernels.symbols, other) | {"T": steps, "N": batch}
        check(planned, sizes)
        assert not steps or planned.peak(sizes) <= 1.05 * planned.bound(sizes), sizes
