"""Errors that users see, each one line: where it is, what is wrong, what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """Where an operator came from: a file (or `<bytes>`) and a node in it, either may be empty."""

    file: str = ""
    node: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.node) if part)


class CompileError(Exception):
    """Bad input, told in one line: `location: what (hint)`.

    Args:
        location: where; a `Location` or its text; may be empty.
        what: what is wrong, with the numbers that show it.
        hint: what to do about it.
    """

    def __init__(self, location: Location | str, what: str, hint: str | None = None) -> None:
        self.location = str(location)
        self.what = what
        self.hint = hint
        text = f"{self.location}: {what}" if self.location else what
        text = f"{text} ({hint})" if hint else text
        super().__init__(" ".join(text.split()))


class NetError(CompileError):
    """A question or a change that a net does not allow: names the operator and the blob."""


class SizeError(CompileError):
    """A size has no formula of bearable length; what reads nets says at which node."""

    def __init__(self, what: str) -> None:
        super().__init__("", what, "--shape gives sizes as numbers")


class LimitError(CompileError):
    """The interpreter met a loop that takes more turns than its limit."""

    def __init__(self, turns: int | None = None) -> None:
        most = "turns than its limit" if turns is None else f"than {turns} turns"
        super().__init__("", f"a loop takes more {most}", "--max-iterations allows more")


class InternalError(Exception):
    """A fault of rnncc itself: names the pass and where its input was dumped."""
