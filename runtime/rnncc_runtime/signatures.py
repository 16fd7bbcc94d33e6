"""What exported functions take: pointers, then sizes (docs/abi.md). Light: without NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rnncc_runtime.sizes import TIME

PARAMETERS = {
    "run": ("inputs", "outputs", "workspace"),
    "step": ("inputs", "outputs", "state", "workspace"),
    "state_init": ("inputs", "state", "workspace"),
    "forward": ("inputs", "parameters", "outputs", "tape", "workspace"),
    "backward": ("inputs", "parameters", "output_grads", "grads", "tape", "workspace"),
    "init_parameters": ("parameters",),
    "pack_parameters": ("parameters", "packed", "workspace"),
}
"""The blocks of memory that a function takes."""
PACKED = "packed"
"""That of packed parameters, which `forward` and `backward` take where a library packs them apart;
the metadata have its bytes by this name."""
CUDA_SUFFIX = "_cuda"
"""The end of the name of a function that computes on a GPU."""
_FIXED = ("init_parameters", "pack_parameters", "packed_bytes")
"""Functions that no size of a call changes."""


def pointers_of(metadata: Mapping[str, Any], function: str) -> tuple[str, ...]:
    """The blocks that a function of a library takes, in order; none where it tells numbers."""
    pointers = PARAMETERS.get(function, ())
    return with_packed(pointers) if PACKED in metadata and "tape" in pointers else pointers


def with_packed(pointers: tuple[str, ...]) -> tuple[str, ...]:
    """What `forward` or `backward` takes where parameters are packed apart."""
    at = pointers.index("parameters") + 1
    return (*pointers[:at], PACKED, *pointers[at:])


def symbols_of(symbols: Iterable[str], function: str) -> list[str]:
    """Those of a library's sizes that a function takes; a state has nothing to do with T."""
    own = function.removesuffix(CUDA_SUFFIX)
    if own in _FIXED:
        return []
    return [symbol for symbol in symbols if symbol != TIME or not own.startswith("state_")]
