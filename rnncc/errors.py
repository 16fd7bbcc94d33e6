"""Errors that users see, each one line: where it is, what is wrong, what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from traceback import extract_tb
from typing import Any

from rnncc.records import record

_PACKAGE = __name__.partition(".")[0]
MOST = 2000
"""Characters of a message: names and texts of a file that it repeats may be of any length."""

_NO_MEMORY = "failed to map segment", "can't start new thread", "array is too big"
"""What loaders, threads and NumPy say without memory, in other errors than `MemoryError`."""


@record
class Location:
    """Where an operator came from: a file (or `<bytes>`) and a node in it, either may be empty."""

    file: str = ""
    node: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.node) if part)


class CompileError(Exception):
    """Bad input, reported in one line: `location: what (hint)`.

    Args:
        location: where; a `Location` or its text; may be empty.
        what: what is wrong, with the numbers that show it.
        hint: what to do about it.
        differ: pairs of sizes that would have to be equal, where that is what is wrong.
    """

    def __init__(
        self,
        location: Location | str,
        what: str,
        hint: str | None = None,
        differ: Iterable[tuple[Any, Any]] = (),
    ) -> None:
        self.location = str(location)
        self.what = what
        self.hint = hint
        self.differ = tuple(differ)
        text = f"{self.location}: {what}" if self.location else what
        super().__init__(_as_line(f"{text} ({hint})" if hint else text))


class NetError(CompileError):
    """A question or a change that a net does not allow: names the operator and the blob."""


class SizeError(CompileError):
    """A size has no formula of bearable length; what reads nets says at which node."""

    def __init__(self, what: str) -> None:
        super().__init__("", what, "--shape gives sizes as numbers")


class LimitError(CompileError):
    """The interpreter met a loop that takes more iterations than its limit."""

    def __init__(self, iterations: int | None = None) -> None:
        most = (
            "iterations than its limit" if iterations is None else f"than {iterations} iterations"
        )
        super().__init__("", f"a loop takes more {most}", "--max-iterations allows more")


class InternalError(Exception):
    """A fault of rnncc itself, in one line: names what was read or the pass that failed."""

    @staticmethod
    def at(location: Location, error: Exception) -> InternalError:
        """An error that nobody foresaw while a part of a file was read.

        Says which line of rnncc raised it, and what a report of the fault should hold.
        """
        frames = [f for f in extract_tb(error.__traceback__) if f"{_PACKAGE}/" in f.filename]
        places = [f"{f.filename.rpartition(f'{_PACKAGE}/')[2]}:{f.lineno}, " for f in frames[-1:]]
        what = f"{''.join(places)}{type(error).__name__}: {error}"
        report = "please report this line, with the model if you can"
        return InternalError(_as_line(f"{location}: {what} ({report})"))


def _as_line(text: str) -> str:
    """A message in one line, without its middle where that is long."""
    text, half = " ".join(text.split()), MOST // 2
    return text if len(text) <= MOST else f"{text[:half]} ... {text[-half:]}"


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, says that there was no memory left."""
    while error is not None:
        refused = isinstance(error, OSError) and error.errno == errno.ENOMEM
        said = any(words in str(error) for words in _NO_MEMORY)
        if isinstance(error, MemoryError) or refused or said:
            return True
        error = error.__cause__ or error.__context__
    return False
