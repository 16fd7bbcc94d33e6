"""What acts on gradients and leaves no mark in a graph, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.functions import Spike

checkpoint: Any = pytest.importorskip("torch.utils.checkpoint").checkpoint
W = torch.randn(4, 4, requires_grad=True)
Function = Callable[[Any], Any]


class Choosing(Spike):
    """Looks at the values of a gradient."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] / (1 + sum(bool(row.sum() > 1) for row in grads[0]))


class Halving(Spike):
    """Loops by the values of a gradient."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0]
        while grad.sum() > 1:
            grad = grad / 2
        return grad


class Dirty(Spike):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x.mul_(2))
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class Unmaterialised(Spike):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3


class Miscounted(Spike):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], grads[0]


class Leaking(Spike):
    """Its forward reads what another one's backward was given."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        LEAKED[0] = grads[0]
        return grads[0]


class Differentiating(Spike):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(torch.tanh(x).sum(), x)[0] * grads[0]


class Listing(Spike):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return [x * 2]


class Changing(Spike):
    """Changes its input without saying so."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.mul_(2) + 1


class Hooking(Spike):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        W.register_hook(lambda grad: grad * 2)
        ctx.save_for_backward(x)
        return x * 2


class Factorising(Spike):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        rows = grads[0].reshape(-1, 2)
        return torch.linalg.svd(rows, full_matrices=False)[0].reshape(grads[0].shape)


class Missing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


def leaking(x: Any) -> Any:
    return Leaking.apply(x) + LEAKED[0]


def changing(x: Any) -> Any:
    return Changing.apply(x) + x


LEAKED = [torch.zeros(())]
library = torch.library.Library("rnncc_hidden", "DEF")
library.define("opaque(Tensor x) -> Tensor")
library.impl("opaque", lambda x: torch.tanh(x), "CompositeExplicitAutograd")
torch.library.register_autograd("rnncc_hidden::opaque", lambda ctx, g: g * 0.5, lib=library)


def hooked(register: str) -> Any:
    module = nn.Sequential(nn.Tanh())
    getattr(module[0], register)(lambda module, *grads: None)
    return module


def registers(x: Any) -> Any:
    x = x + 0 * W.sum()
    x.register_hook(lambda grad: grad * 2)
    return x


def of_node(x: Any) -> Any:
    y = torch.tanh(x)
    if y.grad_fn is not None:
        y.grad_fn.register_hook(lambda *grads: None)
    return y


def inference(x: Any) -> Any:
    with torch.inference_mode():
        y = x * 2
    return y + x


def saves(x: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        return x * x


def by_detached(x: Any) -> Any:
    y = x * 1.0
    y.detach()[:, :2].mul_(2)
    return y * y


def unseen_complex(x: Any) -> Any:
    z = torch.complex(x, x * 2)
    with torch.no_grad():
        z.mul_(2)
    return z.abs() + x


def unseen(x: Any) -> Any:
    y = x * 1.0
    with torch.no_grad():
        y.mul_(2)
    return y * y


def unseen_detached(x: Any) -> Any:
    y = x * 1.0
    with torch.no_grad():
        y.view(-1).detach().mul_(2)
    return y * y


def by_data(x: Any) -> Any:
    y = x * 1.0
    y.data.mul_(2)
    return y


def leaf(x: Any) -> Any:
    y = x.detach().requires_grad_()
    (grad,) = torch.autograd.grad((y**3).sum(), y)
    return grad


FUNCTION = r"hidden_gradients.py:\d+: {}: this torch.autograd.Function cannot be read: {}"
CHOOSING = "|".join(
    [
        FUNCTION.format("Choosing", ""),
        r"hidden_gradients.py:\d+: .* what asks is no `if`",
        r"py:\d+: Choosing: .* cannot be read: Python code depends on whether a tensor is true",
    ]
)
MARKED = r"requires_grad_: is not supported here|: grad: what autograd knows"
REFUSED: dict[str, tuple[Function, str]] = {
    "choosing": (lambda x: Choosing.apply(x), CHOOSING),
    "dirty": (lambda x: Dirty.apply(x * 1.0), FUNCTION.format("Dirty", ".*mark_dirty is not")),
    "not materialised": (
        lambda x: Unmaterialised.apply(x)[0],
        FUNCTION.format("Unmaterialised", r".*set_materialize_grads\(False\) is not"),
    ),
    "miscounted": (
        lambda x: Miscounted.apply(x),
        FUNCTION.format("Miscounted", ".*backward gives 2 gradients of 1 inputs"),
    ),
    "without backward": (lambda x: Missing.apply(x), FUNCTION.format("Missing", "")),
    "listing": (lambda x: Listing.apply(x)[0], FUNCTION.format("Listing", ".*lists or dicts")),
    "changing": (lambda x: changing(x * 1.0), "by way of its detached self|without gradients"),
    "hooking": (lambda x: Hooking.apply(x), "register_hook: hooks within"),
    "factorising": (lambda x: Factorising.apply(x), "linalg_svd.default: operator is not"),
    "leaking": (leaking, "a gradient is read outside|leaves the cell by other ways"),
    "differentiating": (lambda x: Differentiating.apply(x), MARKED),
    "opaque": (lambda x: torch.ops.rnncc_hidden.opaque(x), "opaque.default: operator is not"),
    "full hook": (hooked("register_full_backward_hook"), "backward hook: hooks within"),
    "pre-hook": (hooked("register_full_backward_pre_hook"), "backward hook: hooks within"),
    "old hook": (hooked("register_backward_hook"), "grad_fn: what autograd knows"),
    "hook": (registers, r"hidden_gradients.py:\d+: register_hook: hooks within"),
    "hook of a node": (of_node, r"hidden_gradients.py:\d+: grad_fn: what autograd knows"),
    "requires_grad": (lambda x: x if x.requires_grad else x * 2, "requires_grad: what autograd"),
    "is_leaf": (lambda x: x if (x * 2).is_leaf else x * 2, "is_leaf: what autograd knows"),
    "version": (lambda x: x * x._version, "_version: what autograd knows"),
    "by data": (by_data, r"hidden_gradients.py:\d+: .* by way of its detached self"),
    "by detached": (by_detached, r"hidden_gradients.py:\d+: .* by way of its detached self"),
    "inference": (inference, r"hidden_gradients.py:\d+: inference_mode: is not supported"),
    "reentrant": (
        lambda x: checkpoint(torch.tanh, x, use_reentrant=True),
        "use_reentrant is not|CheckpointFunction: the backward of a torch.autograd.Function",
    ),
    "complex": (unseen_complex, "without gradients"),
    "own gradient": (leaf, MARKED),
}
MODULES: dict[str, tuple[Function, str]] = {
    "without gradients": (unseen, "has a gradient is changed in place without"),
    "without, detached": (unseen_detached, "has a gradient is changed in place without"),
    "saved tensors": (saves, "saved_tensors_hooks: is not supported"),
    "detach_": (lambda x: (x * 2).detach_() * x, r"detach_: is not .*\(x = x.detach"),
    "made": (lambda x: x if (W * 2).requires_grad else x * 2, "requires_grad: what autograd"),
    "leaf": (lambda x: x if W.is_leaf else x * 2, "is_leaf: what autograd"),
}


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.full((4,), 1.5))

    def forward(self, x: Any) -> Any:
        return self.function(x) * self.weight
