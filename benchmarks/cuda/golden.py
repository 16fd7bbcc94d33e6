"""The golden nets on the device, against every bit of the library for the CPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.program import Program
from tests.golden import CASES, CONTROL, GOLDEN, Arrays, arrays_of, random_inputs, sizes_of
from tests.training.models import with_gradients

MOST_ITERATIONS = 8
"""The most turns of loops whose number is not known."""
OTHER = {"T": 13, "N": 7, "S": 4}
"""Sizes besides those of the golden arrays."""


def cases() -> list[dict[str, Any]]:
    """Each net, run and trained; those that Caffe2 refuses as well are left out."""
    nets = [*CASES, *(case for case in CONTROL if not _is_ill_formed(case))]
    names = [str(case.relative_to(GOLDEN)) for case in nets]
    return [{"net": name, "mode": mode} for mode in ("run", "train") for name in names]


def _is_ill_formed(case: Path) -> bool:
    description = json.loads((case / "case.json").read_text())
    return (description.get("error") or {}).get("stage") == "forward"


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Whether all bits are equal; which are not."""
    path = GOLDEN / case["net"]
    options = _options(path)
    if case["mode"] == "train":
        options |= {"train": True, "outputs_with_grads": list(arrays_of(path, "weight:"))}
    files = path / "net.pb", path / "init.pb"
    try:
        on_cpu = rnncc.compile(*files, **options)
    except CompileError as error:
        return {"refused": str(error).splitlines()[0][:200]}
    on_device = rnncc.compile(*files, device="cuda", **options)
    try:
        for inputs, weights in _drawn(path, case["mode"] == "train"):
            want, got = (_computed(model, inputs, weights) for model in (on_cpu, on_device))
            if wrong := _differing(want, got):
                return {"bits": False, "differing": wrong}
    finally:
        close = getattr(on_device, "close", None)
        if close is not None:
            close()
    return {"bits": True}


def _options(path: Path) -> dict[str, Any]:
    """Nets with control flow do little that would tell the shapes of their inputs."""
    if path not in CONTROL:
        return {}
    shapes = {name: array.shape for name, array in arrays_of(path, "in:").items()}
    return {"shapes": shapes, "max_iterations": MOST_ITERATIONS}


def _drawn(path: Path, training: bool) -> list[tuple[Arrays, Arrays]]:
    """Golden inputs and others, each with the gradients of the outputs."""
    program: Program = import_net(path / "net.pb", path / "init.pb", **_options(path))
    golden = arrays_of(path, "in:")
    weights = arrays_of(path, "weight:") if training else {}
    if path in CONTROL:
        return [(golden, weights)]
    drawn = [({**random_inputs(program, sizes_of(program, golden)), **golden}, weights)]
    if training:
        program = with_gradients(program, weights)
    several = random_inputs(program, OTHER, seed=1)
    outer = {n.removeprefix("grad:"): several.pop(n) for n in list(several) if n[:5] == "grad:"}
    return [*drawn, (several, outer)]


def _computed(model: Any, inputs: Arrays, weights: Arrays) -> Arrays:
    """Outputs, and gradients if it is trained."""
    arguments = {name: array for name, array in inputs.items() if name in model.inputs}
    if not hasattr(model, "backward"):
        return model.run(arguments)
    outputs, tape = model.forward(arguments)
    grads = model.backward(tape, weights)
    return {**outputs, **{f"grad:{name}": array for name, array in grads.items()}}


def _differing(want: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """The names whose bits are not the same."""
    return [name for name in want if name not in got or want[name].tobytes() != got[name].tobytes()]
