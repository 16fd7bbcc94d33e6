"""Init nets: the shapes that their fill operators declare, and then the arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod, sqrt
from typing import Any
from zlib import crc32

import numpy as np

from rnncc.errors import CompileError, Location
from rnncc.netdef.arguments import Arguments
from rnncc.netdef.files import Message, load
from rnncc.netdef.netdef_pb2 import NetDef, OperatorDef, TensorProto
from rnncc.records import record

Array = np.ndarray[Any, Any]

MAX_BYTES = 1 << 30
"""How much memory the parameters of one net may take."""

DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
    TensorProto.DOUBLE: np.float64,
}


@record
class DeclaredFill:
    """A parameter that an init net declares; `array(seed)` computes it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    location: Location
    array: Callable[[int], Array]


def parameters(init: str | bytes | Message, seed: int = 0) -> dict[str, Array]:
    """The arrays an init net makes, by blob name; random fills depend on seed and name alone.

    Raises:
        CompileError: an operator that is no fill, or wrong, or more than a gigabyte in all.
    """
    return {fill.name: fill.array(seed) for fill in declared_fills(load(init)).values()}


def declared_fills(init: NetDef, file: str = "") -> dict[str, DeclaredFill]:
    """Every parameter's shape and type, allocating nothing; the last fill of a blob counts."""
    fills: dict[str, DeclaredFill] = {}
    total = 0
    for index, op in enumerate(init.op):
        name = op.output[0] if op.output else ""
        location = Location(file, f'op {index} ({op.type} "{name}")')
        convert = op.type in CONVERSIONS
        fills[name] = fill = _converted(op, fills, location) if convert else _declare(op, location)
        total += prod(fill.shape) * fill.dtype.itemsize
        if total > MAX_BYTES:
            size = " x ".join(map(str, fill.shape))
            raise CompileError(location, f"{size} elements: parameters take more than 1 GiB")
    return fills


def _declare(op: OperatorDef, location: Location) -> DeclaredFill:
    if op.type not in FILLS:
        hint = "an init net may hold: " + ", ".join((*FILLS, *CONVERSIONS))
        raise CompileError(location, "is no fill operator", hint)
    if len(op.output) != 1:
        raise CompileError(location, f"has {len(op.output)} outputs, expected 1")
    args = Arguments(op, location)
    if op.input or args.flag("input_as_shape"):
        raise CompileError(location, "takes its shape from another blob, which an init net cannot")
    return FILLS[op.type](op.output[0], args)


def _converted(
    op: OperatorDef, fills: Mapping[str, DeclaredFill], location: Location
) -> DeclaredFill:
    """A parameter of halves made from one of floats, or back; both are float32 here."""
    source = fills.get(op.input[0]) if len(op.input) == len(op.output) == 1 else None
    if source is None or source.dtype != np.float32:
        raise CompileError(location, "converts what no operator before it fills with floats")
    array = _as_halves(source.array)
    return DeclaredFill(op.output[0], source.shape, source.dtype, location, array)


def _as_halves(array: Callable[[int], Array]) -> Callable[[int], Array]:
    """The float16 nearest to each element, as float32."""

    def rounded(seed: int) -> Array:
        with np.errstate(over="ignore"):  # what is too large is infinite
            return array(seed).astype(np.float16).astype(np.float32)

    return rounded


def fill_shape(args: Arguments) -> tuple[int, ...]:
    """The arguments `shape` and `extra_shape`, checked."""
    shape = tuple(int(size) for size in (*args.ints("shape"), *args.ints("extra_shape")))
    if any(size < 0 for size in shape):
        raise CompileError(args.location, f"shape {list(shape)} has a negative size")
    return shape


def fill_constant(args: Arguments) -> tuple[np.dtype[Any], float]:
    """ConstantFill's element type and value: an integer's is int64 where nothing else is said."""
    whole = "dtype" not in args and args.holds("value", "i")
    kind = args.int("dtype", TensorProto.INT64 if whole else TensorProto.FLOAT)
    if kind not in DTYPES:
        names = ", ".join(TensorProto.DataType.Name(k) for k in DTYPES)
        raise CompileError(args.location, f"element type {kind} is not supported", names)
    dtype = np.dtype(DTYPES[kind])  # type: ignore[index]  # an enum's value, which is an int
    if dtype.kind == "f":
        return dtype, args.float("value", 0.0, allow_nan=True)
    value = args.int("value", 0)
    bound = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind == "i" and not -bound <= value < bound:
        raise CompileError(args.location, f"value {value} does not fit {dtype}")
    return dtype, bool(value) if dtype.kind == "b" else value


def _constant(name: str, args: Arguments) -> DeclaredFill:
    shape = fill_shape(args)
    dtype, value = fill_constant(args)
    return DeclaredFill(name, shape, dtype, args.location, lambda _: np.full(shape, value, dtype))


def _constant_half(name: str, args: Arguments) -> DeclaredFill:
    """A constant that is a float16, whatever else the arguments say."""
    shape, value = fill_shape(args), args.float("value", 0.0, allow_nan=True)
    constant = _as_halves(lambda _: np.full(shape, value, np.float32))
    return DeclaredFill(name, shape, np.dtype(np.float32), args.location, constant)


def _uniform_half(name: str, args: Arguments) -> DeclaredFill:
    fill = FILLS["UniformFill"](name, args)
    return DeclaredFill(name, fill.shape, fill.dtype, fill.location, _as_halves(fill.array))


def _diagonal(name: str, args: Arguments) -> DeclaredFill:
    """The value where all places along the axes are equal, else 0; in a high matrix it goes on from
    the first column, behind a row of zeros."""
    shape = fill_shape(args)
    dtype, value = fill_constant(args)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        what = f"shape {list(shape)} has no diagonal: expected a matrix, or equal sizes"
        raise CompileError(args.location, what)

    def array(seed: int) -> Array:
        filled = np.zeros(shape, dtype)
        np.fill_diagonal(filled, value, wrap=True)
        return filled

    return DeclaredFill(name, shape, dtype, args.location, array)


def _counted(name: str, args: Arguments) -> DeclaredFill:
    """0, 1, 2 and so on."""
    shape, dtype = fill_shape(args), np.dtype(np.float32)
    return DeclaredFill(
        name,
        shape,
        dtype,
        args.location,
        lambda _: np.arange(prod(shape), dtype=dtype).reshape(shape),
    )


def _given(dtype: type[Any], field: str) -> Callable[[str, Arguments], DeclaredFill]:
    def declare(name: str, args: Arguments) -> DeclaredFill:
        shape = fill_shape(args)
        values = args.floats("values") if field == "floats" else args.ints("values")
        if len(values) != prod(shape):
            what = f"{len(values)} values for shape {list(shape)} of {prod(shape)} elements"
            raise CompileError(args.location, what)
        return DeclaredFill(name, shape, np.dtype(dtype), args.location, lambda _: fill(args))

    def fill(args: Arguments) -> Array:
        values = args.floats("values") if field == "floats" else args.ints("values")
        wide = np.float32 if field == "floats" else np.int64
        return np.array(values, wide).astype(dtype).reshape(fill_shape(args))

    return declare


def _random(
    draw: Callable[[np.random.Generator, tuple[int, ...], Arguments], Array],
    check: Callable[[tuple[int, ...], Arguments], None],
    dtype: type[Any] = np.float32,
) -> Callable[[str, Arguments], DeclaredFill]:
    """A random fill: its numbers depend on the seed and on the blob's name alone."""

    def declare(name: str, args: Arguments) -> DeclaredFill:
        shape = fill_shape(args)
        check(shape, args)

        def array(seed: int) -> Array:
            generator = np.random.default_rng([seed, crc32(name.encode())])
            return draw(generator, shape, args)

        return DeclaredFill(name, shape, np.dtype(dtype), args.location, array)

    return declare


def _xavier(generator: np.random.Generator, shape: tuple[int, ...], args: Arguments) -> Array:
    bound = sqrt(3 / max(prod(shape[1:]), 1))
    return _uniform_between(generator, shape, -bound, bound)


def _msra(generator: np.random.Generator, shape: tuple[int, ...], args: Arguments) -> Array:
    fan_out = prod(shape) // max(shape[1], 1)
    deviation = np.float32(sqrt(2 / max(fan_out, 1)))
    return generator.standard_normal(shape, np.float32) * deviation


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], args: Arguments) -> Array:
    return _uniform_between(generator, shape, args.float("min", 0.0), args.float("max", 1.0))


def _gaussian(generator: np.random.Generator, shape: tuple[int, ...], args: Arguments) -> Array:
    mean, deviation = np.float32(args.float("mean", 0.0)), np.float32(args.float("std", 1.0))
    return generator.standard_normal(shape, np.float32) * deviation + mean


def _uniform_integers(
    generator: np.random.Generator, shape: tuple[int, ...], args: Arguments
) -> Array:
    low, high = _integer_bounds(args)
    return generator.integers(low, high, shape, np.int32, endpoint=True)


def _integer_bounds(args: Arguments) -> tuple[int, int]:
    return args.int("min", 0), args.int("max", 1)


def _uniform_between(
    generator: np.random.Generator, shape: tuple[int, ...], low: float, high: float
) -> Array:
    array = generator.random(shape, np.float32)
    array *= np.float32(high - low)
    array += np.float32(low)
    return array


def _rank_at_least(rank: int) -> Callable[[tuple[int, ...], Arguments], None]:
    def check(shape: tuple[int, ...], args: Arguments) -> None:
        if len(shape) < rank:
            raise CompileError(args.location, f"shape {list(shape)} has a rank below {rank}")

    return check


def _check_uniform(shape: tuple[int, ...], args: Arguments) -> None:
    low, high = args.float("min", 0.0), args.float("max", 1.0)
    if not low < high:
        raise CompileError(args.location, f"min {low:g} is not below max {high:g}")


def _check_integers(shape: tuple[int, ...], args: Arguments) -> None:
    low, high = _integer_bounds(args)
    if not -(1 << 31) <= low <= high < 1 << 31:
        raise CompileError(args.location, f"min {low} and max {high} are no range of int32")


def _check_gaussian(shape: tuple[int, ...], args: Arguments) -> None:
    mean, deviation = args.float("mean", 0.0), args.float("std", 1.0)
    if not (np.isfinite(mean) and np.isfinite(deviation) and deviation > 0):
        raise CompileError(args.location, f"mean {mean:g} and std {deviation:g} are no Gaussian")


FILLS: dict[str, Callable[[str, Arguments], DeclaredFill]] = {
    "GivenTensorFill": _given(np.float32, "floats"),
    "GivenTensorDoubleFill": _given(np.float64, "floats"),
    "GivenTensorIntFill": _given(np.int32, "ints"),
    "GivenTensorInt64Fill": _given(np.int64, "ints"),
    "GivenTensorBoolFill": _given(np.bool_, "ints"),
    "ConstantFill": _constant,
    "Float16ConstantFill": _constant_half,
    "DiagonalFill": _diagonal,
    "RangeFill": _counted,
    "XavierFill": _random(_xavier, _rank_at_least(1)),
    "MSRAFill": _random(_msra, _rank_at_least(2)),
    "UniformFill": _random(_uniform, _check_uniform),
    "Float16UniformFill": _uniform_half,
    "UniformIntFill": _random(_uniform_integers, _check_integers, np.int32),
    "GaussianFill": _random(_gaussian, _check_gaussian),
}
"""The operators an init net may hold."""

CONVERSIONS = ("FloatToHalf", "HalfToFloat")
"""What else one may hold."""
