"""Convolutions of aten, over one axis."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.frontends.torch.site import Site, Table, Value, rank_of
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import convolution as build_convolution


def conv1d(
    at: Site,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    """y[n, m, i] = bias[m] + the sum over c and k of x[n, c, i · stride + k · dilation] · weight"""
    b = at.b
    batch = b.reshape(x, (1, *dims_of(x))) if rank_of(x) == 2 else x
    rows = b.transpose(batch, [0, 2, 1])
    pads = [(padding[0], padding[0])]
    try:
        y = build_convolution(b, rows, weight, stride, pads, dilation, groups)
    except ValueError as error:
        at.refuse(str(error))
    y = y if bias is None else b.add(y, bias)
    return b.reshape(b.transpose(y, [0, 2, 1]), at.dims)


def convolution(
    at: Site,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """The same, with more arguments; transposed ones and those over more axes are refused"""
    if transposed or len(stride) != 1:
        at.refuse("only convolutions over one axis are supported, and none transposed")
    return conv1d(at, x, weight, bias, stride, padding, dilation, groups)


OPERATORS: Table = {
    "conv1d.default": conv1d,
    "convolution": convolution,
}
