"""What PyTorch remembers of shapes while code is read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import torch

watch: Any = pytest.importorskip("rnncc.frontends.torch.watch")
fakes: Any = pytest.importorskip("torch._subclasses.fake_tensor")
symbolic: Any = pytest.importorskip("torch.fx.experimental.symbolic_shapes")
pytestmark = pytest.mark.peers


def remembered(times: int = 1) -> tuple[int, int]:
    """How many operators are remembered of one of many parts, with an open size, and how many are
    found again."""
    kinds = symbolic.DimDynamic
    sizes = symbolic.StatelessSymbolicContext([kinds.DYNAMIC, kinds.STATIC, kinds.STATIC])
    mode, kind = fakes.FakeTensorMode(shape_env=symbolic.ShapeEnv()), fakes.FakeTensorMode
    x = mode.from_tensor(torch.randn(5, 4, 3), symbolic_context=sizes)
    before = kind.cache_misses, kind.cache_hits
    with mode:
        for _ in range(times):
            torch.unbind(x, 1)
    return kind.cache_misses - before[0], kind.cache_hits - before[1]


def test_parts_of_an_operator_are_not_remembered() -> None:
    """That takes most of the time of an operator that is met for the first time."""
    with watch.watching():
        assert remembered(3) == (1, 2)
    assert remembered()[0] > 1
