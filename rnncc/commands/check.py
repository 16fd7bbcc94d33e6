"""`rnncc check`: a compiled net against the interpreter, and its gradients against differences.

The interpreter computes in float64; its gradients are checked by how its own outputs change.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from math import prod
from typing import Any

import numpy as np
from rnncc_runtime import Model, RunError, TrainableModel

from rnncc.commands.run.arrays import name_arrays
from rnncc.commands.tables import print_table
from rnncc.driver.remote.models import compile_to_run
from rnncc.errors import CompileError
from rnncc.ir.interpreter import run
from rnncc.ir.ops.source import Fill
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, NUMPY, dims_of, dtype_of
from rnncc.options import Options
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.records import record
from rnncc.sizes import BATCH, TIME, parse_sizes
from rnncc.stages.reading import import_source

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

SIZES = {TIME: 7, BATCH: 3}
OTHER_SIZE = 4
DRAWN_BYTES = 8
"""Of a random number, before it is of its input's type."""
COLUMNS = ("", "name", "compared", "max error", "tolerance", "ok")

OUTPUT, GRADIENT = (1e-5, 1e-4), (2e-5, 1e-4)
"""Of code that computes in float32: a part of the largest value, if that is above 1, and of each
value itself."""
DOUBLE = 1e-7
"""How much of that is allowed where all floats of a net are float64."""
LOW = {"bf16": (0.02, 0.0), "int8": (0.05, 0.0)}
"""Of outputs with weights of low precision, against those of fp32."""
STEP, SLOPE = 1e-6, 1e-6
"""How far an array is moved for its slope, and what that may be off, as a part of it or of 1."""
ROUNDING = 1e-9
"""What a slope may be off as a part of what is added up for it: STEP is a millionth of that."""


@record
class CheckRow:
    """One comparison.

    Attributes:
        kind: output or gradient.
        compared: what was compared with what.
        error, tolerance: where they are furthest apart for what is allowed there.
    """

    kind: str
    name: str
    compared: str
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        return self.error <= self.tolerance


@record
class Report:
    """All comparisons, and the sizes at which they were made."""

    rows: list[CheckRow]
    sizes: dict[str, int]

    @property
    def failures(self) -> int:
        """Comparisons that are not within their tolerance."""
        return sum(not row.ok for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        rows = [{**asdict(row), "ok": row.ok} for row in self.rows]
        return {"sizes": self.sizes, "failures": self.failures, "comparisons": rows}


def check(
    net: Any, init: Any, options: Options, at: str | None = None, user_arrays: Arrays | None = None
) -> Report:
    """Compile a net for inference and for training, and compare both.

    With a precision below fp32, compile it for inference so and in fp32, and compare these.

    Args:
        options: `recompute` for the training half; `precision`.
        at: the sizes, such as `7,3` or `T=7,N=3`.
        user_arrays: for inputs; the others are drawn, integers such that they can be
            lengths.

    Raises:
        CompileError: the net cannot be compiled or differentiated, or a size is none.
        ModelError: an array does not fit.
    """
    plain = replace(options, train=False, recompute="auto")
    program = import_source(net, init, plain)
    inference = compile_to_run(net, init, plain)
    arrays = name_arrays(user_arrays or {}, inference)
    sizes = _sizes(program, at, arrays)
    if options.precision != "fp32":
        exact = compile_to_run(net, init, replace(plain, precision="fp32"))
        rows = _check_precision(program, (inference, exact), arrays, sizes, options.precision)
        return Report(rows, sizes)
    inputs = {**_draw(program, sizes, arrays), **arrays}
    actual = _computed(inference, inputs, arrays)
    expected = run(program, inputs, np.float64, sizes)
    rows = _compare("output", "run, interpreter", actual, expected, _allowed(program, OUTPUT))
    # there are no gradients of rows whose number the run decides, nor of texts
    trains = not program.counts and not program.texts
    if trains and any(dtype_of(value) in FLOATS for value in program.net.outputs.values()):
        model = compile_to_run(net, init, replace(options, train=True))
        assert isinstance(model, TrainableModel)
        rows += _check_training(program, model, inputs, expected, sizes)
    return Report(rows, sizes)


def _computed(
    model: Model | TrainableModel, inputs: Arrays, user_arrays: Collection[str]
) -> Arrays:
    """A model's outputs; an error of its own may be for want of numbers that fit each other."""
    try:
        return model.run(inputs)
    except RunError as error:
        drawn = [n for n, x in inputs.items() if x.dtype.kind == "i" and n not in user_arrays]
        if not drawn:
            raise
        hint = f"{', '.join(drawn)} was drawn at random: --input gives numbers that fit"
        raise CompileError("", str(error), hint) from error


def _check_precision(
    program: Program,
    models: tuple[Model | TrainableModel, Model | TrainableModel],
    user_arrays: Arrays,
    sizes: dict[str, int],
    precision: str,
) -> list[CheckRow]:
    """What weights of low precision change, on random inputs, and on given ones with random ones.

    Args:
        models: of low precision and of fp32.
    """
    drawn = _draw(program, sizes, ())
    cases = {
        "random inputs": drawn,
        **({"given inputs": {**drawn, **user_arrays}} if user_arrays else {}),
    }
    rows: list[CheckRow] = []
    for label, inputs in cases.items():
        actual, expected = (_computed(model, inputs, user_arrays) for model in models)
        rows += _compare("output", f"{precision}, fp32; {label}", actual, expected, LOW[precision])
    return rows


def _check_training(
    program: Program, model: TrainableModel, inputs: Arrays, outputs: Arrays, sizes: dict[str, int]
) -> list[CheckRow]:
    """Forward, backward, and the gradients' own slopes.

    Args:
        outputs: the interpreter's.
    """
    results, tape = model.forward(inputs)
    allowed = _allowed(program, OUTPUT)
    rows = _compare("output", "forward, interpreter", results, outputs, allowed)
    rng, outer = np.random.default_rng(1), dict[str, Array]()
    for name, value in program.net.outputs.items():
        if dtype_of(value) in FLOATS:
            numpy = NUMPY[dtype_of(value)]
            outer[name] = np.asarray(rng.uniform(-1, 1, outputs[name].shape), numpy)
    grads = model.backward(tape, outer)
    combined = differentiate(program, [*outer], [*grads])
    roles = combined.net.input_roles.items()
    gradients = run(combined, inputs | {n: outer[role.of] for n, role in roles}, np.float64, sizes)
    expected = {role.of: gradients[name] for name, role in combined.net.output_roles.items()}
    allowed = _allowed(program, GRADIENT)
    rows += _compare("gradient", "backward, interpreter", grads, expected, allowed)
    slopes = _Slopes(program, inputs, outer, sizes)
    return rows + [slopes.row(name, grad) for name, grad in expected.items()]


def _allowed(program: Program, tolerance: tuple[float, float]) -> tuple[float, float]:
    """The tolerance of the floats that a net computes in."""
    computed = [v for op in program.net.walk() if not isinstance(op, Fill) for v in op.results]
    values = [*computed, *program.net.inputs.values()]
    factor = 1.0 if any(dtype_of(value) == "f32" for value in values) else DOUBLE
    return tolerance[0] * factor, tolerance[1] * factor


def print_report(report: Report) -> None:
    """A line for each comparison, and one that sums up."""
    rows = [
        (
            r.kind,
            r.name,
            r.compared,
            f"{r.error:.1e}",
            f"{r.tolerance:.1e}",
            "yes" if r.ok else "NO",
        )
        for r in report.rows
    ]
    print_table("", COLUMNS, rows)
    at = ", ".join(f"{name}={value}" for name, value in report.sizes.items())
    agree, where = len(report.rows) - report.failures, f" at {at}" if at else ""
    print(f"{agree} of {len(report.rows)} comparisons within their tolerance{where}")


def _sizes(program: Program, at: str | None, user_arrays: Arrays) -> dict[str, int]:
    """What the user names, then what the given arrays show, then the defaults."""
    sizes = {symbol: SIZES.get(symbol, OTHER_SIZE) for symbol in program.open_symbols}
    for name, array in user_arrays.items():
        dims = dims_of(program.net.inputs[name]) if name in program.net.inputs else ()
        sizes |= {str(d): n for d, n in zip(dims, array.shape, strict=False) if str(d) in sizes}
    return sizes | parse_sizes(at, program.open_symbols, "--for")


def _draw(program: Program, sizes: Mapping[str, int], named: Collection[str]) -> Arrays:
    """Inputs, and parameters without a value, in [-1, 1]; integers from 1 to the least size, texts
    that the net knows.

    Optional inputs are left out.
    """
    rng, arrays = np.random.default_rng(0), dict[str, Array]()
    most = min(size for symbol, size in {**SIZES, **sizes}.items() if symbol != BATCH)
    with_values = {*named, *program.arrays}
    params = {name: op.y for name, op in program.params.items()}
    for name, value in (program.net.inputs | params).items():
        if name in with_values:
            continue
        shape, dtype = [d.evaluate(sizes) for d in dims_of(value)], dtype_of(value)
        if prod(shape) * DRAWN_BYTES > sys.maxsize:
            raise MemoryError  # for which NumPy has a ValueError
        if dtype in FLOATS:
            scale = max(shape[-1:], default=1) ** -0.5 if name in params and 0 not in shape else 1
            drawn = rng.uniform(-scale, scale, shape)
        elif dtype == "text":
            drawn = rng.integers(0, len(program.texts), shape)
        else:
            drawn = rng.integers(min(1, most), most + 1, shape)
        arrays[name] = drawn.astype(NUMPY[dtype])
    return arrays


def _compare(
    kind: str, compared: str, actual: Arrays, expected: Arrays, tolerance: tuple[float, float]
) -> list[CheckRow]:
    return [
        CheckRow(kind, name, compared, *_worst(array, expected[name], tolerance))
        for name, array in actual.items()
    ]


def _worst(actual: Array, expected: Array, tolerance: tuple[float, float]) -> tuple[float, float]:
    """The error and the tolerance of the value that is furthest off."""
    if actual.size == 0:
        return 0.0, tolerance[0]
    if actual.dtype.kind == "U":
        return float((actual != expected).any()), tolerance[0]
    sizes = np.abs(np.where(np.isfinite(expected), expected, 0.0))
    allowed = tolerance[0] * max(1.0, float(sizes.max())) + tolerance[1] * sizes
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        off = np.abs(np.where(same, 0.0, actual - np.where(same, 0.0, expected)))
    off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    at = int((off / allowed).argmax())
    return float(off.flat[at]), float(allowed.flat[at])


class _Slopes:
    """How a weighted sum of all outputs changes as one array is moved."""

    def __init__(
        self, program: Program, inputs: Arrays, outer: Arrays, sizes: Mapping[str, int]
    ) -> None:
        self.program, self.outer, self.sizes = program, outer, sizes
        self.point = {**program.arrays, **inputs}

    def row(self, name: str, grad: Array) -> CheckRow:
        """The gradient along a random direction, which moves every value equally far."""
        compared = "interpreter, differences"
        if grad.size == 0:
            return CheckRow("gradient", name, compared, 0.0, SLOPE)
        sides = np.random.default_rng(2).choice([-1.0, 1.0], grad.shape) / grad.size**0.5
        start = self.point[name].astype(np.float64)
        ahead, behind = (self._weighted(name, start + s * STEP * sides) for s in (1, -1))
        slope = sum(float((a - b).sum()) for a, b in zip(ahead, behind, strict=True)) / (2 * STEP)
        summed = sum(float(np.abs(part).sum()) for part in ahead)
        derivative = float((grad * sides).sum())
        tolerance = SLOPE * max(1.0, abs(slope)) + ROUNDING * summed
        error = abs(derivative - slope)
        return CheckRow("gradient", name, compared, error if error == error else np.inf, tolerance)

    def _weighted(self, name: str, moved: Array) -> list[Array]:
        inputs = {n: a for n, a in self.point.items() if n not in self.program.arrays}
        outputs = run(self.program, {**inputs, name: moved}, np.float64, self.sizes)
        return [outputs[output] * weight for output, weight in self.outer.items()]
