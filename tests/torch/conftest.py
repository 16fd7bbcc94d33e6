"""What tests of PyTorch share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch takes no program apart, which it runs for that: milliseconds a node."""

    def run(program: Any, *_: Any) -> Any:
        raise AssertionError(f"PyTorch runs {program}")

    torch: Any = pytest.importorskip("torch")
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", run)
