"""Inputs of models that nobody has described, and whether two results agree."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
from rnncc_runtime.compiled import Compiled

from rnncc.ir.interpreter import run
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.program import Program
from tests.golden import Arrays

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LARGEST = 1 << 18
"""Elements of an array."""
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 1e30, -1e30, 88.8, -104])
"""Numbers at the ends of functions' ranges. Results are compared with the interpreter alone: what
becomes of NaN in a maximum, say, ONNX Runtime decides from operator to operator."""
PERTURBATIONS = 3


def draw_inputs(rng: random.Random, model: Compiled) -> tuple[dict[str, int], Arrays] | None:
    """Sizes and arrays that fit a model; None where the shapes drawn are negative or too large."""
    sizes = {symbol: rng.choice(SIZES) for symbol in model.metadata["symbols"]}
    special, scale = rng.random() < 0.1, rng.choice([0.1, 1.0, 1.0, 3.0])
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    arrays: Arrays = {}
    for name, spec in model.inputs.items():
        shape = tuple(size.evaluate(sizes) for size in spec.sizes)
        if min(shape, default=0) < 0 or int(np.prod(shape, dtype=object)) > LARGEST:
            return None
        arrays[name] = _draw(numbers, shape, spec.dtype, scale, special, sizes)
    return sizes, arrays


def _draw(
    numbers: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    scale: float,
    special: bool,
    sizes: Mapping[str, int],
) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return numbers.random(shape) < 0.5
    if dtype.kind in "iu":
        most = max([1, *sizes.values()])
        least = 0 if dtype.kind == "u" or numbers.random() < 0.7 else -3
        return numbers.integers(least, most + 1, shape).astype(dtype)
    array = numbers.standard_normal(shape) * scale
    if special:
        chosen = numbers.random(shape) < 0.2
        array = np.where(chosen, numbers.choice(SPECIAL, shape), array)
    return array.astype(dtype)


def disagreement(got: Arrays, want: Arrays, allowed: Arrays | None = None) -> str | None:
    """The first output that differs by more than rounding explains, or None.

    Args:
        allowed: the difference that each element may have beside 1e-4 of the largest one.
    """
    for name in got.keys() & want.keys():
        ours, theirs = got[name], np.asarray(want[name])
        if ours.shape != theirs.shape:
            return f"{name} has shape {list(ours.shape)}, expected {list(theirs.shape)}"
        slack = np.zeros(ours.shape) if allowed is None else allowed[name]
        if not _close(ours, theirs, slack).all():
            with np.printoptions(threshold=20, edgeitems=4):
                return f"{name}:\n{ours}\nexpected\n{theirs}"
    return None


def _close(
    ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], slack: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    if ours.dtype.kind != "f":
        return (ours == theirs) | (slack > 0)
    wide, other = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    scale = float(finite.max(initial=0)) if finite.size else 0.0
    relative = max(1e-4, 4 * float(np.finfo(ours.dtype).eps))  # of 16 bits, what rounding leaves
    with np.errstate(all="ignore"):
        near = np.abs(wide - other) <= 1e-6 + relative * scale + slack
        huge = np.abs(other) > 1e37  # float32 overflows where float64 does not
        both_large = huge & (np.abs(wide) > 1e37) & (np.sign(wide) == np.sign(other))
    return near | (wide == other) | (np.isnan(wide) & np.isnan(other)) | both_large


def sensitivity(
    program: Program, inputs: Arrays, sizes: Mapping[str, int]
) -> tuple[Arrays, Arrays] | None:
    """The outputs in float64, and by how much float32 may miss each element.

    That is what rounding the inputs does, and computing in float32. None where rounding decides
    about whole numbers, NaN or overflow: then nothing can be said.
    """
    exact = run(program, inputs, np.float64, sizes)
    others = [run(program, inputs, np.float32, sizes)]
    rng = np.random.default_rng(0)
    for _ in range(PERTURBATIONS):
        moved = {name: _perturbed(rng, array) for name, array in inputs.items()}
        others.append(run(program, moved, np.float64, sizes))
    allowed: Arrays = {}
    for name, array in exact.items():
        rows = [np.asarray(other[name]) for other in others]
        if array.dtype.kind != "f":
            if any((row != array).any() for row in rows):
                return None
            allowed[name] = np.zeros(array.shape)
            continue
        if any((np.isfinite(row) != np.isfinite(array)).any() for row in rows):
            return None
        with np.errstate(all="ignore"):
            spread = np.max([np.abs(row - array) for row in rows], axis=0, initial=0)
        allowed[name] = 50 * np.nan_to_num(spread, posinf=0)
    return exact, allowed


def is_invalid(program: Program, inputs: Arrays, sizes: Mapping[str, int]) -> bool:
    """Whether a NaN or an infinity comes up on the way, even if no output shows it."""
    seen = list[bool]()
    with ExitStack() as stack:
        for kind in {type(op) for op in program.module.walk() if isinstance(op, RnnOp)}:
            if "evaluate" in dir(kind):
                watched = _watched(kind.evaluate, seen)
                stack.enter_context(mock.patch.object(kind, "evaluate", watched))
        run(program, inputs, np.float32, sizes)
    return any(seen)


def _watched(evaluate: Callable[..., Any], seen: list[bool]) -> Callable[..., Any]:
    """The same, which notes results that are not finite."""

    def made(*given: Any) -> Any:
        result = evaluate(*given)
        seen.append(result.dtype.kind == "f" and not np.isfinite(result).all())
        return result

    return made


def _perturbed(rng: np.random.Generator, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if array.dtype.kind != "f":
        return array
    return array * (1 + 3e-7 * rng.uniform(-1, 1, array.shape))
