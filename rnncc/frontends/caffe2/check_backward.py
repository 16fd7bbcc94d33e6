"""Checks a backward step net against our own gradient of the step, on random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.backward import Backward
from rnncc.frontends.caffe2.gradient import gradients
from rnncc.frontends.caffe2.operator import Blob, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.build import Build
from rnncc.ir.dims import product
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of

if TYPE_CHECKING:
    from rnncc.frontends.caffe2.ops.recurrent_network import RecurrentNetwork

Array = np.ndarray[Any, np.dtype[Any]]

EXACT, MOST = 1 << 23, 1 << 28
"""Up to how many elements a step is computed in float64, and in float32; 1024 multiplications of a
product count as one element."""

TOLERANCE = {np.float64: 1e-7, np.float32: 1e-3}
"""How far two gradients may be apart, as a part of the largest element."""

BASES = (2, 9, 65)
"""What the first of the sizes may be; the next ones are larger by one each."""


def check_backward(
    op: Operator, forward: RecurrentNetwork, backward: Backward, shapes: Shapes
) -> None:
    """Compute one step both ways, each operator of the backward step net by itself and the whole
    step by reverse mode.

    Raises:
        CompileError: a gradient differs, or the step is too large to compute.
    """
    program, names = _program(forward, backward, shapes)
    sizes = _sizes(op, program)
    count = _elements(program, sizes)
    if count > MOST:
        raise op.error(f"takes {count} elements a step, too many to check its backward_step_net")
    real = np.float64 if count <= EXACT else np.float32
    rng = np.random.default_rng(0)
    inputs = {name: _random(rng, v, sizes, real) for name, v in program.net.inputs.items()}
    outputs = run(program, inputs, real, sizes)
    for index, (name, gradient) in enumerate(names):
        gap = _gap(outputs[f"our {index}"], outputs[f"its {index}"], TOLERANCE[real])
        if gap > TOLERANCE[real]:
            what = f'"{gradient}" of its backward_step_net is not the gradient of "{name}"'
            raise op.error(f"{what}: random numbers show a difference of {gap:.0%}")


def _gap(ours: Array, its: Array, tolerance: float) -> float:
    """How far two results are apart, as a part of the largest element, or of 1; infinite where one
    alone is not finite."""
    with np.errstate(all="ignore"):
        gap = np.abs(its - ours)
        scale = max(1.0, float(np.max(ours, initial=0)), -float(np.min(ours, initial=0)))
    worst = float(np.max(gap, initial=0))
    if np.isfinite(worst) and np.isfinite(scale):
        return worst / scale
    return 0.0 if np.allclose(its, ours, tolerance, tolerance, equal_nan=True) else np.inf


def _program(
    forward: RecurrentNetwork, backward: Backward, shapes: Shapes
) -> tuple[Program, list[tuple[str, str]]]:
    """Outputs `our i` and `its i` for each gradient of a step, and (blob, gradient) names."""
    b = Build.net("step")
    e = Emitter(b, shapes)
    ends = [gradient for _, gradient in backward.given]
    for index, blob in enumerate([*_inputs(forward, backward), *ends]):
        e[blob] = b.input(f"{index} {blob.name}", shapes.known(blob), blob.dtype or "f32")
    for op in forward.steps:
        e.build(op)
    sources = [value for value in e.values.values() if value in b.block.args]
    given = [(e[value], e[gradient]) for value, gradient in backward.given]
    asked = [e[value] for value, _ in backward.made]
    outputs = {f"our {i}": v for i, v in enumerate(gradients(e, given, asked, sources))}
    for op in backward.operators:
        if op not in forward.steps:
            e.build(op)
    outputs |= {f"its {i}": e[gradient] for i, (_, gradient) in enumerate(backward.made)}
    names = [(value.name, gradient.name) for value, gradient in backward.made]
    return b.finish(outputs), names


def _inputs(forward: RecurrentNetwork, backward: Backward) -> list[Blob]:
    """What a step and its gradient read."""
    own = {*forward.references.values(), *forward.internal.values(), forward.timestep}
    read = [x for op in (*forward.steps, *backward.operators) for x in op.captured()]
    read += [value for value, _ in backward.made]
    return [x for x in dict.fromkeys(read) if x in own and x.value is None and not x.opaque]


def _sizes(op: Operator, program: Program) -> dict[str, int]:
    """A small number for each symbol, so that every size is one."""
    values = _values(program)
    for base in BASES:
        sizes = {name: base + i for i, name in enumerate(_symbols(values))}
        if all(d.evaluate(sizes) > 0 for v in values for d in dims_of(v)):
            return sizes
    raise op.error("has steps whose sizes cannot be chosen to check its backward_step_net")


def _symbols(values: Sequence[SSAValue]) -> list[str]:
    return sorted({name for v in values for d in dims_of(v) for name in d.symbols})


def _values(program: Program) -> list[SSAValue]:
    """All values, those in loops included."""
    net = program.net
    return [*net.body.block.args, *(v for op in net.body.walk() for v in op.results)]


def _elements(program: Program, sizes: dict[str, int]) -> int:
    total = sum(product(dims_of(v)).evaluate(sizes) for v in _values(program))
    for op in program.net.body.walk():
        if isinstance(op, Matmul):
            depth = dims_of(op.a)[-2 if op.transpose_a else -1]
            total += product((*dims_of(op.y), depth)).evaluate(sizes) >> 10
    return total


def _random(
    rng: np.random.Generator, value: SSAValue, sizes: dict[str, int], real: type[np.floating[Any]]
) -> Array:
    """Floats of either sign; whole numbers 1, 2, 1, ...: of a batch, some are at their end."""
    shape = [d.evaluate(sizes) for d in dims_of(value)]
    if dtype_of(value) in FLOATS:
        return np.resize(rng.random(1 << 16, real) * 2 - 1, shape)
    return np.resize([1, 2], shape)
