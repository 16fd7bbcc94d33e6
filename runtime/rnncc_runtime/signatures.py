"""What exported functions take: pointers, then sizes (docs/abi.md). Light: without NumPy."""

from __future__ import annotations

from collections.abc import Iterable

from rnncc_runtime.sizes import TIME

PARAMETERS = {
    "run": ("inputs", "outputs", "workspace"),
    "step": ("inputs", "outputs", "state", "workspace"),
    "state_init": ("inputs", "state", "workspace"),
    "forward": ("inputs", "parameters", "outputs", "tape", "workspace"),
    "backward": ("inputs", "parameters", "output_grads", "grads", "tape", "workspace"),
    "init_parameters": ("parameters",),
}
"""The blocks of memory that a function takes."""
CUDA_SUFFIX = "_cuda"
"""The end of the name of a function that computes on a GPU."""


def symbols_of(symbols: Iterable[str], function: str) -> list[str]:
    """Those of a library's sizes that a function takes; a state has nothing to do with T."""
    own = function.removesuffix(CUDA_SUFFIX)
    if own == "init_parameters":
        return []
    return [symbol for symbol in symbols if symbol != TIME or not own.startswith("state_")]
