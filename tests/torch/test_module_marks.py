"""Leaves that modules mark, control flow of PyTorch's in them, and what is not exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rnncc_runtime

import rnncc
from rnncc import CompileError
from tests.torch.cells import loop, nn, torch
from tests.torch.compiled_modules import outputs_and_gradients

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
leaves_of: Any = torch.utils._pytree.tree_leaves
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


class Marking(nn.Module):
    """Adds something that it marks as a leaf."""

    def __init__(self, leaf: Any) -> None:
        super().__init__()
        self.leaf, self.part = leaf, nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Any) -> Any:
        return x * self.part + self.leaf(self, x)


@pytest.mark.parametrize(
    "leaf",
    [
        lambda m, x: x.requires_grad_(),
        lambda m, x: m.scale.requires_grad_(),
        lambda m, x: m.part.requires_grad_(False),
    ],
)
def test_what_is_given_becomes_no_leaf(leaf: Any) -> None:
    """It would have a gradient after backward, or none."""
    with pytest.raises(CompileError, match="requires_grad_: is not supported here"):
        rt.compile(Marking(leaf), (torch.ones(2, 3),))


def test_what_a_module_makes_may_be_a_leaf() -> None:
    net = Marking(lambda m, x: (2 * m.scale).requires_grad_() + m.part.detach().requires_grad_())
    x = torch.randn(2, 3)
    ours = outputs_and_gradients(rt.compile(net, (x,)), (x,))
    torch.testing.assert_close(ours, outputs_and_gradients(net, (x,)))


def test_what_a_module_makes_may_be_said_to_have_no_gradient() -> None:
    def plain(module: Any, x: Any) -> Any:
        made = torch.tensor([1.0, 2.0, 3.0])
        made.requires_grad = False
        return made * x + torch.zeros_like(x).requires_grad_(False)

    net, x = Marking(plain), torch.randn(2, 3)
    ours = outputs_and_gradients(rt.compile(net, (x,)), (x,))
    torch.testing.assert_close(ours, outputs_and_gradients(net, (x,)))


def test_unsupported() -> None:
    class Strange(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svd(x)[0]

    with pytest.raises(CompileError, match=r"test_module_marks.py:\d+: aten.*svd"):
        rt.compile(Strange(), (torch.ones(3, 3),))
    with pytest.raises(CompileError, match=r"test_module_marks.py:\d+: Strange: torch.export: "):
        rt.compile(Strange(), (torch.ones(3),))


class Learning(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))(x)


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[[bool(row.sum() > 0) for row in x]]


@pytest.mark.parametrize(
    "module, message",
    [
        (Learning, "torch.func in a module is not supported where it is exported"),
        (Branching, "Python code depends on whether a tensor is true: what asks is no `if`"),
    ],
)
def test_what_is_not_exported(module: Any, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, which names the user's, without PyTorch's own traces."""
    name = module.__name__
    with pytest.raises(CompileError, match=rf"test_module_marks.py:\d+: {name}: {message}") as caught:
        rt.compile(module(), (torch.ones(3, 3),))
    assert "\n" not in str(caught.value)
    assert "def forward" not in capfd.readouterr().err


def test_distributions_are_not_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would ask for the values of their parameters."""
    kind: Any = torch.distributions.Distribution
    monkeypatch.setattr(kind, "_validate_args", True)  # TorchDynamo switches it off for good

    class Scored(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.distributions.Normal(x, x.exp()).log_prob(x + 1)

    x = torch.randn(3, 4)
    torch.testing.assert_close(rt.compile(Scored(), (x,))(x), Scored()(x), **CLOSE)
    assert kind._validate_args
    ys, _ = rt.scan(lambda row, h: (Scored()(row), h), x, torch.zeros(4))
    torch.testing.assert_close(ys, torch.stack(list(map(Scored(), x))), **CLOSE)


class Chosen(nn.Module):
    """PyTorch's conditional, and its loop without a state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def one(x: Any) -> Any:
            return torch.tanh(self.layer(x))

        def other(x: Any) -> Any:
            return x * 2

        y = torch.cond(x.sum() > 0, one, other, (x,))
        rows = torch._higher_order_ops.map(lambda row, s: torch.sin(row) + s, y, x.sum(0))
        return y, rows


def test_conditional_and_map_of_pytorch() -> None:
    net = Chosen()
    model = rnncc.compile(torch.export.export(net, (torch.ones(5, 4),)))
    compiled = rt.compile(net, (torch.ones(5, 4),))
    for x in (torch.rand(5, 4), -torch.rand(5, 4)):
        found = model.run({"x": x.numpy()})
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
        want = {f"y{i}": y.detach().numpy() for i, y in enumerate(net(x))}
        for name, y in want.items():
            np.testing.assert_allclose(found[name], y, rtol=1e-4, atol=1e-5)


class Settling(nn.Module):
    """Steps until they are large, or too many."""

    def __init__(self, loop: Any) -> None:
        super().__init__()
        self.layer, self.loop = nn.Linear(4, 4).double(), loop

    def forward(self, x: Any, h: Any) -> Any:
        def goes_on(h: Any, n: Any) -> Any:
            return (h.norm() < 3) & (n < 2000)

        def step(h: Any, n: Any) -> Any:
            return h * 1.5 + torch.tanh(self.layer(h) + x) * 0.1, n + 1

        h, n = self.loop(goes_on, step, (h * 0.1, torch.zeros((), dtype=torch.int64)))
        return n, h


def while_in_python(goes_on: Any, step: Any, carried: Any) -> Any:
    while goes_on(*carried):
        carried = step(*carried)
    return carried


def test_while_loop_of_pytorch() -> None:
    """Gradients are compared with those of Python's loop: PyTorch 2.13's own lack some terms."""
    torch.manual_seed(0)
    ours, theirs = Settling(torch._higher_order_ops.while_loop), Settling(while_in_python)
    theirs.load_state_dict(ours.state_dict())
    xs, h = torch.randn(3, 2, 4).double(), torch.randn(2, 4).double()
    compiled = rt.compile(ours, (xs[0], h))

    def found(run: Any, net: Any) -> list[Any]:
        n, last = run()
        return [n, last, *torch.autograd.grad((last**2).sum(), list(net.layer.parameters()))]

    pairs = [
        (lambda: rt.scan(ours, xs, h), lambda: loop(theirs, xs, h)),
        (lambda: compiled(xs[0], h), lambda: theirs(xs[0], h)),
    ]
    for one, other in pairs:
        torch.testing.assert_close(found(one, ours), found(other, theirs))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert compiled(0 * xs[0], 0 * h)[0] == 2000
    with pytest.raises(rnncc_runtime.RunError, match="than its limit"):
        rt.scan(ours, 0 * xs, 0 * h)
