"""What a model's arrays must be, and the checks of the arrays that a caller gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnncc_runtime.errors import ArrayError
from rnncc_runtime.sizes import Size

Array = np.ndarray[Any, Any]
Place = tuple[int, int]
"""Where an array's memory begins, and its bytes."""
Counts = Mapping[str, Sequence[tuple[str, int]]]
"""Output -> what tells how many of its rows count, and their axis, for one axis or two."""

pointer: Callable[[Any], c_char] = c_char.from_buffer
"""Of a contiguous, writeable array that is not empty; a TypeError or ValueError for any other."""

DTYPES = {
    **{"f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64", "i1": "bool"},
    **{
        "i8": "int8",
        "u8": "uint8",
        "i16": "int16",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
    },
    **{"f16": "float16", "bf16": "uint16", "text": "int32"},
}
"""What metadata calls types of elements -> NumPy's names."""


@dataclass(frozen=True)
class TensorSpec:
    """What an array must be.

    Attributes:
        name: the net's own name for it.
        shape: ints, symbols such as "T", or formulas such as "T*N + 1".
        dtype: NumPy's dtype.
        optional: an input with a default, which the library holds.
        is_text: whether its numbers stand for texts, which calls take and give in their place.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype[Any]
    optional: bool = False
    sizes: tuple[Size, ...] = field(default=(), repr=False, compare=False)
    is_text: bool = False

    @staticmethod
    def read(entry: Mapping[str, Any]) -> TensorSpec:
        """One entry of the metadata's inputs, outputs or parameters."""
        shape = tuple(entry["shape"])
        dtype = np.dtype(DTYPES[entry["dtype"]])
        sizes = tuple(Size.parse(size) for size in shape)
        optional, is_text = entry.get("optional", False), entry["dtype"] == "text"
        return TensorSpec(entry["name"], shape, dtype, optional, sizes, is_text)

    def __str__(self) -> str:
        kind = "text" if self.is_text else self.dtype
        text = f"{self.name}: {kind} [{', '.join(map(str, self.shape))}]"
        return f"{text} (optional)" if self.optional else text


Specs = dict[str, TensorSpec]


def read_specs(entries: Sequence[Mapping[str, Any]]) -> Specs:
    """Name -> spec, in the metadata's order."""
    return {entry["name"]: TensorSpec.read(entry) for entry in entries}


def check_inputs(inputs: Mapping[str, object], specs: Specs) -> list[Array | None]:
    """The arrays in the order of the specs, of the right dtypes, contiguous (copied if need be).

    None stands for an optional input that is not given.
    """
    check_mapping(inputs, "inputs", specs)
    if inputs.keys() != specs.keys():
        check_names(inputs, specs)
    arrays: list[Array | None] = []
    for name, spec in specs.items():
        if spec.optional and name not in inputs:
            arrays.append(None)
            continue
        array = as_array(name, inputs[name])
        if array.dtype != spec.dtype:
            raise ArrayError(f"{name} is {array.dtype}, expected {spec.dtype}")
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = array.copy(order="C")
        arrays.append(array)
    return arrays


def check_outputs(
    out: Mapping[str, Array], specs: Specs, kind: str = "output"
) -> list[Array | None]:
    """The caller's arrays in the order of the specs, None for what is not wanted.

    Args:
        kind: what messages call one of them.
    """
    check_mapping(out, f"{kind}s", specs)
    unknown = [str(name) for name in out if name not in specs]
    if unknown:
        raise ArrayError(f"no {kind} is named {listed(unknown)}; {kind}s: {listed(specs)}")
    for name, array in out.items():
        dtype = specs[name].dtype
        if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArrayError(f"{kind} {name} is a {type(array).__name__}, expected an array")
        if array.dtype != dtype:
            raise ArrayError(f"{kind} {name} is {array.dtype}, expected {dtype}")
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and flags.writeable):
            raise ArrayError(f"{kind} {name} must be contiguous, aligned and writeable")
    return [out.get(name) for name in specs]


def check_mapping(arrays: object, what: str, specs: Specs) -> None:
    """Raise `ArrayError` for anything but arrays by name."""
    if not hasattr(arrays, "keys"):
        kind = type(arrays).__name__
        raise ArrayError(f"{what} are {kind}, expected arrays by name: {listed(specs)}")


def counts_in(metadata: Mapping[str, Any]) -> Counts:
    """What `cut` takes, of metadata, in which pairs of an output and an axis follow each other."""
    counts: Mapping[str, Sequence[Any]] = metadata.get("counts", {})
    return {name: [*zip(flat[::2], flat[1::2], strict=True)] for name, flat in counts.items()}


def cut(outputs: dict[str, Array], counts: Counts) -> dict[str, Array]:
    """Outputs without the rows that do not count, where `counts` names the output that tells how
    many do, and the axis of the rows, of one axis after another."""
    for name, pairs in counts.items():
        for counter, axis in pairs:
            rows = slice(int(outputs[counter]))
            outputs[name] = outputs[name][(slice(None),) * axis + (rows,)]
    return outputs


def check_apart(names: Sequence[str], places: Sequence[Place], inputs: int) -> None:
    """Refuse an output that shares memory with an input or with another output.

    Args:
        names, places: of the inputs, then of the outputs.
        inputs: how many are inputs.
    """
    reached = 0
    for start, size in sorted(places):
        if start < reached:
            break
        reached = start + size
    else:  # in order and apart: the usual case, told without comparing every pair
        return
    for i in range(inputs, len(places)):
        start, size = places[i]
        for j in range(i):
            other_start, other_size = places[j]
            if max(start, other_start) < min(start + size, other_start + other_size):
                other = f"{'input' if j < inputs else 'output'} {names[j]}"
                raise ArrayError(f"output {names[i]} overlaps {other} in memory")


def address(array: Array | None) -> int:
    """Where a contiguous array's first byte lies; 0, which is NULL, for none."""
    if array is None:
        return 0
    try:  # four times as fast as `ctypes.data`, but refuses empty and read-only arrays
        return addressof(pointer(array))
    except (TypeError, ValueError):
        return array.ctypes.data


def as_array(name: str, value: object, dtype: type[object] | None = None) -> Array:
    """An array of NumPy's, of a type if one is given and it is none yet; raises `ArrayError` where
    none can be made."""
    if type(value) is np.ndarray:
        return value
    if np.ma.is_masked(value):
        raise ArrayError(f"{name} has masked elements: fill them, or give their lengths")
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(value).__name__
        raise ArrayError(f"{name} is a {kind} that is not an array: {error}") from error


def check_names(inputs: Mapping[str, object], specs: Specs) -> None:
    """Raise `ArrayError` where an input is missing or unknown."""
    missing = [name for name, s in specs.items() if name not in inputs and not s.optional]
    unknown = [str(name) for name in inputs if name not in specs]
    parts = [f"missing: {listed(missing)}"] if missing else []
    parts += [f"unknown: {listed(unknown)}"] if unknown else []
    if parts:
        raise ArrayError(f"inputs {'; '.join(parts)} (the model's inputs: {listed(specs)})")


def listed(names: Sequence[str] | Specs) -> str:
    """Names with commas between them."""
    return ", ".join(names) or "none"
