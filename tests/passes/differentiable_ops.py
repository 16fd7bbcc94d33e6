"""A net of each op that has gradients: what makes it, and the shapes of its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program

Value = SSAValue
N = Dim.of("N")


def positive(b: Builder, x: Value) -> Value:
    return b.add(b.exp(x), b.full_like(x, 0.5))


OPS: dict[str, tuple[Callable[..., Value], list[list[Any]]]] = {
    "neg": (Builder.neg, [[3]]),
    "abs": (Builder.abs, [[5]]),
    "sqrt": (lambda b, x: b.sqrt(positive(b, x)), [[3]]),
    "exp": (Builder.exp, [[3]]),
    "log": (lambda b, x: b.log(positive(b, x)), [[3]]),
    "log1p": (lambda b, x: b.log1p(positive(b, x)), [[3]]),
    "expm1": (Builder.expm1, [[3]]),
    "tanh": (Builder.tanh, [[3]]),
    "sigmoid": (Builder.sigmoid, [[3]]),
    "relu": (Builder.relu, [[5]]),
    "erf": (Builder.erf, [[3]]),
    "sin": (Builder.sin, [[3]]),
    "cos": (Builder.cos, [[3]]),
    "round": (lambda b, x: b.mul(x, b.round("floor", x)), [[5]]),
    "add": (Builder.add, [["N", 3], [3]]),
    "sub": (Builder.sub, [["N", 3], ["N", 1]]),
    "mul": (Builder.mul, [["N", 3], []]),
    "mul of one value": (lambda b, x: b.mul(x, x), [["N", 3]]),
    "multiply_add": (lambda b, *xs: b.multiply_add("add", *xs), [["N", 3], ["N", 1], [3]]),
    "multiply_add, less": (lambda b, *xs: b.multiply_add("sub", *xs), [["N", 3], ["N", 3], []]),
    "multiply_add, from": (lambda b, *xs: b.multiply_add("from", *xs), [["N", 3], [3], ["N", 3]]),
    "div": (lambda b, x, y: b.div(x, positive(b, y)), [["N", 3], ["N", 3]]),
    "share": (lambda b, x, y: b.share(x, positive(b, y)), [["N", 3], ["N", 3]]),
    "rem": (lambda b, x, y: b.rem(b.mul(x, b.fill(7.0, [])), positive(b, y)), [["N", 3], [3]]),
    "maximum": (Builder.maximum, [["N", 3], ["N", 3]]),
    "minimum": (Builder.minimum, [["N", 3], ["N", 3]]),
    "shift": (Builder.shift, [["T", "N", 3], ["N", 3]]),
    "shift, reverse": (lambda b, x, h: b.shift(x, h, True), [["T", "N", 3], ["N", 3]]),
    "select": (lambda b, x, y: b.select(b.compare("lt", x, y), b.tanh(x), y), [["N"], ["N"]]),
    "stop_gradient": (
        lambda b, x: b.add(x, b.sub(b.stop_gradient(x), b.stop_gradient(x))),
        [["N", 3]],
    ),
    "cast": (lambda b, x: b.cast(b.cast(x, "f64"), "f32"), [["N", 3]]),
    "cast to i32": (lambda b, x: b.mul(x, b.cast(b.cast(x, "i32"), "f32")), [["N", 3]]),
    "bitcast": (
        lambda b, x: b.mul(x, b.cast(b.bits("right", b.bitcast(x), b.fill(31, (), "i32")), "f32")),
        [["N", 3]],
    ),
    "bits": (
        lambda b, x: b.mul(
            x, b.cast(b.bits("xor", b.cast(b.mul(x, x), "i32"), b.iota([N], 0)), "f32")
        ),
        [["N"]],
    ),
    "cast of a condition": (
        lambda b, x, y: b.mul(
            x, b.cast(b.logical_not(b.logical("and", *[b.compare("gt", x, y)] * 2)), "f32")
        ),
        [["N", 3], ["N", 3]],
    ),
    "reshape": (lambda b, x: b.reshape(x, [N * 6]), [["N", 2, 3]]),
    "transpose": (lambda b, x: b.transpose(x, [2, 0, 1]), [["N", 2, 3]]),
    "broadcast": (lambda b, x: b.broadcast(x, [4, "N", 2, 3], [1, 3]), [["N", 1]]),
    "slice": (lambda b, x: b.slice(x, 1, 2, 3), [["N", 7]]),
    "slices": (lambda b, x: b.mul(b.slice(x, 1, 1, 3), b.slice(x, 1, 4, 3)), [["N", 8]]),
    "slices that overlap": (
        lambda b, x: b.mul(b.slice(x, 1, 0, 3), b.slice(x, 1, 2, 3)),
        [["N", 5]],
    ),
    "slice at the end": (lambda b, x: b.slice(x, 0, Dim.of("T") - 1, 1), [["T", 3]]),
    "windows": (lambda b, x: b.windows(x, 1, 1, 3, 2, 2, 3), [["N", 9]]),
    "windows in front": (lambda b, x: b.windows(x, 0, 0, 3, 3), [[8, 2]]),
    "windows of unknown number": (
        lambda b, x: b.windows(x, 0, 1, Dim.of("T") - 3, 1, 3),
        [["T", 2]],
    ),
    "gather": (
        lambda b, x: b.gather(x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2]],
    ),
    "scatter": (
        lambda b, y, x: b.scatter("sum", y, x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2], ["N", 1, 3, 2]],
    ),
    "scatter of the largest": (
        lambda b, y, x: b.scatter("max", y, x, b.constant(np.array([[2, 0, 2]]), "i64"), 1),
        [["N", 3, 2], ["N", 1, 3, 2]],
    ),
    "concat": (lambda b, x, y: b.concat([x, y, x], 1), [["N", 3], ["N", 2]]),
    "reverse_segments": (
        lambda b, x: b.reverse_segments(x, b.input("lengths", ["N"], "i32")),
        [["T", "N", 2]],
    ),
    "sum": (lambda b, x: b.reduce("sum", x, [0, 2]), [["N", 2, 3]]),
    "sum of all": (lambda b, x: b.reduce("sum", x, [0, 1]), [["N", 2]]),
    "max": (lambda b, x: b.reduce("max", x, [0, 2]), [["N", 2, 3]]),
    "min": (lambda b, x: b.reduce("min", x, [1]), [["N", 3]]),
    "max of equals": (lambda b, x: b.reduce("max", b.concat([x, x], 1), [1]), [["N", 3]]),
    "contract": (Builder.contract, [[3, 4], ["N", 3], ["N", 4]]),
    "contract from the last": (
        lambda b, i, x, y: b.contract(i, x, y, reverse=True),
        [[3, 4], ["N", 3], ["N", 4]],
    ),
    "sum_rows": (Builder.sum_rows, [[2, 3], ["N", 2, 3]]),
    "sum_rows to a number": (lambda b, i, x: b.sum_rows(i, x, reverse=True), [[], ["N"]]),
    "matmul": (Builder.matmul, [["N", 3], [3, 4]]),
    "matmul of stacks": (Builder.matmul, [["N", 2, 3], ["N", 3, 4]]),
    "matmul of a stack": (Builder.matmul, [["T", "N", 3], [3, 4]]),
}
for ta, tb in ((True, False), (False, True), (True, True)):
    for name, lead in (
        ("", ([], [])),
        (" of stacks", (["N"], ["N"])),
        (" of a stack", (["T"], [])),
    ):
        a, c = ([3, 2] if ta else [2, 3]), ([4, 3] if tb else [3, 4])
        product = lambda b, x, y, ta=ta, tb=tb: b.matmul(x, y, ta, tb)  # noqa: E731
        OPS[f"matmul{name} {ta} {tb}"] = (product, [[*lead[0], *a], [*lead[1], *c]])


def net_of(make: Callable[..., Value], shapes: list[list[Any]]) -> Program:
    b = Builder.net("op")
    args = [b.input(f"x{i}", dims) for i, dims in enumerate(shapes)]
    return b.finish({"y": make(b, *args)})
