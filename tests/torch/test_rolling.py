"""Repeats in graphs that PyTorch unrolled, found and rolled."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.torch import loops
from tests.torch.cells import nn, torch

pytest.importorskip("rnncc.torch")
from rnncc.frontends.torch.unrolled.repeats import repeats
from rnncc.frontends.torch.unrolled.rolling import roll_loops
from tests.torch.rolled_loops import Function, rolled

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("read_anew")]


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


def chosen(layer: Any, x: Any) -> Any:
    """Numbers of steps that are chosen, put where a mask is true, and the weight of a mean."""
    h = mean = x[:, 0] * 0
    most, first = torch.full((2,), -9.0), torch.full((2,), -1)
    for t in range(9):
        h = torch.tanh(layer(h) + x[:, t])
        score, mean = h.sum(-1), torch.lerp(mean, h, 1 / (t + 1))
        first = torch.where(score > most, t, first)
        h = h.masked_fill(x[:, t] > 1, 0.1 * t)
        most = torch.maximum(most, score)
    return h + mean, first


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
    chosen: [9],
    filled_alike: [4],
    new_axes: [9],
    clocked: [9],
}


@pytest.mark.parametrize("function", BODIES, ids=lambda function: function.__name__)
def test_bodies_that_differ_are_no_loop(function: Any) -> None:
    parts = {own_weights: 8, alternating: 2}.get(function, 1)
    found = rolled(Function(function, *(nn.Linear(4, 4) for _ in range(parts))), X)
    assert found.lengths == BODIES[function]
