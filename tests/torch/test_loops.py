"""Loops of Python that PyTorch unrolled: found again, or left as they are."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pytest

from tests.torch import loops
from tests.torch.cells import nn, torch

pytest.importorskip("rnncc.torch")


import rnncc.torch
import rnncc.torch.backend as back
from rnncc.frontends.torch.unrolled.functional import without_changes
from tests.torch.rolled_loops import Function, gradients, rolled

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("read_anew")]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}
X = torch.linspace(-1, 1, 2 * 9 * 4).view(2, 9, 4)


class Recurrent(nn.Module):
    """The loop that everyone writes."""

    def __init__(self, cell: str = "LSTMCell") -> None:
        super().__init__()
        self.cell, self.out = getattr(nn, cell)(4, 6), nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        h = c = x.new_zeros(x.shape[0], 6)
        ys = []
        for t in range(x.shape[1]):
            if isinstance(self.cell, nn.LSTMCell):
                h, c = self.cell(x[:, t], (h, c))
            else:
                h = self.cell(x[:, t], h)
            ys.append(h)
        return self.out(torch.stack(ys, 1)), h


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled."""
    own, seen = rnncc.compile, list[Any]()

    def compile(*given: Any, **options: Any) -> Any:
        seen.append(given)
        return own(*given, **options)

    monkeypatch.setattr(rnncc, "compile", compile)
    return seen


def test_back_end_compiles_all_lengths_at_once(compiled: list[Any]) -> None:
    module = Recurrent()
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (12, 7, 20):
            x = torch.randn(1, steps, 4)
            made, known = gradients(net, module, x), gradients(module, module, x)
            torch.testing.assert_close(made, known, **CLOSE)
    assert len(compiled) == 1


def test_back_end_leaves_batches_open() -> None:
    module = Recurrent("GRUCell")
    net = torch.compile(module, backend="rnncc", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((2, 8, 4), (3, 8, 4), (3, 6, 4)):
            x = torch.randn(shape)
            made, known = gradients(net, module, x), gradients(module, module, x)
            torch.testing.assert_close(made, known, **CLOSE)


class Warping(nn.Module):
    """Rows of distances; a whole row is made anew at each step, after one that is changed."""

    def forward(self, x: Any, y: Any) -> Any:
        distances = (x[:, :, None] - y[:, None]).square().sum(-1)
        row = torch.full((x.shape[0], y.shape[1] + 1), 1e3)
        row[:, 0] = 0
        for t in range(x.shape[1]):
            new = [torch.full((x.shape[0],), 1e3)]
            for j in range(1, y.shape[1] + 1):
                above, aside = torch.stack([row[:, j], row[:, j - 1]], -1).split(1, -1)
                least = torch.minimum(torch.minimum(above, aside)[:, 0], new[-1])
                new.append(distances[:, t, j - 1] + least)
            row = torch.stack(new, 1)
        return row[:, -1]


class Grid(nn.Module):
    """Elements of a table, each of the three before it: loops whose rows other loops line up."""

    def forward(self, x: Any) -> Any:
        size = x.shape[-1]
        table = torch.full((x.shape[0], size + 1, size + 1), 1e3)
        table[:, 0, 0] = 0
        for j in range(1, size + 1):
            for i in range(1, size + 1):
                near = [table[:, i - 1, j - 1], table[:, i - 1, j], table[:, i, j - 1]]
                table[:, i, j] = x[:, i - 1, j - 1] - torch.logsumexp(-torch.stack(near, -1), -1)
        return table[:, size, size]


def test_loops_over_a_table() -> None:
    assert len(loops.rolled_exported(Grid(), torch.rand(2, 7, 7))) > 1


class Mirrored(nn.Module):
    """Rows are read and put where sizes say, which TorchDynamo leaves open until the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        steps, rows = x.shape[1], x.transpose(0, 1)
        out, h = x.new_zeros(steps, 2, 4), x.new_zeros(2, 4)
        for t in range(steps):
            h = torch.tanh(self.layer(h) + x[:, t] + rows[steps - 1 - t])
            out[steps - 1 - t] = h
        return out


def test_back_end_knows_places_that_sizes_say() -> None:
    module = Mirrored()
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        for steps in (6, 9):
            x = torch.randn(2, steps, 4)
            torch.testing.assert_close(net(x), module(x), **CLOSE)


class Gaps(nn.Module):
    """Columns as slices: of an axis whose size is open later, whether they lie within is known."""

    def forward(self, x: Any, gaps: Any) -> Any:
        h, ys = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.tanh(x[:, t] + h * torch.exp(-gaps[:, t : t + 1]))
            ys.append(h)
        return torch.stack(ys, 1)


def test_back_end_finds_slices_of_open_axes() -> None:
    net = torch.compile(Gaps(), backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (7, 6):
            x, gaps = torch.randn(2, steps, 3), torch.rand(2, steps)
            torch.testing.assert_close(net(x, gaps), Gaps()(x, gaps), **CLOSE)


def test_back_end_leaves_sizes_of_parts_open() -> None:
    net = torch.compile(Warping(), backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch, steps in ((3, 6), (4, 5)):
            x, y = torch.randn(batch, steps, 2), torch.randn(batch, 2, 2)
            torch.testing.assert_close(net(x, y), Warping()(x, y), **CLOSE)


@pytest.mark.parametrize("seed", [2, 7, 13])
def test_back_end_computes_gradients(seed: int) -> None:
    module = loops.Loop(seed)
    x = torch.randn(2, 9, loops.WIDTH)
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gradients(net, module, x)
    torch.testing.assert_close(made, gradients(module, module, x), **CLOSE)


def test_loop_without_gradients() -> None:
    """What it is given is detached at each step."""

    def forward(layer: Any, readout: Any, x: Any) -> Any:
        h, hs = x[:, 0] * 0, []
        with torch.no_grad():
            for t in range(9):
                h = torch.tanh(layer(h) + x[:, t])
                hs.append(h)
        return readout(torch.stack(hs))

    net = Function(forward, nn.Linear(4, 4), nn.Linear(4, 2))
    compiled = torch.compile(net, backend=back.backend)
    x = X.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x).sum().backward()
    assert x.grad is None
    grads = [p.grad.clone() for p in net.parts[1].parameters()]
    torch.testing.assert_close(compiled(X), net(X), **CLOSE)
    net(x).sum().backward()
    torch.testing.assert_close(grads, [p.grad / 2 for p in net.parts[1].parameters()], **CLOSE)


def grown(layer: Any, x: Any, in_front: bool) -> Any:
    """Each step joins its row to all before it."""
    h = x[:, 0]
    ys = h[:, None]
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t])
        ys = torch.cat([h[:, None], ys], 1) if in_front else torch.cat((ys, h[:, None]), dim=1)
    return ys


@pytest.mark.parametrize("in_front", [False, True])
def test_sequences_that_grow_in_a_loop(in_front: bool) -> None:
    net = Function(partial(grown, in_front=in_front), nn.Linear(4, 4))
    assert rolled(net, X).lengths == [9]


@pytest.mark.parametrize(
    "function",
    [
        lambda layer, x: torch.stack([layer(x[:, t]).tanh() for t in range(9)], axis=1),
        lambda layer, x: torch.cat([layer(x[:, t, None]).tanh() for t in range(9)], axis=-2),
        lambda layer, x: torch.stack([layer(row).tanh() for row in x.unbind(axis=1)]),
        lambda layer, x: torch.stack([layer(x.select(axis=1, index=t)).tanh() for t in range(9)]),
    ],
    ids=["stack", "cat", "unbind", "select"],
)
def test_axes_that_are_named_as_numpy_names_them(function: Any) -> None:
    assert rolled(Function(function, nn.Linear(4, 4)), X).lengths == [9]


def test_joined_tensors_of_other_axes_and_types_stay_apart() -> None:
    def joined(x: Any) -> Any:
        rows = torch.cat([torch.cat([x, x], 0), torch.cat([x, x], 0)], 1)
        rounded = torch.cat([torch.full((2, 9, 4), 2049), x.half()])  # to 2048
        return rows, torch.cat([rounded, x]), torch.cat(torch.cat([x, x]).split(2))

    assert not rolled(Function(joined), X).lengths


def test_views_of_what_is_changed_keep_their_values() -> None:
    def function(x: Any) -> Any:
        h = x * 2
        view, copy = h[0], h + 0
        h += 1
        h.mul_(3)
        return view, copy, h

    graph, inputs = loops.captured(Function(function), X)
    assert not without_changes(graph)

    def read_before(x: Any) -> Any:
        h = x * 2
        y = h[0] + 1
        h += 1
        h[1].relu()
        h.clamp_(0, 1)
        h[0] = y
        return h

    graph, inputs = loops.captured(Function(read_before), X)
    assert without_changes(graph)
    torch.testing.assert_close(graph(*inputs)[0], read_before(X))


def test_masks_of_dropout_differ_from_step_to_step() -> None:
    def function(x: Any) -> Any:
        ys = []
        for t in range(9):
            ys.append(nn.functional.dropout(torch.exp(x[:, t]), 0.5, True))
        return torch.stack(ys, 1)

    module, x = Function(function), torch.zeros(2, 9, 64)
    for net in (torch.compile(module, backend="rnncc"), rnncc.torch.compile(module, (x,))):
        y = net(x)
        assert set(y.unique().tolist()) == {0.0, 2.0}
        assert not torch.equal(y[:, 0], y[:, 1])
        assert not torch.equal(net(x), y)


def test_warning_tells_of_a_loop_that_stays_unrolled() -> None:
    def function(layer: Any, x: Any) -> Any:
        h = x[:, 0]
        for t in range(20):
            h = torch.tanh(layer(h)) ** (t + 1.5)
        return h

    module = Function(function, nn.Linear(4, 4))
    with pytest.warns(UserWarning, match=r"test_loops.py:\d+: .*: 20 repeats .*rnncc.torch.scan"):
        made = torch.compile(module, backend="rnncc")(X)
    torch.testing.assert_close(made, module(X), equal_nan=True)
    with pytest.warns(UserWarning, match="unrolled loop: .*20 repeats"):
        rnncc.torch.compile(module, (X,))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(3)

    def forward(self, x: Any) -> Any:
        h = torch.zeros(3)
        for row in x:
            h = torch.tanh(self.norm(h + row))
        return h


def test_operators_that_change_what_they_made() -> None:
    """PyTorch's RMS norm adds its epsilon in place."""
    net, x = Normalised(), torch.randn(6, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = torch.compile(net, backend="rnncc", dynamic=False)(x)
    torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-5)


class Filter(nn.Module):
    """Rows that are written and read again."""

    def forward(self, x: Any) -> Any:
        y, a, b = torch.zeros_like(x), x[:, 0], x[:, 0]
        for n in range(x.shape[1]):
            y[:, n] = x[:, n] + a
            a, b = x[:, n] - 0.5 * y[:, n] + b, x[:, n] - 0.25 * y[:, n]
        return y


def test_filter_that_reads_what_it_wrote() -> None:
    x = torch.randn(2, 24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        y = rnncc.torch.compile(Filter(), (x,))(x)
    torch.testing.assert_close(y, Filter()(x), rtol=1e-4, atol=1e-5)


class Slopes(nn.Module):
    def forward(self, x: Any) -> Any:
        h = x[0]
        for row in x:
            h = torch.func.vmap(torch.func.grad(lambda v: (v**3).sum()))(h + row) / 9
        return h


def test_transforms_in_a_loop() -> None:
    x = torch.rand(5, 3, 2) / 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = torch.compile(Slopes(), backend="rnncc")(x)
    torch.testing.assert_close(y, Slopes()(x))


def test_layers_are_no_loop() -> None:
    net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = rnncc.torch.compile(net, (X,))(X)
    torch.testing.assert_close(made, net(X), **CLOSE)


@pytest.mark.parametrize("order", [list, reversed, lambda xs: xs[:3] + xs[3:] + xs[:1]])
def test_lists_of_inputs(order: Any) -> None:
    cell = nn.GRUCell(4, 4)

    def net(xs: Any, shifts: Any) -> Any:
        h, ys = torch.zeros(2, 4), []
        for x, shift in zip(order(xs), order(shifts), strict=True):
            h = cell(x + shift, h)
            ys.append(h)
        return torch.stack(ys)

    compiled = torch.compile(net, backend="rnncc")
    for steps in (20, 21):
        xs = [torch.randn(2, 4, requires_grad=True) for _ in range(steps)]
        shifts = [torch.randn(4) for _ in range(steps)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = compiled(xs, shifts)
        torch.testing.assert_close(y, net(xs, shifts), **CLOSE)
        slopes = [torch.autograd.grad(f.square().sum(), xs) for f in (y, net(xs, shifts))]
        torch.testing.assert_close(*slopes, **CLOSE)
