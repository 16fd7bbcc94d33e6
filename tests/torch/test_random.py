"""Random cells and layers: forward and backward equal PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnncc import CompileError
from tests.torch import random_branches, random_lines
from tests.torch.cells import loop, nn, torch, with_gradients
from tests.torch.strategies import UNITS, cells, hidden, layers

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
CALM = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)


def compare(one: list[Any], other: list[Any]) -> None:
    for ours, theirs in zip(one, other, strict=True):
        scale = theirs.abs().max().clamp(min=1.0) if theirs.numel() else 1.0
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@CALM
@given(cells(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_cells(cell: Any, steps: int, batch: int, reverse: bool) -> None:
    for size in (batch, batch + 2):
        given = sequences(steps, size)
        sources = [*torch.utils._pytree.tree_leaves(given), *cell.parameters()]
        ours = with_gradients(rt.scan(cell, *given, reverse=reverse), sources)
        compare(ours, with_gradients(loop(cell, *given, reverse), sources))


@pytest.mark.slow
@CALM
@given(cells(), st.integers(1, 3), st.booleans())
def test_gradcheck_of_cells(cell: Any, steps: int, reverse: bool) -> None:
    check_gradients(cell, steps, reverse)


@settings(CALM, max_examples=4)
@given(cells(), st.booleans())
def test_gradcheck_of_some_cells(cell: Any, reverse: bool) -> None:
    check_gradients(cell, 2, reverse)


@pytest.mark.parametrize("seed", range(40))
def test_cells_of_random_lines(seed: int) -> None:
    outcome, told = random_lines.tried(seed)
    assert outcome in ("equal", "refused", "sizes refused", "not PyTorch's"), told


@pytest.mark.parametrize("seed", [4, 7, 9, 80])
def test_cells_that_branch(seed: int) -> None:
    outcome, told = random_branches.tried(seed)
    assert outcome == "equal", told


def test_what_random_lines_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(cell: Any, *given: Any) -> Any:
        ys, state = loop(cell, *given)
        return ys * 1.001, state

    monkeypatch.setattr(random_lines, "loop", off)  # what `scan` is compared with
    seed = next(s for s in range(99) if random_lines.drawn(s).way == "scan")
    assert random_lines.tried(seed)[0] == "wrong"


def check_gradients(cell: Any, steps: int, reverse: bool) -> None:
    """By differences, of compiled code in float64; and outputs are PyTorch's, as near as that."""
    xs, state = torch.utils._pytree.tree_map(lambda x: x.detach().double(), sequences(steps, 1))
    cell.double()

    def run(xs: Any, *state: Any) -> Any:
        leaves = torch.utils._pytree.tree_leaves(rt.scan(cell, xs, state, reverse=reverse))
        return tuple(leaf for leaf in leaves if leaf.requires_grad)

    ours = torch.utils._pytree.tree_leaves(rt.scan(cell, xs, state, reverse=reverse))
    theirs = torch.utils._pytree.tree_leaves(loop(cell, xs, state, reverse))
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    given = [x.requires_grad_() for x in (xs, *state)]
    assert torch.autograd.gradcheck(run, given, fast_mode=True)


def sequences(steps: int, batch: int) -> tuple[Any, Any]:
    """Xs, and a state of two tensors."""
    xs = torch.randn(steps, batch, UNITS, requires_grad=True)
    return xs, tuple(torch.randn(batch, UNITS, requires_grad=True) for _ in range(2))


@pytest.mark.slow
@CALM
@given(layers(), st.integers(2, 4), st.integers(2, 3), st.booleans())
def test_layers(layer: Any, steps: int, batch: int, with_state: bool) -> None:
    first, second = (batch, steps) if layer.batch_first else (steps, batch)
    x = torch.randn(first, second, 3, requires_grad=True)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    width = getattr(layer, "proj_size", 0) or UNITS
    h = torch.randn(count, batch, width, requires_grad=True)
    c = torch.randn(count, batch, UNITS, requires_grad=True)
    state: Any = (h, c) if isinstance(layer, torch.nn.LSTM) else h
    args = (x, state) if with_state else (x,)
    compiled = rt.compile(layer, args)
    sources = [*torch.utils._pytree.tree_leaves(args), *layer.parameters()]
    ours = with_gradients(compiled(*args), sources)
    compare(ours, with_gradients(layer(*args), sources))


class Hiding(nn.Module):
    """One step, or with `scan` all of them."""

    def __init__(self, function: Any, of_state: bool, scan: Any = None) -> None:
        super().__init__()
        self.function, self.of_state, self.scan = function, of_state, scan
        self.weight = nn.Parameter(torch.full((UNITS,), 0.7))

    def step(self, x: Any, h: Any) -> Any:
        one, other = (h, x) if self.of_state else (x, h)
        h = self.function(one) * 0.5 + other * self.weight
        return h, torch.tanh(h)

    def forward(self, x: Any, h: Any) -> Any:
        return self.step(x, h) if self.scan is None else self.scan(self.step, x, h)


@pytest.mark.slow
@CALM
@given(hidden(), st.booleans(), st.booleans(), st.sampled_from(["cell", "module", "both"]))
def test_what_graphs_do_not_show(function: Any, of_state: bool, wants: bool, kind: str) -> None:
    """It is refused, or outputs and gradients are PyTorch's."""
    xs, h = (torch.randn(*n, 2, UNITS, requires_grad=wants) for n in ((3,), ()))
    given = (xs[0].detach().requires_grad_(wants), h) if kind == "module" else (xs, h)
    peer = Hiding(function, of_state, None if kind == "module" else loop)
    sources = [*(x for x in given if x.requires_grad), peer.weight]
    try:
        theirs = with_gradients(peer(*given), sources)
    except RuntimeError:  # what backward needs was changed
        return
    try:
        if kind == "cell":
            ours = with_gradients(rt.scan(peer.step, *given), sources)
        else:
            peer.scan = None if kind == "module" else rt.scan
            compiled = rt.compile(peer, tuple(x.detach() for x in given))
            ours = with_gradients(compiled(*given), sources)
    except CompileError as error:
        assert "\n" not in str(error)
        return
    compare(ours, theirs)
