"""Modules that read what may change between calls, compared with PyTorch before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")


class Net(nn.Module):
    """Computes `use` of a layer; `held` is what that reads."""

    def __init__(self, use: Callable[[Any, Any], Any], held: Any = None, **attributes: Any) -> None:
        super().__init__()
        self.layer, self.use, self.held = nn.Linear(4, 4), use, held
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Any) -> Any:
        return self.use(self, self.layer(x))


def named(name: str, value: Any) -> Callable[[Any], None]:
    """Sets what a path of names and numbers leads to."""

    def change(net: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            net = net[int(part)] if part.isdigit() else getattr(net, part)
        setattr(net, last, value)

    return change


def gradients(net: Any, module: Any, x: Any) -> Any:
    torch.manual_seed(0)
    y = net(x)
    own = [*module.parameters(), x]
    grads = torch.autograd.grad(y.sin().sum(), own, allow_unused=True)
    return y, [torch.zeros_like(p) if g is None else g for p, g in zip(own, grads, strict=True)]


def check(net: Any, module: Any, x: Any) -> Any:
    want, got = gradients(module, module, x), gradients(net, module, x)
    torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
    return want[0]


def check_change(make: Callable[[], Any], change: Callable[[Any], Any]) -> None:
    """A compiled module computes what the module does, before something changes and after it."""
    torch.manual_seed(0)
    module, x = make(), torch.randn(3, 4, requires_grad=True)
    net = rt.compile(module, (x,))
    before = check(net, module, x)
    change(module)
    after = check(net, module, x)
    assert not torch.equal(before, after), "the change makes no difference"
