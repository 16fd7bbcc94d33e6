"""Grids of operators that choose elements: by number, by place, by bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.onnx.grids import Array, Case, floats, ints, whole

HUGE = (1 << 63) - 1


def _both(case: Case, *names: str) -> Iterator[Case]:
    """With some inputs as constants, and as inputs."""
    yield replace(case, fixed=names)
    yield case


def _numbers(shape: tuple[int, ...], size: int, dtype: Any = np.int64) -> Array:
    """Places on an axis, counted from either end."""
    return np.random.default_rng(len(shape)).integers(-size, size, shape).astype(dtype)


def _gather() -> Iterator[Case]:
    for axis, shape, dtype in product(
        (-3, -1, 0, 1, 2), ((), (1,), (3,), (2, 2), (0,), (1, 1)), (np.int32, np.int64)
    ):
        x = floats(2, 3, 4)
        places = _numbers(shape, x.shape[axis], dtype)
        yield from _both(Case("Gather", {"x": x, "i": places}, {"axis": axis}), "i")
    for last in (-4, -3, 2, 3):
        yield from _both(Case("Gather", {"x": floats(3), "i": ints(last)}), "i")


def _gather_elements() -> Iterator[Case]:
    for axis, shape, dtype in product(
        (-2, -1, 0, 1),
        ((2, 3), (1, 3), (2, 1), (1, 5), (5, 1), (4, 3), (2, 4)),
        (np.int32, np.int64),
    ):
        x = floats(2, 3)
        places = _numbers(shape, x.shape[axis], dtype)
        yield from _both(Case("GatherElements", {"x": x, "i": places}, {"axis": axis}), "i")
    for far in (2, 3, -3, -4):  # in another row
        inputs = {"x": floats(2, 3), "i": ints([0, far, 1])}
        for axis in (0, 1):
            yield from _both(Case("GatherElements", inputs, {"axis": axis}), "i")


def _gather_nd() -> Iterator[Case]:
    for shape, batch in product(((2, 2, 2), (2, 3, 2), (1, 3), (2, 2, 3, 2)), (0, 1, 2, 3)):
        for lead, depth in product(((), (1,), (2,), (3,), (2, 3), (2, 2, 2)), (1, 2, 3, 4)):
            if len(lead) < batch or lead[:batch] != shape[:batch]:
                continue  # ONNX Runtime reads beyond X then
            inputs = {"x": floats(*shape), "i": _numbers((*lead, depth), 1)}
            yield from _both(Case("GatherND", inputs, {"batch_dims": batch}), "i")
    for far in (2, 3, -3, -4):
        inputs = {"x": floats(2, 3), "i": ints([0, far], [far, 0])}
        yield from _both(Case("GatherND", inputs), "i")


def _scatter_elements() -> Iterator[Case]:
    for axis, shape, reduction, opset in product(
        (-2, -1, 0, 1),
        ((3, 4), (1, 4), (2, 4), (3, 1), (1, 1), (3, 2), (4, 4), (3, 5), (0, 4)),
        ("none", "add", "mul", "max", "min"),
        (11, 16, 18),
    ):
        if reduction != "none" and opset == 11:
            continue
        x = floats(3, 4)
        count = np.arange(int(np.prod(shape))).reshape(shape)  # each place once
        i = (count if reduction == "add" else np.argsort(floats(*shape), axis)) % x.shape[axis]
        inputs = {"x": x, "i": i.astype(np.int64) - x.shape[axis] * (i % 2), "u": floats(*shape)}
        attributes = {"axis": axis} | ({"reduction": reduction} if opset > 11 else {})
        yield from _both(Case("ScatterElements", inputs, attributes, opset=opset), "i")
    for far in (3, 4, -4, -5):
        inputs = {"x": floats(3, 4), "i": ints([0, far, 1]), "u": floats(1, 3)}
        for axis in (0, 1):
            yield from _both(Case("ScatterElements", inputs, {"axis": axis}), "i")


def _scatter_nd() -> Iterator[Case]:
    places = (
        *([[0], [2]], [[-1]], [[0, 1], [2, 3]], [[[0, 0]], [[1, -1]]], [0], [1, 2]),
        *([[0, 4]], [[3]], [[0, -5]], [[0, 0, 0]], [[-4, 0]]),
    )
    for place, reduction, opset in product(places, ("none", "add", "mul"), (11, 16, 18)):
        i, x = np.array(place, np.int64), floats(3, 4)
        rest = x.shape[i.shape[-1] :]
        if reduction != "none" and opset == 11:
            continue
        attributes = {"reduction": reduction} if opset > 11 else {}
        for shape in ((*i.shape[:-1], *rest), (*rest, *i.shape[:-1])):
            inputs = {"x": x, "i": i, "u": floats(*shape)}
            yield Case("ScatterND", inputs, attributes, ["i"], opset=opset)
            yield Case("ScatterND", inputs, attributes, ["x", "i", "u"], opset=opset)


def _slice() -> Iterator[Case]:
    bounds = (-HUGE, -5, -3, -1, 0, 1, 2, 4, HUGE)
    for size, start, end, step in product((0, 1, 3, 4), bounds, bounds, (-3, -2, -1, 1, 2, 3)):
        inputs = {"x": whole(2, size), "s": ints(start), "e": ints(end)}
        inputs |= {"a": ints(1), "t": ints(step)}
        yield Case("Slice", inputs, fixed=["s", "e", "a", "t"])
    for starts, ends, axes in product(([0, 1], [1, -2]), ([2, 3], [HUGE, -1]), ([0, 1], [-1, 0])):
        values = {"s": ints(*starts), "e": ints(*ends), "a": ints(*axes)}
        yield Case("Slice", {"x": whole(3, 4), **values}, fixed=["s", "e", "a"])
        attributes = {"starts": starts, "ends": ends, "axes": axes}
        yield Case("Slice", {"x": whole(3, 4)}, attributes, opset=9)


def _pad() -> Iterator[Case]:
    amounts = (0, 1, 2, 3, -1, -2)
    for mode, size, before, behind in product(
        ("constant", "edge", "reflect", "wrap"), (1, 2, 4), amounts, amounts
    ):
        inputs = {"x": floats(2, size), "p": ints(0, before, 0, behind)}
        opset = 19 if mode == "wrap" else 13
        yield Case("Pad", inputs, {"mode": mode}, ["p"], opset=opset)
        pads = {"x": floats(size, 2), "p": ints(before, behind), "v": None, "a": ints(-2)}
        yield Case("Pad", pads, {"mode": mode}, ["p", "a"], opset=max(opset, 18))
        if mode == "constant":
            inputs["v"] = np.array(1.5, np.float32)
            yield from _both(Case("Pad", inputs, {"mode": mode}, ["p"], opset=opset), "p", "v")
            inputs = {**inputs, "x": whole(2, size), "v": np.array(3)}
            yield from _both(Case("Pad", inputs, {"mode": mode}, ["p"], opset=opset), "p", "v")
    for mode in ("constant", "edge", "reflect"):
        attributes = {"mode": mode, "pads": [1, 0, 2, 1], "value": 2.0}
        yield Case("Pad", {"x": floats(3, 3)}, attributes, opset=9)
        inputs = {"x": floats(3, 4, 3), "p": ints(1, 2, 2, 1, 0, 2)}
        yield Case("Pad", inputs, {"mode": mode}, ["p"], opset=13)


def _one_hot() -> Iterator[Case]:
    for axis, depth, dtype, values in product(
        (-3, -2, -1, 0, 1, 2), (1, 3), (np.int32, np.int64, np.float32), (np.float32, np.int64)
    ):
        inputs = {"i": whole(2, 2, dtype=dtype), "d": ints(depth), "v": np.array([2, 5], values)}
        yield Case("OneHot", inputs, {"axis": axis}, ["d"])


def _others() -> Iterator[Case]:
    for upper, k, shape in product((0, 1), (-4, -1, 0, 2, 5), ((3, 4), (2, 3, 3), (4, 2))):
        yield Case("Trilu", {"x": floats(*shape), "k": np.array(k)}, {"upper": upper}, ["k"])
    for axis, condition in product((None, -1, 0, 1), ([1, 0], [0, 1, 1], [0], [1, 1, 0, 1])):
        inputs = {"x": floats(2, 3), "c": np.array(condition, bool)}
        yield Case("Compress", inputs, {} if axis is None else {"axis": axis}, ["c"])
    for time, shape, dtype in product(
        (0, 1), ((3, 3), (3, 3, 2)), (np.float32, np.int32, np.int64, np.bool_)
    ):
        inputs = {"x": (floats(*shape) > 0).astype(dtype), "l": ints(1, 3, 2)}
        inputs["x"] = floats(*shape) if dtype == np.float32 else inputs["x"]
        attributes = {"time_axis": time, "batch_axis": 1 - time}
        yield from _both(Case("ReverseSequence", inputs, attributes), "l")
    for k, shape, dtype in product((-3, -1, 0, 1, 4), ((3, 4), (2, 2), (3,)), (None, 1, 6, 7, 9)):
        attributes = {"k": k} | ({} if dtype is None else {"dtype": dtype})
        yield Case("EyeLike", {"x": floats(*shape)}, attributes)


GRIDS: dict[str, Callable[[], Iterator[Case]]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "Pad": _pad,
    "OneHot": _one_hot,
    "Trilu, Compress, ReverseSequence, EyeLike": _others,
}
