"""Inputs of models that nobody has described, and whether results agree."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from rnncc_runtime.compiled import Compiled

from tests.golden import Arrays

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LARGEST = 1 << 18
"""Elements of an array."""
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 1e30, -1e30, 88.8, -104])
"""Numbers at the ends of functions' ranges. Results are compared with the interpreter alone: what
becomes of NaN in a maximum, say, ONNX Runtime decides from operator to operator."""
KINDS = {"plain": 16, "special": 2, "whole": 2, "denormal": 1, "large": 1, "huge": 1, "same": 1}
"""What the elements of an input are, and how often: normally distributed ones, some of them
replaced by special ones, of integers by their limits; integers, of which some are equal; all of one
size; all the same."""


def draw_sizes(rng: random.Random, model: Compiled) -> dict[str, int] | None:
    """Sizes for a model; None where shapes are negative or too large with those drawn."""
    sizes = {symbol: rng.choice(SIZES) for symbol in model.metadata["symbols"]}
    shapes = _shapes(model, sizes)
    fit = all(min(s, default=0) >= 0 and _elements([s]) <= LARGEST for s in shapes.values())
    return sizes if fit else None


def most_calls(model: Compiled, sizes: Mapping[str, int]) -> int:
    """How many calls' inputs are to be held at once."""
    return max(1, LARGEST // max(1, _elements(_shapes(model, sizes).values())))


def draw_inputs(rng: random.Random, model: Compiled, sizes: Mapping[str, int]) -> Arrays:
    """Arrays of these sizes."""
    (kind,) = rng.choices(list(KINDS), list(KINDS.values()))
    scale, most = rng.choice([0.1, 1.0, 1.0, 3.0]), max([1, *sizes.values()])
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    return {
        name: _draw(numbers, shape, model.inputs[name].dtype, kind, scale, most)
        for name, shape in _shapes(model, sizes).items()
    }


def _shapes(model: Compiled, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    specs = model.inputs.items()
    return {name: tuple(size.evaluate(sizes) for size in spec.sizes) for name, spec in specs}


def _elements(shapes: Iterable[tuple[int, ...]]) -> int:
    return sum(int(np.prod(shape, dtype=object)) for shape in shapes)


def _draw(
    numbers: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    kind: str,
    scale: float,
    most: int,
) -> np.ndarray[Any, Any]:
    if dtype.kind == "b":
        return numbers.random(shape) < 0.5
    if dtype.kind in "iu":
        least = 0 if dtype.kind == "u" or numbers.random() < 0.7 else -3
        whole = numbers.integers(least, most + 1, shape).astype(dtype)
        if kind != "special":
            return whole
        limits = np.iinfo(dtype)
        edges = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], dtype)
        return np.where(numbers.random(shape) < 0.2, numbers.choice(edges, shape), whole)
    array = numbers.standard_normal(shape) * scale
    match kind:
        case "special":
            chosen = numbers.random(shape) < 0.2
            array = np.where(chosen, numbers.choice(SPECIAL, shape), array)
        case "whole":
            array = np.round(2 * array)
        case "denormal":
            array = array * 1e-40
        case "large":
            array = array * 1e4
        case "huge":
            array = array * 1e36
        case "same":
            array = np.full(shape, array.flat[0] if array.size else 0.0)
        case _:
            pass
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def agreement(got: Arrays, want: Arrays, allowed: Arrays | None = None) -> np.ndarray[Any, Any]:
    """Of each call, the first axis of the arrays, whether rounding explains what differs.

    Args:
        allowed: the difference that each element may have beside 1e-4 of the largest one.
    """
    agree = np.ones(len(next(iter(got.values()))), bool)
    for name in got.keys() & want.keys():
        ours, theirs = got[name], np.asarray(want[name])
        if ours.shape != theirs.shape:
            return np.zeros(len(agree), bool)
        slack = np.zeros((1,) * ours.ndim) if allowed is None else allowed[name]
        agree &= _close(ours, theirs, slack).reshape(len(ours), -1).all(axis=1)
    return agree


def difference(got: Arrays, want: Arrays, allowed: Arrays | None = None) -> str | None:
    """What differs by more than rounding explains in the results of one call, or None."""
    for name in got.keys() & want.keys():
        ours, theirs = got[name], np.asarray(want[name])
        if ours.shape != theirs.shape:
            return f"{name} has shape {list(ours.shape)}, expected {list(theirs.shape)}"
        slack = None if allowed is None else {name: allowed[name][None]}
        if not agreement({name: ours[None]}, {name: theirs[None]}, slack)[0]:
            with np.printoptions(threshold=20, edgeitems=4):
                return f"{name}:\n{ours}\nexpected\n{theirs}"
    return None


def _close(
    ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], slack: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    if ours.dtype.kind != "f":
        return (ours == theirs) | (slack > 0)
    wide, other = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.where(np.isfinite(other), np.abs(other), 0.0).reshape(len(other), -1)
    scale = finite.max(axis=1, initial=0).reshape((-1,) + (1,) * (other.ndim - 1))
    relative = max(1e-4, 4 * float(np.finfo(ours.dtype).eps))  # of 16 bits, what rounding leaves
    with np.errstate(all="ignore"):
        near = np.abs(wide - other) <= 1e-6 + relative * scale + slack
        huge = np.abs(other) > 1e37  # float32 overflows where float64 does not
        both_large = huge & (np.abs(wide) > 1e37) & (np.sign(wide) == np.sign(other))
    return near | (wide == other) | (np.isnan(wide) & np.isnan(other)) | both_large
