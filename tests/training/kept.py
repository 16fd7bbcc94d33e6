"""One net compiled in the ways that differ in what is kept, and in what is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from rnncc_runtime import Model, TrainableModel

import rnncc
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from tests.codegen.random_programs import single
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.training.checkpoints import compiled
from tests.training.models import assert_same_bits, with_gradients

SIZES = {"T": 7, "N": 3}
CHUNKS = {"runs": (3,), "runs of runs": (4, 2)}
OPTIONS: dict[str, dict[str, Any]] = {
    "auto": {},
    "all": {"recompute": "all"},
    "packed before": {"prepack": True},
    "order 2": {"order": 2, "recompute": "none"},
    "order 2, auto": {"order": 2},
    "one gradient": {"outputs_with_grads": ["last"], "recompute": "none"},
}
WAYS = [*OPTIONS, *CHUNKS, "inference"]


def check_kept(program: Program, way: str, sizes: dict[str, int] = SIZES) -> None:
    """Outputs have the bits that they have where all is kept; so have the same gradients."""
    wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
    _, drawn = make_inputs(with_gradients(program, wanted), sizes, 5)
    arrays = {name: single(array) for name, array in drawn.items()}
    arrays |= {f"grad_{name}": arrays[f"grad:{name}"] for name in wanted}
    program.arrays.update({name: arrays[name] for name in program.params if name in arrays})
    model = rnncc.compile(program.copy(), train=True, recompute="none")
    outputs, grads = _results(model, arrays)
    others, other_grads = _results(_made(program.copy(), way), arrays)
    assert_same_bits({name: others[name] for name in outputs}, outputs, way)
    if way in (*CHUNKS, "auto", "all", "packed before"):
        assert_same_bits(other_grads, grads, f"gradients, {way}")


def _made(program: Program, way: str) -> Model | TrainableModel:
    if way == "inference":
        return rnncc.compile(program)
    if way in CHUNKS:
        return compiled(program, CHUNKS[way], recompute="none")[1]
    return rnncc.compile(program, train=True, **OPTIONS[way])


def _results(model: Model | TrainableModel, arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Outputs, and the gradients for given ones of outputs."""
    inputs = {name: arrays[name] for name in model.inputs}
    if isinstance(model, Model):
        return model.run(inputs), {}
    outputs, tape = model.forward(inputs)
    made = {name: np.array(array) for name, array in outputs.items()}
    outer = {n: arrays[f"grad:{n}"] for n in model._output_grads if f"grad:{n}" in arrays}
    return made, {name: np.array(array) for name, array in model.backward(tape, outer).items()}
