"""What a mask selects, changed and put back: all rows are computed, and those are chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, F, loop, nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Active(nn.Module):
    """Sequences that wait, in ways that people write."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(4, 6), nn.LSTMCell(4, 6)])
        self.layer, self.norm = nn.Linear(4, 6), nn.LayerNorm(6)
        self.weight, self.scale = nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(6))

    def forward(self, rows: Any, state: Any) -> Any:
        x, active = rows
        h, c = (part.clone() for part in state)
        h[active] = self.cells[0](x[active], h[active])
        idle = ~active
        h[idle], c[idle] = self.cells[1](x[idle], (h[idle], c[idle]))
        h[active] += self.layer(x[active]).tanh() * self.scale
        a, b = self.norm(torch.cat([x[active], h[active]], -1)[:, 2:8]).chunk(2, -1)
        c[active] = torch.cat([a.sin() / 2, b.sigmoid().cumsum(1)], 1)
        c[~active] *= 0.5
        c[~active] += x[~active].sum(-1, keepdim=True)
        y = h.clone()
        y[y < 0] *= 0.1
        y[(h > 0.3) & active[:, None]] -= 0.5
        loss = (h - self.layer(x)).square().sum(-1)[active].mean()
        return (y, loss, (c[active] @ self.weight).relu().sum()), (h, c)


def gradients(run: Any, cell: Any, xs: Any, flags: Any) -> list[Any]:
    cell.zero_grad()
    xs = xs.clone().requires_grad_()
    starts = [torch.zeros(xs.shape[1], 6, requires_grad=True) for _ in range(2)]
    (y, *losses), last = run(cell, (xs, flags), tuple(starts))
    (y.sin().sum() + sum(x.nan_to_num().sum() for x in losses) + last[0].sum()).backward()
    leaves = (xs, *starts, *cell.parameters())
    return [y, *losses, *last, *(x.grad for x in leaves)]


def stepped(cell: Any, xs: Any, state: Any) -> Any:
    """A loop in Python over rows of two tensors."""
    ys = list[Any]()
    for rows in zip(*xs, strict=True):
        y, state = cell(rows, state)
        ys.append(y)
    return [torch.stack(parts) for parts in zip(*ys, strict=True)], state


def test_equals_loop() -> None:
    """Of all rows, some, and none."""
    torch.manual_seed(0)
    cell = Active()
    xs, flags = torch.randn(5, 3, 4), torch.rand(5, 3) < 0.5
    flags[1], flags[2] = True, False
    ours, theirs = (gradients(run, cell, xs, flags) for run in (rt.scan, stepped))
    torch.testing.assert_close(ours, theirs, equal_nan=True, **CLOSE)


def test_in_modules() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any, mask: Any) -> Any:
            y = x.clone()
            y[mask] = x[mask].tanh() * 2
            return y, x[mask].sum(), (x > 0)[mask].sum()

    x, mask = torch.randn(3, 4), torch.rand(3, 4) < 0.5
    for compiled in (rt.compile(Masked(), (x, mask)), rt.compile(Masked(), (x, mask), frozen=True)):
        torch.testing.assert_close(compiled(x, mask), Masked()(x, mask), **CLOSE)


W = torch.randn(4, 4)
REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "logarithm": lambda h, m: h.index_put((m,), h[m].exp().log()),
    "quotient": lambda h, m: h.index_put((m,), h[m] / h[m].sum(1, keepdim=True)),
    "rows": lambda h, m: h.index_put((m,), h[m].cumsum(0)),
    "softmax": lambda h, m: h.index_put((m,), F.softmax(h[m], 0)),
    "another mask": lambda h, m: h.index_put((m,), h[h[:, 0] > 0]),
    "two masks": lambda h, m: h.index_put((m,), h[m] + h[h[:, 0] > 0]),
    "all rows": lambda h, m: h.index_put((m,), h[m] + h),
    "count": lambda h, m: h * h[m].shape[0],
    "turned": lambda h, m: h @ (W.T @ h[m].T @ h[m]),
    "twice": lambda h, m: h * h[m][h[m][:, 0] > 0].sum(),
    "given out": lambda h, m: h[m],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    class One(nn.Module):
        def forward(self, h: Any, m: Any) -> Any:
            return REFUSED[name](h, m)

    message = r"test_selected.py:\d+: .*indexing with a mask is not supported where"
    with pytest.raises(CompileError, match=message):
        rt.compile(One(), (torch.ones(3, 4), torch.tensor([True, False, True])))


def test_left_out_rows_leave_no_trace() -> None:
    """Of numbers that no row should have."""
    weight = torch.randn(4, 4, requires_grad=True)

    def cell(x: Any, h: Any) -> Any:
        known = x[:, 0] == x[:, 0]
        h = h.clone()
        h[known] = torch.tanh(x[known] @ weight)
        return h, h

    xs = torch.randn(3, 2, 4)
    xs[1, 1] = torch.nan
    found = list[Any]()
    for run in (rt.scan, loop):
        ys, _ = run(cell, xs, torch.zeros(2, 4))
        found.append([ys, *torch.autograd.grad(ys.sum(), weight)])
    torch.testing.assert_close(*found, **CLOSE)
