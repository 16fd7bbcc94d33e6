"""Numbers that modules take out of tensors which they make of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Computing(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def axes_in_a_list(x: Any) -> Any:
    return x - x.mean(torch.arange(1, x.dim()).tolist(), keepdim=True)


def grid_of_times(x: Any) -> Any:
    times = torch.linspace(0, 1, 5)
    for k in range(int(((times[-1] - times[0]) / 0.25).ceil())):
        if times[k] < 0.4:
            x = x + torch.tanh(x) * times[k]
    return x


def sum_of_changed_rows(x: Any) -> Any:
    table = torch.arange(6).view(2, 3)
    table.t()[1].mul_(10)
    return x * table.sum().item()


def of_what_is_written_over(x: Any) -> Any:
    row, kept = torch.arange(3.0), torch.tensor([2.0, 3.0])
    before = row.clone()
    row.zero_()
    torch.add(kept, 1, out=kept)
    return x * float(before[2]) + float(row[2]) + float(kept[0])


def of_what_depends_on_data(x: Any) -> Any:
    row = torch.arange(3.0)
    row[1] = x.sum()
    return x * row[1] + row * float(torch.arange(3.0)[2])


@pytest.mark.parametrize(
    "function",
    [
        axes_in_a_list,
        grid_of_times,
        sum_of_changed_rows,
        of_what_is_written_over,
        of_what_depends_on_data,
    ],
)
def test_values_are_known(function: Callable[[Any], Any]) -> None:
    """Until something changes them, also by way of a view."""
    net, rows = Computing(function), torch.export.Dim("N")
    compiled = rt.compile(net, (torch.randn(2, 4, 3),), dynamic_shapes={"x": {0: rows}})
    for count in (1, 5):
        x = torch.randn(count, 4, 3)
        torch.testing.assert_close(compiled(x), net(x), atol=1e-5, rtol=1e-5)


def carried_number(x: Any) -> Any:
    n = torch.tensor(0)
    while x.sum() < 100:
        x = x * (1 + int(n)) + 1
        n = n + 1
    return x


def carried_test(x: Any) -> Any:
    n = torch.tensor(0)
    while x.sum() < 100:
        if n < 1:
            x = x * 2
        x, n = x + 1, n + 1
    return x


def changed_in_a_branch(x: Any) -> Any:
    n = torch.tensor(0)
    if x.sum() > 20:
        n.copy_(torch.tensor(5))
    if n > 3:
        x = x * 10
    return x * (1 + int(n))


def changed_in_a_loop_by_another_name(x: Any) -> Any:
    n = torch.tensor(0)
    row = n.view(1)
    while x.sum() < 50:
        row.add_(1)
        x = x + 3
    if n > 3:
        x = x * 10
    return x * (1 + int(n))


def read_and_changed_in_a_loop(x: Any) -> Any:
    n = torch.tensor(0)
    while x.sum() < 50:
        x = x + 3 + n.item()
        n.add_(1)
    return x * (1 + int(n))


def written_over_by_data(x: Any) -> Any:
    row = torch.tensor([1.0, 2.0])
    row[1] = x.sum()
    if row[1] > 5:
        x = x * 10
    return x


def range_written_by_a_slice(x: Any) -> Any:
    rows = torch.arange(4.0)
    rows[1:3].fill_(x.sum())
    return x * rows[:3]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        range_written_by_a_slice,
        carried_number,
        carried_test,
        changed_in_a_branch,
        changed_in_a_loop_by_another_name,
        read_and_changed_in_a_loop,
        written_over_by_data,
    ],
)
def test_values_that_data_changes_are_not_known(function: Any, whole: bool) -> None:
    """A branch is read both ways, and a loop once."""
    rows, net = torch.tensor([1.0, 5.0, 0.1, 32.0]).view(4, 1).expand(4, 3), Computing(function)
    compiled = rt.compile(net, (rows[0],)) if whole else None
    for x in rows:
        with torch.no_grad():
            if compiled is not None:
                got = compiled(x)
            else:
                got = rt.scan(lambda row, h: (function(row), h), x[None], torch.zeros(1))[0][0]
        torch.testing.assert_close(got, function(x), atol=1e-5, rtol=1e-5)


def test_a_loop_that_changes_a_constant_after_its_first_iteration_is_refused() -> None:
    """Its body is read once, with the value that the first iteration left."""

    def halved(x: Any, h: Any) -> tuple[Any, Any]:
        n, error = torch.tensor(0), float("inf")
        while error > 1:
            x = x * 0.5
            error = x.abs().max()
            n.add_(1)
        return x * int(n), h

    with pytest.raises(CompileError, match="begins as a constant"):
        rt.scan(halved, torch.ones(2, 3), torch.zeros(1))


def test_lists_of_tensors_that_an_operator_changes_are_not_known() -> None:
    """PyTorch looks for known values among operands, not within lists of them."""

    def function(x: Any) -> Any:
        n = torch.tensor(2.0)
        torch._foreach_add_([n], [x.sum()])
        return x * 2 if n > 3 else x * 5

    with pytest.raises(CompileError, match="_foreach_add"):
        rt.compile(Computing(function), (torch.ones(3),))


def size_of_a_list(x: Any, h: Any) -> tuple[Any, Any]:
    rows, times = torch.tensor([2, 3]).tolist()
    for k in range(torch.tensor([1, times]).max().item()):
        h = torch.tanh(h * (k + 1) + x)
    return h[:rows], h


def number_of_a_changed_list(x: Any, h: Any) -> tuple[Any, Any]:
    sizes = torch.tensor([2, 3])
    if x.sum() > 0:
        sizes.mul_(2)
    return h + int(sizes[0]) + x, h + 1


def list_written_from_an_open_size_on(x: Any, h: Any) -> tuple[Any, Any]:
    sizes = torch.tensor([1, 2, 3, 4, 5, 6])
    sizes[len(x) - 2 :].add_(5)
    return h + int(sizes[2]) * x, h + 1


@pytest.mark.parametrize(
    "cell", [size_of_a_list, number_of_a_changed_list, list_written_from_an_open_size_on]
)
@pytest.mark.parametrize("batch", [4, 5])
def test_cells_know_lists(cell: Any, batch: int) -> None:
    xs, h, ys = torch.randn(6, batch, 4), torch.zeros(batch, 4), list[Any]()
    got, last = rt.scan(cell, xs, h)
    for x in xs:
        y, h = cell(x, h)
        ys.append(y)
    torch.testing.assert_close((got, last), (torch.stack(ys), h), atol=1e-5, rtol=1e-5)
