"""Random cells by second derivatives, forward mode and vmap, beside PyTorch's loop, in float64.

`python -m tests.torch.transforms 200 7` tries 200 of them, from seed 7 on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.torch.cells import leaves_of, torch
from tests.torch.strategies import UNITS, RandomCell, cells

rt: Any = pytest.importorskip("rnncc.torch")
Loop = Callable[..., Any]
T, N = 3, 2


def loop(cell: Any, xs: Any, state: Any) -> Any:
    """What `scan` is compared with."""
    ys = list[Any]()
    for x in xs:
        y, state = cell(x, state)
        ys.append(y)
    return torch.stack(ys), state


def weighted(results: Any) -> Any:
    """One number of all results, which has second derivatives by each."""
    return sum((i + 1) * (y.sin() * y).sum() for i, y in enumerate(leaves_of(results)))


def second(run: Loop, cell: Any, xs: Any, state: Any) -> list[Any]:
    """First derivatives, and those of a penalty on them."""
    given = [x.clone().requires_grad_() for x in (xs, *state)] + list(cell.parameters())
    loss = weighted(run(cell, given[0], tuple(given[1:3])))
    first = torch.autograd.grad(loss, given, create_graph=True, materialize_grads=True)
    penalty = weighted(first)
    again = torch.autograd.grad(penalty, given, materialize_grads=True)
    return [*first, *again]


def tangents(run: Loop, cell: Any, xs: Any, state: Any) -> list[Any]:
    """Outputs and how they move with all that goes in."""
    parameters = {name: p.detach() for name, p in cell.named_parameters()}

    def whole(given: Any, xs: Any, h: Any, c: Any) -> Any:
        return torch.func.functional_call(_Whole(cell, run), given, (xs, (h, c)))

    inputs = {f"cell.{name}": p for name, p in parameters.items()}, xs, *state
    return leaves_of(torch.func.jvp(whole, inputs, inputs))


def instances(run: Loop, cell: Any, xs: Any, state: Any) -> list[Any]:
    """Of three instances, which share their weights and their second state."""
    more = torch.stack([xs, xs * 0.5, -xs], 1)
    hs = torch.stack([state[0], -state[0], state[0] * 2])
    whole = torch.func.vmap(lambda x, h: run(cell, x, (h, state[1])), (1, 0))
    return leaves_of(whole(more, hs))


class _Whole(torch.nn.Module):
    def __init__(self, cell: Any, run: Loop) -> None:
        super().__init__()
        self.cell, self.run = cell, run

    def forward(self, xs: Any, state: Any) -> Any:
        return self.run(self.cell, xs, state)


def check(cell: RandomCell) -> None:
    """All three, by `scan` and by a loop."""
    cell = cell.double()
    xs, *state = (torch.randn(*front, N, UNITS, dtype=torch.float64) for front in ((T,), (), ()))
    state = tuple(state)
    for transform in (second, tangents, instances):
        pairs = (transform(run, cell, xs, state) for run in (rt.scan, loop))
        for one, other in zip(*pairs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8, msg=transform.__name__)


def main(count: int, first: int) -> None:
    """Try random cells."""
    chosen = settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=[Phase.generate],
    )
    seed(first)(chosen(given(cells())(check)))()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
