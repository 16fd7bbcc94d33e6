"""What exported functions take in front of the sizes (docs/abi.md). Light: it imports nothing."""

from __future__ import annotations

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
