"""Random models of convolutions, pools, other sizes, and a recurrent layer behind them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.family_recurrent import dense, layer, residual
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow, replaced
from tests.fuzz.random_nodes import UNARY
from tests.fuzz.random_onnx import finished

Sizes = list[int | str]


def _windows(g: Growing, x: Tensor) -> tuple[list[int], list[int], list[int], list[int]]:
    """Taps, strides, dilations and pads at random for the axes behind the channels."""
    rank = x.rank - 2
    taps = [g.one_of(1, 2, 3, 3, 4) for _ in range(rank)]
    strides = [g.one_of(1, 1, 2, 3) for _ in range(rank)]
    dilations = [g.one_of(1, 1, 1, 2) for _ in range(rank)]
    pads = [g.rng.randint(0, max(taps[i % rank] - 1, 0)) for i in range(2 * rank)]
    return taps, strides, dilations, pads


def _counts(
    g: Growing,
    x: Tensor,
    windows: tuple[list[int], list[int], list[int], list[int]],
    ceil: bool = False,
) -> Sizes:
    """How many windows there are along each axis; of an open one a size with a name of its own."""
    taps, strides, dilations, pads = windows
    found: Sizes = []
    for i, size in enumerate(x.dims[2:]):
        if isinstance(size, str):
            same = strides[i] == 1 and pads[i] + pads[i + len(taps)] == dilations[i] * (taps[i] - 1)
            found.append(size if same else f"{g.fresh()}?{i}")
            continue
        room = size + pads[i] + pads[i + len(taps)] - dilations[i] * (taps[i] - 1) - 1
        if room < 0:
            raise NotPossibleError
        count = -(-room // strides[i]) if ceil else room // strides[i]
        if ceil and count * strides[i] >= size + pads[i]:
            count -= 1  # a window that would begin in the pad behind is none
        found.append(count + 1)
    return found


def _spatial(g: Growing) -> tuple[Tensor, int]:
    x = g.pick(3, 5)
    channels = x.dims[1]
    if not isinstance(channels, int) or channels == 0:
        raise NotPossibleError
    return x, channels


def conv(g: Growing) -> None:
    """A convolution with groups, bias and a function."""
    x, channels = _spatial(g)
    windows = _windows(g, x)
    group = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    made = group * g.rng.randint(1, 3)
    taps, strides, dilations, pads = windows
    more: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": group}
    if g.rng.random() < 0.2 and all(isinstance(d, int) for d in x.dims[2:]):
        more["auto_pad"] = g.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
        if more["auto_pad"] == "VALID":
            sizes = _counts(g, x, (taps, strides, dilations, [0] * len(pads)))
        else:
            more["dilations"] = [1] * len(taps)
            pairs = zip(x.dims[2:], strides, strict=True)
            sizes = [-(-int(size) // stride) for size, stride in pairs]
    else:
        more["pads"] = pads
        sizes = _counts(g, x, windows)
    if g.rng.random() < 0.5:
        more["kernel_shape"] = taps
    weights = g.floats(made, channels // group, *taps)
    y = g.add("Conv", [x, weights, g.one_of("", g.floats(made))], (x.dims[0], made, *sizes), **more)
    if g.rng.random() < 0.5:
        g.add(g.one_of("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish"), [y], y.dims)


def transposed(g: Growing) -> None:
    """A transposed convolution."""
    x, channels = _spatial(g)
    taps, strides, dilations, pads = _windows(g, x)
    group = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
    made = g.rng.randint(1, 3)
    more = [g.rng.randint(0, s - 1) for s in strides]
    sizes: Sizes = []
    for i, size in enumerate(x.dims[2:]):
        if isinstance(size, str):
            sizes.append(f"{g.fresh()}?{i}")
            continue
        length = strides[i] * (size - 1) + more[i] + dilations[i] * (taps[i] - 1) + 1
        sizes.append(length - pads[i] - pads[i + len(taps)])
    if any(isinstance(s, int) and s <= 0 for s in sizes):
        raise NotPossibleError
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    weights = g.floats(channels, made, *taps)
    given = [x, weights, g.one_of("", g.floats(made * group))]
    dims = (x.dims[0], made * group, *sizes)
    g.add("ConvTranspose", given, dims, output_padding=more, **attributes)


def pool(g: Growing) -> None:
    """The largest, the mean or the norm of windows."""
    x, _ = _spatial(g)
    kind = g.one_of("MaxPool", "AveragePool", "LpPool")
    taps, strides, dilations, pads = _windows(g, x)
    ceil = kind != "LpPool" and g.opset >= 10 and g.rng.random() < 0.3
    dilated = kind == "MaxPool" and g.opset >= 10
    dilations = dilations if dilated else [1] * len(taps)
    if any(p >= t for p, t in zip(pads, [*taps, *taps], strict=True)):
        raise NotPossibleError
    sizes = _counts(g, x, (taps, strides, dilations, pads), ceil)
    more: dict[str, Any] = {"kernel_shape": taps, "strides": strides, "pads": pads}
    more |= {"ceil_mode": 1} if ceil else {}
    more |= {"dilations": dilations} if dilated else {}
    if kind == "AveragePool":
        more["count_include_pad"] = g.rng.randrange(2)
    if kind == "LpPool":
        more["p"] = g.one_of(1, 2, 3)
    g.add(kind, [x], (*x.dims[:2], *sizes), **more)


def whole(g: Growing) -> None:
    """One number of each channel, perhaps as a weight of the channel."""
    x, _ = _spatial(g)
    if 0 in x.dims[2:]:
        raise NotPossibleError
    dims = (*x.dims[:2], *(1 for _ in x.dims[2:]))
    y = g.add(g.one_of("GlobalAveragePool", "GlobalMaxPool"), [x], dims)
    if g.rng.random() < 0.5:
        g.add("Mul", [x, g.add("Sigmoid", [y], dims)], x.dims)


def norm(g: Growing) -> None:
    """Batch, instance or group norm, or a slope of each channel."""
    x, channels = _spatial(g)
    one, two = g.floats(channels), g.floats(channels)
    match g.rng.randrange(4):
        case 0:
            spread = g.constant(np.random.default_rng(0).random(channels).astype(np.float32) + 0.5)
            g.add("BatchNormalization", [x, one, two, g.floats(channels), spread], x.dims)
        case 1 if 0 not in x.dims:
            g.add("InstanceNormalization", [x, one, two], x.dims)
        case 2 if g.opset >= 21 and 0 not in x.dims:
            groups = g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])
            g.add("GroupNormalization", [x, one, two], x.dims, num_groups=groups)
        case _:
            slope = g.floats(channels, *(1 for _ in x.dims[2:]))
            g.add("PRelu", [x, slope], x.dims)


def resized(g: Growing) -> None:
    """Larger by whole factors."""
    x, _ = _spatial(g)
    factors = [g.one_of(1, 2, 3) for _ in x.dims[2:]]
    pairs = enumerate(zip(x.dims[2:], factors, strict=True))
    dims = (*x.dims[:2], *(_times(g, d, f, i) for i, (d, f) in pairs))
    scales = g.constant(np.array([1, 1, *factors], np.float32))
    mode = "linear" if x.rank < 5 and g.rng.random() < 0.4 else "nearest"
    if g.opset < 9:
        g.add("Upsample", [x], dims, mode=mode, scales=[1.0, 1.0, *map(float, factors)])
    elif g.opset < 10:
        g.add("Upsample", [x, scales], dims, mode=mode)
    elif g.opset < 11:
        g.add("Resize", [x, scales], dims, mode=mode)
    else:
        where = g.one_of("half_pixel", "asymmetric", "pytorch_half_pixel")
        more = {"nearest_mode": g.one_of("floor", "round_prefer_floor", "ceil")}
        more = more if mode == "nearest" else {}
        empty = g.constant(np.zeros(0, np.float32))
        more["coordinate_transformation_mode"] = where
        g.add("Resize", [x, empty, scales], dims, mode=mode, **more)


def _times(g: Growing, size: int | str, factor: int, axis: int) -> int | str:
    if isinstance(size, int):
        return size * factor
    return size if factor == 1 else f"{g.fresh()}?{axis}"


def padded(g: Growing) -> None:
    """More or fewer elements around the axes behind the channels."""
    x, _ = _spatial(g)
    mode = g.one_of("constant", "edge", "reflect")
    rank = x.rank - 2
    low, high = ([g.rng.randint(0, 2) for _ in range(rank)] for _ in range(2))
    least = 3 if mode == "reflect" else 1
    if any(isinstance(d, str) or d < least for d in x.dims[2:]) and mode != "constant":
        raise NotPossibleError
    sizes = [
        d + a + b if isinstance(d, int) else (d if a + b == 0 else f"{g.fresh()}?{i}")
        for i, (d, a, b) in enumerate(zip(x.dims[2:], low, high, strict=True))
    ]
    g.listed("Pad", x, {"pads": [0, 0, *low, 0, 0, *high]}, 11, (*x.dims[:2], *sizes), mode=mode)


def blocks(g: Growing) -> None:
    """Blocks of channels to space, or back."""
    x, channels = _spatial(g)
    if x.rank != 4 or not all(isinstance(d, int) for d in x.dims[1:]):
        raise NotPossibleError
    n, _, h, w = x.dims
    h, w = int(h), int(w)
    if channels % 4 == 0 and g.rng.random() < 0.6:
        more = {"mode": g.one_of("DCR", "CRD")} if g.opset >= 11 else {}
        g.add("DepthToSpace", [x], (n, channels // 4, h * 2, w * 2), blocksize=2, **more)
    elif h % 2 == w % 2 == 0:
        g.add("SpaceToDepth", [x], (n, channels * 4, h // 2, w // 2), blocksize=2)


def sequence(g: Growing) -> None:
    """The last axis becomes time, and a recurrent layer reads it."""
    x, channels = _spatial(g)
    if x.rank != 3:
        n, c, h, w = x.dims if x.rank == 4 else (0, 0, "", 0)
        if not isinstance(h, int):
            raise NotPossibleError
        x = g.add("Transpose", [x], (w, n, c, h), perm=[3, 0, 1, 2])
        if 0 in x.dims:
            raise NotPossibleError
        x = g.add("Reshape", [x, g.ints(0, 0, -1)], (w, n, channels * h))
    else:
        x = g.add("Transpose", [x], (x.dims[2], x.dims[0], channels), perm=[2, 0, 1])
    layer(g)


def elementwise(g: Growing) -> None:
    x, _ = _spatial(g)
    g.add(g.one_of(*UNARY), [x], x.dims)


def joined(g: Growing) -> None:
    """Two values along the channels."""
    x, channels = _spatial(g)
    fitting = [v for v in g.values if v.dtype == "f32" and v.rank == x.rank]
    fitting = [v for v in fitting if replaced(v.dims, 1, 0) == replaced(x.dims, 1, 0)]
    y = g.rng.choice(fitting)
    if not isinstance(y.dims[1], int):
        raise NotPossibleError
    g.add("Concat", [x, y], replaced(x.dims, 1, channels + y.dims[1]), axis=1)


MAKERS: list[Maker] = [
    *(conv, conv, conv, conv, transposed, pool, pool, whole, norm, resized, padded, blocks),
    *(sequence, elementwise, joined, residual, dense),
]


def conv_model(rng: random.Random) -> Any:
    """An image, a sound or a volume, of known and open sizes, through a few of these."""
    g = Growing(rng, opset=rng.randint(7, 25))
    axes = rng.choice([1, 1, 2, 2, 2, 3])
    names = ["W", "H", "D"]
    sizes = [rng.choice([names[i], 1, 2, 5, 8, 9]) for i in range(axes)]
    batch: int | str = rng.choice(["N", 1, 2])
    dims: Dims = (batch, rng.choice([1, 2, 3, 4, 8]), *sizes)
    g.values = [Tensor("x", dims)]
    if rng.random() < 0.3:
        g.values.append(Tensor("z", dims))
    inputs = list(g.values)
    grow(g, 1, [conv])
    grow(g, rng.randint(1, 7), MAKERS)
    return finished(g, inputs)
