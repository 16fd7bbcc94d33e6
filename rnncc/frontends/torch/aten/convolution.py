"""Convolutions of aten, over one axis or more, forth and back."""

from __future__ import annotations

from collections.abc import Sequence

from rnncc.frontends.torch.node_context import NodeContext, Table, Value, of_one_type, rank_of
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.nn.convolution import MAX_GROUPS
from rnncc.nn.convolution import convolution as forward_convolution
from rnncc.nn.transposed_convolution import MAX_TAPS, has_too_many_groups, transposed_convolution
from rnncc.nn.windows import Window

Sizes = Sequence[int]


def conv(
    at: NodeContext,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = (1,),
    padding: Sizes | str = (0,),
    dilation: Sizes = (1,),
    groups: int = 1,
) -> Value:
    """y[n, m, i] = bias[m] + Σ x[n, c, i · stride + k · dilation] · weight[m, c, k] over c and k"""
    taps = _taps(at, weight)
    strides, dilations = each(stride, len(taps)), each(dilation, len(taps))
    pads = _pads(padding, taps, dilations)
    windows = [Window(*numbers) for numbers in zip(taps, strides, dilations, pads, strict=True)]
    y = forward_convolution(at.b, batched(at, x, len(taps)), weight, bias, windows, groups)
    return at.b.reshape(y, at.dims)


def conv_transposed(
    at: NodeContext,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sizes = (1,),
    padding: Sizes = (0,),
    output_padding: Sizes = (0,),
    groups: int = 1,
    dilation: Sizes = (1,),
) -> Value:
    """The opposite: each element times weight is a window, laid over each other; plus bias"""
    taps = _taps(at, weight)
    rank = len(taps)
    if has_too_many_groups(dims_of(weight), groups):
        what = f"a transposed convolution in {groups} groups is not supported"
        at.refuse(what, f"{MAX_GROUPS} are")
    if max(taps) > MAX_TAPS:
        at.refuse(f"a transposed convolution with {max(taps)} taps is not supported")
    windows = [
        Window(*numbers)
        for numbers in zip(taps, each(stride, rank), each(dilation, rank), strict=True)
    ]
    x = batched(at, x, rank)
    sizes = list[tuple[Dim, int]]()
    pads = zip(each(padding, rank), each(output_padding, rank), strict=True)
    for window, size, (pad, extra) in zip(windows, dims_of(x)[2:], pads, strict=True):
        whole = (size - 1) * window.stride + window.reach
        sizes.append((whole - 2 * pad + extra, pad))
    y = transposed_convolution(at.b, x, weight, bias, windows, sizes, groups)
    return at.b.reshape(y, at.dims)


def convolution(
    at: NodeContext,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Value:
    """One of the two"""
    if transposed:
        shape = (stride, padding, output_padding, groups, dilation)
        return conv_transposed(at, x, weight, bias, *shape)
    return conv(at, x, weight, bias, stride, padding, dilation, groups)


def each(numbers: Sizes, rank: int) -> list[int]:
    """A number for each axis of space, where one may stand for all."""
    return list(numbers) * rank if len(numbers) == 1 else list(numbers)


def batched(at: NodeContext, x: Value, rank: int) -> Value:
    """[N, C, ...], N = 1 where there is none."""
    return at.b.reshape(x, (1, *dims_of(x))) if rank_of(x) == rank + 1 else x


def _taps(at: NodeContext, weight: Value) -> list[int]:
    if not all(d.is_static for d in dims_of(weight)):
        at.refuse("a convolution with weights of open sizes is not supported")
    return [int(d) for d in dims_of(weight)[2:]]


def _pads(padding: Sizes | str, taps: Sizes, dilations: Sizes) -> list[tuple[int, int]]:
    """Before and behind; to the same size the larger half stands behind."""
    if not isinstance(padding, str):
        return [(pad, pad) for pad in each(padding, len(taps))]
    spans = [(k - 1) * d if padding == "same" else 0 for k, d in zip(taps, dilations, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]


OPERATORS: Table = {
    **dict.fromkeys([f"conv{rank}d" for rank in (1, 2, 3)], of_one_type(conv)),
    **dict.fromkeys([f"conv_transpose{rank}d" for rank in (1, 2, 3)], of_one_type(conv_transposed)),
    "convolution": of_one_type(convolution),
}
