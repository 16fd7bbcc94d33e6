"""Nodes of random models: a function for each family of operators.

Each appends a node, or raises NotPossibleError where the values so far do not allow it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.growing import (
    MAX_RANK,
    Growing,
    Maker,
    NotPossibleError,
    Tensor,
    broadcast,
    replaced,
)

UNARY = (
    *("Tanh", "Sigmoid", "Relu", "Neg", "Abs", "Exp", "Sqrt", "Sign", "Floor", "Ceil", "Round"),
    *("Sin", "Cos", "Atan", "Asinh", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu"),
    *("LeakyRelu", "HardSigmoid", "HardSwish", "Mish", "ThresholdedRelu", "Reciprocal", "Log"),
    *("Identity", "Tan", "Cosh", "Sinh", "Shrink"),
)
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "Sum", "Mean", "PRelu")
COMPARE = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")
REDUCE = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
)


def unary(g: Growing) -> None:
    x = g.pick()
    g.add(g.rng.choice(UNARY), [x], x.dims)


def binary(g: Growing) -> None:
    x, kind = g.pick(), g.rng.choice(BINARY)
    if g.rng.random() < 0.4:
        shape = [d if isinstance(d, int) and g.rng.random() < 0.6 else 1 for d in x.dims]
        y = Tensor(g.floats(*shape), tuple(shape))
    else:
        y = g.pick()
    dims = broadcast(x.dims, y.dims)
    if kind == "PRelu" and dims != x.dims:
        raise NotPossibleError
    more: dict[str, Any] = {"fmod": 1} if kind == "Mod" else {}
    g.add(kind, [x, y], dims, "f32", **more)


def choose(g: Growing) -> None:
    x, y = g.pick(), g.pick()
    dims = broadcast(x.dims, y.dims)
    chosen = g.add(g.rng.choice(COMPARE), [x, y], dims, "i1")
    if g.rng.random() < 0.3:
        chosen = g.add("Not", [chosen], dims, "i1")
    if g.rng.random() < 0.3:
        g.add("Cast", [chosen], dims, to=1)
    else:
        g.add("Where", [chosen, x, y], dims)


def cast(g: Growing) -> None:
    x = g.pick()
    whole = g.add(
        "Cast", [g.add("Round", [g.add("Tanh", [x], x.dims)], x.dims)], x.dims, "i64", to=7
    )
    g.add("Cast", [whole], x.dims, to=1)


def matmul(g: Growing) -> None:
    x = g.pick(1, 3)
    k, n = x.dims[-1], g.rng.choice([1, 2, 5, 8, 17])
    if not isinstance(k, int):
        raise NotPossibleError
    if g.rng.random() < 0.7:
        g.add("MatMul", [x, g.floats(k, n)], (*x.dims[:-1], n))
    else:
        y = g.add("Transpose", [x], tuple(reversed(x.dims)), perm=list(reversed(range(x.rank))))
        if x.rank != 2:
            raise NotPossibleError
        g.add("MatMul", [x, y], (x.dims[0], x.dims[0]))


def gemm(g: Growing) -> None:
    x = g.pick(2, 2)
    k, n = x.dims[1], g.rng.choice([1, 3, 8])
    if not isinstance(k, int):
        raise NotPossibleError
    turned = g.rng.randrange(2)
    w = g.floats(n, k) if turned else g.floats(k, n)
    c = g.rng.choice(["", g.floats(n), g.floats(1, n), g.floats(1)])
    g.add(
        "Gemm", [x, w, c], (x.dims[0], n), transB=turned, alpha=0.5, beta=g.rng.choice([0.0, 2.0])
    )


def einsum(g: Growing) -> None:
    x = g.pick(2, 3)
    k = x.dims[-1]
    if not isinstance(k, int):
        raise NotPossibleError
    letters = "abc"[: x.rank]
    out = g.rng.choice([letters[:-1] + "z", "z" + letters[:-1], letters[1:-1] + "z"])
    sizes: dict[str, int | str] = {**dict(zip(letters, x.dims, strict=True)), "z": 3}
    dims = tuple(sizes[c] for c in out)
    g.add("Einsum", [x, g.floats(3, k)], dims, equation=f"{letters},z{letters[-1]}->{out}")


def transpose(g: Growing) -> None:
    x = g.pick(1)
    perm = g.rng.sample(range(x.rank), x.rank)
    g.add("Transpose", [x], tuple(x.dims[i] for i in perm), perm=perm)


def reshape(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    one = g.rng.choice([d for d in range(1, max(size, 1) + 1) if size % d == 0])
    dims = (*x.dims[:axis], one, size // one, *x.dims[axis + 1 :])
    # 0 takes the size that the axis of this number had, which holds for those in front of the cut
    target = [0 if i < axis else -1 if isinstance(d, str) else d for i, d in enumerate(dims)]
    if 0 in dims or target.count(-1) > 1:
        raise NotPossibleError
    g.add("Reshape", [x, g.ints(*target)], dims)


def merge(g: Growing) -> None:
    """Two neighbouring axes become one."""
    x = g.pick(2)
    axis = g.rng.randrange(x.rank)
    sizes = [d for d in x.dims if isinstance(d, int)]
    if len(sizes) < x.rank:
        raise NotPossibleError
    dims = (math.prod(sizes[:axis]), math.prod(sizes[axis:]))
    g.add("Flatten", [x], dims, axis=_spelt(g, axis, x.rank))


def unsqueeze(g: Growing) -> None:
    x = g.pick(0, MAX_RANK - 1)
    axis = g.rng.randrange(x.rank + 1)
    dims = (*x.dims[:axis], 1, *x.dims[axis:])
    at = g.spelt(axis, x.rank + 1) if g.opset >= 11 else axis
    g.listed("Unsqueeze", x, {"axes": [at]}, 13, dims)


def _spelt(g: Growing, axis: int, rank: int) -> int:
    """An axis counted from the front, or from the back where the opset has that."""
    return g.spelt(axis, rank) if g.opset >= 11 else axis


def squeeze(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    if x.dims[axis] != 1:
        raise NotPossibleError
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    g.listed("Squeeze", x, {"axes": [_spelt(g, axis, x.rank)]}, 13, dims)


def concat(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    fitting = [
        v
        for v in g.values
        if v.dtype == "f32"
        and v.rank == x.rank
        and isinstance(v.dims[axis], int)
        and replaced(v.dims, axis, 0) == replaced(x.dims, axis, 0)
    ]
    parts = [g.rng.choice(fitting) for _ in range(g.rng.randint(1, 3))]
    size = sum(int(part.dims[axis]) for part in parts)
    g.add("Concat", parts, replaced(x.dims, axis, size), axis=g.spelt(axis, x.rank))


def slices(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    start, stop = (g.rng.randint(-size - 2, size + 2) for _ in range(2))
    step = g.rng.choice([1, 1, 1, 2, 3, -1, -2])
    if step < 0 and stop < -size:
        stop = -(1 << 62)
    count = len(range(size)[start:stop:step])
    if count == 0:
        raise NotPossibleError
    lists = {"starts": [start], "ends": [stop], "axes": [g.spelt(axis, x.rank)], "steps": [step]}
    if g.opset < 10:
        if lists.pop("steps") != [1]:
            raise NotPossibleError
        lists["axes"] = [axis]
    g.listed("Slice", x, lists, 10, replaced(x.dims, axis, count))


def split(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    if size < 2:
        raise NotPossibleError
    at = g.rng.randint(1, size - 1)
    results = [(replaced(x.dims, axis, n), x.dtype) for n in (at, size - at)]
    if g.opset < 13:
        g.add_all("Split", [x], results, axis=axis, split=[at, size - at])
    else:
        g.add_all("Split", [x, g.ints(at, size - at)], results, axis=axis)


def pad(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    mode = g.rng.choice(["constant", "constant", "edge", "reflect", "wrap"])
    most = {"reflect": size - 1, "wrap": size}.get(mode, 3)
    if size == 0 or most < 0:
        raise NotPossibleError
    low, high = (g.rng.randint(0, min(most, 3)) for _ in range(2))
    pads = [0] * (2 * x.rank)
    pads[axis], pads[axis + x.rank] = low, high
    dims = replaced(x.dims, axis, size + low + high)
    if g.opset < 11 or mode != "constant":
        g.listed("Pad", x, {"pads": pads}, 11, dims, mode=mode)
    else:
        g.add("Pad", [x, g.ints(*pads), g.floats()], dims, mode=mode)


def gather(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    if size == 0:
        raise NotPossibleError
    shape = g.rng.choice([(), (1,), (3,), (2, 2)])
    indices = np.array(
        [g.rng.randint(-size, size - 1) for _ in range(int(np.prod(shape)))], np.int64
    )
    dims = (*x.dims[:axis], *shape, *x.dims[axis + 1 :])
    g.add("Gather", [x, g.constant(indices.reshape(shape))], dims, axis=g.spelt(axis, x.rank))


def computed_index(g: Growing) -> None:
    """Rows at places that the run computes."""
    x = g.pick(1)
    axis = g.axis(x, static=True)
    if x.dims[axis] == 0:
        raise NotPossibleError
    found = g.add("ArgMax", [x], replaced(x.dims, axis, 1), "i64", axis=axis)
    g.add("GatherElements", [x, found], found.dims, axis=axis)


def reduce(g: Growing) -> None:
    x = g.pick(1)
    axes = g.rng.sample(range(x.rank), g.rng.randint(1, x.rank))
    keep = g.rng.randrange(2)
    dims = [1 if i in axes else d for i, d in enumerate(x.dims) if keep or i not in axes]
    kind = g.rng.choice(REDUCE)
    if g.rng.random() < 0.5:
        axes = [_spelt(g, axis, x.rank) for axis in axes]
    since = 13 if kind == "ReduceSum" else 18
    g.listed(kind, x, {"axes": axes}, since, tuple(dims), keepdims=keep)


def rank_along(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x)
    kind = g.rng.choice(["Softmax", "LogSoftmax", "CumSum", "LpNormalization", "Hardmax"])
    more = {"axis": g.spelt(axis, x.rank)}
    if kind == "CumSum":
        where = g.constant(np.array(more["axis"], np.int64))
        more = {"exclusive": g.rng.randrange(2), "reverse": g.rng.randrange(2)}
        g.add(kind, [x, where], x.dims, "f32", **more)
    else:
        g.add(kind, [x], x.dims, "f32", **more)


def top(g: Growing) -> None:
    x = g.pick(1)
    axis = g.axis(x, static=True)
    size = x.dims[axis]
    assert isinstance(size, int)
    if not 1 <= size <= 16:
        raise NotPossibleError
    k = g.rng.randint(1, size)
    dims = replaced(x.dims, axis, k)
    more = {"largest": g.rng.randrange(2)} if g.opset >= 11 else {}
    given = [x, g.ints(k)] if g.opset >= 10 else [x]
    more |= {"axis": axis} | ({} if g.opset >= 10 else {"k": k})
    g.add_all("TopK", given, [(dims, "f32"), (dims, "i64")], **more)


def layer_norm(g: Growing) -> None:
    x = g.pick(1)
    size = x.dims[-1]
    if not isinstance(size, int):
        raise NotPossibleError
    g.add("LayerNormalization", [x, g.floats(size), g.floats(size)], x.dims, axis=-1)


def convolve(g: Growing) -> None:
    x = g.pick(3, 4)
    if not isinstance(x.dims[1], int) or not all(isinstance(d, int) for d in x.dims[2:]):
        raise NotPossibleError
    channels, spatial = x.dims[1], [int(d) for d in x.dims[2:]]
    kernel = [g.rng.randint(1, 3) for _ in spatial]
    strides = [g.rng.randint(1, 2) for _ in spatial]
    dilations = [g.rng.randint(1, 2) for _ in spatial]
    pads = [g.rng.randint(0, 1) for _ in range(2 * len(spatial))]
    sizes: list[int] = []
    for i, size in enumerate(spatial):
        room = size + pads[i] + pads[i + len(spatial)] - dilations[i] * (kernel[i] - 1) - 1
        if room < 0:
            raise NotPossibleError
        sizes.append(room // strides[i] + 1)
    group = g.rng.choice([1, channels]) if channels else 1
    made = group * g.rng.randint(1, 2)
    w = g.floats(made, channels // max(group, 1), *kernel)
    more = {"strides": strides, "dilations": dilations, "pads": pads, "group": group}
    g.add("Conv", [x, w, g.floats(made)], (x.dims[0], made, *sizes), **more)


def pool(g: Growing) -> None:
    x = g.pick(3, 4)
    if not all(isinstance(d, int) for d in x.dims[2:]):
        raise NotPossibleError
    spatial = [int(d) for d in x.dims[2:]]
    kernel = [g.rng.randint(1, 3) for _ in spatial]
    strides = [g.rng.randint(1, 2) for _ in spatial]
    if any(size < k for size, k in zip(spatial, kernel, strict=True)):
        raise NotPossibleError
    sizes = [(n - k) // s + 1 for n, k, s in zip(spatial, kernel, strides, strict=True)]
    kind = g.rng.choice(["MaxPool", "AveragePool", "LpPool"])
    g.add(kind, [x], (*x.dims[:2], *sizes), kernel_shape=kernel, strides=strides)


def expand(g: Growing) -> None:
    x = g.pick(0, 3)
    if not all(isinstance(d, int) for d in x.dims):
        raise NotPossibleError
    if g.rng.random() < 0.5:
        shape = [g.rng.choice([2, 3]) if d == 1 else int(d) for d in x.dims]
        g.add("Expand", [x, g.ints(2, *shape)], (2, *shape))
    else:
        times = [g.rng.choice([1, 2]) for _ in x.dims]
        dims = tuple(int(d) * t for d, t in zip(x.dims, times, strict=True))
        g.add("Tile", [x, g.ints(*times)], dims)


BODY: list[Maker] = [
    unary,
    unary,
    binary,
    choose,
    matmul,
    reduce,
    transpose,
    slices,
    concat,
    gather,
]
"""What graphs inside of others are made of."""

NODES: list[Maker] = [
    *(unary, unary, unary, binary, binary, binary, choose, cast, matmul, matmul, gemm, einsum),
    *(transpose, reshape, merge, unsqueeze, squeeze, concat, slices, slices, split, pad, gather),
    *(computed_index, reduce, reduce, rank_along, top, layer_norm, convolve, pool, expand),
]
"""What graphs are made of, those that matter most several times."""
