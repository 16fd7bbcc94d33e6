"""Rows found by `torch.where`: mixtures of experts, each of which computes those that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, F, loop, nn, torch, with_gradients

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Mixture(nn.Module):
    """Experts of a step, of which one router chooses."""

    def __init__(self, mix: Callable[..., Any]) -> None:
        super().__init__()
        self.router = nn.Linear(8, 3)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(8, 4), nn.Tanh()) for _ in range(3)])
        self.mix = mix

    def forward(self, x: Any, h: Any) -> Any:
        z = torch.cat([x, h], -1)
        h = torch.tanh(h + self.mix(self, z, self.router(z).softmax(-1)))
        return h.sin(), h


def best(own: Any, z: Any, shares: Any) -> Any:
    share, chosen = shares.max(-1)
    y = torch.zeros_like(z[:, :4])
    for number, expert in enumerate(own.experts):
        rows = torch.where(chosen == number)[0]
        y[rows] = expert(z[rows]) * share[rows, None]
    return y


def best_two(own: Any, z: Any, shares: Any) -> Any:
    share, chosen = shares.topk(2, -1)
    share = share / share.sum(-1, keepdim=True)
    y = torch.zeros_like(z[:, :4])
    for number, expert in enumerate(own.experts):
        rows, places = torch.where(chosen == number)
        y.index_add_(0, rows, expert(z[rows]) * share[rows, places, None])
    return y


def by_one_hot(own: Any, z: Any, shares: Any) -> Any:
    share, chosen = torch.topk(shares, 2, dim=-1)
    flags = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
    y = z.new_zeros(len(z), 4)
    for expert, flag in zip(own.experts, flags, strict=True):
        places, rows = torch.where(flag)
        y = y.index_add(0, rows, expert(z.index_select(0, rows)) * share[rows, places, None])
    return y


def by_nonzero(own: Any, z: Any, shares: Any) -> Any:
    chosen, y = shares.argmax(-1), torch.zeros_like(z[:, :4])
    for number, expert in enumerate(own.experts):
        rows = (chosen == number).nonzero().squeeze(1)
        y.index_copy_(0, rows, expert(z[rows]))
        y.index_add_(0, (chosen == number).nonzero()[:, 0].view(-1), z[rows, 4:].sin())
    return y


def if_any(own: Any, z: Any, shares: Any) -> Any:
    chosen, y = shares.argmax(-1), torch.zeros_like(z[:, :4])
    for number, expert in enumerate(own.experts):
        mine = chosen == number
        if not mine.any():
            continue
        y[mine] = expert(z[mine]) + number
    return y


@pytest.mark.parametrize("mix", [best, best_two, by_one_hot, by_nonzero, if_any])
def test_equals_loop(mix: Any) -> None:
    torch.manual_seed(0)
    cell, xs = Mixture(mix), torch.randn(6, 5, 4, requires_grad=True)
    runs = [rt.scan, loop]
    found = [
        with_gradients(list(run(cell, xs, torch.zeros(5, 4))), [xs, *cell.parameters()])
        for run in runs
    ]
    torch.testing.assert_close(*found, **CLOSE)


def test_in_modules() -> None:
    torch.manual_seed(0)
    cell, x, h = Mixture(best_two), torch.randn(7, 4), torch.randn(7, 4)
    sizes = {"x": {0: torch.export.Dim("N")}, "h": {0: torch.export.Dim("N")}}
    compiled = rt.compile(cell, (x[:3], h[:3]), dynamic_shapes=sizes)
    torch.testing.assert_close(compiled(x, h), cell(x, h), **CLOSE)


def put_at(y: Any, mask: Any, rows: Any) -> Any:
    return y.index_put(torch.where(mask), rows)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "another size": lambda x, m: torch.cat([x, x])[torch.where(m)[0]].sum(),
    "computed": lambda x, m: x[torch.where(m)[0] - 1].sum(),
    "some axes put": lambda x, m: x.index_put((torch.where(x > 0)[0],), x.sum()),
    "other rows": lambda x, m: x.index_add(0, torch.where(m)[0], x[x[:, 0] > 0]),
    "given out": lambda x, m: torch.where(m)[0],
    "put into another size": lambda x, m: put_at(x.new_zeros(4, 3), x > 0, x[x > 0]),
    "rows of its own": lambda x, m: put_at(x, m, 2 * x),
    "twice": lambda x, m: x[torch.where(m)[0]][torch.where(m)[0]].sum(),
    "transposed": lambda x, m: x[m.nonzero().t()[0]].sum(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    class One(nn.Module):
        def forward(self, x: Any, m: Any) -> Any:
            return REFUSED[name](x, m)

    message = r"test_experts.py:\d+: .*indexing with a mask is not supported where"
    with pytest.raises(CompileError, match=message):
        rt.compile(One(), (torch.ones(3, 4), torch.tensor([True, False, True])))


def test_questions_of_how_many_are_refused() -> None:
    def counting(x: Any, h: Any) -> Any:
        rows = torch.where(x[:, 0] > 0)[0]
        return (h if rows.numel() > 0 else 2 * h), h

    with pytest.raises(CompileError, match=r"how many elements a mask selects .*mask.any\(\)"):
        rt.scan(counting, torch.ones(3, 4, 4), torch.zeros(4, 4))


def test_the_variable_of_a_loop_that_ended_is_refused() -> None:
    """It would be that of the last iteration, not of the one that ended the loop."""

    class Ended(nn.Module):
        def forward(self, x: Any, flags: Any) -> Any:
            number = 0
            for number, flag in enumerate(flags):
                if flag:
                    break
                x = x + number
            return x * number

    with pytest.raises(CompileError, match="the variable of a loop that ends by it is read"):
        rt.compile(Ended(), (torch.ones(2), torch.tensor([False, True, False])))


def test_the_variable_of_a_loop_that_ended_may_be_bound_again() -> None:
    class Ended(nn.Module):
        def forward(self, x: Any, flags: Any) -> Any:
            for number, flag in enumerate(flags):
                if flag:
                    break
                x = x + number
            for number in range(3):
                x = x * (number + 1)
            return x + sum([2 * number for number in range(4)])

    example = torch.ones(2), torch.tensor([False, True, False])
    compiled = rt.compile(Ended(), example)
    for flags in ([False, False, True], [True, False, False], [False, False, False]):
        x = torch.arange(2.0), torch.tensor(flags)
        torch.testing.assert_close(compiled(*x), Ended()(*x), rtol=0, atol=0)
