"""Loops of Python that PyTorch unrolled: found again, or left as they are."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import pytest

from tests.torch import loops
from tests.torch.cells import nn, torch
from tests.torch.functions import Spike

pytest.importorskip("rnncc.torch")

import rnncc.torch
import rnncc.torch.backend as back
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.repeats import repeats
from rnncc.frontends.torch.unrolled.rolling import Rolled, roll_loops

pytestmark = pytest.mark.peers
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(back, "_said", set())
    yield
    torch._dynamo.reset()


def slow_repeats(labels: list[int], least: int) -> set[tuple[int, int, int]]:
    """By the definition."""
    found, count = set[tuple[int, int, int]](), len(labels)
    for period in range(1, count // least + 1):
        alike = [labels[i] == labels[i + period] for i in range(count - period)] + [False]
        start = None
        for i, same in enumerate(alike):
            if same and start is None:
                start = i
            if not same and start is not None:
                if (i + period - start) // period >= least:
                    found.add((start, i + period, period))
                start = None
    return {r for r in found if not any(_is_multiple(r, other) for other in found)}


def _is_multiple(one: tuple[int, int, int], of: tuple[int, int, int]) -> bool:
    inside = of[0] <= one[0] and one[1] <= of[1]
    return inside and one[2] > of[2] and one[2] % of[2] == 0


def test_repeats_are_those_of_the_definition() -> None:
    choose = random.Random(0)
    for _ in range(300):
        labels = choose.choices(range(choose.choice((1, 2, 3))), k=choose.randint(1, 40))
        labels[5:5] = labels[:4] * choose.randint(0, 5)
        found = {(r.start, r.end, r.period) for r in repeats(labels, 3)}
        known = slow_repeats(labels, 3)
        assert known <= found
        assert all(_is_repeat(labels, *r) for r in found)


def _is_repeat(labels: list[int], start: int, end: int, period: int) -> bool:
    return labels[start : end - period] == labels[start + period : end]


@pytest.mark.parametrize("seed", range(10))
def test_rolled_graph_computes_the_same(seed: int) -> None:
    loops.check(seed)


@pytest.mark.parametrize("seed", range(100, 104))
def test_rolled_exported_graph_computes_the_same(seed: int) -> None:
    loops.check_exported(seed)


def test_a_loop_runs_as_often_as_it_is_written() -> None:
    assert [loops.check(seed) for seed in (0, 4, 9)] == [[8], [10], [10, 10]]


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *given: Any) -> Any:
        return self.function(*self.parts, *given)


def rolled(module: Any, *given: Any) -> Rolled:
    """What is found in a module's graph, which computes the same without it."""
    graph, inputs = loops.captured(module, *given)
    assert without_changes(graph)
    found = roll_loops(graph, plain=False)
    with torch.no_grad():
        made = graph(*inputs)
    torch.testing.assert_close(list(made), torch.utils._pytree.tree_leaves(module(*given)))
    return found


X = torch.linspace(-1, 1, 2 * 9 * 4).view(2, 9, 4)


def test_graph_without_repeats_stays_as_it_is() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2))
    graph, _ = loops.captured(net, X)
    before = str(graph.graph)
    assert roll_loops(graph, plain=False).lengths == []
    assert str(graph.graph) == before


def test_loop_may_read_what_another_one_made() -> None:
    def forward(short: Any, long: Any, x: Any) -> Any:
        v, spikes = x[:, 0] * 0, []
        for t in range(9):
            v = 0.9 * v + x[:, t]
            spikes.append((v > 0.5).float())
        h = v * 0
        for spike in spikes:
            h = torch.sigmoid(long(h)) * torch.tanh(short(spike) + h) + 0.5 * h
        return h

    found = rolled(Function(forward, nn.Linear(4, 4), nn.Linear(4, 4)), X)
    assert sorted(found.lengths) == [9, 9]
    assert found.unrolled is None


def alternating(one: Any, other: Any, x: Any) -> Any:
    """Two weights in turn are a body of two steps."""
    h = x[:, 0] * 0
    for t in range(8):
        h = (one if t % 2 else other)(h + x[:, t])
    return h


def own_weights(*given: Any) -> Any:
    """Weights of its own for each step."""
    *layers, x = given
    h = x[:, 0] * 0
    for t, layer in enumerate(layers):
        h = torch.tanh(layer(h + x[:, t]))
    return h


def crossed(layer: Any, x: Any) -> Any:
    """At one step the two states are taken the other way round."""
    g = h = x[:, 0] * 0
    for t in range(9):
        if t == 5:
            g, h = h, g
        g, h = torch.tanh(layer(g) + x[:, t]), torch.tanh(layer(h) - g)
    return g, h


def other_axis(layer: Any, x: Any) -> Any:
    """One step takes a mean along another axis of the same size."""
    x, h = x.repeat(1, 1, 2)[:, :, :2], x[:, 0, :2] * 0
    for t in range(9):
        h = h + torch.softmax(x[:, t] + h, 0 if t == 6 else 1)
    return h


def other_row(layer: Any, x: Any) -> Any:
    """One step reads a row out of turn."""
    h = x[:, 0] * 0
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, 2 if t == 4 else t])
    return h


def skipped(layer: Any, x: Any) -> Any:
    """One step forgets its state."""
    start = h = x[:, 0] * 0
    for t in range(9):
        h = torch.tanh(layer(start if t == 5 else h) + x[:, t])
    return h


def first_state_again(layer: Any, x: Any) -> Any:
    """Every step reads what the first state was."""
    start = h = x[:, 0] * 2
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t]) - start
    return h


def read_while_written(layer: Any, x: Any) -> Any:
    """What is written is read two steps later."""
    out, h = x.new_zeros(9, 2, 4), x[:, 0] * 0
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t]) + (out[t - 2] if t > 1 else 0)
        out[t] = h
    return out


def read_across(layer: Any, x: Any) -> Any:
    """Rows of a sequence that is changed as it is read, laid out the other way round."""
    out = layer(x) * 1.0
    for t in range(1, 9):
        out[:, t] = (torch.tanh(out[:, t - 1]).T.contiguous() + out[:, t].T).T
    return out


def read_in_parts(layer: Any, x: Any) -> Any:
    """What is read lies in two rows that were written."""
    out = x.new_zeros(2, 11, 4)
    for t in range(9):
        out[:, t + 2] = layer(out[:, t : t + 2]).sum(1) + x[:, t]
    return out


def written_twice(layer: Any, x: Any) -> Any:
    """Each row is written over by the next step."""
    out, h = x.new_zeros(10, 2, 4), x[:, 0] * 0
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t])
        out[t : t + 2] = h
    return out


def outer_state(layer: Any, x: Any) -> Any:
    """A loop within a loop."""
    h = x[:, 0] * 0
    for t in range(9):
        for _ in range(5):
            h = h + 0.1 * torch.tanh(layer(h) + x[:, t])
    return h


def stacked(layer: Any, x: Any) -> Any:
    """Each step puts a row into a memory, of which it reads the row before and a mixture of all."""
    memory, h = x.new_zeros(2, 9, 4), x[:, 0] * 0
    for t in range(9):
        memory = memory * 0.9
        memory[:, t] = torch.tanh(layer(h) + x[:, t])
        weights = torch.softmax(memory @ h.unsqueeze(-1), 1)
        h = (weights * memory).sum(1) + memory[:, t - 1]
    return memory, h


def layers_in_one(layer: Any, x: Any) -> Any:
    """Each layer's state is a part of one tensor, which starts from parts of another."""
    states, out = x[:, :2].transpose(0, 1) * 0.5, []
    for t in range(9):
        h = x[:, t]
        for n in range(2):
            h = torch.tanh(layer(h) + states[n].clone())
            states[n] = h
        out.append(h)
    return torch.stack(out), states


def replaced_once(layer: Any, x: Any) -> Any:
    """Each step reads and replaces a row of its own, and one step another."""
    rows, h = x.clone(), x[:, 0] * 0
    for t in range(9):
        h = torch.tanh(layer(h) + rows[:, t])
        rows[:, t] = h
        if t == 5:
            h = h + rows[:, 2]
    return rows


def kept_by_number(layer: Any, x: Any) -> Any:
    """Steps write to places in an order of their own, a narrower type, and axes of one place."""
    memory, h = x.new_zeros(2, 3, 4, dtype=torch.float64), x[:, 0] * 0
    for t, place in enumerate((0, 2, 1, 0, 1, 2, 2, 1, 0)):
        memory = memory.clone()
        memory[:, place] = torch.tanh(layer(h) + x[:, t]).double()
        memory[:, :, t % 4 : t % 4 + 1] = memory[:, :, t % 3 : t % 3 + 1] * 0.5
        h = memory.sum(1).float()
    return memory


def integers(layer: Any, x: Any) -> Any:
    """Arithmetic of integers with numbers that are not."""
    k, ys = torch.arange(4), []
    for t in range(9):
        ys.append(k * (0.5 * t) + x[:, t])
        k = k + t
    return torch.stack(ys), k


def drawn(layer: Any, x: Any) -> Any:
    """Powers of a number."""
    h = x[:, 0] * 0
    for t in range(9):
        h = h * 0.5 + x[:, t] ** (t + 1)
    return h


def filled(layer: Any, x: Any) -> Any:
    """Numbers of steps as tensors, by which rows and times are told."""
    rows, h, out = torch.linspace(-1, 1, 36).view(9, 4), x[:, 0] * 0, []
    for t in range(9):
        row = rows[torch.full((2,), t)] + x.new_full((2, 1), 0.1 * t) - torch.tensor([t])
        h = torch.tanh(layer(h) + row + torch.full_like(h, fill_value=-t) * torch.tensor(0.5 * t))
        out.append(h)
    return torch.stack(out)


def filled_alike(layer: Any, x: Any) -> Any:
    """Numbers that are true or complex are none of arithmetic."""
    h, out = x[:, 0] * 0, []
    for t in range(9):
        h = torch.where(torch.full((4,), t % 2 == 0), torch.tanh(layer(h)), h + torch.full((4,), 2))
        out.append(h)
    return torch.stack(out)


def new_axes(layer: Any, x: Any) -> Any:
    """Rows that get a new axis as they are read."""
    h = x[:, 0, None] * 0
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t, None, :])
    return h


def clocked(layer: Any, x: Any) -> Any:
    """Units that change at every second, third, ... step, and rows that are viewed as others."""
    h, out = x[:, 0] * 0, x.new_zeros(2, 9, 4)
    for t in range(9):
        h = torch.where(t % torch.arange(1, 5) == 0, torch.tanh(layer(h) + x[:, t]), h)
        out[:, t] = h
    return out.view(18, 4)


BODIES: dict[Any, list[int]] = {
    alternating: [4],
    own_weights: [],
    crossed: [5, 4],
    other_axis: [6],
    other_row: [4, 4],
    skipped: [5, 4],
    first_state_again: [9],
    read_while_written: [7],
    read_across: [7],
    read_in_parts: [],
    written_twice: [],
    outer_state: [9],
    stacked: [9],
    layers_in_one: [9],
    replaced_once: [6],
    kept_by_number: [9],
    integers: [9],
    drawn: [],
    filled: [9],
    filled_alike: [4],
    new_axes: [9],
    clocked: [9],
}


@pytest.mark.parametrize("function", BODIES, ids=lambda function: function.__name__)
def test_bodies_that_differ_are_no_loop(function: Any) -> None:
    parts = {own_weights: 8, alternating: 2}.get(function, 1)
    found = rolled(Function(function, *(nn.Linear(4, 4) for _ in range(parts))), X)
    assert found.lengths == BODIES[function]


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


def gradients(net: Any, module: Any, x: Any) -> list[Any]:
    module.zero_grad()
    x = x.detach().requires_grad_()
    ys = torch.utils._pytree.tree_leaves(net(x))
    torch.autograd.backward(ys, [torch.linspace(-1, 1, y.numel()).view(y.shape) for y in ys])
    grads = (torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters())
    return [*ys, x.grad, *grads]


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


@pytest.mark.parametrize("seed", [3, 11])
def test_exported_loops_have_gradients(seed: int) -> None:
    module, x = loops.Loop(seed), torch.randn(2, 9, loops.WIDTH)
    net = rnncc.torch.compile(module, (x,))
    made, known = gradients(net, module, x), gradients(module, module, x)
    torch.testing.assert_close(made, known, **CLOSE)


def falling(layer: Any, x: Any) -> Any:
    """A step that writes a constant down, changes a tensor in place, and writes a row."""
    h, out = x[:, 0] * 0, x.new_zeros(2, 9, 4)
    for t in range(9):
        h = 0.9**t * torch.tanh(layer(h) + x[:, t]) + torch.tensor([0.0, 0.5, -1.0, 2.0])
        out[:, t] = h + (x[:, t] * 1.0).pow_(2)
    return out


@pytest.mark.usefixtures("not_run_again")
def test_exported_loops_are_rolled_where_they_are() -> None:
    module = Function(falling, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    torch.testing.assert_close(gradients(net, module, X), gradients(module, module, X), **CLOSE)
    assert "rnn.scan" in str(net.form().net.program.module)


@pytest.mark.usefixtures("not_run_again")
def test_exported_checks_of_types_are_no_part_of_a_loop() -> None:
    """`torch.export` puts a check beside each change of a dtype."""

    def function(layer: Any, x: Any) -> Any:
        v = x[:, 0] * 0
        for t in range(9):
            v = 0.9 * v + layer(x[:, t]) * (v > 0.5).float()
        return v

    module = Function(function, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    assert "rnn.scan" in str(net.form().net.program.module)
    torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_checks_of_matrices_are_no_part_of_a_loop() -> None:
    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(5, 2, 4), x[:, 0] * 0
        for t in range(5):
            h = layer(x[:, t]) + h @ torch.linalg.inv(torch.eye(4) + 0.1 * h.T @ h)
            out[t].copy_(h)
        return out

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_numbers_of_steps_as_constants() -> None:
    """Tensors of one number, which `torch.export` and tracing hold as constants."""

    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(9, 2, 4), x[:, 0]
        for t in range(9):
            h = torch.tanh(layer(h) * torch.sin(torch.tensor(0.3 * t)) + x[:, t])
            out.index_copy_(0, torch.tensor([8 - t]), h[None])
        return out

    module = Function(function, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    assert "rnn.scan" in str(net.form().net.program.module)
    torch.testing.assert_close(net(X), module(X), **CLOSE)
    with warnings.catch_warnings(action="error"):
        found = torch.compile(module, backend="rnncc")(X)
    torch.testing.assert_close(found, module(X), **CLOSE)


def test_results_that_are_none_are_part_of_a_loop() -> None:
    """Attention gives no weights where nobody asks for them."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            h = x[:, 0]
            for t in range(9):
                h = h + self.heads(h[:, None], x, x, need_weights=False)[0][:, 0] * x[:, t]
            return h

    module = Attending()
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_shapes_that_nobody_reads_are_no_part_of_a_loop() -> None:
    """`torch.distributions` compare shapes, and drop what they find."""

    def function(layer: Any, x: Any) -> Any:
        covariance, h, found = torch.eye(4), x[:, 0], x.new_zeros(2)
        for t in range(9):
            noise = torch.distributions.MultivariateNormal(h, covariance, validate_args=False)
            found = found + noise.log_prob(x[:, t])
            h = torch.tanh(layer(h))
        return found

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_changes_that_are_traced() -> None:
    """A row is changed by way of a view, which only PyTorch's tracing takes apart."""

    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(9, 2, 4), x[:, 0] * 0
        for t in range(9):
            h = torch.tanh(layer(h) + x[:, t])
            out[t].copy_(h)
        return out

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gradients(net, module, X)
    torch.testing.assert_close(made, gradients(module, module, X), **CLOSE)


def test_buffers_that_a_region_without_gradients_changes() -> None:
    """Spectral norm steps its vectors in place, in a graph within each repeat."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), eps=1e-3)

        def forward(self, x: Any) -> Any:
            h = torch.zeros_like(x[0])
            for row in x.unbind(0):
                h = torch.tanh(self.layer(h) + row)
            return h

    module, x = Normed(), torch.randn(6, 2, 3)
    for vector in module.buffers():
        vector.copy_(torch.tensor([1.0, 0.0, 0.0]))
    vectors = {name: value.clone() for name, value in module.named_buffers()}
    y, known = module(x), dict(module.named_buffers())
    known = {name: value.clone() for name, value in known.items()}
    module.load_state_dict(vectors, strict=False)
    torch.testing.assert_close(rnncc.torch.compile(module, (x,))(x), y, **CLOSE)
    torch.testing.assert_close(dict(module.named_buffers()), known, **CLOSE)
    assert any((known[name] - vectors[name]).abs().max() > 1e-4 for name in known)


def test_numbers_put_into_what_is_traced() -> None:
    """Tracing writes each one down, at each step as a constant of its own."""

    def forward(layer: Any, x: Any) -> Any:
        h, places = x[:, 0], torch.tensor([0, 2, 2, 1])
        for t in range(9):
            h = torch.zeros_like(h).index_add_(1, places, torch.tanh(layer(h) + x[:, t]))
            h[:, 3] = 0.5
        return h

    net = Function(forward, nn.Linear(4, 4))
    compiled = torch.compile(net, backend=back.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gradients(compiled, net, X)
    torch.testing.assert_close(made, gradients(net, net, X), **CLOSE)


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


class Spiking(nn.Module):
    """As libraries of spiking nets do it: a potential that the module keeps, made anew from itself.

    The first step differs from the others: what it starts with has no gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("potential", torch.zeros(2, 4), False)

    potential: Any

    def forward(self, x: Any) -> Any:
        self.potential = torch.zeros_like(self.potential)
        spikes = []
        for step in range(len(x)):
            known = self.potential
            if not known == None:  # noqa: E711, SIM201  as they ask it
                reset = Spike.apply(self.potential - 1).detach()
                self.potential = 0.9 * self.potential + self.linear(x[step]) - reset
            spikes.append(Spike.apply(self.potential - 1))
        return torch.stack(spikes)


def test_spiking_nets_train() -> None:
    """A buffer that keeps a graph from call to call, and of which the next call reads the shape."""
    ours, theirs = Spiking(), Spiking()
    theirs.load_state_dict(ours.state_dict())
    run = torch.compile(ours, backend="rnncc")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "rnncc leaves")
        for _ in range(3):
            x = 3 * torch.randn(20, 2, 4)
            for net, module in ((run, ours), (theirs, theirs)):
                module.zero_grad()
                (net(x) * torch.linspace(0, 1, 20)[:, None, None]).sum().backward()
            for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, **CLOSE)
            torch.testing.assert_close(ours.potential, theirs.potential, **CLOSE)
