"""Gradients of a program against finite differences of the interpreter, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2 import import_net
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.source import Param
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.loops.sink import Sink
from tests.golden import Arrays, arrays_of, random_inputs, sizes_of
from tests.passes.helpers import applied
from tests.strategies import make_inputs

STEP = 1e-6
sunk = applied(Simplify(), Sink(), Simplify())


def float_sources(program: Program) -> list[str]:
    """The inputs and parameters that have gradients."""
    values = {**program.net.inputs, **{name: op.y for name, op in program.params.items()}}
    return [name for name, value in values.items() if dtype_of(value) in FLOATS]


def float_outputs(program: Program) -> list[str]:
    return [name for name, value in program.net.outputs.items() if dtype_of(value) in FLOATS]


def check_gradients(
    program: Program,
    sizes: Mapping[str, int],
    change: Callable[[Program], object] = lambda program: None,
    rtol: float = 1e-6,
) -> None:
    """The slope of a weighted sum of all outputs, along a random direction of each source."""
    wanted, of = float_outputs(program), float_sources(program)
    both = differentiate(program, wanted, of)
    both.module.verify()
    change(both)
    _, drawn = make_inputs(both, dict(sizes))
    point = {**program.arrays, **drawn}
    given = {name: a for name, a in point.items() if name in both.net.inputs or name in both.params}
    outputs = run(both, given, np.float64, sizes)
    for name in of:
        assert outputs[f"grad:{name}"].shape == point[name].shape
        direction = np.random.default_rng(1).choice([-1.0, 1.0], point[name].shape)
        ends = [
            _weighted(program, {**point, name: point[name] + side * STEP * direction}, sizes)
            for side in (1, -1)
        ]
        slope = sum((a - b).sum() for a, b in zip(*ends, strict=True)) / (2 * STEP)
        scale = 1.0 + max((float(np.abs(part).sum()) for part in ends[0]), default=0.0)
        told = float((outputs[f"grad:{name}"] * direction).sum())
        np.testing.assert_allclose(told, slope, rtol, rtol * scale, err_msg=name)


def _weighted(program: Program, arrays: Arrays, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Each output times its outside gradient."""
    known = {n: a for n, a in arrays.items() if n in program.net.inputs or n in program.params}
    outputs = run(program, known, np.float64, sizes)
    return [outputs[name] * arrays[f"grad:{name}"] for name in float_outputs(program)]


def gradients(program: Program) -> Program:
    """All gradients of all outputs."""
    return differentiate(program, float_outputs(program), float_sources(program))


def gradient_net(program: Program) -> Program:
    """The gradients alone, under names that leave those of gradients of gradients free; parameters
    become inputs."""
    once, b = gradients(program), Builder.net("once")
    known = dict[SSAValue, SSAValue]()
    for name, value in once.net.inputs.items():
        known[value] = b.input(name.replace("grad:", "d:"), dims_of(value), dtype_of(value))
    for op in once.net.body.block.ops:
        if isinstance(op, Param):
            known[op.y] = b.input(op.param_name.data, dims_of(op.y), dtype_of(op.y))
        elif not isinstance(op, Yield):
            b.block.add_op(op.clone(known))
    outputs = once.net.outputs.items()
    grads = {name.replace("grad:", "g:"): known[y] for name, y in outputs if "grad:" in name}
    return b.finish(grads, {})


def gradients_of(case: Path, change: Callable[[Program], object]) -> tuple[Arrays, Arrays]:
    """What a golden net's gradients are, and what Caffe2 computed."""
    program = import_net(case / "net.pb", case / "init.pb")
    inputs, weights, want = (arrays_of(case, f"{p}:") for p in ("in", "weight", "grad"))
    sizes = sizes_of(program, inputs)
    inputs = {**random_inputs(program, sizes), **inputs}
    both = differentiate(program, list(weights), list(want))
    change(both)
    both.module.verify()
    inputs |= {f"grad:{name}": array for name, array in weights.items()}
    return run(both, inputs, sizes=sizes), want
