"""Cells with loops that end by a tensor's value, which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Cell = Callable[[Any, Any], tuple[Any, Any]]


def changes_what_it_may_have_given(x, h):
    y = h * 1
    z = y
    while y.norm() > 1:
        y = y * 0.5
    y += 1
    return z, torch.tanh(y + x)


def changes_one_of_two(x, h):
    a, b = h, x
    while a.norm() > 0.5:
        a = a * 0.7
        b = a
    a += 1
    return b, torch.tanh(h + x)


def changes_a_number(x, h):
    n = 0
    while h.norm() > 0.5:
        h, n = h * 0.5, n + 1
    m = n
    n += 1
    return h * m, h * n


def appends(x, h):
    hs = [h]
    while hs[-1].norm() > 0.6:
        hs.append(hs[-1] * 0.5)
    return torch.stack(hs).sum(0), h * x


def grows(x, h):
    y = h
    while y.sum() > 0:
        y = torch.cat([y, y]) - 1
    return y.sum(), h * x


def starts_with_a_number(x, h):
    total = 0
    while h.norm() > 1:
        total, h = total + h, h * 0.5
    return h + total, torch.tanh(h + x)


def makes_of_a_float(x, h):
    share = 1.0
    while h.norm() > 0.6:
        share *= 0.5
        h = h * torch.tensor([share])
    return h, torch.tanh(h + x)


def reads_a_number_as_a_key(x, h):
    n, shares = 0, {0: 0.5, 1: 0.2}
    while h.norm() > 0.5:
        h, n = h * shares.get(n, 0.9), n + 1
    return h, torch.tanh(h + x)


def reads_a_number_in_a_set(x, h):
    n = 0
    while h.norm() > 0.5:
        h, n = h * (0.5 if n % 3 in {0, 2} else 0.9), n + 1
    return h, torch.tanh(h + x)


def reads_a_number_as_text(x, h):
    n, shares = 0, {"0": 0.5, "1": 0.2}
    while h.norm() > 0.5:
        h, n = h * shares.get(f"{n}", 0.9), n + 1
    return h, torch.tanh(h + x)


def reads_a_number_s_type(x, h):
    n = 0
    while h.norm() > 0.5:
        h, n = h * (0.5 if isinstance(n, int) else 0.9), n + 1
    return h, torch.tanh(h + x)


_GIVEN = "may have given is changed in place"
REFUSED: dict[Cell, str] = {
    changes_what_it_may_have_given: _GIVEN,
    changes_one_of_two: _GIVEN,
    changes_a_number: _GIVEN,
    appends: r"changes (what it has not made|\[1\])",
    grows: r"makes torch.float64 \[6\] of torch.float64 \[3\]",
    starts_with_a_number: r"makes torch.float64 \[3\] of torch.int64 \[\]",
    makes_of_a_float: "made of a number of the run is not known",
    reads_a_number_as_a_key: "the key of a number that a tensor stands for",
    reads_a_number_in_a_set: "the key of a number that a tensor stands for",
    reads_a_number_as_text: "the (key|text) of a number that a tensor stands for",
    reads_a_number_s_type: "the type of a number that a tensor stands for",
}
"""Cells that are refused, and what is said."""
