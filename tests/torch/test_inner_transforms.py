"""Transforms of torch.func that a cell uses itself: inner gradients, Jacobians, ensembles."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from rnncc.errors import CompileError
from tests.torch.cells import nn, torch
from tests.torch.transforms import loop

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
func: Any = torch.func
XS, H = torch.randn(3, 2, 4), torch.randn(2, 4)


class Learning(nn.Module):
    """A state that follows the gradient of an energy, and how steep its map is."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.map = nn.Linear(8, 4), nn.Linear(4, 4)

    def energy(self, h: Any, x: Any) -> Any:
        y = torch.tanh(self.own(torch.cat([h, x])))
        return (y * torch.sigmoid(h.detach())).sum() + y.square().sum()

    def forward(self, x: Any, h: Any) -> Any:
        h = 0.9 * h - 0.3 * func.vmap(func.grad(self.energy))(h, x)
        steep = func.vmap(func.jacrev(lambda v: torch.tanh(self.map(v))))(h)
        return steep.square().sum((1, 2)), h


def test_gradients_within_a_cell() -> None:
    cell = Learning()
    found = []
    for run in (rt.scan, loop):
        h = H.clone().requires_grad_()
        ys, last = run(cell, XS, h)
        grads = torch.autograd.grad(ys.sum() + last.square().sum(), [h, *cell.parameters()])
        found.append((ys, last, *grads))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(rt.scan(cell, XS, H)[0], loop(cell, XS, H)[0])


class Looped(nn.Module):
    """A loop of a cell, under autocast or not."""

    def __init__(self, cell: Any, narrow: bool) -> None:
        super().__init__()
        self.cell, self.run, self.narrow = cell, rt.scan, narrow

    def forward(self, x: Any, h: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.narrow):
            return self.run(self.cell, x, h)


def test_gradients_within_a_cell_of_an_exported_module() -> None:
    net, h = Looped(Learning(), False), H.clone().requires_grad_()
    compiled = rt.compile(net, (XS, H), dynamic_shapes=({0: torch.export.Dim("T")}, {}))
    found = []
    for module, run in ((compiled, rt.scan), (net, loop)):
        net.run = run
        ys, last = module(XS[1:], h)
        grads = torch.autograd.grad(ys.sum() + last.square().sum(), [h, *net.parameters()])
        found.append((ys, last, *grads))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


class Ensemble(nn.Module):
    """Cells side by side in a loop of Python: what their maps detach has no gradient."""

    def __init__(self, kind: str = "") -> None:
        super().__init__()
        self.weights, self.kind = nn.Parameter(torch.randn(3, 4, 4)), kind
        self.layer = nn.GRU(4, 4) if kind == "layer" else nn.Identity()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: Any, h: Any) -> Any:
        step = func.vmap(lambda w, x, h: torch.tanh(x + h @ w) * h.detach().cos(), (0, None, 0))
        h = h.expand(3, -1, -1)
        for row in x:
            h = step(self.weights, row, h)
        if self.kind == "buffer":
            self.count.add_(1)
        return self.layer(h)[0] if self.kind == "layer" else h.mean(0)


def test_vmap_in_an_exported_module() -> None:
    net, xs = Ensemble(), torch.randn(6, 2, 4)
    compiled, sources = rt.compile(net, (xs, H)), [H.clone().requires_grad_(), net.weights]
    found = []
    for module in (compiled, net):
        y = module(xs, sources[0])
        found.append((y, *torch.autograd.grad(y.square().sum(), sources)))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, xs: Any) -> Any:
        def rows(x: Any) -> Any:
            return func.vmap(lambda row: torch.tanh(self.weights @ row))(x) + x[-1]

        return func.vmap(rows)(xs)


def test_vmap_within_vmap_in_an_exported_module() -> None:
    """PyTorch keeps a tensor of the inner one as a constant."""
    net, x = Nested(), torch.randn(3, 2, 4, requires_grad=True)
    found = []
    for module in (rt.compile(net, (x,)), net):
        y = module(x)
        found.append((y, *torch.autograd.grad(y.square().sum(), [x, net.weights])))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["layer", "buffer"])
def test_refused_beside_vmap_in_exported_modules(kind: str) -> None:
    with pytest.raises(CompileError, match=rf"test_inner_.*py:\d+: .*{kind}.* beside torch.func"):
        rt.compile(Ensemble(kind), (XS, H))


@pytest.mark.parametrize(
    "cell, why",
    [
        (Learning(), r"test_inner_transforms.py:\d+: torch.func: .*under autocast where it is"),
        (lambda x, h: (h, func.grad(lambda v: Same.apply(v).sum())(h)), "cannot be read|beside"),
    ],
)
def test_refused_in_exported_modules(cell: Any, why: str) -> None:
    with pytest.raises(CompileError, match=why):
        rt.compile(Looped(cell, isinstance(cell, Learning)), (XS, H))


class Mechanical(nn.Module):
    """Follows slopes of an energy, of which some have gradients in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.energy = nn.Linear(4, 4), nn.Linear(4, 6)

    def forward(self, x: Any, h: Any) -> Any:
        h = h + torch.tanh(self.own(x))
        energy, scale = torch.tanh(self.energy(h)), self.own.weight * 2
        (slope,) = torch.autograd.grad(energy.square().sum(), h, create_graph=True)
        curves = [torch.autograd.grad(slope[:, i].sum(), h, create_graph=True) for i in (0, 3)]
        (fixed,) = torch.autograd.grad(energy, [h], torch.sigmoid(energy) + 1, retain_graph=True)
        of_scale, unused = torch.autograd.grad(
            (h @ scale).sin().sum(),
            [scale, self.own.bias * 2],
            create_graph=True,
            allow_unused=True,
        )
        h = h - 0.1 * slope + 0.05 * fixed * curves[0][0] + h @ of_scale * 0.1
        return curves[1][0] if unused is None else x, h


def test_jacobians_in_a_graph() -> None:
    """TorchDynamo changes tensors in place there, which have no memory of their own."""

    def steps(xs: Any, h: Any) -> Any:
        for x in xs:
            slopes = func.vmap(func.jacrev(lambda v: torch.tanh(v @ WEIGHT)))(h)
            h = torch.tanh(x + (slopes @ h[..., None])[..., 0])
        return h

    xs = torch.randn(6, 2, 4)
    found = torch.compile(steps, backend="rnncc")(xs, H)
    torch.testing.assert_close(found, steps(xs, H), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="TorchDynamo does not read it"
)
def test_autograd_grad_within_a_cell() -> None:
    torch.manual_seed(2)
    cell = Mechanical().double()
    for steps in (1, 4):
        found = []
        for run in (rt.scan, loop):
            xs, h = torch.randn(steps, 2, 4).double(), H.double().requires_grad_()
            xs = torch.linspace(-1, 1, xs.numel()).double().view_as(xs).requires_grad_()
            ys, last = run(cell, xs, h)
            total = ys.sum() + last.square().sum()
            found.append((ys, last, *torch.autograd.grad(total, [xs, h, *cell.parameters()])))
        torch.testing.assert_close(*found, rtol=1e-10, atol=1e-11)


WEIGHT = torch.randn(4, 4, requires_grad=True)


def of_all_steps(x: Any, h: Any) -> Any:
    """PyTorch's gradient reaches back through h, which depends on the weight."""
    h = torch.tanh(x + h @ WEIGHT)
    (slope,) = torch.autograd.grad(h.sum(), WEIGHT, create_graph=True)
    return h, h @ slope


def cubed(h: Any) -> Any:
    return func.grad(lambda v: (v**3).sum())(h)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 2 * grad


def switched(x: Any, h: Any) -> Any:
    with torch.no_grad():
        g = cubed(h)
    return g, torch.tanh(h + x)


def applied(x: Any, h: Any) -> Any:
    return None, torch.tanh(func.grad(lambda v: (Same.apply(v) * x).sum())(h))


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (switched, "no_grad"),
        (applied, "Function beside"),
        (of_all_steps, "autograd.grad"),
    ],
)
def test_refused(cell: Any, why: str) -> None:
    with pytest.raises(CompileError, match=rf"test_inner_transforms.py:\d+: .*{why}"):
        rt.scan(cell, XS, H.clone().requires_grad_())


def test_within_other_transforms() -> None:
    def of(run: Any) -> Any:
        def last(h: Any) -> Any:
            return run(lambda x, h: (x, torch.tanh(h + cubed(h))), XS, h)[1].sum()

        return func.vmap(func.grad(last))(torch.stack([H, 2 * H]))

    torch.testing.assert_close(of(rt.scan), of(loop), rtol=1e-4, atol=1e-5)


def test_what_pytorch_cannot_read_leaves_gradients_on() -> None:
    def cell(x: Any, h: Any) -> Any:
        slopes = func.vmap(func.jacfwd(lambda v: v + 0.1 * torch.tanh(v)))(h)
        return slopes, h + x

    with pytest.raises(CompileError):
        rt.scan(cell, XS, H)
    gc.collect()
    x = torch.ones(1, requires_grad=True)
    assert (x * x).requires_grad


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="TorchDynamo does not read it"
)
def test_graphs_with_autograd_grad_are_left_to_pytorch() -> None:
    def steps(xs: Any, h: Any) -> Any:
        for x in xs:
            h = torch.tanh(x + h @ WEIGHT)
            (slope,) = torch.autograd.grad(h.square().sum(), WEIGHT, create_graph=True)
            h = h @ slope * 0.1
        return h

    xs = torch.randn(6, 2, 4)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        compiled = torch.compile(steps, backend="rnncc", fullgraph=True)
        with pytest.warns(UserWarning, match="a graph calls torch.autograd.grad"):
            found = compiled(xs, H)
    torch.testing.assert_close(found, steps(xs, H), rtol=1e-4, atol=1e-5)
