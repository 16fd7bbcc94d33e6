"""Golden nets compiled for training, called with every block in guarded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from rnncc_runtime import TensorSpec, TrainableModel

import rnncc
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.passes.gradients.differentiate import differentiate
from tests.codegen.guarded import Guards, address, table
from tests.golden import Arrays, arrays_of, random_inputs

SIZES = [{"T": 0, "N": 3}, {"T": 1, "N": 1}, {"T": 4, "N": 3}]
RECOMPUTE = st.sampled_from(["auto", "all"])

RULES = ("none", "auto", "all")


@cache
def trainable(case: Path, recompute: str = "auto", **options: Any) -> TrainableModel:
    """A golden net in memory, a loss given for the outputs for which Caffe2 had one."""
    options |= {"recompute": recompute, "outputs_with_grads": list(arrays_of(case, "weight:"))}
    return rnncc.compile(case / "net.pb", case / "init.pb", train=True, **options)


@cache
def interpreted(case: Path) -> Program:
    """A golden net as imported, with its gradients."""
    program = import_net(case / "net.pb", case / "init.pb")
    return with_gradients(program, arrays_of(case, "weight:"))


def draw(case: Path, size: tuple[int, int, int]) -> tuple[dict[str, int], Arrays, Arrays]:
    """Sizes, inputs, and the gradients of a loss by the outputs."""
    sizes: dict[str, int] = dict(zip("TNS", size, strict=True))
    drawn = random_inputs(interpreted(case), sizes)
    weights = {n.removeprefix("grad:"): a for n, a in drawn.items() if n.startswith("grad:")}
    return sizes, drawn, weights


def with_gradients(program: Program, wanted: Iterable[str]) -> Program:
    """A program that computes the gradients of all float inputs and parameters too."""
    values = {**program.net.inputs, **{n: op.y for n, op in program.params.items()}}
    floats = [name for name, value in values.items() if dtype_of(value) in FLOATS]
    return differentiate(program, list(wanted), floats)


def run_guarded(
    model: TrainableModel,
    inputs: Arrays,
    output_grads: Arrays,
    sizes: Mapping[str, int],
    guards: Guards,
    absent: Collection[str] = (),
) -> tuple[Arrays, Arrays]:
    """Outputs and gradients; what is written is poisoned before, the workspace in between too."""
    symbols = [sizes.get(name, 1) for name in model.metadata["symbols"]]
    functions = model._functions
    given = [
        guards.array(np.ascontiguousarray(inputs[n])) if n in inputs else None for n in model.inputs
    ]
    parameters = [guards.array(array) for array in model.parameters.values()]
    outputs = _blank(model.outputs, sizes, guards, absent)
    grads = _blank(model._grads, sizes, guards, absent)
    outer = [
        guards.array(output_grads[n]) if n in output_grads else None for n in model._output_grads
    ]
    tape = _poisoned(guards, functions["tape_bytes"](*symbols))

    packed = _packed(model, parameters, guards, symbols)

    def call(name: str, *tables: Iterable[Any]) -> None:
        workspace = _poisoned(guards, functions["workspace_bytes"](*symbols))
        held = [table(arrays) for arrays in tables]
        blocks = [*map(address, packed), *held[2:], address(tape), address(workspace)]
        code = functions[name](*held[:2], *blocks, *symbols)
        assert code == 0, f"{name}: error code {code}"

    call("forward", given, parameters, outputs.values())
    call("backward", given, parameters, outer, grads.values())
    return _copied(outputs), _copied(grads)


def _packed(
    model: TrainableModel, parameters: Iterable[Any], guards: Guards, symbols: Sequence[int]
) -> list[Any]:
    """The block of packed parameters, of a library that takes it."""
    functions = model._functions
    if "pack_parameters" not in functions:
        return []
    packed = _poisoned(guards, functions["packed_bytes"]())
    workspace = _poisoned(guards, functions["workspace_bytes"](*symbols))
    code = functions["pack_parameters"](table(parameters), address(packed), address(workspace))
    assert code == 0, f"pack_parameters: error code {code}"
    return [packed]


def check_close(want: Arrays, got: Arrays, told: str = "") -> None:
    for name, array in want.items():
        scale = max(1.0, float(np.abs(array).max(initial=0)))
        message = f"{name} {told}"
        np.testing.assert_allclose(got[name], array, 1e-4, 2e-5 * scale, err_msg=message)


def assert_same_bits(one: Arrays, other: Arrays, told: str) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.tobytes() == other[name].tobytes(), f"{name} {told}"


def _blank(
    specs: Mapping[str, TensorSpec], sizes: Mapping[str, int], guards: Guards, absent: Any
) -> dict[str, Any]:
    shapes = {n: tuple(s.evaluate(sizes) for s in spec.sizes) for n, spec in specs.items()}
    return {
        name: None if name in absent else guards.array(np.full(shapes[name], 77, spec.dtype))
        for name, spec in specs.items()
    }


def _poisoned(guards: Guards, size: int) -> Any:
    return guards.array(np.full(size, 0xFF, np.uint8))


def _copied(arrays: Mapping[str, Any]) -> Arrays:
    return {name: np.array(array) for name, array in arrays.items() if array is not None}
