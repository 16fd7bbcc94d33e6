"""The parameters of a layer: their shapes, how they start, and the check of given ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rnncc.errors import CompileError
from rnncc.ir.types import shape_text
from rnncc.nn.cells import CellWeights
from rnncc.nn.steps import Named
from rnncc.records import record

Array = np.ndarray[Any, Any]


@record
class Matrix:
    """A parameter that starts normally distributed with variance 2 / (fan in + fan out).

    (Glorot and Bengio, 2010; the fans are the library's: H and nIn + H, for W and RW alike.)
    """

    shape: tuple[int, ...]
    fans: tuple[int, int]

    def start(self, rng: np.random.Generator) -> Array:
        return rng.normal(0.0, (2 / sum(self.fans)) ** 0.5, self.shape).astype(np.float32)


@record
class ParameterVector:
    """A parameter of one number a unit; `values` are those of each gate's block at the start."""

    units: int
    values: Sequence[float] = (0.0,)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.units * len(self.values),)

    def start(self, rng: np.random.Generator) -> Array:
        return np.repeat(np.array(self.values, np.float32), self.units)


Parameter = Matrix | ParameterVector
Ends = tuple[str, str]
"""What a parameter's name starts and ends with."""


def gate_parameters(
    n_in: int, n_out: int, biases: tuple[float, ...], norm: bool, extra: int = 0
) -> dict[str, Parameter]:
    """W [nIn, kH], RW [H, kH + extra], b [kH], and with layer norm `gain` [kH], from 1."""
    width, fans = n_out * len(biases), (n_out, n_in + n_out)
    parameters: dict[str, Parameter] = {
        "W": Matrix((n_in, width), fans),
        "RW": Matrix((n_out, width + extra), fans),
        "b": ParameterVector(n_out, biases),
    }
    return (
        {**parameters, "gain": ParameterVector(n_out, (1.0,) * len(biases))} if norm else parameters
    )


def weights_of(p: Named, norm: bool) -> CellWeights:
    """W, RW and b; with layer norm b is added after it."""
    if norm:
        return CellWeights(p["W"], p["RW"], norm=(p["gain"], p["b"]), by_unit=False)
    return CellWeights(p["W"], p["RW"], [p["b"]], by_unit=False)


def sizes_from(
    kind: str,
    sizes: tuple[int | None, int | None],
    parameters: Mapping[str, Any] | None,
    ends: Ends,
) -> tuple[int, int]:
    """NIn and H: as they were asked for; else the rows of the first layer's W and RW."""
    known: list[int] = []
    for option, size, matrix in zip(("n_in", "n_out"), sizes, ("W", "RW"), strict=True):
        name = matrix.join(ends)
        arrays = parameters or {}
        shape = list(np.shape(arrays[name])) if name in arrays else []
        if size is None and len(shape) != 2:
            raise CompileError(kind, f"{option} is not given, nor a matrix {name} that shows it")
        size = shape[0] if size is None else size
        if not isinstance(size, int) or size < 1:
            raise CompileError(kind, f"{option} is {size!r}, expected a number from 1 up")
        known.append(size)
    return known[0], known[1]


def arrays_for(
    kind: str, expected: Mapping[str, Parameter], parameters: Mapping[str, Any] | None, seed: int
) -> dict[str, Array]:
    """The arrays given, checked, as float32; or those that a layer starts with."""
    if parameters is None:
        rng = np.random.default_rng(seed)
        return {name: parameter.start(rng) for name, parameter in expected.items()}
    problems = [f"parameter {name!r} is missing" for name in expected if name not in parameters]
    problems += [f"no parameter is named {name!r}" for name in parameters if name not in expected]
    if problems:
        raise CompileError(kind, "; ".join(problems), f"it has {', '.join(expected)}")
    return {name: _checked(kind, name, p.shape, parameters[name]) for name, p in expected.items()}


def _checked(kind: str, name: str, shape: tuple[int, ...], value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise CompileError(kind, f"{name} holds {array.dtype}, expected numbers")
    if array.shape != shape:
        actual, expected = shape_text(array.shape), shape_text(shape)
        raise CompileError(kind, f"{name} is {actual}, expected {expected} by n_in and n_out")
    return array.astype(np.float32)
