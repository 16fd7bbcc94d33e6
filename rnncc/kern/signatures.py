"""What exported functions take beside `rnncc_runtime.signatures`. Light: it imports nothing."""

from __future__ import annotations

PART, PART_SUFFIX = "part", "_part"
"""What a function takes that several threads call together, behind its other pointers, and the end
of its name."""

SYNC_BYTES = 256
"""The first bytes of a workspace on a GPU, where the blocks of a launch meet and leave errors; they
are cleared as a call begins."""


def cuda_parameters(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """The pointers that such a function takes, where one for a CPU takes these."""
    return ("cuda", *parameters, "status", "stream")
