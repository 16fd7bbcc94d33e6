"""Convolutions and pools over blocks of channels, com.microsoft.nchwc, which the highest level of
ONNX Runtime's optimisers writes.

Blocks are an order in memory: here such a tensor is [N, C, space...] as any other, its channels
filled up with zeros to whole blocks, and weights are put back into the order of Conv.
"""

from __future__ import annotations

import warnings

from xdsl.ir import SSAValue

from rnncc.codegen.llvm.host import host
from rnncc.frontends.onnx.node import FLOATS, Node, OnnxOperator, contributed
from rnncc.frontends.onnx.ops.contributed import activated
from rnncc.frontends.onnx.ops.conv import convolved
from rnncc.frontends.onnx.ops.pooling import OPERATORS as POOLS
from rnncc.frontends.onnx.ops.pooling import averaged, max_pooled
from rnncc.frontends.onnx.ops.resize import enlarged
from rnncc.frontends.onnx.values import Array, Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of, shape_text

WIDE, NARROW = 16, 8
"""Channels of a block, on x86-64 with AVX-512 and elsewhere."""
UNKNOWN_BLOCK = (
    "convolutions of com.microsoft.nchwc are read with {} channels a block, as ONNX Runtime has on "
    "this machine; the file does not say how many. If another kind of machine wrote it, results "
    "are wrong: save it at the extended level of optimisation, which suits all"
)
WINDOWS = "auto_pad:s dilations:ints pads:ints strides:ints kernel_shape:ints"
BETWEEN = ("asymmetric", "half_pixel", "align_corners")
"""Where elements that are made of others may lie."""


def channels_in_block() -> int:
    """How many channels stand together: the file does not say. As ONNX Runtime does, this takes it
    that a machine like this one wrote it, unless the sizes of weights show another one."""
    return WIDE if "avx512f" in host().has else NARROW


def _other_machine(n: Node, what: str) -> Exception:
    hint = "the extended level of optimisation writes graphs for any machine"
    return n.unsupported(f"{what}: written on a machine with other blocks than this one's", hint)


def _fits(weights: Array, block: int) -> bool:
    """Whether weights may be of so many channels a block."""
    outputs, channels = weights.shape[:2]
    return outputs % block == 0 and (channels < block or channels % block == 0)


def _plain(weights: Array, block: int) -> Array:
    """Weights in the order of Conv: [outputs, channels, space...], of outputs in blocks last, and
    where there is a block of channels or more, of these in blocks before."""
    outputs, channels, *sizes = weights.shape
    inner = block if channels >= block else 1
    parts = weights.reshape(outputs // block, channels // inner, *sizes, inner, block)
    last = parts.ndim - 1
    order = [0, last, 1, last - 1, *range(2, last - 1)]
    return parts.transpose(order).reshape(weights.shape)


def _conv(n: Node) -> SSAValue:
    """activation(Conv(X, W, B) + Z), with W in blocks.

    Refused: what Conv refuses; weights that are computed; blocks of other sizes than ONNX Runtime
    has on this machine, as far as sizes show it.
    """
    weights, block = n.numbers(1), channels_in_block()
    if weights.ndim != 4:
        raise n.error(f"has weights {shape_text(n.dims(1))}, expected 4 axes")
    outputs, channels = weights.shape[:2]
    if not _fits(weights, block):
        raise _other_machine(n, f"has {outputs} outputs of {channels} channels")
    if _fits(weights, WIDE + NARROW - block):
        warnings.warn(UNKNOWN_BLOCK.format(block), stacklevel=2)
    n.inputs[1] = Value.of(_plain(weights, block), n.value(1).name)
    return activated(n, n.plus(convolved(n), 3), n.reals("activation_params"))


def _image(n: Node) -> SSAValue:
    """X, which must have two axes of space."""
    if len(n.dims()) != 4:
        raise n.error(f"has data of shape {shape_text(n.dims())}, expected 4 axes")
    return n.x(0, FLOATS)


def _reorder_input(n: Node) -> SSAValue:
    """X, whose channels may stand last, with zeros behind its channels, up to whole blocks.

    Refused: elements other than floats; an open number of channels.
    """
    x, block = _image(n), channels_in_block()
    if n.flag("channels_last", 0):
        x = n.b.transpose(x, [0, 3, 1, 2])
    channels = dims_of(x)[1]
    if not channels.is_static:
        raise n.unsupported(f"has {channels} channels, which is open")
    return n.b.pad(x, 1, 0, channels.over(block) * block, 0.0)


def _reorder_output(n: Node) -> SSAValue:
    """The first channels of X, which then may stand last.

    Refused: elements other than floats.
    """
    x, channels, block = _image(n), n.integer("channels"), channels_in_block()
    whole = dims_of(x)[1]
    if Dim.of(channels).over(block) * block != whole:
        raise _other_machine(n, f"has {channels} of {whole} channels")
    y = n.b.slice(x, 1, 0, channels)
    return n.b.transpose(y, [0, 2, 3, 1]) if n.flag("channels_last", 0) else y


def _max_pool(n: Node) -> SSAValue:
    """The largest element of each window.

    Refused: auto_pad SAME_UPPER and SAME_LOWER with windows shorter than their stride.
    """
    return max_pooled(n)[0]


def _average_pool(n: Node) -> SSAValue:
    """The mean of each window, of its elements within X or of all.

    Refused: what AveragePool refuses.
    """
    return averaged(n, n.x(0, FLOATS))


def _upsample(n: Node) -> SSAValue:
    """X larger by whole factors: each element repeated, or sums of neighbours by linear weights.

    Refused: elements other than floats.
    """
    coordinates = n.one_of("coordinate_transformation_mode", BETWEEN, "asymmetric")
    mode = n.one_of("mode", ("nearest", "linear"), "nearest")
    return enlarged(n, n.x(0, FLOATS), n.integers("scales"), mode, coordinates)


OPERATORS: dict[str, OnnxOperator] = {
    f"com.microsoft.nchwc.{name}": operator
    for name, operator in {
        "Conv": contributed(
            _conv, "X W B? Sum?", f"activation:s activation_params:floats group:i {WINDOWS}"
        ),
        "MaxPool": contributed(_max_pool, "X", f"ceil_mode:i storage_order:i {WINDOWS}!"),
        "AveragePool": contributed(
            _average_pool, "X", f"ceil_mode:i count_include_pad:i {WINDOWS}!"
        ),
        **{
            name: contributed(POOLS[name].build, "X")
            for name in ("GlobalMaxPool", "GlobalAveragePool")
        },
        "ReorderInput": contributed(_reorder_input, "X", "channels_last:i"),
        "ReorderOutput": contributed(_reorder_output, "X", "channels:i! channels_last:i"),
        "Upsample": contributed(
            _upsample, "X", "coordinate_transformation_mode:s mode:s scales:ints!"
        ),
    }.items()
}
