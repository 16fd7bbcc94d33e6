# pyright: basic, reportMissingImports=false
"""Hooks on parameters and states: autograd calls those that a loss depends on, each once."""

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import rnncc.torch as rt  # noqa: E402


def loop(cell: Any, xs: Any, state: Any) -> Any:
    rows = list[Any]()
    for x in xs:
        y, state = cell(x, state)
        rows.append(y)
    return tuple(map(torch.stack, zip(*rows, strict=True))), state


def trained(run: Any, losses: list[int], twice: bool) -> dict[str, Any]:
    """Which hooks are called, and the gradients that they alter."""
    torch.manual_seed(0)
    called = list[int]()

    def hook(number: int) -> Any:
        return lambda grad: (called.append(number), grad.clamp(-1, 1) * 2)[1]

    recurrent, head, frozen_head, third = weights = [
        torch.randn(4, 4).mul(0.5).requires_grad_() for _ in range(4)
    ]
    start = torch.randn(3, 4, requires_grad=True)
    state = start * 1
    for number, x in enumerate([*weights, state]):
        x.register_hook(hook(number))

    def halve(weight: Any) -> None:
        called.append(-1)
        weight.grad.mul_(0.5)

    for x in weights:
        x.register_post_accumulate_grad_hook(halve)

    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(x + h @ recurrent)
        return (h @ head, (h @ frozen_head).detach(), torch.tanh(x @ third)), h

    ys, last = run(cell, torch.randn(5, 3, 4), state)
    outputs = ys[0], last, ys[2]
    loss: Any = sum(outputs[i].square().sum() for i in losses)
    leaves = [*weights, start]
    if twice:
        grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        loss = sum(grad.square().sum() for grad in grads if grad is not None)
    loss.backward()
    needs = [y.requires_grad for y in ys]
    return {"called": sorted(called), "needs": needs, "grads": [x.grad for x in leaves]}


@pytest.mark.parametrize(
    ("losses", "twice"), [([1], False), ([2], False), ([0, 1], False), ([1], True)]
)
def test_hooks_that_a_loss_depends_on(losses: list[int], twice: bool) -> None:
    ours, theirs = (trained(run, losses, twice) for run in (rt.scan, loop))
    assert ours["needs"] == theirs["needs"]
    assert ours["called"] == theirs["called"]
    for one, other in zip(ours["grads"], theirs["grads"], strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_of_a_compiled_module(register: str) -> None:
    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.GRU(4, 4)
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            y, h = self.layer(x)
            return self.head(y), h

    module, called = Heads(), list[Any]()
    x = torch.randn(5, 3, 4)
    compiled = rt.compile(module, (x,))
    handle = getattr(module.head.weight, register)(called.append)
    compiled(x)[1].sum().backward()
    assert not called and module.head.weight.grad is None
    compiled(x)[0].sum().backward()
    assert len(called) == 1
    handle.remove()
    compiled(x)[1].sum().backward()
    assert len(called) == 1
