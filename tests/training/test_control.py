"""Nets with If, While and Do, compiled: Caffe2's outputs, and true gradients, under guard pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from rnncc_runtime import RunError, TrainableModel

import rnncc
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.options import Options
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.compiling import lower
from tests.frontends.caffe2.control_nets import stopped, underivable
from tests.golden import CONTROL, CONTROL_KINDS, Arrays, arrays_of, random_inputs, sizes_of
from tests.training.checkpoints import compiled
from tests.training.models import assert_same_bits, run_guarded, with_gradients

TURNS = 8
"""The most iterations of loops whose number is not known."""
STEP = 1e-6


def told_of(case: Path) -> dict[str, Any]:
    return json.loads((case / "case.json").read_text())


def is_well_formed(case: Path) -> bool:
    return (told_of(case).get("error") or {}).get("stage") != "forward"


CASES = [case for case in CONTROL if is_well_formed(case)]
"""Those that Caffe2 runs; tests/frontends has the others."""
every_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
each_kind = pytest.mark.parametrize("case", CONTROL_KINDS, ids=lambda path: path.name)


def options_of(case: Path) -> dict[str, Any]:
    """Many of these nets do nothing that would tell the shapes of their inputs."""
    shapes = {name: array.shape for name, array in arrays_of(case, "in:").items()}
    return {"max_iterations": TURNS, "shapes": shapes}


@cache
def imported(case: Path) -> Program:
    return import_net(case / "net.pb", case / "init.pb", **options_of(case))


@cache
def trainable(case: Path, recompute: str = "auto") -> TrainableModel:
    wanted = list(loss_of(case))
    options: dict[str, Any] = {**options_of(case), "train": True, "recompute": recompute}
    return rnncc.compile(case / "net.pb", case / "init.pb", outputs_with_grads=wanted, **options)


def loss_of(case: Path) -> Arrays:
    """The gradients of a loss by the outputs; where Caffe2 failed, of their sum."""
    told = arrays_of(case, "weight:")
    outputs = arrays_of(case, "out:")
    return told or {n: np.ones_like(a) for n, a in outputs.items() if a.dtype == np.float32}


def inputs_of(case: Path) -> Arrays:
    names = imported(case).net.inputs
    return {name: array for name, array in arrays_of(case, "in:").items() if name in names}


@cache
def true_gradients(case: Path) -> Arrays:
    """By reverse mode in float64, checked against the slope along a random direction."""
    program, loss = imported(case), loss_of(case)
    point = {**program.arrays, **inputs_of(case)}
    both = with_gradients(program, loss)
    sizes = sizes_of(program, inputs_of(case))
    given = {**point, **{f"grad:{name}": array for name, array in loss.items()}}
    made = run(both, _known(both, given), np.float64, sizes)
    grads = {n.removeprefix("grad:"): a for n, a in made.items() if n.startswith("grad:")}
    for name, grad in grads.items():
        if name in stopped(case):
            continue
        direction = np.random.default_rng(1).choice([-1.0, 1.0], grad.shape)
        high, low = (
            run(
                program,
                _known(program, {**point, name: point[name] + side * STEP * direction}),
                np.float64,
                sizes,
            )
            for side in (1, -1)
        )
        slope = sum(float(((high[n] - low[n]) * w).sum()) for n, w in loss.items()) / (2 * STEP)
        np.testing.assert_allclose((grad * direction).sum(), slope, 1e-5, 1e-6, err_msg=name)
    return grads


def _known(program: Program, arrays: Mapping[str, Any]) -> Arrays:
    return {n: a for n, a in arrays.items() if n in program.net.inputs or n in program.params}


def check_outputs(case: Path, outputs: Arrays) -> None:
    for name, want in arrays_of(case, "out:").items():
        np.testing.assert_allclose(outputs[name], want, 1e-5, 1e-5, err_msg=name)


def check_gradients(case: Path, grads: Arrays) -> None:
    """The true ones, and Caffe2's where these are derivatives."""
    wrong = underivable(case)
    for name, want in true_gradients(case).items():
        np.testing.assert_allclose(grads[name], want, 1e-4, 2e-5, err_msg=name)
    for name, want in arrays_of(case, "grad:").items():
        if name not in wrong:
            np.testing.assert_allclose(grads[name], want, 1e-4, 2e-5, err_msg=f"Caffe2's {name}")


@every_case
def test_outputs_are_those_of_caffe2(case: Path) -> None:
    program = import_net(case / "net.pb", case / "init.pb", **options_of(case))
    bare = Bare(lower(program, Options()), resolve_target())
    sizes = sizes_of(imported(case), inputs_of(case))
    for end in (False, True):
        with guards(end) as memory:
            check_outputs(case, bare.run(inputs_of(case), sizes, memory))


@every_case
def test_gradients_are_true(case: Path) -> None:
    for end in (False, True):
        outputs, grads = trained(case, "auto", end)
        check_outputs(case, outputs)
        check_gradients(case, grads)


@each_kind
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_recomputing_changes_no_bit(case: Path, recompute: str) -> None:
    want = trained(case, "auto", False)
    for end in (False, True):
        for one, other in zip(want, trained(case, recompute, end), strict=True):
            assert_same_bits(one, other, recompute)


def trained(case: Path, recompute: str, end: bool) -> tuple[Arrays, Arrays]:
    """Outputs and gradients for what Caffe2 was given."""
    sizes = sizes_of(imported(case), inputs_of(case))
    with guards(end) as memory:
        model = trainable(case, recompute)
        return run_guarded(model, inputs_of(case), loss_of(case), sizes, memory)


@each_kind
def test_libraries_give_the_same_bits(case: Path, tmp_path: Path) -> None:
    net = (case / "net.pb", case / "init.pb")
    options: dict[str, Any] = {**options_of(case), "out": tmp_path, "products": ("so",)}
    made = rnncc.build(*net, name="run", **options)
    assert made.library is not None
    check_outputs(case, rnncc_runtime.load(made.library).run(inputs_of(case)))
    options |= {"train": True, "outputs_with_grads": list(loss_of(case))}
    made = rnncc.build(*net, name="train", **options)
    assert made.library is not None
    results = []
    for model in (rnncc_runtime.load(made.library, train=True), trainable(case)):
        outputs, tape = model.forward(inputs_of(case))
        results.append((outputs, model.backward(tape, loss_of(case))))
    for one, other in zip(*results, strict=True):
        assert_same_bits(one, other, "")


LOOPS = [case for case in CASES if case.name in ("while_rnn_k3", "while_axpy_k3")]


@pytest.mark.parametrize("case", LOOPS, ids=lambda path: path.name)
@pytest.mark.parametrize("iterations", [0, 1, TURNS, TURNS + 1])
def test_the_bound(case: Path, iterations: int) -> None:
    """As many iterations as allowed are right, one more is an error, forward and backward."""
    inputs = {**inputs_of(case), "k": np.array([iterations], np.int64)}
    model = rnncc.compile(case / "net.pb", case / "init.pb", **options_of(case))
    train = trainable(case)
    if iterations > TURNS:
        for refused in (lambda: model.run(inputs), lambda: train.forward(inputs)):
            with pytest.raises(RunError, match="a loop takes more iterations than its limit"):
                refused()
        return
    want = run(imported(case), inputs, np.float64)
    got, _ = train.forward(inputs)
    for outputs in (model.run(inputs), got):
        for name, array in want.items():
            np.testing.assert_allclose(outputs[name], array, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("chunks", [(3,), (4, 2)], ids=str)
@pytest.mark.parametrize("case", LOOPS, ids=lambda path: path.name)
def test_checkpoints_change_no_bit(case: Path, chunks: tuple[int, ...]) -> None:
    """Iterations are cut as time is, and one too many is still an error."""
    program = import_net(case / "net.pb", case / "init.pb", **options_of(case))
    whole, cut = compiled(program, chunks, outputs_with_grads=list(loss_of(case)))
    for iterations in (0, 1, 3, 5, TURNS):
        inputs = {**inputs_of(case), "k": np.array([iterations], np.int64)}
        sizes = sizes_of(imported(case), inputs)
        with guards(end=True) as memory:
            results = [run_guarded(m, inputs, loss_of(case), sizes, memory) for m in (whole, cut)]
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"{iterations} iterations")
    with pytest.raises(RunError, match="a loop takes more iterations than its limit"):
        cut.forward({**inputs_of(case), "k": np.array([TURNS + 1], np.int64)})


@pytest.mark.parametrize("case", LOOPS, ids=lambda path: path.name)
def test_a_budget(case: Path) -> None:
    options: dict[str, Any] = {
        **options_of(case),
        "max_iterations": 2000,
        "train": True,
    }
    net = (case / "net.pb", case / "init.pb")
    free = rnncc.compile(*net, **options)
    _, tape = free.forward(inputs_of(case))
    tight = rnncc.compile(*net, memory_budget=tape.nbytes // 2, plan_for=(1, 1), **options)
    assert "checkpoints every" in tight.metadata["checkpoints"]
    _, less = tight.forward(inputs_of(case))
    assert less.nbytes < tape.nbytes / 4
    for one, other in zip(
        free.backward(tape, loss_of(case)).items(),
        tight.backward(less, loss_of(case)).items(),
        strict=True,
    ):
        assert_same_bits(dict([one]), dict([other]), "")


TRAIN = [case for case in CONTROL_KINDS if (case / "train.pb").exists()]


@pytest.mark.parametrize("case", TRAIN, ids=lambda path: path.name)
def test_nets_with_their_own_gradients(case: Path) -> None:
    """One program, as machine code; tests/frontends interprets those of all nets."""
    known = arrays_of(case, "in:")
    options: dict[str, Any] = {**options_of(case), "max_iterations": TURNS}
    program = import_net(case / "train.pb", case / "init.pb", **options)
    drawn = random_inputs(program, {"T": 1, "N": 1})
    given = {name: known.get(name, drawn[name]) for name in program.net.inputs}
    want = run(program, given)
    bare = Bare(lower(program, Options()), resolve_target())
    with guards(end=True) as memory:
        got = bare.run(given, sizes_of(program, given), memory)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-4, 2e-5, err_msg=name)
