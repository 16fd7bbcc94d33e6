"""A user's own backward is the gradient: in cells, modules and graphs of torch.compile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import CLOSE, loop, nn, torch
from tests.torch.functions import (
    FACTORS,
    FUNCTIONS,
    WEIGHTS,
    Atan,
    Clipped,
    FastSigmoid,
    Function,
)

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
FEW = (
    *("alias", "keyword", "boxcar", "clipped", "product", "two results", "nested"),
    *("straight through", "integers", "widened", "switching"),
)
"""Of what each way to read them is told for."""
XS, H = torch.randn(5, 3, 4), torch.randn(3, 4) * 0.5


def gradients(run: Any, *tensors: Any) -> list[Any]:
    """The result, and the gradients of what was given and of what the Functions hold."""
    held = [WEIGHTS, FACTORS]
    for x in held:
        x.grad = None
    leaves = [t.clone().requires_grad_() for t in tensors]
    y = run(*leaves)
    y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape))
    grads = [x.grad if x.grad is None else x.grad.clone() for x in (*leaves, *held)]
    return [y.detach(), *(torch.zeros(()) if g is None or not g.any() else g for g in grads)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_cells(name: str) -> None:
    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(x + FUNCTIONS[name](h)) + 0.3 * h
        return FUNCTIONS[name](x) + h, h

    ours = gradients(lambda x, h: rt.scan(cell, x, h)[0], XS, H)
    torch.testing.assert_close(ours, gradients(lambda x, h: loop(cell, x, h)[0], XS, H), **CLOSE)


class ClippedInPlace(Clipped):
    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.clamp_(-ctx.bound, ctx.bound), None


def test_gradients_changed_in_place() -> None:
    """The change reaches nobody else who is given this gradient, as it may in PyTorch."""

    def run(function: Any) -> Any:
        def cell(x: Any, h: Any) -> Any:
            h = torch.tanh(x + function.apply(h, 0.1)) + 0.3 * h
            return h, h

        return gradients(lambda x, h: rt.scan(cell, x, h)[0], XS, H)

    torch.testing.assert_close(run(ClippedInPlace), run(Clipped), rtol=0, atol=0)


class Applied(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.function(self.layer(x)) * 2.0


def of_module(module: Any, run: Any) -> list[Any]:
    """The result, and the gradients of what is given and of the module's parameters."""
    module.zero_grad()
    x = XS[0].clone().requires_grad_()
    y = run(x)
    y.backward(torch.linspace(-1, 1, y.numel()).view(y.shape))
    grads = [x.grad, *(p.grad for p in module.parameters())]
    return [y.detach(), *(torch.zeros(()) if g is None or not g.any() else g for g in grads)]


@pytest.mark.parametrize("name", [*FEW, "no gradient", "vjp", "composite", "overridden"])
def test_in_modules(name: str) -> None:
    module = Applied(FUNCTIONS[name])
    compiled = rt.compile(module, (XS[0],))
    ours, theirs = of_module(module, compiled), of_module(module, module)
    torch.testing.assert_close(ours, theirs, **CLOSE)


class Looped(nn.Module):
    """The Function on the state of a loop."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.layer = function, nn.Linear(4, 4)
        self.run = loop

    def forward(self, xs: Any) -> Any:
        def cell(x: Any, h: Any) -> Any:
            h = self.function(self.layer(h)) * 0.5 + x
            return h, h

        return self.run(cell, xs, xs[0])[0]


@pytest.mark.parametrize("name", ["alias", "two results", "clipped", "switching", "integers"])
def test_in_cells_within_modules(name: str) -> None:
    module = Looped(FUNCTIONS[name])
    theirs = of_module(module, lambda x: module(x.unsqueeze(0).repeat(4, 1, 1)))
    module.run = rt.scan
    compiled = rt.compile(module, (XS[:4],))
    ours = of_module(module, lambda x: compiled(x.unsqueeze(0).repeat(4, 1, 1)))
    torch.testing.assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("name", FEW)
def test_in_graphs_of_torch_compile(name: str) -> None:
    cell, module = nn.GRUCell(4, 4), Applied(FUNCTIONS[name])

    def net(x: Any) -> Any:
        return cell(module(x), x)

    torch._dynamo.reset()
    backend: Any = pytest.importorskip("rnncc.torch.backend").backend
    ours = of_module(module, torch.compile(net, backend=backend))
    torch.testing.assert_close(ours, of_module(module, net), **CLOSE)


class Held(FastSigmoid):
    """A step whose slope depends on values of the class, of several kinds."""

    scale, ends, width, powers = 2.0, (-1.5, 1.5), torch.tensor(0.5), [1.0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        low, high = Held.ends
        inside = (x > low) & (x < high)
        slope = Held.scale * x.abs() ** Held.powers[0]
        return torch.where(inside, grad / (Held.width + slope), 0.0)


def test_values_of_the_class_in_graphs_of_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """TorchDynamo alone reads none of them in backward. A value that changes is read again."""

    def net(xs: Any, h: Any) -> Any:
        for x in xs:
            h = 0.5 * h + torch.tanh(x) - Held.apply(h)
        return h

    torch._dynamo.reset()
    backend: Any = pytest.importorskip("rnncc.torch.backend").backend
    compiled = torch.compile(net, backend=backend, fullgraph=True)
    monkeypatch.setattr(Held, "powers", [1.0])
    for scale, power in ((2.0, 1.0), (7.0, 1.0), (7.0, 2.0)):
        monkeypatch.setattr(Held, "scale", scale)
        Held.powers[0] = power
        torch.testing.assert_close(gradients(compiled, XS, H), gradients(net, XS, H), **CLOSE)


NUMBERS = [2.0]
NUMBER = 1.0


class Scaled(Function):
    """By a number that forward finds."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.tanh() * ctx.factor, None


class OfGlobal(Scaled):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.factor = NUMBER
        return x * NUMBER


class OfList(Scaled):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.factor = NUMBERS[0]
        return x * NUMBERS[0]


class OfClass(Scaled):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.factor = Scaled.factor
        return x * Scaled.factor


class OfMark(Scaled):
    """It asks what only the tensor itself tells."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: Any) -> Any:
        ctx.factor = 3.0 if x.is_leaf else 0.5
        return x * ctx.factor


def changing_global(x: Any) -> Any:
    global NUMBER
    NUMBER += 0.1
    return OfGlobal.apply(x, None)


def changing_list(x: Any) -> Any:
    NUMBERS[0] += 0.1
    return OfList.apply(x, None)


def changing_class(x: Any) -> Any:
    Scaled.factor += 0.1
    return OfClass.apply(x, None)


def sizes_and_types(x: Any) -> Any:
    wide = Scaled.apply(x.double().repeat(1, 2), 0.5)
    return Scaled.apply(x, 0.5) + Scaled.apply(x, 0.5 + 0.1) + wide[:, 4:].float()


CHANGING = {
    "global": changing_global,
    "list": changing_list,
    "class": changing_class,
    "leaf": lambda h: OfMark.apply(h, None),
    "sizes and types": sizes_and_types,
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_trace_serves_no_other_application(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def net(xs: Any, h: Any) -> Any:
        for x in xs.unbind():
            h = 0.5 * h + torch.tanh(x) - CHANGING[name](h)
        return h

    def run(call: Any) -> Any:
        monkeypatch.setitem(globals(), "NUMBER", 1.0)
        monkeypatch.setattr(Scaled, "factor", 1.0)
        NUMBERS[0] = 2.0
        return gradients(call, XS, H)

    torch._dynamo.reset()
    backend: Any = pytest.importorskip("rnncc.torch.backend").backend
    theirs = run(net)
    torch.testing.assert_close(run(torch.compile(net, backend=backend)), theirs, **CLOSE)


def test_each_kind_of_application_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def net(xs: Any, h: Any) -> Any:
        h = torch.tanh(h)
        for t, x in enumerate(xs.unbind()):
            h = 0.5 * h + torch.tanh(x) - Atan.apply(h, 2.0) + Scaled.apply(x, float(t % 2))
        return h

    torch._dynamo.reset()
    module: Any = pytest.importorskip("rnncc.torch.backend")
    graphs, own = list[Any](), module._compiled
    monkeypatch.setattr(module, "_compiled", lambda graph: (graphs.append(graph), own(graph))[1])
    compiled = torch.compile(net, backend=module.backend)
    torch.testing.assert_close(gradients(compiled, XS, H), gradients(net, XS, H), **CLOSE)
    bodies = [name for graph in graphs for name, _ in graph.named_children()]
    assert len(bodies) == 2 * 3 < 2 * len(XS), bodies
