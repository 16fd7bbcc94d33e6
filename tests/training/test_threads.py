"""Passes that several threads compute together: the bits are those of one thread."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import rnncc_runtime
from hypothesis import given
from rnncc_runtime import LoadError, Pool, TrainableModel

import rnncc
from rnncc import cells
from rnncc.commands.charnet import char_lstm
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import KINDS, Arrays, random_inputs
from tests.strategies import make_inputs
from tests.teams import insistent
from tests.training.models import assert_same_bits

NETS = [case for case in KINDS if case.name != "lstm_unrolled"]
"""But for one that is large and has no loop."""
INCLUDE = Path(rnncc_runtime.__file__).parent / "include"


def passes(model: TrainableModel, inputs: Arrays, pool: Pool | None = None) -> Arrays:
    """Outputs, and the gradients of a loss that all outputs share in."""
    outputs, tape = model.forward(inputs, pool=pool)
    given = {name: np.cos(outputs[name]) for name in model._output_grads}
    grads = model.backward(tape, given, pool=pool)
    return {**outputs, **{f"grad:{name}": array for name, array in grads.items()}}


def check(model: TrainableModel, inputs: Arrays) -> None:
    want = passes(insistent(model), inputs)
    for threads in (2, 3):
        with Pool(threads) as pool:
            for _ in range(2):
                assert_same_bits(passes(model, inputs, pool), want, f"{threads} threads")


@pytest.mark.parametrize("case", NETS, ids=lambda path: path.name)
def test_golden_nets(case: Path) -> None:
    model = rnncc.compile(case / "net.pb", case / "init.pb", train=True, threads=True)
    program = import_net(case / "net.pb", case / "init.pb")
    for size in ((0, 2, 2), (4, 33, 2)):
        inputs = random_inputs(program, dict(zip("TNS", size, strict=True)))
        check(model, inputs)


@examples(12)
@given(PROGRAMS)
def test_random_programs(program: Program) -> None:
    model = rnncc.compile(program, train=True, threads=True)
    for sizes in ({"T": 4, "N": 3}, {"T": 1, "N": 45}):
        _, inputs = make_inputs(program, sizes)
        check(model, {name: single(inputs[name]) for name in model.inputs})


@pytest.mark.parametrize("steps", [5, 300])
def test_sums_of_many_rows(steps: int) -> None:
    """Gradients of weights in several tiles and panels, of more rows than are packed at a time."""
    model = rnncc.compile(cells.lstm(70, 40), train=True, threads=True)
    x = np.random.default_rng(0).standard_normal((steps, 2, 70), np.float32)
    check(model, {"x": x})


def test_checkpoints() -> None:
    options = {"memory_budget": 1 << 18, "plan_for": "T=200,N=2"}
    model = rnncc.compile(cells.gru(24, 40), train=True, threads=True, **options)
    check(model, {"x": np.random.default_rng(0).standard_normal((200, 2, 24), np.float32)})


def test_a_model_for_one_thread_says_so() -> None:
    model = rnncc.compile(cells.elman(3, 4), train=True)
    with Pool(2) as pool, pytest.raises(LoadError, match="compiled for one thread"):
        model.forward({"x": np.zeros((2, 1, 3), np.float32)}, pool=pool)


def test_the_header_declares_the_parts(tmp_path: Path) -> None:
    net, init = char_lstm(5, 6)
    rnncc.build(net, init, out=tmp_path, name="tiny", train=True, threads=True)
    source = tmp_path / "main.c"
    source.write_text(
        '#include "tiny.h"\n#include "rnncc_pool.h"\n'
        "int main(void) { return !tiny_forward_part || !tiny_backward_part; }\n"
    )
    flags = ["-Wall", "-Wextra", "-Wno-address", "-Werror", "-pthread"]
    link = [f"-L{tmp_path}", "-ltiny", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "main"]
    folders = [f"-I{tmp_path}", f"-I{INCLUDE}"]
    subprocess.run(["cc", *flags, *folders, source, *link], check=True)
    subprocess.run([tmp_path / "main"], check=True)
