"""Code that raises an error where a tensor's values are wrong: what it gives is NaN there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rnncc
from rnncc import CompileError
from tests.torch.asserting import asserts, asserts_a_number, asserts_not
from tests.torch.cells import CLOSE, loop, nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


def raises(x: Any) -> None:
    if (x > 5).any():
        raise ValueError(f"large: {x.shape}")


def raises_unless(x: Any) -> None:
    if not torch.all(x < 5):
        text = "large"
        raise ValueError(text)


def raises_else(x: Any) -> None:
    if torch.all(x < 5):
        return
    raise ValueError("large")


class Checked(nn.Module):
    """A cell, and a module with a loop over it."""

    def __init__(self, check: Any, cell: bool) -> None:
        super().__init__()
        self.layer, self.check, self.cell = nn.Linear(7, 4), check, cell
        self.register_buffer("calls", torch.zeros(()))

    def step(self, x: Any, h: Any) -> Any:
        self.check(x)
        h = torch.tanh(self.layer(torch.cat([x, h], -1)))
        self.check(h)
        return h * 2, h

    def forward(self, x: Any, h: Any) -> Any:
        if self.cell:
            return self.step(x, h)
        self.calls += 1
        ys = list[Any]()
        for row in x:
            y, h = self.step(row, h)
            ys.append(y)
        return torch.stack(ys), h, x > 0


CHECKS = [raises, raises_unless, raises_else, asserts, asserts_not, asserts_a_number]
XS, H = torch.randn(6, 2, 3, generator=torch.Generator().manual_seed(1)), torch.zeros(2, 4)
WRONG = XS.clone()
WRONG[3, 1, 0] = 7


@pytest.mark.parametrize("check", CHECKS)
def test_a_cell_is_nan_from_where_it_raises(check: Any) -> None:
    cell = Checked(check, True)
    leaves = [XS.clone().requires_grad_() for _ in range(2)]
    ours, theirs = rt.scan(cell, leaves[0], H)[0], loop(cell, leaves[1], H)[0]
    torch.testing.assert_close(ours, theirs, **CLOSE)
    for ys in (ours, theirs):
        ys.square().sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, **CLOSE)
    with pytest.raises((ValueError, AssertionError)):
        loop(cell, WRONG, H)
    ys, last = rt.scan(cell, WRONG, H)
    assert ys.isnan().flatten(1).any(1).tolist() == [False] * 3 + [True] * 3
    assert last.isnan().all()


@pytest.mark.parametrize("check", CHECKS)
def test_a_module_is_nan_where_it_raises(check: Any) -> None:
    module = Checked(check, False)
    compiled = rt.compile(module, (XS, H))
    torch.testing.assert_close(compiled(XS, H), module(XS, H), **CLOSE)
    ys, last, flags = compiled(WRONG, H)
    assert ys.isnan().all() and last.isnan().all()
    assert torch.equal(flags, WRONG > 0) and module.calls == 3


def test_an_exported_program_stays_what_it_was() -> None:
    exported = rt.export(Checked(raises, False), (XS, H))
    for _ in range(2):
        model = rnncc.compile(exported)
        assert np.isnan(
            model.run({"x": WRONG.numpy(), "h": H.numpy(), "calls": np.float32(0)})["y0"]
        ).all()
    with pytest.raises(RuntimeError):
        exported.module()(WRONG, H)


def caught(x: Any) -> Any:
    try:
        asserts(x)
    except AssertionError:
        return x * 2
    return x


def test_what_is_caught_is_a_branch() -> None:
    module = Checked(lambda x: None, False)
    module.step = lambda x, h: (caught(x), h)
    with pytest.raises(CompileError, match="Python code depends on whether a tensor is true"):
        rt.compile(module, (XS, H))
