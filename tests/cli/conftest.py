"""What several tests of the command share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

Pipe = Callable[[bytes], None]
"""Gives bytes to standard input."""


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    def given(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return given
