"""What several tests of the cache share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache of this test's own."""
    monkeypatch.setenv("RNNCC_CACHE", "1")
    monkeypatch.setenv("RNNCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RNNCC_CACHE_BYTES", raising=False)
    return tmp_path / "cache"
