"""Random programs for training: what is checked of them, whatever their floats are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from rnncc_runtime import TrainableModel

import rnncc
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from tests.codegen.guarded import guards
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.training.models import SIZES, assert_same_bits, run_guarded, with_gradients

Array = np.ndarray
Given = Callable[[Array], Array]
Near = Callable[[Arrays, Arrays, str], None]
SENSITIVE = 8
"""Times what a rounding of the inputs changes that a result may be off by."""


def check_trained(
    program: Program,
    recompute: str,
    near: Near,
    given: Given,
    all_sizes: Sequence[dict[str, int]] = SIZES,
) -> None:
    """Outputs and gradients are the interpreter's; recomputing changes no bit.

    Args:
        near: asserts that what was computed is what was wanted, and says where it is not.
        given: an input as the model takes it.
    """
    wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
    both = with_gradients(program, wanted)
    models = [rnncc.compile(program, train=True, recompute=rule) for rule in ("none", recompute)]
    for sizes in all_sizes:
        _, inputs = make_inputs(both, sizes, sizes["T"])
        want = run(both, inputs, np.float64, sizes)
        moved = run(both, _moved(inputs, given), np.float64, sizes)
        results = [_trained(model, inputs, sizes, given) for model in models]
        outputs, grads = results[0]
        for name, array in [*outputs.items(), *((f"grad:{n}", g) for n, g in grads.items())]:
            try:
                near({name: array}, {name: want[name]}, f"{sizes} ")
            except AssertionError:
                # Of sums that cancel, rounding the inputs leaves no more digits.
                if _off(array, want[name]) > SENSITIVE * _off(moved[name], want[name]):
                    raise
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"{recompute} at {sizes}")


def _moved(inputs: Arrays, given: Given) -> Arrays:
    """Inputs that are off by as much as a model's rounding of them is."""
    rng = np.random.default_rng(0)

    def moved(array: Array) -> Array:
        if array.dtype.kind != "f":
            return array
        return array * (1 + np.finfo(given(array).dtype).eps / 2 * rng.standard_normal(array.shape))

    return {name: moved(array) for name, array in inputs.items()}


def _off(one: Array, other: Array) -> float:
    return float(np.abs(one - other).max(initial=0))


def _trained(
    model: TrainableModel, drawn: Arrays, sizes: dict[str, int], given: Given
) -> tuple[Arrays, Arrays]:
    """Outputs and gradients; each gradient alone has the bits that it has among all."""
    inputs = {name: given(drawn[name]) for name in model.inputs}
    outer = {name: given(drawn[f"grad:{name}"]) for name in model._output_grads}
    with guards(end=True) as memory:
        outputs, grads = run_guarded(model, inputs, outer, sizes, memory)
    with guards(end=False) as memory:
        for name, array in grads.items():
            absent = grads.keys() - {name}
            _, alone = run_guarded(model, inputs, outer, sizes, memory, absent)
            assert_same_bits(alone, {name: array}, f"alone at {sizes}")
    return outputs, grads
