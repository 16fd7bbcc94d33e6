"""Second derivatives without PyTorch: a net that gives its gradients, trained as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.gradient_program import gradient_program
from tests.codegen.guarded import guards
from tests.training.models import assert_same_bits, run_guarded

LAYER = rnncc.cells.lstm(3, 4)
SIZES = {"T": 9, "N": 2}
OPTIONS: dict[str, Any] = {"train": True, "order": 2, "outputs_with_grads": ["y"]}


def drawn() -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs, and gradients of outputs."""
    rng = np.random.default_rng(0)
    shapes = {"x": (9, 2, 3), "grad_y": (9, 2, 4)}, {"y": (9, 2, 4), "grad_x": (9, 2, 3)}
    inputs, given = (
        {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in group.items()}
        for group in shapes
    )
    return inputs, given | {"grad_RW": rng.uniform(-1, 1, (4, 16)).astype(np.float32)}


def results_of(model: Any) -> dict[str, Any]:
    inputs, given = drawn()
    outputs, tape = model.forward(inputs)
    return outputs | {f"grad:{n}": x for n, x in model.backward(tape, given).items()}


def test_second_derivatives() -> None:
    of = ["x", "W", "RW", "b"]
    inputs, given = drawn()
    first = gradient_program(LAYER, ["y"], of, "grad_")
    both = differentiate(first, list(given), [*of, "grad_y"])
    point = {**inputs, **LAYER.arrays, **{f"grad:{name}": x for name, x in given.items()}}
    want = run(both, point, np.float64)
    made = results_of(rnncc.compile(LAYER, **OPTIONS))
    assert made.keys() == want.keys()
    for name, array in made.items():
        np.testing.assert_allclose(array, want[name], 1e-4, 2e-5, err_msg=name)


def test_in_guarded_memory() -> None:
    inputs, given = drawn()
    want = results_of(rnncc.compile(LAYER, **OPTIONS))
    model = rnncc.compile(LAYER, **OPTIONS, recompute="all")
    with guards(end=True) as memory:
        outputs, grads = run_guarded(model, inputs, given, SIZES, memory)
    found = outputs | {f"grad:{name}": array for name, array in grads.items()}
    assert_same_bits(want, found, "where all is computed again")


def test_as_a_library(tmp_path: Path) -> None:
    rnncc.build(LAYER, **OPTIONS, out=tmp_path, name="second", products=("so", "h"))
    loaded = rnncc_runtime.load(tmp_path / "libsecond.so", train=True)
    made, want = results_of(loaded), results_of(rnncc.compile(LAYER, **OPTIONS))
    for name, array in made.items():
        np.testing.assert_array_equal(array, want[name], err_msg=name)
    assert "float *grad_RW;" in (tmp_path / "second.h").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 2}, "order goes with train"),
        ({"train": True, "order": 3}, "order 3 is neither 1 nor 2"),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.compile(LAYER, **options)


def test_names_that_are_taken() -> None:
    b = Builder.net("taken")
    program = b.finish({"y": b.mul(b.input("x", ["N"]), b.input("grad_y", ["N"]))})
    with pytest.raises(CompileError, match="the name 'grad_y' is taken"):
        rnncc.compile(program, train=True, order=2)
