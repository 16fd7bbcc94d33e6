# pyright: basic, reportMissingImports=false
"""Errors that code finds on a GPU, in the values of tensors, after the call has returned."""

from __future__ import annotations

import threading
from itertools import count

from rnncc_runtime.errors import CODES, RunError
from xdsl.ir import Operation, SSAValue

from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.torch.devices import Gpu

WORDS = 1024
"""Calls whose errors are awaited: as many as PyTorch lets wait in a stream."""
_NONE = bytes(4 * WORDS)


def can_fail(program: Program) -> bool:
    """Whether values decide about errors: lengths, indices, and how often a loop runs."""
    return any(_fails(op) for op in program.module.walk())


def _fails(op: Operation) -> bool:
    if isinstance(op, Scan):
        return op.is_limited
    return getattr(op, "CAN_FAIL", False) and _is_given(op.operands[-1])  # lengths, or indices


def _is_given(value: SSAValue) -> bool:
    """Whether a value depends on what a caller gives, or a step before has left."""
    seen, worklist = set[SSAValue](), [value]
    while worklist:
        pending = worklist.pop()
        if not isinstance(pending.owner, Operation):
            return True
        if pending not in seen:
            seen.add(pending)
            worklist += pending.owner.operands
    return False


class Errors:
    """Where calls on a GPU leave their errors; each has a word for a while.

    The words are memory that both sides see, so that to look at them takes no waiting.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._words = gpu.words(WORDS)
        self._array, self._begin = self._words.numpy(), self._words.data_ptr()
        self._names = [""] * WORDS
        self._next = count()

    def take(self, name: str) -> int:
        """The number of a word for the next call, which is one of a net of that name."""
        word = next(self._next) % WORDS
        self._names[word] = name
        return word

    def address(self, word: int) -> int:
        """Where it lies."""
        return self._begin + 4 * word

    def raise_any(self) -> None:
        """Raise an error that some earlier call has left, and forget it."""
        if self._array.tobytes() != _NONE:  # a tenth of what `any` takes
            self.raise_found(int(self._array.argmax()), "an earlier call on the GPU: ")

    def raise_found(self, word: int, which: str = "") -> None:
        """Raise the error that a call has left in its word, and forget it.

        Raises:
            RunError: there was one.
        """
        code, self._array[word] = int(self._array[word]), 0
        if code:
            text = CODES.get(code, f"unknown error {code}")
            raise RunError(f"{self._names[word]}: {which}{text}", code)


_lock = threading.Lock()
_errors: dict[tuple[int, bool], Errors] = {}


def errors_of(gpu: Gpu, waits: bool) -> Errors:
    """Those of a GPU's calls that are waited for, or of those that are not.

    They stay as long as the process: a stream may write to them when a net is long gone.
    """
    with _lock:
        key = gpu.number, waits
        if key not in _errors:
            _errors[key] = Errors(gpu)
        return _errors[key]
