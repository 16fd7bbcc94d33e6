"""States that hold numbers of Python's, which steps change: scan(cell, xs, (h, 0))."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

import rnncc
from tests.torch.cells import loop, nn, torch, with_gradients

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers

H = torch.zeros(2, 3)


class Named(NamedTuple):
    h: Any
    t: int


@dataclass
class Counted:
    h: Any
    t: int = 0


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, state: Any) -> Any:
        h, (c, t) = state
        h = torch.tanh(self.linear(x) + h)
        return h, (h, (c + h.mean() if t > 2 else c * 0.9, t + 1))


def within(x: Any, state: dict[str, Any]) -> Any:
    """Changes the dict that it is given."""
    state["t"] += 1
    state["h"] = state["h"] + x / state["t"]
    return state["h"], state


def branches(x: Any, state: Any) -> Any:
    h, n = state
    if n % 2 == 0:
        h = torch.tanh(h + x)
    elif n == 3:
        h = h * 0.5
    return h, (h, n + 1)


def first_differs(x: Any, state: Any) -> Any:
    h, first = state
    h = x if first else h + x
    return h, (h, False)


CELLS: list[tuple[Any, Any]] = [
    (lambda x, s: (x * s[1], (s[0] + x, s[1] + 1)), (H, 0)),
    (lambda x, s: (x, (s[0] + x / s[1] ** 0.5, s[1] + 1)), (H, 7)),
    (lambda x, s: (x * s["t"], {"t": s["t"] * 0.9, "h": s["h"] + x}), {"h": H, "t": 1.0}),
    (lambda x, s: (x * s[1], (s[0] + x, s[1])), (H, 3)),
    (lambda x, s: (x, (x + s[0], x * s[1], None)), (0, 1.0, None)),
    (lambda x, s: (x, s + 1), 0),
    (lambda x, s: (x, (s[0] + x,)), (H, 0)),
    (lambda x, s: (x * s.t, s._replace(t=s.t + 1)), Named(H, 0)),
    (lambda x, s: (x * s.t, Counted(s.h + x, s.t + 1)), Counted(H)),
    (within, {"h": H, "t": 0}),
    (branches, (H, 0)),
    (first_differs, (H, True)),
    (Nested(), (H, (torch.zeros(()), 0))),
]


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_cell(number: int) -> None:
    cell, state = CELLS[number]
    torch.manual_seed(number)
    for steps in (6, 4, 1):
        xs = torch.randn(steps, 2, 3, requires_grad=True)
        given = [xs, *(cell.parameters() if isinstance(cell, nn.Module) else ())]
        ours, theirs = (
            _results(run, cell, xs, copy.deepcopy(state), given) for run in (rt.scan, loop)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def _results(run: Any, cell: Any, xs: Any, state: Any, given: Any) -> Any:
    """What a loop gives and leaves in the state that it is given, and gradients."""
    ys, last = run(cell, xs, state)
    if isinstance(last, Counted):
        last = last.h, last.t
    if isinstance(state, Counted):
        state = state.h, state.t
    return ys, last, state, with_gradients((ys, ()), given)


def test_numbers_within_transforms() -> None:
    """Those of cells, too."""
    kept = Nested()
    kept.t = 0

    def counts(x: Any, h: Any) -> Any:
        kept.t += 1
        h = torch.tanh(kept.linear(x) + h) / (1 + kept.t / 10)
        return h, h

    def run(scan: Any, xs: Any) -> Any:
        kept.t = 0
        ys, (_, t) = scan(CELLS[0][0], xs, (H, 0))
        assert t == len(xs)
        ys = ys + scan(counts, xs, H)[0]
        assert kept.t == len(xs)
        return ys

    xs = torch.randn(3, 6, 2, 3)
    ours, theirs = (
        torch.func.vmap(lambda x, scan=scan: run(scan, x))(xs) for scan in (rt.scan, loop)
    )
    torch.testing.assert_close(ours, theirs)


def test_refused() -> None:
    with pytest.raises(rnncc.CompileError, match="numbers after a step where none were"):
        rt.scan(lambda x, s: (x, (s[1] + 1, s[0])), torch.zeros(5, 2, 3), (H, 0))
    with pytest.raises(rnncc.CompileError, match="a step changes a number of Python's"):
        rt.scan(lambda x, s: (x[: s[1]], (s[0], s[1] + 1)), torch.zeros(5, 2, 3), (H, 1))


def test_a_number_that_instances_have_each_of_their_own() -> None:
    from rnncc.torch.first_steps import _number_in
    from rnncc.torch.objects.kept import StatePlace

    def number(x: Any) -> Any:
        return x * _number_in(x, StatePlace([0], 0))

    torch.testing.assert_close(torch.func.vmap(number)(torch.ones(3)), torch.ones(3))
    with pytest.raises(rnncc.CompileError, match="each instance of vmap has another"):
        torch.func.vmap(number)(torch.arange(3.0))
