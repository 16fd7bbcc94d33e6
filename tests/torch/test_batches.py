"""Loops for batches of any size: compiled once where the cell allows it, and right where not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rnncc
from tests.torch.cells import (
    CELLS,
    CLOSE,
    UNITS,
    Attention,
    F,
    MinimalGated,
    loop,
    make_cell,
    nn,
    results,
    sequence,
    torch,
)

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
Given = tuple[Any, Any]
"""Xs and a state."""


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that were compiled."""
    seen: list[Any] = []
    real = rnncc.compile

    def spy(program: Any, **options: Any) -> Any:
        seen.append(program)
        return real(program, **options)

    monkeypatch.setattr(rnncc, "compile", spy)
    return seen


def state_of(cell: Any, batch: int) -> Any:
    return torch.utils._pytree.tree_map(lambda s: torch.zeros(batch, UNITS), cell.start)


@pytest.mark.parametrize("kind", [kind for kind in CELLS if kind is not Attention])
def test_one_loop_serves_all_but_one_sequence(kind: Any, compiled: list[Any]) -> None:
    """A batch of 1 is a loop of its own, as PyTorch takes it for what broadcasts."""
    cell = make_cell(kind)
    for batch in (5, 2, 32, 3, 17):
        given = (cell, sequence(4, batch), state_of(cell, batch))
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)
    assert len(compiled) <= 1
    given = (cell, sequence(4, 1), state_of(cell, 1))
    torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


class Similar(nn.Module):
    """Reads a memory by similarity; PyTorch takes `einsum` and the similarity apart by sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(5, UNITS))
        self.mix = nn.Parameter(torch.randn(2, UNITS // 2, UNITS // 2) / UNITS**0.5)

    def forward(self, x: Any, h: Any) -> Any:
        weights = F.cosine_similarity(h.unsqueeze(1), self.keys, dim=-1).softmax(-1)
        heads = h.view(h.shape[0], 2, -1)
        mixed = torch.einsum("bhi,hij->bhj", heads, self.mix).flatten(1)
        h = torch.tanh(x + weights @ self.keys + mixed)
        return h.detach() - x, h


def test_functions_that_pytorch_takes_apart_leave_the_batch_open(compiled: list[Any]) -> None:
    torch.manual_seed(3)
    cell = Similar()
    for batch in (5, 2, 32, 3):
        given = (cell, sequence(4, batch), torch.rand(batch, UNITS) - 0.5)
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)
    assert len(compiled) <= 1


def test_a_batch_of_as_many_as_units() -> None:
    cell = copy.deepcopy(make_cell(MinimalGated))
    for batch in (UNITS, 4, UNITS, 1, 2):
        given = (cell, sequence(3, batch), state_of(cell, batch))
        torch.testing.assert_close(results(rt.scan, *given), results(loop, *given), **CLOSE)


def test_no_sequences() -> None:
    cell = make_cell(MinimalGated)
    for batch in (2, 0):
        ys, last = rt.scan(cell, sequence(3, batch), state_of(cell, batch))
        assert ys.shape == (3, batch, UNITS) and last.shape == (batch, UNITS)


def masked(rows: Any, state: Any) -> Any:
    """A mask and a counter for each sequence."""
    (x, there), (h, count) = rows, state
    h = torch.where(there.unsqueeze(-1), torch.tanh(x + h), h)
    return (h, count), (h, count + there.long())


def masked_given(n: int) -> Given:
    there = torch.arange(4)[:, None] < torch.arange(n)[None] % 5
    return (sequence(4, n), there), (torch.zeros(n, UNITS), torch.zeros(n, dtype=torch.int64))


def stacked(x: Any, h: Any) -> Any:
    """A state of two layers, the batch behind them."""
    first = torch.tanh(x + h[0])
    return first, torch.stack([first, torch.sigmoid(first * h[1])])


def branching(x: Any, h: Any) -> Any:
    """Does other things with few sequences than with many."""
    h = torch.tanh(x + h) if len(x) > 3 else torch.sigmoid(x * h)
    return h, h


def centred(x: Any, h: Any) -> Any:
    """Sequences depend on each other, on how many there are, and on their order."""
    h = torch.tanh(x + h - h.mean(0)) / len(x) + h.flip(0)
    return h.sum(0), h


def unread(rows: Any, h: Any) -> Any:
    """Rows that are not read are of the batch's size too."""
    return rows[0], torch.tanh(h + rows[0])


def paired(x: Any, h: Any) -> Any:
    """A size that no formula gives: half of the batch, rounded."""
    half = len(x) // 2
    h = torch.cat([h[:half] + x[:half], h[half:] * x[half:]])
    return h[:half], torch.tanh(h)


def normalised(x: Any, h: Any) -> Any:
    h = F.layer_norm(x + h, (UNITS,)) + torch.arange(len(x)).unsqueeze(-1)
    return h @ h.T, torch.tanh(h)


def plain_given(n: int) -> Given:
    return sequence(4, n), torch.full((n, UNITS), 0.5)


CASES: dict[Callable[..., Any], tuple[Callable[[int], Given], bool]] = {
    masked: (masked_given, True),
    stacked: (lambda n: (sequence(4, n), torch.full((2, n, UNITS), 0.5)), True),
    branching: (plain_given, False),
    centred: (plain_given, True),
    unread: (lambda n: ((sequence(4, n), sequence(4, n)), torch.zeros(n, UNITS)), True),
    paired: (plain_given, False),
    normalised: (plain_given, True),
}


@pytest.mark.parametrize("cell", CASES)
def test_functions(cell: Any, compiled: list[Any]) -> None:
    make, at_once = CASES[cell]
    for batch in (4, 2, 3, 7):
        xs, state = make(batch)
        torch.testing.assert_close(
            outcome(rt.scan, cell, xs, state), outcome(each, cell, xs, state), **CLOSE
        )
    assert not at_once or len(compiled) <= 1
    xs, state = make(1)
    torch.testing.assert_close(
        outcome(rt.scan, cell, xs, state), outcome(each, cell, xs, state), **CLOSE
    )


def each(cell: Any, xs: Any, state: Any) -> Any:
    """The loop, for nests of tensors."""
    trees = torch.utils._pytree
    ys: list[Any] = []
    for t in range(4):
        y, state = cell(trees.tree_map(lambda x, t=t: x[t], xs), state)
        ys.append(y)
    return trees.tree_map(lambda *rows: torch.stack(rows), *ys), state


def outcome(run: Any, cell: Any, xs: Any, state: Any) -> list[Any]:
    """Outputs, and the gradients of what is float; zeros where there is none."""
    trees = torch.utils._pytree
    xs, state = trees.tree_map(
        lambda x: x.clone().requires_grad_(x.is_floating_point()), (xs, state)
    )
    outputs = trees.tree_leaves(run(cell, xs, state))
    sources = [x for x in trees.tree_leaves((xs, state)) if x.requires_grad]
    total = sum(
        (o * torch.linspace(-1, 1, o.numel()).view(o.shape)).sum()
        for o in outputs
        if o.requires_grad
    )
    grads = torch.autograd.grad(total, sources, allow_unused=True)
    return [
        *outputs,
        *(torch.zeros_like(s) if g is None else g for s, g in zip(sources, grads, strict=True)),
    ]


def test_a_state_of_fixed_size_is_told_as_it_is() -> None:
    """The open reading fails; the fixed one fits one size, and says what is wrong with others."""

    def cell(x: Any, h: Any) -> Any:
        return x + h, torch.ones(3, UNITS)

    _, last = rt.scan(cell, sequence(4), torch.zeros(3, UNITS))
    assert torch.equal(last, torch.ones(3, UNITS))
    with pytest.raises(rnncc.CompileError, match="f32 2 x 8 before a step and f32 3 x 8 after it"):
        rt.scan(cell, sequence(4, 2), torch.zeros(2, UNITS))


def test_more_readings_than_dynamo_allows() -> None:
    """It then forgets what it has read, and goes on."""
    factor = [0.0]

    def cell(x: Any, h: Any) -> Any:
        return h, h + factor[0]

    with torch._dynamo.config.patch(accumulated_recompile_limit=3):
        for number in range(8):
            factor[0] = float(number)
            assert (
                rt.scan(cell, torch.zeros(2, 3), torch.zeros(3))[1].tolist() == [2.0 * number] * 3
            )


def test_linear_layer_in_front() -> None:
    """A module around a scan, trained with a smaller last batch."""
    torch.manual_seed(0)
    net = nn.Linear(5, UNITS)
    cell = make_cell(MinimalGated)
    for batch in (6, 6, 2):
        xs = torch.randn(4, batch, 5)
        ours = rt.scan(cell, net(xs), torch.zeros(batch, UNITS))[0].square().mean()
        theirs = loop(cell, net(xs), torch.zeros(batch, UNITS))[0].square().mean()
        grads = [
            torch.autograd.grad(y, [*net.parameters(), *cell.parameters()]) for y in (ours, theirs)
        ]
        torch.testing.assert_close(*grads, **CLOSE)
