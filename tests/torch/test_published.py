"""Cells of published packages against their loops in Python, where the packages are installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import loop, torch
from tests.torch.published import CASES, difference, inputs, is_installed, results

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", CASES)
def test_as_a_loop(name: str) -> None:
    if not is_installed(name):
        pytest.skip(f"{name.partition(' ')[0]} is not installed")
    torch.manual_seed(1)
    case, xs = CASES[name](), inputs(12)
    ours, theirs = results(case, rt.scan, xs), results(case, loop, xs)
    assert difference(ours, theirs) < 1e-4
