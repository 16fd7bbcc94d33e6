"""Grids of operators along axes, of shapes, of products and of broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from tests.frontends.onnx.grids import Case, floats, ints, whole

REDUCTIONS = (
    *("Sum", "Mean", "Max", "Min", "Prod"),
    *("L1", "L2", "SumSquare", "LogSum", "LogSumExp"),
)


def _reduce() -> Iterator[Case]:
    axes: tuple[Any, ...] = (None, [], [0], [1], [-1], [0, 2], [-1, 0], [0, 1, 2], [1, 1], [3])
    for kind, some, keep, noop, opset, dtype in product(
        REDUCTIONS, axes, (0, 1), (0, 1), (11, 13, 18), (np.float32, np.int32, np.int64)
    ):
        x = np.abs(floats(2, 3, 2)) + 0.5 if dtype == np.float32 else whole(2, 3, 2, dtype=dtype)
        # ln of what is below 0 is NaN, of which C leaves open what integer it is
        x = np.abs(x) if kind == "LogSum" else x
        attributes: dict[str, Any] = {"keepdims": keep}
        if opset >= (13 if kind == "Sum" else 18):
            attributes["noop_with_empty_axes"] = noop
            inputs = {"x": x} if some is None else {"x": x, "a": ints(*some)}
            yield Case(f"Reduce{kind}", inputs, attributes, list(inputs)[1:], opset=opset)
        elif not noop and some != []:
            attributes |= {} if some is None else {"axes": some}
            yield Case(f"Reduce{kind}", {"x": x}, attributes, opset=opset)


def _extremum_place() -> Iterator[Case]:
    for op, axis, keep, last, dtype in product(
        ("ArgMax", "ArgMin"), (-3, -1, 0, 1, 2, 3), (0, 1), (0, 1), (np.float32, np.int32, np.int64)
    ):
        attributes = {"axis": axis, "keepdims": keep, "select_last_index": last}
        yield Case(op, {"x": whole(3, 4, 2, dtype=dtype)}, attributes)


def _top_k() -> Iterator[Case]:
    for axis, count, largest, dtype in product(
        (-2, -1, 0, 1), (0, 1, 2, 3, 4), (0, 1), (np.float32, np.int32, np.int64)
    ):
        inputs = {"x": whole(3, 4, dtype=dtype), "k": ints(count)}
        attributes = {"axis": axis, "largest": largest, "sorted": 1}
        yield Case("TopK", inputs, attributes, ["k"], 2)


def _cumulative() -> Iterator[Case]:
    for op, axis, exclusive, reverse, dtype in product(
        ("CumSum", "CumProd"), (-2, -1, 0, 1, 2), (0, 1), (0, 1), (np.float32, np.int32, np.int64)
    ):
        attributes = {"exclusive": exclusive, "reverse": reverse}
        opset = 17 if op == "CumSum" else 26
        for fixed in (["a"], ["x", "a"]):
            inputs = {"x": whole(3, 4, dtype=dtype), "a": np.array(axis)}
            yield Case(op, inputs, attributes, fixed, opset=opset)


def _concat_and_split() -> Iterator[Case]:
    for axis, sizes in product((-3, -2, -1, 0, 1, 2), ((1,), (2, 1), (1, 0, 2), (0, 0))):
        shapes = [[size if a == axis % 2 else 2 for a in range(2)] for size in sizes]
        inputs = {f"x{i}": floats(*shape, seed=i) for i, shape in enumerate(shapes)}
        yield Case("Concat", inputs, {"axis": axis})
        yield Case("Concat", inputs, {"axis": axis}, list(inputs))
    for axis, parts, outputs in product((-1, 0, 1, 2), ((2, 2), (1, 3), (4, 0), (1, 1, 2)), (2, 3)):
        if len(parts) != outputs:
            continue
        x = floats(4, 4)
        inputs = {"x": x, "s": ints(*parts)}
        yield Case("Split", inputs, {"axis": axis}, ["s"], outputs)
        yield Case("Split", {"x": x}, {"axis": axis, "split": list(parts)}, (), outputs, opset=11)
    for size, count in product((3, 4, 5, 6), (1, 2, 3)):
        attributes = {"axis": 0, "num_outputs": count}
        yield Case("Split", {"x": floats(size, 2)}, attributes, (), count, opset=18)
        yield Case("Split", {"x": floats(size, 2)}, {"axis": 0}, (), count)


def _gemm() -> Iterator[Case]:
    shapes = (None, (), (1,), (4,), (3, 1), (1, 4), (3, 4), (3,), (1, 1))
    for left, right, alpha, beta, added in product(
        (0, 1), (0, 1), (1.0, 0.5), (1.0, 0.0, 2.0), shapes
    ):
        inputs: dict[str, Any] = {"a": floats(*((2, 3) if left else (3, 2)))}
        inputs["b"] = floats(*((4, 2) if right else (2, 4)))
        if added is not None:
            inputs["c"] = floats(*added)
        yield Case("Gemm", inputs, {"transA": left, "transB": right, "alpha": alpha, "beta": beta})
    yield Case("Gemm", {"a": floats(1, 2), "b": floats(2, 4), "c": floats(3, 4)})


def _matmul() -> Iterator[Case]:
    shapes = ((2,), (3, 2), (2, 4), (1, 3, 2), (2, 2, 4), (5, 1, 3, 2), (2, 2), ())
    for left, right in product(shapes, repeat=2):
        yield Case("MatMul", {"a": floats(*left), "b": floats(*right)})


def _normalise() -> Iterator[Case]:
    for shape, axis, scale in product(((2, 3), (2, 3, 4)), (-3, -2, -1, 0, 1, 2), (0, 1, 2)):
        tail = shape[axis:] if -len(shape) <= axis < len(shape) else shape
        size = (tail, tail[-1:], (2, 5, *tail))[scale]
        inputs = {"x": floats(*shape), "s": floats(*size, seed=1)}
        for epsilon, bias in product((1e-5, 0.1), (False, True)):
            more = {"b": floats(*size, seed=2)} if bias else {}
            attributes = {"axis": axis, "epsilon": epsilon}
            yield Case("LayerNormalization", {**inputs, **more}, attributes, outputs=3)
            if not bias:
                yield Case("RMSNormalization", inputs, attributes, opset=23)
    for size, power in product((1, 2, 3, 5), (0.5, 0.75, 1.0)):
        attributes = {"size": size, "alpha": 0.3, "beta": power, "bias": 2.0}
        yield Case("LRN", {"x": floats(2, 4, 3, 2)}, attributes)
    for op, axis, opset in product(
        ("Softmax", "LogSoftmax", "Hardmax"), (-3, -2, -1, 0, 1, 2, 3), (11, 13)
    ):
        yield Case(op, {"x": floats(2, 3, 4)}, {"axis": axis}, opset=opset)
    for axis, p in product((-3, -1, 0, 1, 2), (1, 2, 3)):
        yield Case("LpNormalization", {"x": floats(2, 3, 4)}, {"axis": axis, "p": p}, opset=22)
    for shape, epsilon in product(((2, 3), (2, 3, 2), (1, 3, 2, 2)), (1e-5, 0.1)):
        vectors = {"s": floats(3), "b": floats(3, seed=1), "m": floats(3, seed=2)}
        vectors["v"] = np.abs(floats(3, seed=3))
        inputs = {"x": floats(*shape), **vectors}
        yield Case("BatchNormalization", inputs, {"epsilon": epsilon})
        del inputs["m"], inputs["v"]
        yield Case("InstanceNormalization", inputs, {"epsilon": epsilon})


def _broadcast() -> Iterator[Case]:
    shapes = ((), (1,), (3,), (2, 1), (2, 3), (1, 2, 1), (0,), (4,))
    for left, right in product(shapes, repeat=2):
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Less", "PRelu"):
            yield Case(op, {"a": floats(*left), "b": floats(*right, seed=1)})
        inputs = {"c": floats(*left) > 0, "a": floats(*right), "b": floats(2, 3)}
        yield Case("Where", inputs)
        for low, high in ((left, right),):
            inputs = {"x": floats(2, 3), "l": floats(*low), "h": floats(*high, seed=1)}
            yield Case("Clip", inputs)
        divisor = whole(*right, seed=1, dtype=np.int32)
        for op, attributes in (("Mod", {}), ("Mod", {"fmod": 1}), ("Div", {}), ("Mul", {})):
            inputs = {"a": whole(*left, dtype=np.int32), "b": np.where(divisor == 0, 3, divisor)}
            yield Case(op, {n: a.astype(np.int32) for n, a in inputs.items()}, attributes)


def _reshape() -> Iterator[Case]:
    x = floats(2, 1, 3)
    wanted = ([6], [-1], [0, -1], [3, 0, 2], [0, 0, 0], [2, 3, 1], [-1, -1], [0, 0, 0, 1], [-1, 0])
    for shape, zero in product((*wanted, [4], [-2, 3], []), (0, 1)):
        for data in (x, floats(0, 3)):
            inputs = {"x": data, "s": ints(*shape)}
            yield Case("Reshape", inputs, {"allowzero": zero}, ["s"])
    for count in (0, 1, 2):
        for axes in combinations((-4, -3, -2, -1, 0, 1, 2, 3), count):
            for op in ("Squeeze", "Unsqueeze"):
                yield Case(op, {"x": x, "a": ints(*axes)}, fixed=["a"])
                yield Case(op, {"x": x}, {"axes": list(axes)}, opset=11)
    yield Case("Squeeze", {"x": x})
    for axis in (-4, -3, -1, 0, 1, 3, 4):
        yield Case("Flatten", {"x": x}, {"axis": axis})
    for order in (*permutations(range(3)), (0, 1), (0, 0, 1), (0, 1, 3)):
        yield Case("Transpose", {"x": x}, {"perm": list(order)})


def _grow() -> Iterator[Case]:
    x, grown = floats(2, 1, 3), ([2, 1, 3], [1], [4, 2, 5, 3], [3], [2, 2, 3], [2, 2, 2], [0], [])
    for shape in (*grown, [-1, 1, 3], [1, -1, 1]):
        yield Case("Expand", {"x": x, "s": ints(*shape)}, fixed=["s"])
    for repeats in ([1, 1, 1], [2, 3, 1], [0, 1, 2], [2], [1, 1, 1, 1], [-1, 1, 1]):
        yield Case("Tile", {"x": x, "r": ints(*repeats)}, fixed=["r"])
        yield Case("Tile", {"x": x, "r": ints(*repeats)}, fixed=["x", "r"])
    for size, mode in product((1, 2, 3), ("DCR", "CRD")):
        yield Case("DepthToSpace", {"x": floats(2, 8, 2, 3)}, {"blocksize": size, "mode": mode})
        yield Case("SpaceToDepth", {"x": floats(2, 2, 4, 6)}, {"blocksize": size})
    for start, limit, step, dtype in product(
        (-2, 0, 3), (-3, 0, 4), (-2, -1, 1, 3), (np.int32, np.int64, np.float32)
    ):
        inputs = {n: np.array(v, dtype) for n, v in zip("slt", (start, limit, step), strict=True)}
        yield Case("Range", inputs, fixed=list(inputs))
    for start, end in product((None, -4, -1, 0, 1, 5), repeat=2):
        bounds = {n: v for n, v in (("start", start), ("end", end)) if v is not None}
        yield Case("Shape", {"x": x}, bounds, opset=15)


def _einsum() -> Iterator[Case]:
    for equation, shapes in (
        *(("ij,jk->ik", ((2, 3), (3, 4))), ("ij,jk", ((2, 3), (3, 4))), ("ij->ji", ((2, 3),))),
        *(
            ("ij->", ((2, 3),)),
            ("ij->i", ((2, 3),)),
            ("...ij,...jk->...ik", ((2, 2, 3), (2, 3, 4))),
        ),
        *(("...ij,jk->...ik", ((5, 2, 3), (3, 4))), ("ij,ij->ij", ((2, 3), (2, 3)))),
        *(("i,j->ij", ((2,), (3,))), ("bij,bjk,bkl->bil", ((2, 2, 3), (2, 3, 2), (2, 2, 4)))),
        *(("ij,ij->", ((2, 3), (1, 3))), ("ba", ((2, 3),)), ("i...->...", ((2, 3, 4),))),
        *(("ij,jk->ik", ((2, 3), (4, 2))), ("ij->ik", ((2, 3),)), ("ii->i", ((3, 3),))),
        *(("bijj->bi", ((2, 3, 4, 4),)), ("iji,jk->k", ((3, 2, 3), (2, 4))), ("iii", ((3, 3, 3),))),
    ):
        inputs = {f"x{i}": floats(*shape, seed=i) for i, shape in enumerate(shapes)}
        yield Case("Einsum", inputs, {"equation": equation})


def _determinants() -> Iterator[Case]:
    for shape in ((1, 1), (5, 5), (2, 3, 3), (2, 1, 4, 4)):
        yield Case("Det", {"x": floats(*shape)})


def _fourier() -> Iterator[Case]:
    for axis, onesided, parts, length, inverse in product(
        (-3, -2, -1, 0, 1, 2), (0, 1), (1, 2), (None, 2, 5, 6), (0, 1)
    ):
        inputs = {"x": floats(3, 4, parts), "l": None if length is None else np.array(length)}
        fixed = [] if length is None else ["l"]
        kind = {"onesided": onesided, "inverse": inverse}
        yield Case("DFT", inputs, {"axis": axis, **kind}, fixed)
        inputs = {**inputs, "a": np.array(axis)}
        yield Case("DFT", inputs, kind, [*fixed, "a"], opset=20)
    for step, length, window, onesided in product((1, 2, 3), (None, 3, 4), (False, True), (0, 1)):
        inputs: dict[str, Any] = {"x": floats(2, 9, 1), "s": np.array(step)}
        inputs["w"] = floats(length or 4) if window else None
        inputs["l"] = None if length is None else np.array(length)
        fixed = ["s", *(["l"] if length else [])]
        yield Case("STFT", inputs, {"onesided": onesided}, fixed)


def _powers() -> Iterator[Case]:
    for dtype, power, kind in product(
        (np.int32, np.int64, np.float32), (-1, 0, 0.5, 1, 2, 3, 13), (np.float32, np.int64)
    ):
        inputs = {"x": whole(3, 4, dtype=dtype), "y": np.array(power, kind)}
        yield Case("Pow", inputs, fixed=["y"])
        yield Case("Pow", inputs)


def _bits() -> Iterator[Case]:
    """All of an integer's bits, and counts beyond its width."""
    kinds = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    for dtype, shape, op in product(
        kinds, ((1,), (5, 1), (2, 1, 7)), ("And", "Or", "Xor", "Not", "LEFT", "RIGHT")
    ):
        draw, limits = np.random.default_rng(len(shape)).integers, np.iinfo(dtype)
        x, y = (draw(limits.min, limits.max, s, dtype, endpoint=True) for s in ((5, 7), shape))
        if op in ("LEFT", "RIGHT"):
            counts = {"x": x, "y": np.abs(y % (limits.bits + 9)).astype(dtype)}
            yield Case("BitShift", counts, {"direction": op})
        else:
            inputs = {"x": x} if op == "Not" else {"x": x, "y": y}
            yield Case(f"Bitwise{op}", inputs, opset=18)
            yield Case(f"Bitwise{op}", inputs, opset=18, fixed=[list(inputs)[-1]])


GRIDS: dict[str, Callable[[], Iterator[Case]]] = {
    "Reduce": _reduce,
    "ArgMax, ArgMin": _extremum_place,
    "TopK": _top_k,
    "CumSum, CumProd": _cumulative,
    "Concat, Split": _concat_and_split,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Normalisation": _normalise,
    "Broadcasting": _broadcast,
    "Reshape, Squeeze, Flatten, Transpose": _reshape,
    "Expand, Tile, DepthToSpace, Range, Shape": _grow,
    "Einsum": _einsum,
    "Det": _determinants,
    "DFT, STFT": _fourier,
    "BitShift, Bitwise": _bits,
    "Pow": _powers,
}
