"""The custom cell of examples/: the same losses both ways, and it learns."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
SCRIPT = Path(__file__).parents[2] / "examples/torch_cell.py"


def test_both_ways_learn_alike(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("torch_cell", SCRIPT)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "torch_cell", example)  # TorchDynamo looks modules up
    spec.loader.exec_module(example)
    ours, theirs = example.main(["--updates", "30", "--units", "24", "--steps", "30"])
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)
    assert np.mean(ours[-5:]) < 0.5 * np.mean(ours[:2])
    assert "times as fast" in capsys.readouterr().out
    net, xs = example.Net(4, rt.scan).double(), torch.randn(5, 2, 2).double()
    compiled = rt.compile(net, (xs,))  # its two states are one tensor
    net.scan = example.plain_loop
    torch.testing.assert_close(compiled(xs), net(xs), rtol=1e-4, atol=1e-5)
