"""What tests of PyTorch share."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.fixture
def read_anew(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """PyTorch has read nothing yet, and the back end has warned of nothing."""
    torch: Any = pytest.importorskip("torch")
    back: Any = pytest.importorskip("rnncc.torch.backend")
    torch._dynamo.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(back, "_said", set())
    yield
    torch._dynamo.reset()


@pytest.fixture
def layers_read_anew(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The back end has read and said nothing yet, and recurrent layers are left in its graphs."""
    torch: Any = pytest.importorskip("torch")
    back: Any = pytest.importorskip("rnncc.torch.backend")
    torch._dynamo.reset()
    monkeypatch.setattr(back, "_said", set())
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.fixture
def not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch takes no program apart, which it runs for that: milliseconds a node."""

    def run(program: Any, *_: Any) -> Any:
        raise AssertionError(f"PyTorch runs {program}")

    torch: Any = pytest.importorskip("torch")
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", run)
