"""Cells with loops that end by a tensor's value, each written in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Cell = Callable[[Any, Any], tuple[Any, Any]]


def fixed_point(x, h):
    err, n = float("inf"), 0
    while err > 1e-2 and n < 30:
        new = torch.tanh(0.5 * h + x)
        err = (new - h).abs().max()
        h = new
        n += 1
    return h * n, h


def breaks(x, h):
    while True:
        new = torch.tanh(0.5 * h + x)
        if (new - h).abs().max() < 1e-2:
            break
        h = new
    return new - h, torch.tanh(h + new)


def goes_on(x, h):
    n = 0
    while n < 10 and h.sum() > -5:
        n += 1
        if h[..., 0].sum() > 0:
            h = h - 0.5
            continue
        if h[..., 1].sum() > 1:
            break
        h = h + 0.1
    else:
        h = h * 0.5
    return h, torch.tanh(h + x)


def returns(x, h):
    n = 0
    while n < 8:
        h = torch.tanh(0.9 * h + x)
        if h.abs().max() < 0.8:
            return h * 2, h
        n += 1
    return h, h * 0.1


def takes_a_float_out_of_a_flag(x, h):
    n = 0
    while n < 4 and h.norm() > 0.5:
        h = h * 0.7 + 0.1 * x * float(n == 1)
        n += 1
    return h, torch.tanh(h + x)


def returns_from_for(x, h):
    for k in range(4):
        h = torch.tanh(h + 0.3 * x)
        if h.sum() > 0.5:
            y = h * (k + 1)
            return y, h
    return h, h * 0.1


def sums(x, h):
    total = 0
    while total < 2:
        h = torch.tanh(h + x)
        total += h.abs().mean() + 0.1
    return h * total, h


def by_quarters(x, h):
    n = torch.zeros((), dtype=h.dtype)
    while n < 2:
        h = torch.tanh(h + x)
        n = torch.add(n, 1, alpha=0.25)
    return h, h


def within(x, h):
    k = 0
    while h.norm() > 0.5 and k < 5:
        j = 0
        while h.sum() > 0.2 * j and j < 4:
            h = h - 0.2
            j += 1
        h = h * 0.8
        k += 1
    return h * k, torch.tanh(h + x)


def of_nests(x, h):
    state: dict[str, Any] = {"h": h, "c": (x, 0)}
    while state["h"].sum() > 0:
        state = {"h": state["h"] - 1, "c": (state["c"][0] * 0.5, state["c"][1] + 1)}
    return state["c"][0] * state["c"][1], torch.tanh(state["h"])


def masked(x, h):
    active, n = torch.ones(h.shape[:-1], dtype=torch.bool), 0
    while active.any() and n < 6:
        new = torch.tanh(h + x)
        h = torch.where(active[..., None], new, h)
        active = active & (h.sum(-1) > 0.3)
        n += 1
    return h, h


def helper(x, h):
    n = 0
    while (h - x).norm() > 0.5:
        h = 0.5 * (h + x)
        n += 1
    return h, n


def by_helper(x, h):
    h, n = helper(x, h)
    return h * n, h


def begins_with_none(x, h):
    last, n = None, 0
    while last is None or (h - last).norm() > 0.2:
        last = h
        h = torch.tanh(h * 0.6 + 0.2 * x)
        n += 1
    return h * n, last * 0.5


def assigns_in_its_test(x, h):
    while (size := h.norm()) > 0.6:
        h = h * 0.5
    return h * size, torch.tanh(h + x)


def of_items(x, h):
    while True:
        new = h * 0.5
        err = (new - h).norm().item()
        h = new
        if err < 0.1:
            break
    return h * err, torch.tanh(h + x)


def of_numbers(x, h):
    a, b, n, last = 1, 1, 1, 0
    while h.norm() > 0.6 and n < 9:
        last = n
        a, b = b, a + b
        h = h / (1 + 1 / n)
        n += 1
    return h * a / b + last, torch.tanh(h + x)


def ends_in_many_ways(x, h):
    for k in range(3):
        if k == 1:
            continue
        if h.norm() < 0.3:
            break
        if x.sum() > 0:
            h = h * 0.8
            if h[..., 0].sum() > 0.3:
                continue
        else:
            h = h + 0.1
            if h[..., 1].sum() > 0.5:
                break
        h = h - 0.1 * x
    else:
        h = h + 1
    return h, torch.tanh(h + x)


def returns_from_within(x, h):
    n = 0
    while n < 3:
        h, m = h * 0.9, 0
        while m < 2:
            h = h - 0.05 * x
            if h.norm() < 0.8:
                return h * n, torch.tanh(h)
            m += 1
        n += 1
    return h, torch.tanh(h + x)


def fills(x, h):
    n, share, y = 0, 1.0, h
    while y.norm() > 0.3:
        n += 1
        share *= 0.5
        one = torch.full((3,), n, dtype=torch.float64) * torch.full_like(x, share)
        several = torch.tensor([n, 2, 3]) + torch.LongTensor([n])
        kept = torch.full((3,), fill_value=2) + x.new_tensor([n, 1, n])
        y = y * 0.5 + 1e-3 * one * x.new_full((), n) * several / kept
    return torch.tanh(y + torch.full((3,), n)), h * x


def counts_up(x, h):
    for i in range(40):
        new = torch.tanh(0.5 * h + x) * 0.9**i + h / (i + 1) ** 2
        if (new - h).abs().max() < 0.3:
            break
        h = new
    return h, torch.tanh(h * i)


def counts_down(x, h):
    table = torch.linspace(-1, 1, 12, dtype=x.dtype)
    for i in range(11, 0, -2):
        h = h + x / i + table[i]
        if h.norm() < 0.3 * i:
            break
    else:
        h = -h
    return h, torch.tanh(h)


def counts_within(x, h):
    for a in range(6):
        for b in range(5):
            h = h + 0.1 * x / (a + b + 1)
            if h.norm() > 1:
                return h * a, h * 0.5
        if h.sum() > 1.5:
            break
    return h, h * 0.7


def by_keys(x, h):
    shares = {0: 0.5, 1: 0.2}
    for i in range(6):
        h = torch.tanh(h + x * shares.get(i, 0.9) * (2 if f"{i}" == "2" else 1))
        if h.norm() > 1:
            break
    return h, h * 0.5


CELLS: list[Cell] = [
    counts_up,
    counts_down,
    counts_within,
    by_keys,
    fixed_point,
    returns,
    sums,
    by_quarters,
    within,
    of_nests,
    begins_with_none,
    of_numbers,
    fills,
]
MODULES: list[Cell] = [
    counts_up,
    by_keys,
    breaks,
    goes_on,
    takes_a_float_out_of_a_flag,
    returns_from_for,
    returns_from_within,
    ends_in_many_ways,
    masked,
    assigns_in_its_test,
    of_items,
    by_helper,
    fills,
]


class Adaptive(nn.Module):
    """Adaptive computation time: (x of [N, 3], h of [N, 4]) to (the mean state, the last one)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.halt = nn.GRUCell(4, 4), nn.Linear(4, 1)

    def forward(self, x, h):
        first, halted = x.new_ones(len(x), 1), x.new_zeros(len(x))
        y, n = torch.zeros_like(h), 0
        while (halted < 0.99).any() and n < 6:
            h = self.cell(torch.cat([x, first], 1), h)
            first = torch.zeros_like(first)
            p = torch.sigmoid(self.halt(h)).squeeze(-1)
            p = torch.where(halted + p > 0.99, 1 - halted, p) * (halted < 0.99)
            halted = halted + p
            y = y + p.unsqueeze(-1) * h
            n += 1
        return y / n, h
