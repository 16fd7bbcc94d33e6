"""Normalisation of aten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rnncc.frontends.torch.aten.reductions import count, keep
from rnncc.frontends.torch.site import Number, Site, Table, Value, last_axes
from rnncc.ir.composites import layer_norm as build_layer_norm


def layer_norm(
    at: Site,
    x: Value,
    shape: Sequence[Any],
    weight: Value | None,
    bias: Value | None,
    epsilon: Number,
) -> tuple[Value, Value, Value]:
    """(x - mean) / √(variance + epsilon) · weight + bias; the mean, and 1 over the root"""
    axes, b = last_axes(x, len(shape)), at.b
    if len(axes) == 1:
        y, mean, std = build_layer_norm(b, x, weight, bias, axes[0], float(epsilon))
        return y, mean, b.div(at.value(1), std)
    size = count(at, x, axes)
    mean = b.div(keep(at, "sum", x, axes), size)
    rest = b.sub(x, mean)
    variance = b.div(keep(at, "sum", b.mul(rest, rest), axes), size)
    std = b.sqrt(b.add(variance, at.value(epsilon)))
    y = b.div(rest, std)
    y = y if weight is None else b.mul(y, weight)
    return (y if bias is None else b.add(y, bias)), mean, b.div(at.value(1), std)


OPERATORS: Table = {"native_layer_norm": layer_norm}
