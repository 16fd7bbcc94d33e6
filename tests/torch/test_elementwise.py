"""Users' functions of numbers in cells of PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("numba")

import rnncc.torch  # noqa: E402
from rnncc import CompileError  # noqa: E402

pytestmark = pytest.mark.peers


def bent(x: float, a: float) -> float:
    return math.log1p(x) if x > 0 else a * x / (1 + x * x)


def reference(x: Any, a: Any) -> Any:
    below = a * x / (1 + x * x)
    return torch.where(x > 0, torch.log1p(x.clamp(min=0)), below)


def loop(function: Any, w: Any, a: Any, xs: Any, h: Any) -> tuple[Any, Any]:
    ys: list[Any] = []
    for x in xs:
        h = function(x @ w + h, a)
        ys.append(h)
    return torch.stack(ys), h


def test_a_cell_has_the_gradients_of_pytorch() -> None:
    torch.manual_seed(0)
    own = rnncc.torch.elementwise(bent)
    results: list[list[Any]] = []
    for compiled in (True, False):
        torch.manual_seed(1)
        w, a = torch.randn(4, 5, requires_grad=True), torch.randn(5, requires_grad=True)
        xs, h = torch.randn(6, 3, 4), torch.zeros(3, 5)

        def cell(x: Any, h: Any, w: Any = w, a: Any = a) -> tuple[Any, Any]:
            new = own(x @ w + h, a)
            return new, new

        made = rnncc.torch.scan(cell, xs, h) if compiled else loop(reference, w, a, xs, h)
        made[0].square().sum().backward()
        results.append([made[0].detach(), w.grad, a.grad])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_outside_of_compiled_code() -> None:
    own = rnncc.torch.elementwise(rnncc.elementwise(bent))
    x = torch.tensor([-2.0, -0.5, 0.3, 4.0], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(own(x, a), reference(x, a))
    assert torch.autograd.gradcheck(own, (x, a))


def test_errors() -> None:
    own = rnncc.torch.elementwise(bent)
    with pytest.raises(CompileError, match="bent takes 2 tensors, not 1"):
        own(torch.zeros(2))
    with pytest.raises(CompileError, match="bent takes tensors of floats"):
        own(torch.zeros(2), torch.zeros(2, dtype=torch.int64))
