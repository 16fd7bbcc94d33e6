"""What shapes tell of a stream: the sizes of a step's arrays, and which nets a state fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from rnncc_runtime.arrays import Specs, TensorSpec
from rnncc_runtime.compiled import Shape, Shapeds
from rnncc_runtime.sizes import TIME, Size

KnownShape = tuple[str, tuple[Size, ...], Shape]
"""An array's name, what its shape should be, and what it is."""

STEPS = Size.parse(TIME)


def checksum_of(metadata: Mapping[str, Any]) -> int:
    """Of all that tells nets apart, but for weights: names, dtypes, shapes of all arrays, and the
    texts that a state's numbers mean."""
    arrays = [
        (entry["name"], entry["dtype"], entry["shape"])
        for group in ("inputs", "outputs", "parameters")
        for entry in metadata[group]
    ]
    slots = metadata["stream"]["slots"]
    texts = [metadata["texts"]] if any(slot["dtype"] == "text" for slot in slots) else []
    return crc32(json.dumps([metadata["symbols"], slots, arrays, *texts]).encode())


def leads_with_time(spec: TensorSpec) -> bool:
    """Whether T is its first size, or in none: one step may then come without that axis."""
    timed = [TIME in size.symbols for size in spec.sizes]
    return not any(timed) or (spec.sizes[0] == STEPS and not any(timed[1:]))


def sizes_of_call(spec: TensorSpec, single: bool) -> tuple[Size, ...]:
    """A spec's sizes; without the axis of time for a single step."""
    return spec.sizes[1:] if single and spec.sizes[:1] == (STEPS,) else spec.sizes


def known_shapes_of(prefix: str, specs: Specs, arrays: Shapeds, single: bool) -> list[KnownShape]:
    """What arrays of these specs tell; absent ones tell nothing."""
    return [
        (f"{prefix}{name}", sizes_of_call(spec, single), array.shape)
        for (name, spec), array in zip(specs.items(), arrays, strict=True)
        if array is not None
    ]
