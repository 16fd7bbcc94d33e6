"""Attention of several heads."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import times
from rnncc.nn.axes import transposed
from rnncc.nn.linear import matmul
from rnncc.nn.normalisation import safe_softmax, softmax


def attend(
    b: Builder,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    scale: float | None = None,
    added: SSAValue | None = None,
    safe: bool = False,
) -> tuple[SSAValue, SSAValue]:
    """softmax(scale · Q Kᵀ + added) V over the last two axes, and the weights of V.

    From "Attention is all you need" (Vaswani et al., 2017).

    Args:
        query: [..., S, d].
        key: [..., L, d].
        value: [..., L, e].
        scale: 1 / √d without it.
        added: to the scores of shape [..., S, L], with which it broadcasts.
        safe: whether rows of which all scores are -inf give zeros rather than NaN.
    """
    scale = 1 / math.sqrt(int(dims_of(query)[-1])) if scale is None else scale
    scores = times(b, matmul(b, query, transposed(b, key)), scale)
    scores = scores if added is None else b.add(scores, added)
    weights = (safe_softmax if safe else softmax)(b, scores, len(dims_of(scores)) - 1)
    return matmul(b, weights, value), weights


def by_head(b: Builder, x: SSAValue, heads: int) -> SSAValue:
    """[B, S, heads · d] as [B, heads, S, d]."""
    batch, steps, size = dims_of(x)
    apart = b.reshape(x, (batch, steps, heads, int(size) // heads))
    return b.transpose(apart, (0, 2, 1, 3))


def heads_together(b: Builder, x: SSAValue) -> SSAValue:
    """[B, heads, S, d] as [B, S, heads · d]."""
    together = b.transpose(x, (0, 2, 1, 3))
    batch, steps, heads, size = dims_of(together)
    return b.reshape(together, (batch, steps, heads * size))
