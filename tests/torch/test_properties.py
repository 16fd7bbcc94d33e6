"""Properties of what cells hold: code runs where one is set or deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import CLOSE, loop, torch

rt: Any = pytest.importorskip("rnncc.torch")


class Held:
    """An object whose property is kept in halves."""

    def __init__(self) -> None:
        self.half: Any = 0.5

    @property
    def whole(self) -> Any:
        return 2 * self.half

    @whole.setter
    def whole(self, value: Any) -> None:
        self.half = value / 2

    @whole.deleter
    def whole(self) -> None:
        self.half = 0.25

    @property
    def third(self) -> Any:
        return self.half / 3


class HeldModule(Held, torch.nn.Module):
    """The same of a module."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.half: Any = 0.5


def setting(held: Any) -> Any:
    def cell(x: Any, h: Any) -> Any:
        held.whole = x + h
        h = torch.tanh(held.half)
        held.whole = 0.5
        return h * held.half, h

    return cell


def deleting(held: Any) -> Any:
    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(x * held.half + h)
        del held.whole
        y = h * held.half
        held.half = 0.5
        return y, h

    return cell


def lacking(held: Any) -> Any:
    def cell(x: Any, h: Any) -> Any:
        try:
            held.third = 2.0
        except AttributeError:
            h = torch.tanh(x + h)
        return h, h

    return cell


@pytest.mark.parametrize("kind", [Held, HeldModule])
@pytest.mark.parametrize("make", [setting, deleting, lacking])
def test_properties(make: Any, kind: Any) -> None:
    xs, start = torch.randn(5, 2, 3), torch.zeros(2, 3)
    cell = make(kind())
    torch.testing.assert_close(rt.scan(cell, xs, start), loop(cell, xs, start), **CLOSE)


@pytest.mark.parametrize("kind", [Held, HeldModule])
@pytest.mark.parametrize("make", [setting, deleting, lacking])
def test_properties_in_the_back_end(make: Any, kind: Any) -> None:
    def net(cell: Any, xs: Any) -> Any:
        h, ys = torch.zeros(2, 3), []
        for x in xs.unbind():
            y, h = cell(x, h)
            ys.append(y)
        return torch.stack(ys), h

    xs, cell = torch.randn(5, 2, 3), make(kind())
    torch._dynamo.reset()
    made = torch.compile(net, backend="rnncc", fullgraph=True)(cell, xs)
    torch.testing.assert_close(made, net(cell, xs), **CLOSE)
