"""The linear recurrences of `benchmarks/linear.py`, smaller, against PyTorch in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.linear import CASES, Case, Shapes, arrays, eager, torch_call, worst
from tests.torch.cells import torch

rt: Any = pytest.importorskip("rnncc.torch")

STEPS = 40
"""More than there are between checkpoints."""
SMALLER = {512: 72, 64: 48, 16: 4, 8: 3, 4: 2}


def small(case: Case) -> Case:
    """The case with smaller sizes, whose states still fill vectors."""

    def shrunk(shapes: Shapes) -> Shapes:
        return {n: tuple(SMALLER.get(size, size) for size in dims) for n, dims in shapes.items()}

    return replace(
        case, rows=shrunk(case.rows), state=shrunk(case.state), params=shrunk(case.params)
    )


@pytest.mark.parametrize("train", [False, True], ids=["forward", "gradients"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_against_float64(case: Case, train: bool) -> None:
    case = small(case)
    parts = arrays(case, STEPS)
    ours = torch_call(case, rt.scan, parts, train)()
    exact = torch_call(case, eager, parts, train, torch.float64)()
    assert worst(ours, exact) < 5e-6
