"""What compiled modules read of Python's objects is what is there at each call."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.read_cases import CASES, LAYER, Config, ones, or_one
from tests.torch.reads import Net, check, check_change

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name: str) -> None:
    check_change(*CASES[name])


class Missing(nn.Module):
    """A cell that does without an attribute and an entry of a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.shares: dict[str, float] = {}

    def forward(self, x: Any, h: Any) -> Any:
        h = h + x * or_one(self)
        try:
            h = h * self.shares["h"]
        except KeyError:
            h = h * 0.5
        return h, h


def test_what_a_cell_missed_is_seen_when_it_appears() -> None:
    cell, xs = Missing(), ones(3, 2)
    assert rt.scan(cell, xs, ones(2) * 0)[1].tolist() == [0.875, 0.875]
    cell.k = 2.0
    assert rt.scan(cell, xs, ones(2) * 0)[1].tolist() == [1.75, 1.75]
    cell.shares["h"] = 1.0
    assert rt.scan(cell, xs, ones(2) * 0)[1].tolist() == [6.0, 6.0]


def test_what_is_no_number_is_no_change() -> None:
    module = Net(lambda net, x: x if net.held.item() > 0 else -x, torch.tensor(float("nan")))
    net = rt.compile(module, (torch.randn(3, 4),))
    assert net.form() is net.form()


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_of_all_modules(kind: str) -> None:
    module, x = Net(lambda net, x: x), torch.randn(3, 4, requires_grad=True)
    net = rt.compile(module, (x,))
    check(net, module, x)

    def hook(part: Any, args: Any, *y: Any) -> Any:
        return (y[0] * 2 if y else (args[0] * 2,)) if isinstance(part, nn.Linear) else None

    handle = getattr(LAYER, f"register_module_{kind}_hook")(hook)
    try:
        check(net, module, x)
    finally:
        handle.remove()
    check(net, module, x)


OTHER = """
RATE = 2.0
def scaled(net, x):
    return x * net.k
def rated(net, x):
    return x * RATE
"""


@pytest.mark.parametrize("how", ["a function's attribute", "its global", "a module's"])
def test_other_files(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rnncc_test_other.py").write_text(OTHER)
    monkeypatch.syspath_prepend(tmp_path)
    other: Any = importlib.import_module("rnncc_test_other")
    used = {
        "a function's attribute": other.scaled,
        "its global": other.rated,
        "a module's": lambda net, x: x * other.RATE,
    }
    module, x = Net(used[how], k=2.0), torch.randn(3, 4, requires_grad=True)
    net = rt.compile(module, (x,))
    check(net, module, x)
    module.k = other.RATE = 3.0
    check(net, module, x)


def test_copies_share_what_is_not_copied() -> None:
    mask, config = torch.ones(4), Config(2.0)
    module, x = (
        Net(lambda net, x: x * mask * config.k * net.held.w),
        torch.randn(3, 4, requires_grad=True),
    )
    module.held = SimpleNamespace(w=torch.ones(4))
    net = rt.compile(module, (x,))
    copied = copy.deepcopy(net)
    mask.mul_(3)
    config.k = 5.0
    copied.module.held.w.mul_(2)
    check(net, module, x)
    check(copied, copied.module, x)


def test_arguments_that_are_buffers() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("k", torch.ones(3, 4))

        def forward(self, x: Any) -> Any:
            self.k.mul_(2)
            return x + self.k

    module, x = Counting(), torch.ones(3, 4)
    net = rt.compile(module, (x,))
    assert torch.equal(net(x), x + 2)
    with pytest.raises(Exception, match="shares memory with a buffer"):
        net(module.k)


def test_zeros_have_a_sign() -> None:
    class Divided(nn.Module):
        def forward(self, x: Any, k: float) -> Any:
            return x / k

    divided = rt.compile(Divided(), (torch.ones(3), 0.0))
    with pytest.raises(Exception, match=r"called with -0\.0"):
        divided(torch.ones(3), -0.0)


def test_squeezed_axes_of_open_sizes() -> None:
    """With one row the result would have another shape."""

    class Squeezed(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.tanh().squeeze(0), x.unsqueeze(1).squeeze(1)

    module = Squeezed()
    net = rt.compile(module, (torch.ones(2, 3),), dynamic_shapes={"x": {0: torch.export.Dim("N")}})
    x = torch.randn(5, 3)
    torch.testing.assert_close(net(x), module(x))
    with pytest.raises(Exception, match="N - 2"):
        net(x[:1])
