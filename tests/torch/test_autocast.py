"""Autocast: within a cell or a module, and around a loop."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import loop, nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
UNITS = 8


class Gated(nn.Module):
    """Products, functions and a norm; its state is float32, its rows have 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.out = nn.Linear(2 * UNITS, 2 * UNITS), nn.Linear(UNITS, 3)
        self.norm = nn.LayerNorm(UNITS)

    def forward(self, x: Any, h: Any) -> Any:
        gate, new = self.gates(torch.cat([x, h], -1)).chunk(2, -1)
        h = self.norm(torch.lerp(h, torch.tanh(new).to(h.dtype), torch.sigmoid(gate).to(h.dtype)))
        return self.out(h), h


class Within(Gated):
    """The same with autocast of its own, which ends before the step does."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Any, h: Any) -> Any:
        with torch.autocast("cpu", self.dtype):
            y, h = super().forward(x, h)
        return y + self.out(x), h


class Unrolled(nn.Module):
    """A loop over a cell, as people write it."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, xs: Any) -> Any:
        h, ys = torch.zeros(xs.shape[1], UNITS), []
        for x in xs:
            y, h = self.cell(x, h)
            ys.append(y)
        return torch.stack(ys), h


def sequence(steps: int = 6) -> Any:
    torch.manual_seed(1)
    return torch.randn(steps, 3, UNITS)


def gradients(run: Any, parameters: Any, xs: Any) -> list[Any]:
    xs = xs.clone().requires_grad_()
    y, h = run(xs)
    return list(torch.autograd.grad((y.float() ** 2).sum() + h.sum(), [xs, *parameters]))


def assert_nearer(found: Any, exact: Any) -> None:
    """Of two results the first is as near to float64's as the second is, or nearer."""
    for one, other, right in zip(*found, exact, strict=True):
        scale = float(right.abs().max())
        errors = [float((x.double() - right).abs().max()) / scale for x in (one, other)]
        assert errors[0] <= 1.5 * errors[1] + 1e-6, errors


def test_within_a_cell() -> None:
    torch.manual_seed(0)
    cell, xs, h = Within(torch.bfloat16), sequence(), torch.zeros(3, UNITS)
    with torch.no_grad():
        ours, theirs = rt.scan(cell, xs, h), loop(cell, xs, h)
    assert ours[0].dtype == theirs[0].dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_around_a_loop() -> None:
    """The same cell is compiled once more where autocast is on, and has PyTorch's bits."""
    torch.manual_seed(0)
    cell, xs, h = Gated(), sequence(), torch.zeros(3, UNITS)
    for enabled in (False, True, False, True):
        with torch.autocast("cpu", torch.float16, enabled=enabled), torch.no_grad():
            ours, theirs = rt.scan(cell, xs, h), loop(cell, xs, h)
        assert ours[0].dtype == (torch.float16 if enabled else torch.float32)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_gradients() -> None:
    torch.manual_seed(0)
    cell, xs, h = Gated(), sequence(), torch.zeros(3, UNITS)
    found = list[Any]()
    for step in (rt.scan, loop):
        with torch.autocast("cpu", torch.bfloat16):
            found.append(gradients(lambda xs, step=step: step(cell, xs, h), cell.parameters(), xs))
    cell, xs, h = cell.double(), xs.double(), h.double()
    assert_nearer(found, gradients(lambda xs: loop(cell, xs, h), cell.parameters(), xs))


class Readout(Unrolled):
    """A layer behind the loop, within autocast, of tensors with more axes than two."""

    def __init__(self) -> None:
        super().__init__(Gated())
        self.out = nn.Linear(3, 2)

    def forward(self, xs: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            ys, h = super().forward(xs)
            return self.out(ys), h


class Elman(nn.Module):
    """A cell of PyTorch's, whose state has 16 bits from the first step on."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(UNITS, UNITS, nonlinearity="relu")

    def forward(self, x: Any, h: Any) -> Any:
        h = self.cell(x, h)
        return h, h


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unrolled(Within(torch.bfloat16)),
        lambda: Unrolled(Gated()),
        lambda: Unrolled(Elman()),
        Readout,
    ],
)
def test_loops_of_the_back_end(make: Any) -> None:
    torch.manual_seed(0)
    net, xs = make(), sequence(20)
    torch._dynamo.reset()
    compiled = torch.compile(net, backend="rnncc")
    with torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("error")  # it is not left to PyTorch
        ours, theirs = compiled(xs), net(xs)
    assert ours[0].dtype == theirs[0].dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells_of_pytorch(kind: Any) -> None:
    """Their products have 16 bits, their states do not."""
    torch.manual_seed(0)
    cell, xs = kind(UNITS, UNITS), sequence()
    start = (torch.zeros(3, UNITS),) * 2 if kind is nn.LSTMCell else torch.zeros(3, UNITS)

    def step(x: Any, state: Any) -> Any:
        new = cell(x, state)
        if kind is nn.LSTMCell:
            return new[0], new
        return new, new.float()

    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        ours, theirs = rt.scan(step, xs, start), loop(step, xs, start)
    assert ours[0].dtype == theirs[0].dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=4e-3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers(kind: Any) -> None:
    torch.manual_seed(0)
    net, xs = kind(UNITS, UNITS), sequence()
    exact = net(xs)[0].detach()
    torch._dynamo.reset()
    compiled = torch.compile(net, backend="rnncc")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        try:
            theirs = net(xs)[0]
        except RuntimeError as error:
            if "could not create a primitive descriptor" not in str(error):
                raise
            pytest.skip("oneDNN has no such layer in bf16 for this CPU")
        ours = compiled(xs)[0]
    assert ours.dtype == theirs.dtype
    errors = [float((y.float() - exact).abs().max()) for y in (ours, theirs)]
    assert errors[0] <= 1.5 * errors[1]


def test_modules() -> None:
    """What switches autocast itself is compiled; a compiled module is not compiled once more."""
    torch.manual_seed(0)
    net, x = Within(torch.bfloat16), sequence()[0]
    compiled = rt.compile(net, (x, x))
    torch.testing.assert_close(compiled(x, x), net(x, x), rtol=1e-5, atol=1e-5)
    found = [
        gradients(lambda x, run=run: run(x, x), net.parameters(), x) for run in (compiled, net)
    ]
    with torch.autocast("cpu"), pytest.raises(CompileError, match="autocast is on"):
        compiled(x, x)
    with torch.autocast("cpu"), pytest.raises(CompileError, match="autocast is on"):
        rt.compile(net, (x, x))
    exact, x = net.double(), x.double()
    assert_nearer(found, gradients(lambda x: Gated.forward(exact, x, x), net.parameters(), x))
