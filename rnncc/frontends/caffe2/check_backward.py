"""Checks gradients that a net holds against our own, on random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.backward import Pairs
from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.control import read_outside
from rnncc.frontends.caffe2.gradient import gradients
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.records import record

Array = np.ndarray[Any, np.dtype[Any]]

EXACT, MOST = 1 << 23, 1 << 28
"""Up to how many elements a step is computed in float64, and in float32; 1024 multiplications of a
product count as one element."""

TOLERANCE = {np.float64: 1e-7, np.float32: 1e-3}
"""How far two gradients may be apart, as a part of the largest element."""

BASES = (2, 9, 65)
"""What the first of the sizes may be; the next ones are larger by one each."""


@record
class BackwardPart:
    """Some operators, and those that a net holds for their gradient.

    Attributes:
        name: what holds the gradient's operators, in messages.
        output_grads: what the operators write, with the gradient that comes from behind them.
        input_grads: what they read, each with the gradient made of it.
        in_place: whether an operator writes over what it reads. Caffe2's gradient then may take the
            new value for the old one, which nobody notices.
    """

    name: str
    forward: Sequence[Operator]
    backward: Sequence[Operator]
    output_grads: Pairs
    input_grads: Pairs
    in_place: bool = False


def check_backward(op: Operator, part: BackwardPart, shapes: Shapes) -> None:
    """Compute a part both ways: each operator of its gradient by itself, and the whole by reverse
    mode.

    Raises:
        CompileError: a gradient differs, or the part is too large to compute.
    """
    program, names = _program(part, shapes)
    sizes = _sizes(op, part, program)
    count = _elements(program, sizes)
    if count > MOST:
        raise op.error(f"takes {count} elements a step, too many to check its {part.name}")
    real = np.float64 if count <= EXACT else np.float32
    rng = np.random.default_rng(0)
    inputs = {name: _random(rng, v, sizes, real) for name, v in program.net.inputs.items()}
    outputs = run(program, inputs, real, sizes)
    for index, (name, gradient) in enumerate(names):
        gap = _gap(outputs[f"our {index}"], outputs[f"its {index}"], TOLERANCE[real])
        if gap > TOLERANCE[real]:
            what = f'"{gradient}" of its {part.name} is not the gradient of "{name}"'
            raise op.error(f"{what}: random numbers show a difference of {100 * gap:.2g}%")


def _gap(computed: Array, its: Array, tolerance: float) -> float:
    """How far two results are apart, as a part of the largest element, or of 1; infinite where one
    alone is not finite."""
    with np.errstate(all="ignore"):
        gap = np.abs(its - computed)
        scale = max(1.0, float(np.max(computed, initial=0)), -float(np.min(computed, initial=0)))
    worst = float(np.max(gap, initial=0))
    if np.isfinite(worst) and np.isfinite(scale):
        return worst / scale
    return 0.0 if np.allclose(its, computed, tolerance, tolerance, equal_nan=True) else np.inf


def _program(part: BackwardPart, shapes: Shapes) -> tuple[Program, list[tuple[str, str]]]:
    """Outputs `our i` and `its i` for each gradient of a part, and (blob, gradient) names."""
    b = Builder.net("step")
    e = Emitter(b, shapes)
    ends = [gradient for _, gradient in part.output_grads]
    for index, blob in enumerate([*_inputs(part), *ends]):
        e[blob] = b.input(f"{index} {blob.name}", shapes.known(blob), blob.dtype or "f32")
    for op in part.forward:
        e.build(op)
    sources = [value for value in e.values.values() if value in b.block.args]
    seeds = [(e[value], e[gradient]) for value, gradient in part.output_grads]
    requested = [e[value] for value, _ in part.input_grads]
    outputs = {f"our {i}": v for i, v in enumerate(gradients(e, seeds, requested, sources))}
    for op in part.backward:
        if op not in part.forward:
            e.build(op)
    outputs |= {f"its {i}": e[gradient] for i, (_, gradient) in enumerate(part.input_grads)}
    names = [(value.name, gradient.name) for value, gradient in part.input_grads]
    return b.finish(outputs), names


def _inputs(part: BackwardPart) -> list[Blob]:
    """What a part and its gradient read."""
    ends = {gradient for _, gradient in part.output_grads}
    written = {y for op in part.forward for y in op.produced()}
    read = read_outside([*part.forward, *part.backward])
    read += [value for value, _ in (*part.output_grads, *part.input_grads) if value not in written]
    blobs = [x for x in dict.fromkeys(read) if x not in ends]
    return [x for x in blobs if x.value is None and not x.opaque]


def _sizes(op: Operator, part: BackwardPart, program: Program) -> dict[str, int]:
    """A small number for each symbol, so that every size is one."""
    values = _values(program)
    for base in BASES:
        sizes = {name: base + i for i, name in enumerate(_symbols(values))}
        if all(d.evaluate(sizes) > 0 for v in values for d in dims_of(v)):
            return sizes
    raise op.error(f"has steps whose sizes cannot be chosen to check its {part.name}")


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
    """Floats of either sign; integers 1, 2, 1, ...: of a batch, some are at their end."""
    shape = [d.evaluate(sizes) for d in dims_of(value)]
    if dtype_of(value) in FLOATS:
        return np.resize(rng.random(1 << 16, real) * 2 - 1, shape)
    return np.resize([1, 2], shape)
