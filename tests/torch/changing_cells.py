"""Cells whose branches and loops on a tensor's value change in place what was made before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Cell = Callable[[Any, Any], tuple[Any, Any]]


def adds(x, h):
    y = h * 1
    z = y
    if x.sum() > 0:
        y += x
    else:
        y.mul_(0.5)
    return y * z, h * x


def writes(x, h):
    y = torch.zeros(4, 3, dtype=h.dtype)
    if x.sum() > 0:
        y[1] = h
        y[2, y[1] < 0] = 0.25
    elif h.sum() > 0:
        y[:, 1:] += x[1:]
    return y.sum(0), h * x


def by_a_view(x, h):
    y = torch.stack([x, h])
    row = y[1]
    if x.sum() > 0:
        row += 1
        if h.sum() > 0:
            row *= x
    y[0] += row
    return y[0], y[1] * 0.5


def by_a_function(x, h):
    y = h * 1

    def add():
        return y.add_(x)

    z = add() if x.sum() > 0 else h * 2
    return z, y * x


def of_a_loop(x, h):
    y, k, steps = h * 1, 0, torch.zeros(3, dtype=h.dtype)
    z = y
    while y.norm() > 0.5 and k < 3:
        y *= 0.6
        steps[k] = y.sum()
        k += 1
    return steps, torch.tanh(y + z + x)


def within_a_loop(x, h):
    y, k = torch.zeros(3, 3, dtype=h.dtype), 0
    while h.norm() > 0.5 and k < 3:
        n = 0
        while h.sum() > 0 and n < 4:
            y[k] += h
            h, n = h - 0.3, n + 1
        if x.sum() > 0:
            y[k, 0] = 0.5
        h, k = h * 0.7, k + 1
    return y.sum(0), torch.tanh(h + x)


def in_place_alone(x, h):
    y = h * 1
    while y.norm() > 0.5:
        y.mul_(0.6).sub_(0.1 * y)
    return y * x, torch.tanh(y)


def guards_an_index(x, h):
    k = 0
    while k < len(x) and (x[k] > -1 or h[k] > 0):
        h = torch.tanh(h + x[k])
        k += 1
    return h * k, h


def returns_what_it_changes(x, h):
    y, k = h * 1, 0
    while k < 3:
        if y.norm() > x[k]:
            y += x
            return y, h * x
        k += 1
    return y * 2, h * x


def chooses_a_function(x, h):
    f = torch.tanh if x.sum() > 0 else torch.sin
    if h.sum() > 0:
        f = _scaled(f)
    return f(f(h + x)), h * x


def _scaled(f):
    return lambda x: 0.5 * f(x)


class Averages(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.average: Any
        self.register_buffer("average", torch.ones(3, dtype=torch.float64))

    def forward(self, x, h):
        if x.sum() > 0:
            self.average.mul_(0.9).add_(h.detach(), alpha=0.1)
        return h + self.average, h * x


TAKEN: list[Cell] = [
    adds,
    writes,
    by_a_view,
    by_a_function,
    of_a_loop,
    within_a_loop,
    in_place_alone,
    guards_an_index,
    returns_what_it_changes,
    chooses_a_function,
]


def and_reads_another_view(x, h):
    y = torch.stack([x, h])
    row = y[1]
    if x.sum() > 0:
        row += 1
        y[0] += row
    return y[0], h * x


def one_of_two_variables(x, h):
    y, k = h * 1, 0
    z = y
    while y.norm() > 0.5 and k < 3:
        y *= 0.6
        z = z + 1
        k += 1
    return z, torch.tanh(y + x)


def and_replaces_it(x, h):
    y, k = h * 1, 0
    while y.norm() > 0.5 and k < 3:
        y *= 0.6
        y = y + 0.1
        k += 1
    return y, h * x


def changes_nothing(x, h):
    while h.norm() > 9:
        pass
    return h, x


def asks_a_function(x, h):
    f = torch.nn.Tanh() if x.sum() > 0 else torch.nn.Softplus()
    return f(h), h * x + f.beta


def uses_what_a_way_made(x, h):
    f = torch.tanh
    if x.sum() > 0:
        scale = x * 2
        f = lambda x: x * scale  # noqa: E731
    return f(h), h * x


_NAMES = "in place that it has not made, and reads it by several names"
REFUSED: dict[Cell, str] = {
    and_reads_another_view: _NAMES,
    one_of_two_variables: _NAMES,
    and_replaces_it: "in place that it has not made, and replaces it",
    changes_nothing: "changes nothing",
    asks_a_function: "is asked for beta",
    uses_what_a_way_made: "leaves more than its results|DELETE_DEREF",
}
"""Cells that are refused in a module, and what is said."""
