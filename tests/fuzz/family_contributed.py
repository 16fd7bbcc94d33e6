"""Random models of com.microsoft's operators, as ONNX Runtime's optimisers and tools write them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.family_options import drawn_model
from tests.fuzz.growing import Growing, Maker, NotPossibleError, Tensor, replaced
from tests.fuzz.random_nodes import binary, reduce, squeeze, transpose, unary, unsqueeze

HERE = {"domain": "com.microsoft"}
FUSED: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "Relu": ((), ()),
    "Tanh": ((), ()),
    "Sigmoid": ((), ()),
    "LeakyRelu": (("alpha",), (0.2,)),
    "Clip": (("min", "max"), (-0.2, 0.3)),
    "HardSigmoid": (("alpha", "beta"), (0.3, 0.4)),
}


def gelu(g: Growing) -> None:
    x, kind = g.pick(1), g.one_of("Gelu", "BiasGelu", "FastGelu", "FastGelu", "QuickGelu")
    size = x.dims[-1]
    more = {"alpha": g.one_of(1.0, 1.702, -0.5)} if kind == "QuickGelu" else {}
    biased = kind == "BiasGelu" or (kind == "FastGelu" and g.rng.random() < 0.5)
    if biased and not isinstance(size, int):
        raise NotPossibleError
    given = [x, g.floats(int(size))] if biased else [x]
    g.add(kind, given, x.dims, **more, **HERE)


def fused_conv(g: Growing) -> None:
    x = g.pick(3, 4)
    if not all(isinstance(d, int) and d for d in x.dims[1:]):
        raise NotPossibleError
    channels, spatial = int(x.dims[1]), [int(d) for d in x.dims[2:]]
    kernel = [g.rng.randint(1, min(3, size)) for size in spatial]
    sizes = [size - k + 1 for size, k in zip(spatial, kernel, strict=True)]
    kind = g.one_of(*FUSED)
    more: dict[str, Any] = {"activation": kind}
    if FUSED[kind][1]:
        more["activation_params"] = list(FUSED[kind][1])
    dims = (x.dims[0], 3, *sizes)
    w, bias = g.floats(3, channels, *kernel), g.one_of("", g.floats(3))
    added = [v for v in g.values if v.dims == dims and v.dtype == "f32"]
    given = [x, w, bias, *([g.rng.choice(added)] if added and bias else [])]
    g.add("FusedConv", given, dims, **more, **HERE)


def fused_gemm(g: Growing) -> None:
    x = g.pick(2, 2)
    side = g.rng.randrange(2)
    depth = x.dims[1 - side]
    if not isinstance(depth, int):
        raise NotPossibleError
    kind, back = g.one_of(*FUSED), g.rng.randrange(2)
    names, numbers = FUSED[kind]
    more: dict[str, Any] = {"activation": kind, "transA": side, "transB": back}
    more |= {f"activation_{n}": v for n, v in zip(names, numbers, strict=True)}
    w = g.floats(5, depth) if back else g.floats(depth, 5)
    given = [x, w, g.one_of(g.floats(5), g.floats(1, 5), "")]
    g.add("FusedGemm", given, (x.dims[side], 5), alpha=g.one_of(1.0, 0.5), **more, **HERE)


def fused_matmul(g: Growing) -> None:
    x = g.pick(2, 4)
    turned, back = g.rng.randrange(2), g.rng.randrange(2)
    rows, depth = reversed(x.dims[-2:]) if turned else x.dims[-2:]
    if not isinstance(depth, int):
        raise NotPossibleError
    more = {"transA": turned, "transB": back, "alpha": g.one_of(1.0, 0.125, -2.0)}
    if g.rng.random() < 0.3:
        if x.rank != 3:
            raise NotPossibleError
        # the batch stands in front of the last axis: [rows, batch, depth], or [depth, batch, rows]
        batch = x.dims[1]
        rows, depth = (x.dims[2], x.dims[0]) if turned else (x.dims[0], x.dims[2])
        if not (isinstance(depth, int) and isinstance(batch, int)):
            raise NotPossibleError
        w = g.floats(batch, 3, depth) if back else g.floats(batch, depth, 3)
        g.add("FusedMatMul", [x, w], (batch, rows, 3), transBatchA=1, **more, **HERE)
        return
    w = g.floats(3, depth) if back else g.floats(depth, 3)
    g.add(
        g.one_of("FusedMatMul", "TransposeMatMul"), [x, w], (*x.dims[:-2], rows, 3), **more, **HERE
    )


def skip_norm(g: Growing) -> None:
    x = g.pick(2, 3)
    size, same = x.dims[-1], [v for v in g.values if v.dims == x.dims and v.dtype == "f32"]
    if not isinstance(size, int) or x.rank != 3:
        raise NotPossibleError
    plain = g.rng.random() < 0.5
    kind = "SkipLayerNormalization" if plain else "SkipSimplifiedLayerNormalization"
    given = [x, g.rng.choice(same), g.floats(size)]
    given += [g.one_of("", g.floats(size))] if plain else []
    given += g.one_of([], [g.floats(size)])
    total = g.one_of([], [None, None, (x.dims, "f32")])
    more = {"epsilon": g.one_of(1e-5, 1e-2), **HERE}
    g.add_all(kind, given, [(x.dims, "f32"), *total], **more)


def _of_heads(g: Growing) -> tuple[Tensor, int, int]:
    """A tensor [N, T, heads · units], the heads, and the units."""
    x = g.pick(3, 3)
    if not isinstance(x.dims[2], int):
        raise NotPossibleError
    heads = g.one_of(*(d for d in (1, 2, 3, 4) if x.dims[2] % d == 0))
    return x, heads, x.dims[2] // heads


def attention(g: Growing) -> None:
    """Attention of its own products, also looking back alone, or of parts of other widths."""
    x, heads, units = _of_heads(g)
    width = heads * units
    more: dict[str, Any] = {"num_heads": heads, "unidirectional": g.rng.randrange(2)}
    if g.rng.random() < 0.3:
        more["scale"] = 0.3
    wide = width
    if g.rng.random() < 0.3:
        wide = heads * g.one_of(1, 2, 3)
        more["qkv_hidden_sizes"] = [width, width, wide]
    w, bias = g.floats(width, 2 * width + wide), g.floats(2 * width + wide)
    given = [x, w, bias, g.one_of("", _mask(g, x)), *_scores(g, x)]
    g.add("Attention", given, (*x.dims[:2], wide), **more, **HERE)


def _mask(g: Growing, x: Tensor) -> Tensor:
    """Which keys [N, T] are seen: the first, and some of the others."""
    total = g.listed("ReduceSum", x, {"axes": [2]}, 13, x.dims[:2], keepdims=0)
    sums = [g.add("Abs", [total], x.dims[:2]), g.constant(np.array(1))]
    before = g.add("CumSum", sums, x.dims[:2], exclusive=1)
    near = g.constant(np.float32(g.one_of(2, 5, 100)))
    return g.cast(g.add("Less", [before, near], x.dims[:2], "i1"), "i32")


def _scores(g: Growing, x: Tensor) -> list[str | Tensor]:
    """What is added to the scores [N, 1, T, T], behind a past that is missing; often nothing."""
    if g.rng.random() < 0.7:
        return []
    back = g.add("Transpose", [x], (x.dims[0], x.dims[2], x.dims[1]), perm=[0, 2, 1])
    return ["", g.unsqueezed(g.add("MatMul", [x, back], (*x.dims[:2], x.dims[1])), 1)]


def several_heads(g: Growing) -> None:
    """MultiHeadAttention of one tensor or two, with a bias of all or of the scores."""
    x, heads, units = _of_heads(g)
    same = [v for v in g.values if v.dims == x.dims and v.dtype == "f32"]
    k, v = g.rng.choice(same), g.rng.choice(same)
    bias = g.one_of("", g.floats(3 * heads * units))
    more: dict[str, Any] = {"num_heads": heads, "unidirectional": g.rng.randrange(2)}
    more |= g.one_of({}, {"scale": 0.4})
    given = [x, k, v, bias, g.one_of("", _mask(g, x)), *_scores(g, x)[1:]]
    g.add("MultiHeadAttention", given, x.dims, **more, **HERE)


def turned_pairs(g: Growing) -> None:
    """RotaryEmbedding by positions from one on, in halves or in pairs."""
    x, heads, units = _of_heads(g)
    if units % 2 or not isinstance(x.dims[1], int):
        raise NotPossibleError
    tables = [g.floats(16, units // 2) for _ in range(2)]
    first = g.constant(np.array([g.rng.randint(0, 3)], np.int64))
    more = {"interleaved": g.rng.randrange(2), "num_heads": heads}
    g.add("RotaryEmbedding", [x, first, *tables], x.dims, **more, **HERE)


def blocks(g: Growing) -> None:
    """Products with weights in blocks of 4 or 8 bits."""
    x = g.pick(2, 3)
    depth, rows = x.dims[-1], g.one_of(1, 3, 8)
    if not isinstance(depth, int):
        raise NotPossibleError
    bits, size = g.one_of(4, 4, 8), g.one_of(16, 32)
    count = -(-depth // size)
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    w = g.constant(rng.integers(0, 256, (rows, count, size * bits // 8)).astype(np.uint8))
    scales = g.constant(rng.uniform(0.01, 0.1, (rows, count)).astype(np.float32))
    zeros = rng.integers(0, 256, (rows, -(-count * bits // 8))).astype(np.uint8)
    given = [x, w, scales, *g.one_of([], [g.constant(zeros)])]
    more = {"K": depth, "N": rows, "bits": bits, "block_size": size, **HERE}
    g.add("MatMulNBits", given, (*x.dims[:-1], rows), **more)


def dynamic_product(g: Growing) -> None:
    """A quantised by its own range times weights of bytes, by rows or as a whole."""
    x = g.pick(2, 3)
    depth = x.dims[-1]
    if not isinstance(depth, int):
        raise NotPossibleError
    rng = np.random.default_rng(g.rng.randrange(1 << 30))
    kind, each = g.one_of(np.int8, np.uint8), g.one_of((), (5,))
    limits = (-128, 128) if kind is np.int8 else (0, 256)
    w = g.constant(rng.integers(*limits, (depth, 5)).astype(kind))
    scale = g.constant(rng.uniform(0.01, 0.05, each).astype(np.float32))
    zero = g.one_of("", g.constant(rng.integers(*limits, each).astype(kind)))
    bias = g.one_of([], [g.floats(5)])
    g.add("DynamicQuantizeMatMul", [x, w, scale, zero, *bias], (*x.dims[:-1], 5), **HERE)


def _bytes(g: Growing, x: Tensor) -> tuple[Tensor, list[str]]:
    """A tensor in bytes, with its scale and zero point."""
    number = g.constant(np.float32(g.one_of(0.0217, 0.0291))), g.constant(np.uint8(120))
    return g.add("QuantizeLinear", [x, *number], x.dims, "u8"), list(number)


def of_bytes(g: Growing) -> None:
    """Functions of bytes: functions of one, of two, means, windows, parts one after another."""
    if g.opset < 10:
        raise NotPossibleError
    x = g.pick(2)
    a, first = _bytes(g, x)
    made = [g.constant(np.float32(0.0253)), g.constant(np.uint8(100))]
    kind = g.one_of(
        *("QLinearSigmoid", "QLinearLeakyRelu", "QLinearAdd", "QLinearMul", "QLinearConcat"),
        *("QLinearSoftmax", "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearWhere"),
    )
    dims, more = x.dims, dict[str, Any]()
    given: list[str | Tensor] = [a, *first, *made]
    if kind == "QLinearLeakyRelu":
        more["alpha"] = 0.3
    elif kind in ("QLinearAdd", "QLinearMul"):
        given = [a, *first, a, *first, *made]
    elif kind == "QLinearWhere":
        condition = g.add("Less", [x, g.floats()], x.dims, "i1")
        given = [condition, a, *first, a, *first, *made]
    elif kind == "QLinearConcat":
        axis = g.axis(x, static=True)
        given = [*made, a, *first, a, *first]
        dims, more = replaced(x.dims, axis, 2 * int(x.dims[axis])), {"axis": axis}
    elif kind == "QLinearSoftmax":
        given[3:] = [g.constant(np.float32(1 / 256)), g.constant(np.uint8(0))]
        more = {"axis": -1, "opset": 13}
    elif x.rank < 3:
        raise NotPossibleError
    elif kind == "QLinearGlobalAveragePool":
        dims, more = (*x.dims[:2], *(1 for _ in x.dims[2:])), {"channels_last": 0}
    else:
        if not all(isinstance(d, int) and d > 1 for d in x.dims[2:]):
            raise NotPossibleError
        dims = (*x.dims[:2], *(int(d) - 1 for d in x.dims[2:]))
        more = {"kernel_shape": [2 for _ in x.dims[2:]]}
    y = g.add(kind, given, dims, "u8", **more, **HERE)
    g.add("DequantizeLinear", [y, *made], dims)


def moved(g: Growing) -> None:
    """A triangle, a new axis, an inverse."""
    x, kind = g.pick(2, 3), g.one_of("Trilu", "ExpandDims", "Inverse")
    if kind == "Trilu":
        k = g.one_of([], [g.constant(np.array(g.rng.randint(-2, 2), np.int64))])
        g.add(kind, [x, *k], x.dims, upper=g.rng.randrange(2), **HERE)
    elif kind == "ExpandDims":
        axis = g.rng.randrange(x.rank + 1)
        at = g.constant(np.array(g.spelt(axis, x.rank + 1), np.int32))
        g.add(kind, [x, at], (*x.dims[:axis], 1, *x.dims[axis:]), **HERE)
    else:
        size = x.dims[-1]
        if not isinstance(size, int):
            raise NotPossibleError
        square = g.add("MatMul", [g.add("Tanh", [x], x.dims), g.floats(size, size)], x.dims)
        if x.dims[-2] != size:
            raise NotPossibleError
        far = g.add("Add", [square, g.constant(4 * np.eye(size, dtype=np.float32))], x.dims)
        g.add(kind, [far], x.dims, **HERE)


MAKERS: list[Maker] = [
    *(gelu, fused_conv, fused_gemm, fused_matmul, fused_matmul, skip_norm, skip_norm, attention),
    *(several_heads, turned_pairs, blocks, dynamic_product, of_bytes, of_bytes, moved),
    *(unary, binary, reduce, squeeze, unsqueeze, transpose),
]


def contributed_model(rng: random.Random) -> Any:
    """Floats of known and open sizes through a few of these."""
    return drawn_model(rng, MAKERS)
