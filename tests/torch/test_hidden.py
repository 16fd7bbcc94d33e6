"""What acts on gradients and leaves no mark in a graph: refused by name, or as PyTorch has it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import loop, nn, torch
from tests.torch.functions import Spike

rt: Any = pytest.importorskip("rnncc.torch")
checkpoint: Any = pytest.importorskip("torch.utils.checkpoint").checkpoint
forward_ad: Any = pytest.importorskip("torch.autograd.forward_ad")
pytestmark = pytest.mark.peers
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
XS, H = torch.randn(3, 2, 4), torch.zeros(2, 4)
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
spike = Spike.apply
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


FUNCTION = r"test_hidden.py:\d+: {}: this torch.autograd.Function cannot be read: {}"
CHOOSING = FUNCTION.format("Choosing", "") + r"|test_hidden.py:\d+: .* what asks is no `if`"
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
    "hook": (registers, r"test_hidden.py:\d+: register_hook: hooks within"),
    "hook of a node": (of_node, r"test_hidden.py:\d+: grad_fn: what autograd knows"),
    "requires_grad": (lambda x: x if x.requires_grad else x * 2, "requires_grad: what autograd"),
    "is_leaf": (lambda x: x if (x * 2).is_leaf else x * 2, "is_leaf: what autograd knows"),
    "version": (lambda x: x * x._version, "_version: what autograd knows"),
    "by data": (by_data, r"test_hidden.py:\d+: .* by way of its detached self"),
    "by detached": (by_detached, r"test_hidden.py:\d+: .* by way of its detached self"),
    "inference": (inference, r"test_hidden.py:\d+: inference_mode: is not supported"),
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
    spike(x).sum().backward()
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
