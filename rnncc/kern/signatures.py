"""The pointers and sizes that exported functions take. Light: it imports nothing."""

from __future__ import annotations

PARAMETERS = {
    "run": ("inputs", "outputs", "workspace"),
    "step": ("inputs", "outputs", "state", "workspace"),
    "state_init": ("inputs", "state", "workspace"),
    "forward": ("inputs", "parameters", "outputs", "tape", "workspace"),
    "backward": ("inputs", "parameters", "output_grads", "grads", "tape", "workspace"),
    "init_parameters": ("parameters",),
}
"""The pointers that a function takes, in front of the sizes."""
PART, PART_SUFFIX = "part", "_part"
"""What a function takes that several threads call together, behind its other pointers, and the end
of its name."""

CUDA_SUFFIX = "_cuda"
"""The end of the name of a function that computes on a GPU."""
SYNC_BYTES = 256
"""The first bytes of a workspace on a GPU, where the blocks of a launch meet and leave errors; they
are cleared as a call begins."""


def cuda_parameters(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The pointers that such a function takes, where one for a CPU takes these."""
    return ("cuda", *parameters, "status", "stream")
