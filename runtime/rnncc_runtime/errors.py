"""What can go wrong while a compiled model is loaded or run; every message is one line."""

from __future__ import annotations

CODES = {
    1: "memory that is needed is NULL",
    2: "a size is negative or too large",
    3: "a sequence length is beyond T",
    4: "a loop takes more iterations than its limit",
    5: "an index is outside of its table",
    6: "the tape is not one that forward left for these sizes, or was used up",
    9: "blocks on the GPU have waited for each other for too long",
    14: "a number of rows, which the values decide, is not that of another tensor, or beyond its "
    "limit",
}
"""What the codes of `include/rnncc.h` and `include/rnncc_cuda.h` mean that a call may end with."""


class ModelError(Exception):
    """Base of the errors of this package."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class LoadError(ModelError):
    """The file is not a library made by rnncc, or not one for this machine."""


class ArrayError(ModelError, ValueError):
    """An array is missing, unknown, or has the wrong dtype, shape or place in memory."""


class StreamError(ModelError):
    """The net takes whole sequences only, or a saved state does not fit."""


class RunError(ModelError):
    """The compiled code refused to run.

    Attributes:
        code: the number it returned, one of `include/rnncc.h`.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
