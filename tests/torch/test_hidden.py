"""What acts on gradients and leaves no mark in a graph: refused by name, or as PyTorch has it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import loop, nn, torch
from tests.torch.functions import Spike
from tests.torch.hidden_gradients import (
    CHOOSING,
    MODULES,
    REFUSED,
    Applied,
    Choosing,
    Factorising,
    Function,
    Halving,
    W,
    checkpoint,
)

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
XS, H = torch.randn(3, 2, 4), torch.zeros(2, 4)


class Looped(nn.Module):
    """The function on the state of a loop."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.scan = function, rt.scan

    def forward(self, xs: Any) -> Any:
        def cell(x: Any, h: Any) -> Any:
            h = self.function(h) * 0.5 + x
            return h, h

        return self.scan(cell, xs, xs[0])[0]


@pytest.mark.parametrize("name", REFUSED)
def test_in_cells(name: str) -> None:
    function, message = REFUSED[name]
    of_state = len(name) % 2  # else of the row

    def cell(x: Any, h: Any) -> Any:
        h = function(h) + x if of_state else function(x * 1.0) + h
        return h, h

    with pytest.raises(CompileError, match=message) as caught:
        rt.scan(cell, XS, H)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*REFUSED, *MODULES])
def test_in_modules(name: str) -> None:
    function, message = {**REFUSED, **MODULES}[name]
    with pytest.raises(CompileError, match=message) as caught:
        rt.compile(Applied(function), (H,))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["choosing", "full hook", "requires_grad", "by detached", "reentrant"]
)
def test_in_cells_within_modules(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(CompileError, match=message):
        rt.compile(Looped(function), (XS,))


def test_where_nothing_is_differentiated() -> None:
    """Without gradients a Function is its forward; with them it is read again."""

    def cell(x: Any, h: Any) -> Any:
        h = Choosing.apply(x @ W + h)
        return h, h

    with torch.no_grad():
        torch.testing.assert_close(rt.scan(cell, XS, H), loop(cell, XS, H))
    with pytest.raises(CompileError, match=CHOOSING):
        rt.scan(cell, XS, H)
    frozen = rt.compile(Applied(Choosing.apply), (H,), frozen=True)
    with torch.no_grad():
        torch.testing.assert_close(frozen(XS[0]), Applied(Choosing.apply)(XS[0]))


def test_functions_elsewhere_are_as_ever() -> None:
    rt.scan(lambda x, h: (h, h + x), XS, H)
    x = torch.tensor([3.0], requires_grad=True)
    Spike.apply(x).sum().backward()
    assert x.grad.tolist() == [1 / 16]
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def gradients(run: Any, *tensors: Any) -> list[Any]:
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = run(*leaves)
    y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape))
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def detaching(x: Any) -> Any:
    """Changes in place that autograd does see, beside a detached tensor."""
    y = torch.tanh(x)
    z = y.detach() * 2
    z[:, 0] = 1.0
    y = y * 1.0
    y.mul_(z)
    return y - z + x.detach()


def without(x: Any) -> Any:
    """Without gradients: a scale, what comes back as it was given, and gradients on again."""
    with torch.no_grad():
        scale = x.abs().mean(-1, keepdim=True) + 1
        same = x.contiguous()
        fresh = x * 2
        fresh.mul_(0.5)
        with torch.enable_grad():
            both = x * fresh
        scale = checkpoint(torch.sqrt, scale, use_reentrant=False)
    return torch.tanh(x / scale + same + both)


def filled(x: Any) -> Any:
    """Fills what has only a shape in common with what has gradients."""
    y, last = torch.zeros_like(x), 0.0
    with torch.no_grad():
        for t in reversed(range(len(x))):
            y[t] = last = 0.5 * last + x[t]
    return y * x


@torch.no_grad()
def mask(x: Any) -> Any:
    return torch.distributions.Bernoulli(probs=(x > 0).float()).sample()


halved = nn.Sequential(nn.Tanh())
halved[0].register_forward_hook(lambda module, x, y: y * 0.5)
KEPT: dict[str, Function] = {
    "detached": detaching,
    "data": lambda x: x.data * x + torch.zeros_like(x.data),
    "without": without,
    "filled": filled,
    "sampled": lambda x: mask(x) * torch.sigmoid(x),
    "checkpoint": lambda x: checkpoint(torch.tanh, x, use_reentrant=False),
    "forward hook": halved,
    "grad mode": lambda x: torch.tanh(x) if torch.is_grad_enabled() else x,
    "loop": lambda x: Halving.apply(x * 1.0),
    "parameter": lambda x: x * 2 if W.requires_grad else x * 3,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_right_in_cells(name: str) -> None:
    def cell(x: Any, h: Any) -> Any:
        h = KEPT[name](h) * 0.5 + x
        return h, h

    ours = gradients(lambda x, h: rt.scan(cell, x, h)[0], XS, H)
    torch.testing.assert_close(ours, gradients(lambda x, h: loop(cell, x, h)[0], XS, H), **CLOSE)


@pytest.mark.parametrize("name", ["data", "filled", "checkpoint", "loop"])
def test_what_is_right_in_cells_within_modules(name: str) -> None:
    looped = Looped(KEPT[name])
    compiled = rt.compile(looped, (XS,))
    ours = gradients(compiled, XS)
    looped.scan = loop
    torch.testing.assert_close(ours, gradients(looped, XS), **CLOSE)


class Asking(nn.Module):
    """Takes other ways where its tensors need no gradients, or gradients are off."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.fixed = nn.Parameter(torch.rand(4)), [torch.rand(4)]
        self.again = False

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            scale = 1.5 if torch.is_grad_enabled() else 0.5
        if self.again:
            with torch.enable_grad():
                scale += torch.is_grad_enabled()
        x = x * scale + (self.weight if self.weight.requires_grad else 3.0)
        x = x / self.fixed[0] if self.fixed[0].requires_grad else x * self.fixed[0]
        return torch.tanh(x) if torch.is_grad_enabled() else x


def test_a_module_may_ask_of_gradients() -> None:
    """It is compiled again where the answer is another one, and so is a copy of it."""
    net = Asking()
    compiled = rt.compile(net, (H,))
    for on, needed, fixed in ((1, 1, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1), (0, 0, 0), (1, 1, 0)):
        with torch.set_grad_enabled(bool(on)):
            net.weight.requires_grad_(bool(needed))
            net.fixed[0].requires_grad_(bool(fixed))
            for ours in (compiled, copy.deepcopy(compiled)):
                torch.testing.assert_close(ours(H), net(H))
    assert len(compiled._forms[(True,)]) == 5


def test_gradients_that_a_module_switches_on_are_asked_for_where_they_are_on() -> None:
    net = Asking()
    net.again = True
    torch.testing.assert_close(rt.compile(net, (H,))(H), net(H))
    with torch.no_grad(), pytest.raises(CompileError, match="is_grad_enabled: is not known"):
        rt.compile(net, (H,))


def enabling(x: Any) -> Any:
    with torch.enable_grad():
        return x * 2


def switched(x: Any) -> Any:
    with torch.no_grad():
        return checkpoint(enabling, x, use_reentrant=False)


def test_gradients_are_not_switched_on_in_parts() -> None:
    with pytest.raises(CompileError, match="gradients are switched within a graph that has none"):
        rt.scan(lambda x, h: (switched(h), x + h), XS, H)


def test_gradients_are_not_switched_on_where_the_call_has_none() -> None:
    with torch.no_grad(), pytest.raises(CompileError, match="where gradients are off"):
        rt.scan(lambda x, h: (h, enabling(h) + x), XS, H)


def test_gradients_are_switched_on_for_what_has_none() -> None:
    """As by properties of distributions, which are computed when they are first asked for."""

    def cell(x: Any, h: Any) -> Any:
        chances = torch.distributions.Categorical(logits=torch.tanh(x) + h).probs
        return chances, chances.log()

    with torch.no_grad():
        torch.testing.assert_close(rt.scan(cell, XS, H), loop(cell, XS, H), **CLOSE)


def test_hooks_that_come_later() -> None:
    cell = Stepping()
    for owner in (cell, cell.inner):
        rt.scan(cell, XS, H)
        handle = owner.register_forward_hook(
            lambda module, x, y: y * 0.5 if isinstance(y, torch.Tensor) else (y[0] * 2, y[1])
        )
        torch.testing.assert_close(rt.scan(cell, XS, H), loop(cell, XS, H), **CLOSE)
        handle.remove()
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, x, y: y * 3 if isinstance(module, nn.Tanh) else None
    )
    try:
        torch.testing.assert_close(rt.scan(cell, XS, H), loop(cell, XS, H), **CLOSE)
    finally:
        handle.remove()
    torch.testing.assert_close(rt.scan(cell, XS, H), loop(cell, XS, H), **CLOSE)


class Stepping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Tanh()

    def forward(self, x: Any, h: Any) -> Any:
        h = self.inner(x + h)
        return h, h


def test_what_cannot_be_read_leaves_graphs_of_torch_compile_to_pytorch() -> None:
    layer = nn.GRU(4, 4)

    def net(x: Any) -> Any:
        return layer(Factorising.apply(x * 3.0))[0]

    torch._dynamo.reset()
    backend: Any = pytest.importorskip("rnncc.torch.backend").backend
    whole, said = (
        torch._dynamo.config.patch(allow_rnn=True),
        "PyTorch: .*linalg_svd.default: ",
    )
    with whole, pytest.warns(UserWarning, match=said):
        ours = gradients(torch.compile(net, backend=backend), XS)
    torch.testing.assert_close(ours, gradients(net, XS), **CLOSE)


def test_what_fails_otherwise_is_told() -> None:
    """PyTorch makes modules of its own, to look for advice, while it reports some errors."""

    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            return rt.scan(lambda x, h: (h, h + torch.ones(7)), x, x[0])

    with pytest.raises(CompileError) as caught:
        rt.compile(Failing(), (torch.ones(3, 2, 2),))
    assert "autograd" not in str(caught.value)
