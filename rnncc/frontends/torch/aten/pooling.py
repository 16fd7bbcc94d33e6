"""Pooling of aten, over one axis or more; the first of equal largest elements has the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import getitem

from rnncc.frontends.torch.aten.convolution import batched, each
from rnncc.frontends.torch.node_context import NodeContext, Table, Value
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.nn import pooling
from rnncc.nn.windows import Window

Sizes = Sequence[int]


def max_pool(
    rank: int,
    at: NodeContext,
    x: Value,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> Value:
    """The largest element of each window"""
    windows = _windows(rank, kernel, stride, padding, dilation, ceil_mode)
    return at.b.reshape(pooling.max_pool(at.b, _batch(at, x, rank), windows), at.dims)


def max_pool_with_places(
    rank: int,
    at: NodeContext,
    x: Value,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:
    """The same; and where in a flat channel it stands, if that is asked for"""
    y = max_pool(rank, at, x, kernel, stride, padding, dilation, ceil_mode)
    if not _asks_for_places(at):
        return y, None
    x = _batch(at, x, rank)
    windows = _windows(rank, kernel, stride, padding, dilation, ceil_mode)
    return y, at.b.reshape(pooling.max_places(at.b, x, windows), at.dims)


def average_pool(
    rank: int,
    at: NodeContext,
    x: Value,
    kernel: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window, of its elements within x or of the pads too"""
    windows = _windows(rank, kernel, stride, padding, (1,), ceil_mode)
    y = pooling.average_pool(
        at.b, _batch(at, x, rank), windows, count_include_pad, divisor_override
    )
    return at.b.reshape(y, at.dims)


def adaptive_average_pool(rank: int, at: NodeContext, x: Value, sizes: Sizes) -> Value:
    """The mean of so many parts of each axis"""
    y = pooling.adaptive_pool(at.b, "mean", _batch(at, x, rank), each(sizes, rank))
    return at.b.reshape(y, at.dims)


def adaptive_max_pool(rank: int, at: NodeContext, x: Value, sizes: Sizes) -> tuple[Value, None]:
    """The largest element of so many parts of each axis; their places are refused"""
    if _asks_for_places(at):
        at.refuse("places of an adaptive pool's largest elements are not supported")
    y = pooling.adaptive_pool(at.b, "max", _batch(at, x, rank), each(sizes, rank))
    return at.b.reshape(y, at.dims), None


def _batch(at: NodeContext, x: Value, rank: int) -> Value:
    if dtype_of(x) not in FLOATS:
        at.refuse(f"pooling of {dtype_of(x)} is not supported")
    return batched(at, x, rank)


def _windows(
    rank: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, rounds_up: bool
) -> list[Window]:
    numbers = (kernel, stride or kernel, dilation, padding)
    axes = zip(*(each(n, rank) for n in numbers), strict=True)
    return [Window(taps, step, apart, (pad, pad), rounds_up) for taps, step, apart, pad in axes]


def _asks_for_places(at: NodeContext) -> bool:
    """Whether anything reads the second of the operator's results, or all of them."""
    users = at.node.users
    return any(user.target is not getitem or user.args[1] == 1 for user in users)


RANKS = (1, 2, 3)
OPERATORS: Table = {
    **{f"max_pool{rank}d": partial(max_pool, rank) for rank in RANKS},
    **{f"max_pool{rank}d_with_indices": partial(max_pool_with_places, rank) for rank in RANKS},
    **{f"avg_pool{rank}d": partial(average_pool, rank) for rank in RANKS},
    **{f"adaptive_avg_pool{rank}d": partial(adaptive_average_pool, rank) for rank in RANKS},
    **{f"_adaptive_avg_pool{rank}d": partial(adaptive_average_pool, rank) for rank in (2, 3)},
    **{f"adaptive_max_pool{rank}d": partial(adaptive_max_pool, rank) for rank in RANKS},
}
