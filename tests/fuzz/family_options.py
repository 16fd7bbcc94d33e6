"""Random models of operators whose attributes and optional inputs the other families leave out."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from tests.frontends.onnx.models import KINDS
from tests.fuzz.growing import Dims, Growing, Maker, NotPossibleError, Tensor, grow, replaced
from tests.fuzz.random_nodes import binary, gemm, slices, squeeze, transpose, unary, unsqueeze
from tests.fuzz.random_onnx import finished

ACTIVATIONS: dict[str, dict[str, tuple[float, float]]] = {
    "LeakyRelu": {"alpha": (-0.5, 1.5)},
    "Elu": {"alpha": (0.1, 2)},
    "Selu": {"alpha": (0.5, 2), "gamma": (0.5, 2)},
    "Celu": {"alpha": (0.2, 2)},
    "HardSigmoid": {"alpha": (0.1, 1), "beta": (0, 1)},
    "ThresholdedRelu": {"alpha": (0, 1)},
    "Shrink": {"bias": (-0.5, 0.5), "lambd": (0, 1)},
    "Swish": {"alpha": (0.5, 2)},
}


def activation(g: Growing) -> None:
    x, kind = g.pick(), g.one_of(*ACTIVATIONS)
    drawn = {name: g.rng.uniform(*limits) for name, limits in ACTIVATIONS[kind].items()}
    kept: dict[str, Any] = {name: value for name, value in drawn.items() if g.rng.random() < 0.7}
    g.add(kind, [x], x.dims, **kept)


def curve(g: Growing) -> None:
    """Functions of a part of the numbers, Gelu, and Clip with either bound left out."""
    x, kind = g.pick(), g.one_of("Asin", "Acos", "Atanh", "Acosh", "Gelu", "Clip", "Clip")
    if kind == "Gelu":
        g.add(kind, [x], x.dims, **g.one_of({}, {"approximate": "tanh"}, {"approximate": "none"}))
    elif kind == "Clip" and g.opset < 11:
        g.add(kind, [x], x.dims, **g.one_of({}, {"min": -0.3}, {"max": 0.4}, {"min": 0.1}))
    elif kind == "Clip":
        low, high = g.one_of("", g.floats()), g.one_of("", g.floats())
        g.add(kind, [x, low, high], x.dims)
    else:
        half = g.constant(np.float32(0.9))
        x = g.add("Mul", [g.add("Tanh", [x], x.dims), half], x.dims)
        if kind == "Acosh":
            x = g.add("Add", [g.add("Abs", [x], x.dims), g.constant(np.float32(1.1))], x.dims)
        g.add(kind, [x], x.dims)


def logical(g: Growing) -> None:
    """Two comparisons joined; infinite and missing numbers."""
    x = g.pick()
    if g.rng.random() < 0.4:
        # of Abs: whether the zeros of Relu are negative is nobody's promise
        inverse = g.add("Reciprocal", [g.add("Abs", [x], x.dims)], x.dims)
        inverse = g.add("Neg", [inverse], x.dims) if g.rng.random() < 0.5 else inverse
        flags = {"detect_positive": g.rng.randrange(2), "detect_negative": g.rng.randrange(2)}
        made = g.add("IsInf", [inverse], x.dims, "i1", **flags)
    else:
        one, two = (g.add(k, [x, g.floats()], x.dims, "i1") for k in ("Less", "Greater"))
        made = g.add(g.one_of("And", "Or", "Xor"), [one, two], x.dims, "i1")
    g.cast(made, "f32")


def bits(g: Growing) -> None:
    """Integers of some width, bit by bit."""
    x, dtype = g.pick(), g.one_of("i32", "i64", "u8", "i8", "u16")
    scaled = g.add("Mul", [g.add("Sigmoid", [x], x.dims), g.constant(np.float32(90))], x.dims)
    whole = g.cast(scaled, dtype)
    kind = g.one_of("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift")
    numbers = np.array(g.rng.randint(0, 7), helper.tensor_dtype_to_np_dtype(KINDS[dtype]))
    if kind == "BitShift" and dtype not in ("u8", "u16"):
        raise NotPossibleError
    more = {"direction": g.one_of("LEFT", "RIGHT")} if kind == "BitShift" else {}
    given = [whole] if kind == "BitwiseNot" else [whole, g.constant(numbers)]
    g.cast(g.add(kind, given, x.dims, dtype, **more), "f32")


def norm(g: Growing) -> None:
    """Norms with their epsilon, over any trailing axes, with more results."""
    x = g.pick(2)
    kind = g.one_of("LayerNormalization", "RMSNormalization", "LpNormalization", "LRN")
    axis = g.rng.randrange(1, x.rank)
    behind = x.dims[axis:]
    if kind == "LpNormalization":
        g.add(kind, [x], x.dims, axis=g.spelt(axis, x.rank), p=g.one_of(1, 2))
        return
    if kind == "LRN":
        more = {"alpha": 0.1, "beta": 0.6, "bias": 1.5, "size": g.one_of(1, 3, 4, 5)}
        g.add(kind, [x], x.dims, **more)
        return
    if not all(isinstance(d, int) for d in behind):
        raise NotPossibleError
    sizes = [int(d) for d in behind]
    more = {"axis": g.spelt(axis, x.rank), "epsilon": g.one_of(1e-5, 1e-2, 0.5)}
    if kind == "RMSNormalization":
        g.add(kind, [x, g.floats(*sizes)], x.dims, **more)
        return
    mean = ((*x.dims[:axis], *(1 for _ in behind)), "f32")
    results = [(x.dims, "f32"), *g.one_of([], [mean], [None, mean], [mean, mean])]
    bias = g.one_of("", g.floats(*sizes))
    g.add_all(kind, [x, g.floats(*sizes), bias], results, stash_type=1, **more)


def channel_norm(g: Growing) -> None:
    """Norms by channel and by groups of them."""
    x = g.pick(3, 4)
    channels = x.dims[1]
    if not isinstance(channels, int):
        raise NotPossibleError
    kind = g.one_of(
        *("BatchNormalization", "InstanceNormalization", "GroupNormalization"),
        "GlobalLpPool",
    )
    epsilon = {"epsilon": g.one_of(1e-5, 1e-2, 0.5)}
    scale, bias = g.floats(channels), g.floats(channels)
    if kind == "BatchNormalization":
        variance = g.constant(np.random.default_rng(0).uniform(0.5, 2, channels).astype("f"))
        given = [x, scale, bias, g.floats(channels), variance]
        g.add(kind, given, x.dims, **epsilon)
    elif kind == "GroupNormalization":
        if g.opset < 21 or channels == 0:
            raise NotPossibleError
        groups = g.one_of(*(d for d in range(1, channels + 1) if channels % d == 0))
        g.add(kind, [x, scale, bias], x.dims, num_groups=groups, **epsilon)
    elif kind == "InstanceNormalization":
        g.add(kind, [x, scale, bias], x.dims, **epsilon)
    else:
        g.add(kind, [x], (*x.dims[:2], *(1 for _ in x.dims[2:])), p=g.one_of(1, 2, 3))


def window(g: Growing) -> None:
    """Pools and convolutions that choose their pads, and pools that round up."""
    x = g.pick(3, 4)
    if not all(isinstance(d, int) and d for d in x.dims[1:]):
        raise NotPossibleError
    spatial = [int(d) for d in x.dims[2:]]
    kernel = [g.rng.randint(1, min(3, size)) for size in spatial]
    strides = [g.rng.randint(1, k) for k in kernel]
    auto = g.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    same = auto != "VALID"
    sizes = [
        -(-n // s) if same else (n - k) // s + 1
        for n, k, s in zip(spatial, kernel, strides, strict=True)
    ]
    more: dict[str, Any] = {"auto_pad": auto, "strides": strides}
    kind = g.one_of("MaxPool", "AveragePool", "LpPool", "Conv", "Conv")
    if kind == "Conv":
        channels = int(x.dims[1])
        w = g.floats(2, channels, *kernel)
        g.add(kind, [x, w], (x.dims[0], 2, *sizes), **more)
        return
    if kind == "LpPool":
        more["p"] = g.one_of(1, 2, 3)
    if kind == "AveragePool":
        more["count_include_pad"] = g.rng.randrange(2)
    g.add(kind, [x], (*x.dims[:2], *sizes), kernel_shape=kernel, **more)


def reshaped(g: Growing) -> None:
    """Pads of named axes, parts of a shape, equal parts, a diagonal."""
    x = g.pick(1)
    kind = g.one_of("Pad", "Shape", "Split", "Size", "EyeLike", "CastLike")
    axis = g.axis(x, static=True)
    size = int(x.dims[axis])
    if kind == "Pad" and g.opset >= 18:
        low, high = g.rng.randint(-1, 2), g.rng.randint(0, 2)
        if size + low + high < 1 or size + low < 1:
            raise NotPossibleError
        axes = g.ints(g.spelt(axis, x.rank))
        dims = replaced(x.dims, axis, size + low + high)
        g.add(kind, [x, g.ints(low, high), g.one_of("", g.floats()), axes], dims)
    elif kind == "Shape" and g.opset >= 15:
        start, end = g.rng.randint(-x.rank, x.rank), g.rng.randint(-x.rank, x.rank)
        count = len(range(x.rank)[start:end])
        if not count:
            raise NotPossibleError
        g.cast(g.add(kind, [x], (count,), "i64", start=start, end=end), "f32")
    elif kind == "Split" and g.opset >= 18:
        parts = g.rng.randint(1, 4)
        most = -(-size // parts)
        left = size - most * (parts - 1)
        if left < 1:
            raise NotPossibleError
        dims = [replaced(x.dims, axis, n) for n in [*[most] * (parts - 1), left]]
        more = {"axis": g.spelt(axis, x.rank), "num_outputs": parts}
        g.add_all(kind, [x], [(d, "f32") for d in dims], **more)
    elif kind == "Size":
        g.cast(g.add(kind, [x], (), "i64"), "f32")
    elif kind == "EyeLike" and x.rank == 2 and g.opset >= 9:
        g.add(kind, [x], x.dims, k=g.rng.randint(-3, 3))
    elif kind == "CastLike":
        g.cast(g.add(kind, [x, g.ints(1)], x.dims, "i64"), "f32")
    else:
        raise NotPossibleError


def reduced(g: Growing) -> None:
    """Over all axes, or over none."""
    x = g.pick(1)
    name = "Reduce" + g.one_of("Sum", "Mean", "Max", "L1", "L2", "LogSumExp", "SumSquare")
    keep = g.rng.randrange(2)
    alone = g.opset >= (13 if name == "ReduceSum" else 18) and g.rng.random() < 0.5
    dims = x.dims if alone else tuple(1 for _ in x.dims if keep)
    more: dict[str, Any] = {"noop_with_empty_axes": 1} if alone else {}
    g.add(name, [x], dims, keepdims=keep, **more)


def turned(g: Growing) -> None:
    """Gemm with A transposed, and without C; Dropout that drops nothing."""
    x = g.pick(2, 2)
    if g.rng.random() < 0.3:
        more: dict[str, Any] = {"ratio": 0.3} if g.opset < 12 else {}
        g.add("Dropout", [x], x.dims, **more)
        return
    if not isinstance(x.dims[0], int):
        raise NotPossibleError
    w = g.floats(4, x.dims[0]) if (back := g.rng.randrange(2)) else g.floats(x.dims[0], 4)
    c = g.one_of(*([] if g.opset < 11 else [""]), g.floats(4), g.floats(1, 1))
    g.add("Gemm", [x, w, c], (x.dims[1], 4), transA=1, transB=back, alpha=g.one_of(1.0, -0.5))


def resized(g: Growing) -> None:
    """Images by scales or sizes, of some axes, in all ways of placing the elements."""
    x = g.pick(4, 4)
    if g.opset < 18 or not all(isinstance(d, int) and d for d in x.dims[2:]):
        raise NotPossibleError
    sizes = [int(d) for d in x.dims[2:]]
    mode = g.one_of("nearest", "linear", "cubic")
    more: dict[str, Any] = {"mode": mode, "axes": [2, 3]}
    more["coordinate_transformation_mode"] = g.one_of(
        *("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
    )
    if mode == "nearest":
        more["nearest_mode"] = g.one_of("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        more |= {"cubic_coeff_a": g.one_of(-0.5, -0.75), "exclude_outside": g.rng.randrange(2)}
    made = [g.rng.randint(1, 2 * n) for n in sizes]
    g.add("Resize", [x, "", "", g.ints(*made)], (*x.dims[:2], *made), **more)


def listed(g: Growing) -> None:
    """Lists: made, cut, asked for one element or their length, joined."""
    x = g.pick(1)
    if g.opset < 11:
        raise NotPossibleError
    axis = g.axis(x, static=True)
    size = int(x.dims[axis])
    if size < 2:
        raise NotPossibleError
    parts = g.add("SplitToSequence", [x], (), "list", axis=axis)
    if g.rng.random() < 0.5:
        parts = g.add("SequenceErase", [parts, g.constant(np.array(g.one_of(0, -1)))], (), "list")
        size -= 1
    if g.rng.random() < 0.5:
        parts = g.add("SequenceInsert", [parts, parts_first(g, parts), *_place(g)], (), "list")
        size += 1
    one = replaced(x.dims, axis, 1)
    if g.rng.random() < 0.3:
        g.add("SequenceAt", [parts, g.constant(np.array(g.one_of(0, -1)))], one)
    elif g.rng.random() < 0.3:
        g.cast(g.add("SequenceLength", [parts], (), "i64"), "f32")
    elif g.rng.random() < 0.5:
        dims = (*one[:axis], size, *one[axis:])
        g.add("ConcatFromSequence", [parts], dims, axis=axis, new_axis=1)
    else:
        g.add("ConcatFromSequence", [parts], replaced(x.dims, axis, size), axis=axis)


def parts_first(g: Growing, parts: Tensor) -> Tensor:
    """The first element of a list."""
    return g.add("SequenceAt", [parts, g.constant(np.array(0))], (), "part")


def _place(g: Growing) -> list[str]:
    return g.one_of([], [g.constant(np.array(0))], [g.constant(np.array(1))])


def spectrum(g: Growing) -> None:
    """A Fourier transform along any axis of complex or real numbers, and back."""
    x = g.pick(2, 3)
    if not 17 <= g.opset <= 25 or not isinstance(x.dims[-2], int):
        raise NotPossibleError
    wide = g.unsqueezed(x, x.rank)
    if wide.rank > 4:
        raise NotPossibleError
    axis = x.rank - 1
    size = x.dims[axis]
    if not isinstance(size, int) or size < 1:
        raise NotPossibleError
    half = g.rng.randrange(2)
    length = g.one_of("", g.constant(np.array(g.one_of(size, size + 1, max(size - 1, 1)))))
    many = size if not length else int(g.constants[str(length)])
    kept = many // 2 + 1 if half else many
    dims = (*replaced(x.dims, axis, kept), 2)
    more: dict[str, Any] = {"onesided": half, "inverse": 0 if half else g.rng.randrange(2)}
    given: list[str | Tensor] = [wide, length]
    if g.opset < 20:
        more["axis"] = axis
    else:
        given.append(g.constant(np.array(axis)))
    g.add("DFT", given, dims, **more)


def constant_of(g: Growing) -> None:
    """Constants as each of the attributes that hold them."""
    x = g.pick(1)
    numbers = np.random.default_rng(0).standard_normal(1).astype(np.float32)
    if g.opset < 12:
        y = g.add("Constant", [], (1,), value=numpy_helper.from_array(numbers))
    else:
        more = g.one_of({"value_float": 0.5}, {"value_floats": [0.25]})
        y = g.add("Constant", [], (1,) if "value_floats" in more else (), **more)
    g.add("Mul", [x, y], x.dims)


MAKERS: list[Maker] = [
    *(activation, activation, curve, curve, logical, bits, norm, norm, channel_norm, channel_norm),
    *(window, window, reshaped, reshaped, reduced, turned, resized, listed, spectrum),
    *(constant_of, unary, binary, gemm, slices, squeeze, unsqueeze, transpose),
]


def options_model(rng: random.Random) -> Any:
    """Floats of known and open sizes through a few of these."""
    return drawn_model(rng, MAKERS)


def drawn_model(rng: random.Random, makers: list[Maker]) -> Any:
    """One to four families of nodes over inputs of several ranks."""
    g = Growing(rng, opset=rng.randint(7, 25))
    batch: int | str = rng.choice(["N", "N", 1, 3])
    steps: int | str = rng.choice(["T", 4, 5])
    width = rng.choice([1, 4, 6, 9])
    shapes: list[Dims] = [(batch, steps, width), (batch, width), (batch, 4, 5, width)]
    g.values = [Tensor(name, rng.choice(shapes)) for name in ("x", "y")]
    inputs = list(g.values)
    grow(g, rng.randint(1, 4), makers)
    g.values = [v for v in g.values if v.dtype not in ("list", "part")]
    return finished(g, inputs)
