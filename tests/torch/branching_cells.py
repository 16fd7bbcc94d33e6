"""Cells that branch on a tensor's value, each in another way that Python has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Cell = Callable[[Any, Any], tuple[Any, Any]]


def one_sided(x, h):
    if x.sum() > 0:
        h = torch.tanh(h + x)
    return h * 2, h


def two_sided(x, h):
    if torch.any(x > 1):
        new = torch.tanh(h)
        y = new + x
    else:
        y = x * h
        new = h * 0.5
    return y, new


def chain(x, h):
    if x.mean() > 0.5:
        h = h + x
    elif x.mean() > 0:
        h = h - x
    elif h.sum() > 3:
        h = h * 0.1
    else:
        h = torch.sigmoid(h) + x
    return h, h


def returns_early(x, h):
    if x.sum() < 0:
        return h, h * 0.9
    h = torch.tanh(x + h)
    return h * x, h


def returns_within(x, h):
    if x.shape[-1] > 2:
        if x.sum() < 0:
            return h, h * 0.9
        h = h + 1
    y = h * x
    if h.sum() > 2:
        return y, torch.tanh(h)
    return y * 2, torch.tanh(y)


def nested(x, h):
    if x.sum() > 0:
        if h.sum() > 0:  # noqa: SIM108
            h = torch.tanh(h - x)
        else:
            h = torch.exp(-h * h)
        y = h + 1
    else:
        y = h
    return y, h


def of_conditions(x, h):
    if x.sum() > 0 and (h.sum() > 0 or x.max() > 1) and not (x.min() < -1):
        h = torch.tanh(h + x)
    else:
        h = torch.tanh(h - x)
    return h, h


def with_python(x, h, wide=True):
    if wide and x.sum() > 0:
        h = torch.tanh(h + x)
    if not wide or h.sum() < 0:
        h = h + 0.5
    return h, h


def expression(x, h):
    y = torch.tanh(h + x) if x.sum() > 0 else h - x
    return y * (2 if h.shape[-1] > 1 else 1), y


def item(x, h):
    if x.sum().item() > 0.25 and float(h.abs().max()) < 2:
        h = torch.tanh(h + x)
    if bool((x > 1).any()):
        h = h * 0.5
    return h, h


def between(x, h):
    total = x.sum()
    if -1 < total < 1:
        h = torch.tanh(h + x)
    return h, h


def of_nests(x, h):
    parts, info = (x, h), {"scale": x}
    if x.sum() > 0:
        parts, info = (torch.tanh(x), parts[1]), {"scale": h}
    return parts[0] + info["scale"], torch.tanh(parts[1] + parts[0])


def infinite_apart(x, h):
    total = x.sum()
    if total > 0:  # noqa: SIM108
        h = torch.log(total) + h * 0.5
    else:
        h = torch.sqrt(-total) * 0.1 + h * 0.5
    return h, h


def in_loops(x, h):
    for k in range(3):
        if h.sum() > k:  # noqa: SIM108
            h = h - x * 0.1
        else:
            h = h + torch.tanh(x) * (k + 1)
    return h, h


def goes_on(x, h):
    for k in range(3):
        if h.sum() > k:
            continue
        h = h + torch.tanh(x) * (k + 1)
    return h, h


def of_flags_within_flags(x, h):
    g = x.dim() > 5 or (x.dim() > 0 and any([x.sum() > 0, h.max() > 0.5]))
    return (h if g else x), torch.tanh(h + x)


def of_flags(x, h):
    up = x.sum() > 0 and h.sum() > 0
    down = not up
    if any([up, x.max() > 1]) or all(v < 0 for v in (x.sum(), h.sum())):
        h = torch.tanh(h + x)
    elif down:
        h = torch.tanh(h - x)
    return h, h


def of_checks(x, h):
    low, high = x < 50, x > -50
    assert low.all() or high.all(), "far"
    if not low.all() and not high.all():
        raise ValueError("far")
    return h, torch.tanh(h + x)


def ends_or_not(x, h):
    for _ in range(3):
        h = torch.tanh(h + x)
        if not (h.abs() < 0.9).any().item():
            break
    else:
        h = h * 2
    return h, h


def ends_a_loop(x, h):
    for k in range(3):
        h = torch.tanh(h + x)
        if h.sum() > 0:
            h = h * 2
            break
        h = h - k
    return h, h


def halts(x, h):
    total, y = h.sum() * 0, h * 0
    for _ in range(3):
        h = torch.tanh(h + x)
        if total < 0.9:
            share = torch.sigmoid(h.mean())
            total, y = total + share, y + share * h
        else:
            break
    return y, h


def ends_loops_within(x, h):
    for _ in range(2):
        h = torch.tanh(h + x)
        for _ in range(2):
            h = h - 0.1
            if h.mean() < 0.3:
                h = h + x
                break
            h = h * 0.9
        if h.sum() > 0:
            break
        h = h + 0.2
    return h, h


def of_texts(x, h, least="0.1"):
    if float(least) < x.sum() and bool(x.shape) and float(x.max()) < 3:
        h = torch.tanh(h + x)
    return h, h


def changed_in_place(x, h):
    if x.sum() > 0:
        y = x.clone()
        y[..., 0] = 0
        y += h
    else:
        y = h * 2
    return y, torch.tanh(y)


def augmented(x, h):
    y = x * 2
    if x.sum() > 0:
        y = y + 0
        h = h + y  # type: ignore[unbound-name]
    h = h * 1
    h *= 0.5
    return y, h


def of_inner_functions(x, h):
    def step(v):
        if v.sum() > 0:
            return torch.tanh(v)
        return v * 0.5

    return step(x + h), step(h - x)


def helper(x, h):
    if (x > h).all():
        return x
    return h


def by_helper(x, h):
    return helper(x, h) * 2, torch.tanh(helper(h, x))


def of_views(x, h):
    one, other = h[..., :2], h[..., 1:]
    y = one if x.sum() > 0 else other
    return y * 2, torch.tanh(h + x)


def of_numbers_of_tensors(x, h):
    low, most = float(h.min()), int(x.abs().sum())
    if low < 0 and most % 2 == 0:
        h = h - low
    return h * low, torch.tanh(h + x * most)


def of_none(x, h):
    extra = None
    if x.sum() > 0:
        h = torch.tanh(h + x)
        extra = None
    return h if extra is None else extra, h


def of_numbers(x, h):
    scale, shift = (0.5, 1.0) if x.sum() > 0 else (2.0, 0.0)
    return h * scale, torch.tanh(h + x * scale + shift)


def reads_what_a_loop_made(x, h):
    for value in x:
        p = torch.sigmoid(h + value)
        h = torch.tanh(p - 0.1)
        if p.mean() > 0.6:
            break
    return h, p  # type: ignore[unbound-name]


def computes_with_a_number(x, h):
    scales = {"h": h.norm().item()}
    return (x * float(x.max())).clamp(max=h.max().item()), torch.tanh(x + h * scales["h"])


def computes_with_a_list(x, h):
    a, b, _ = (x * 0.5).tolist()
    return h * a, torch.tanh(x + h * b)


class Attributes(nn.Module):
    """A cell that keeps what a branch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.held = torch.zeros(3, dtype=torch.float64)

    def forward(self, x, h):
        if x.sum() > 0:
            self.held = torch.tanh(h) * 2
        else:
            self.held = self.held * 0.5
        return self.held + h, torch.tanh(h + x)


def appends_to_lists(x, h):
    """Both ways append, in the same order; one list is taken apart later."""
    ys, sizes = [h], []
    for k in range(2):
        if (x * (k + 1) - h).sum() > 0:
            h = torch.tanh(h + x)
            ys.append(h)
            sizes.append(h.abs().sum())
        else:
            ys.append(h * 2)
            sizes.append(x.abs().mean())
    return torch.stack(ys).sum(0) * sizes[-1], torch.tanh(ys[1] + ys[2])


CELLS: list[Cell] = [
    appends_to_lists,
    of_numbers,
    reads_what_a_loop_made,
    computes_with_a_number,
    computes_with_a_list,
    one_sided,
    two_sided,
    chain,
    returns_early,
    returns_within,
    nested,
    of_conditions,
    with_python,
    expression,
    item,
    between,
    of_nests,
    infinite_apart,
    in_loops,
    goes_on,
    ends_a_loop,
    ends_or_not,
    of_flags,
    of_flags_within_flags,
    of_checks,
    ends_loops_within,
    of_texts,
    halts,
    changed_in_place,
    augmented,
    of_inner_functions,
    by_helper,
    of_none,
    of_numbers_of_tensors,
]


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.__bias = nn.Parameter(torch.full((3,), 0.1))

    def new(self, x, h):
        return torch.tanh(self.layer(x) + h + self.__bias)


class Method(Base):
    """A cell that is a method, with `super()` and a private name in a branch."""

    def new(self, x, h):
        if x.sum() > 0:
            return super().new(x, h)
        return h * 0.5

    def forward(self, x, h):
        h = self.new(x, h)
        return h, h


def closure() -> Cell:
    """A cell that is made by a function."""
    scale = torch.tensor(0.5)

    def cell(x, h):
        if x.sum() > 0:
            h = torch.tanh(h * scale + x)
        return h, h

    return cell
