"""Numbers that modules take out of tensors which they make of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
