"""Cells of published packages against their loops in Python, where the packages are installed."""

from __future__ import annotations

from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import loop, torch
from tests.torch.published import CASES, difference, inputs, is_installed, results

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
REFUSED = {
    "snntorch Leaky, at once": "Data-dependent branching",
    "snntorch triangular": "indexing with a mask is not supported",
}


@pytest.mark.parametrize("name", CASES)
def test_as_a_loop(name: str) -> None:
    if not is_installed(name):
        pytest.skip(f"{name.partition(' ')[0]} is not installed")
    torch.manual_seed(1)
    case, xs = CASES[name](), inputs(12)
    if name in REFUSED:
        with pytest.raises(CompileError, match=REFUSED[name]):
            results(case, rt.scan, xs)
        return
    ours, theirs = results(case, rt.scan, xs), results(case, loop, xs)
    if difference(ours, theirs) > 1e-4:  # then nearer to what float64 gives
        case.module.double()
        case.state = torch.utils._pytree.tree_map(_widened, case.state)
        exact = results(case, loop, xs.double())
        assert difference(ours, exact) < difference(theirs, exact) + 1e-4


def _widened(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) else x
