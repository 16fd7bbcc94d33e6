"""What the help texts of commands share."""

from __future__ import annotations


def example(command: str) -> str:
    """Closes a --help text with a command that works in a clone."""
    return f"\b\nExample:\n  {command}"
