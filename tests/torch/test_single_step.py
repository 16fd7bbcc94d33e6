"""A call of `scan` with one step: large weights are packed as they are read."""

from __future__ import annotations

from typing import Any

import pytest

import rnncc
from tests.torch.cells import CLOSE, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


def test_a_single_step_with_many_weights_has_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits, real = list[Any](), rnncc.compile

    def spy(*args: Any, **options: Any) -> Any:
        limits.append(options["max_steps"])
        return real(*args, **options)

    monkeypatch.setattr(rnncc, "compile", spy)
    torch.manual_seed(0)
    unit, xs, h = torch.nn.RNNCell(384, 384), torch.randn(2, 3, 384), torch.randn(3, 384)

    def cell(x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (h := unit(x, h)), h

    one, two = (rt.scan(cell, xs[:steps], h)[0][0] for steps in (1, 2))
    assert torch.equal(one, two)
    assert limits == [1, None]
    grads = [torch.autograd.grad(y.sum(), list(unit.parameters())) for y in (one, unit(xs[0], h))]
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want, **CLOSE)
