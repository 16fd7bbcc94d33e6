"""Cells with loops that end by a tensor's value, each written in another way."""

# pyright: reportPossiblyUnboundVariable=false
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


def until_small(x, h):
    while h.norm() > 1:
        h = h * 0.7 + x * 0.01
    return h, torch.tanh(h + x)


def breaks(x, h):
    while True:
        new = torch.tanh(0.5 * h + x)
        if (new - h).abs().max() < 1e-2:
            break
        h = new
    return new - h, torch.tanh(h + new)


def breaks_in_the_middle(x, h):
    n = 0
    while n < 20:
        n += 1
        h = h * 0.8
        if h.norm() < 0.5:
            break
        extra = torch.sigmoid(h)
        h = h - 0.1 * extra
    return h + n, torch.tanh(h + x)


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


def returns_from_for(x, h):
    for k in range(4):
        h = torch.tanh(h + 0.3 * x)
        if h.sum() > 0.5:
            y = h * (k + 1)
            return y, h
    return h, h * 0.1


def halts(x, h):
    total, y, steps = h.new_zeros(()), h * 0, 0
    while total < 0.9 and steps < 10:
        h = torch.tanh(h + x)
        p = torch.sigmoid(h.mean())
        p = torch.where(total + p > 0.9, 1 - total, p)
        y = y + p * h
        total = total + p
        steps += 1
    return y, h * 0.9


def sums(x, h):
    total = 0
    while total < 2:
        h = torch.tanh(h + x)
        total += h.abs().mean() + 0.1
    return h * total, h


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


def branches_within(x, h):
    step, best = 1.0, (h * h).sum()
    for _ in range(2):
        while step > 0.1:
            new = h - step * torch.tanh(h - x)
            value = (new * new).sum()
            if value < best:
                h, best = new, value
            else:
                step = step * 0.5
            if best < 0.1:
                break
        step = 0.5
    return h, torch.tanh(h + x)


def of_items(x, h):
    n = 0
    while (h.abs() > 1).any().item() and n < 12:
        h = h * 0.9
        n = n + 1
    return h, torch.tanh(h + x)


def of_nests(x, h):
    state = {"h": h, "c": (x, 0)}
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


class Module(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.most = nn.GRUCell(3, 3), 7

    def forward(self, x, h):
        count = 0
        while True:
            h = self.cell(x, h)
            count += 1
            if h.abs().max() > 0.4 or count >= self.most:
                break
        return h / count, h


CELLS: list[Cell] = [
    fixed_point,
    until_small,
    breaks,
    breaks_in_the_middle,
    goes_on,
    returns,
    returns_from_for,
    halts,
    sums,
    within,
    branches_within,
    of_items,
    of_nests,
    masked,
    by_helper,
]
