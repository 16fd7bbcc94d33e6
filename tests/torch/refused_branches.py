"""Cells that branch on a tensor's value and are refused, and what is said."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Cell = Callable[[Any, Any], tuple[Any, Any]]


class Keeping(nn.Module):
    """What cells below change."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.log, self.held = 0, list[Any](), torch.zeros(3)
        self.register_buffer("average", torch.zeros(3))


KEPT = Keeping()


def counts(x, h):
    if x.sum() > 0:
        KEPT.count += 1
    return h, h * x


def appends(x, h):
    if x.sum() > 0:
        KEPT.log.append(x)
    return h, h * x


def appends_here(x, h):
    out = [h]
    if x.sum() > 0:
        out.append(x)
    return torch.stack(out).sum(0), h * x


def appends_in_another_order(x, h):
    ys, zs = [], []
    if x.sum() > 0:
        ys.append(x)
        zs.append(h)
    else:
        zs.append(x)
        ys.append(h)
    return torch.stack([*ys, *zs]).sum(0), h * x


def appends_to_what_is_known_elsewhere(x, h):
    ys = [h]
    KEPT.log = ys
    if x.sum() > 0:
        ys.append(x)
        h = KEPT.log[-1] * 2
    else:
        ys.append(h)
        h = KEPT.log[-1] * 3
    return h, h * x


def keeps(x, h):
    if x.sum() > 0:
        KEPT.held = x
    return h + KEPT.held, h * x


def changes_what_it_gave(x, h):
    y, z = x * 1, h * 1
    if x.sum() > 0:
        z = y
    z += 1
    return y, h * z


def changes_what_it_took(x, h):
    y, z = x * 1, h * 1
    if x.sum() > 0:
        z = y
    y += 1
    return y, h * z


def of_two_types(x, h):
    y = h.float() if x.sum() > 0 else h
    return y.to(h.dtype), h * x


def of_two_shapes(x, h):
    y = h[:1] if x.sum() > 0 else h
    return y.sum() + h, h * x


def tensor_or_none(x, h):
    y = x if x.sum() > 0 else None
    return h if y is None else y, h * x


def unbound(x, h):
    if x.sum() > 0:
        y = x
    return y, h * x  # type: ignore[unbound-name]


def stale(x, h):
    for k in range(3):
        if k > 0:
            y = h
        if h.sum() > 0:
            y = x
        if k > 0:
            h = h + y  # type: ignore[unbound-name]
    return h, h * x


def counts_on(x, h):
    for _ in itertools.count():
        h = torch.tanh(h + x)
        if h.sum() > 0:
            break
    return h, h


def read_by_a_function(x, h):
    def double():
        return h * 2

    y = h
    if x.sum() > 0:
        h = h + 1
        y = double()
    return y, h * x  # type: ignore[unbound-name]


def counts_in_a_function(x, h):
    n = 0

    def count():
        nonlocal n
        n += 1
        return h * 2

    y = count() if x.sum() > 0 else h
    return y * n, h * x


def next_item(x, h):
    items = iter([1, 2, 3])
    k = next(items) if x.sum() > 0 else 1
    if h.sum() > 0:
        k = next(items)
    return h * k, h * x


def read_by_another_name(x, h):
    other = KEPT
    y = h
    if x.sum() > 0:
        KEPT.held = x
        y = other.held * 2
    return y, h * x  # type: ignore[unbound-name]


def is_true(x, h):
    flag = x.sum() > 0 and h.sum() > 0
    return (h if flag is True else h * x), h + x


def of_one_or_a_number(x, h):
    flag = x.sum() > 0 and 3
    return h * flag, h + x


def changes_a_number(x, h):
    n = 0.5 if x.sum() > 0 else 2.0
    m = n
    n += 1
    return h * m, h * n


REFUSED: dict[Cell, str] = {
    counts: "leaves the cell by other ways|changed in place",
    appends: "changes",
    appends_here: "changes",
    appends_in_another_order: "changes",
    appends_to_what_is_known_elsewhere: "changes",
    keeps: "float32",
    changes_what_it_gave: "may have given is changed in place",
    changes_what_it_took: "may have given is changed in place",
    of_two_types: "float64",
    of_two_shapes: r"changes type|\[1\], and the other one",
    tensor_or_none: "float32|None|same dim",
    unbound: "DELETE_DEREF|not associated with a value|undefined",
    stale: "undefined local|not associated with a value",
    counts_on: "what has no length|hasattr|cannot be compiled",
    read_by_a_function: "that an inner function reads",
    counts_in_a_function: "changes",
    next_item: "next item|changes",
    read_by_another_name: "changes",
    is_true: "`is` true",
    of_one_or_a_number: "something else than true or false",
    changes_a_number: "may have given is changed in place",
}
"""Cells that are refused, and what is said."""
