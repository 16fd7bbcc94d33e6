"""A sample of every `rnn` op without a body, over axes of the sizes S, T and N."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import Elementwise, RnnOp
from rnncc.ir.rnn import OPS

Array = np.ndarray[Any, Any]
S, T, N = Dim.of("S"), Dim.of("T"), Dim.of("N")
SIZES = {"S": 4, "T": 6, "N": 4}
FLOATS: dict[str, Callable[..., SSAValue]] = {
    "select": lambda b, x, y: b.select(b.input("c", ["S", "T", "N"], "i1"), x, y),
    "compare": lambda b, x, y: b.compare("lt", x, y),
    "round": lambda b, x: b.round("floor", x),
    "multiply_add": lambda b, x, y, z: b.multiply_add("from", x, y, z),
    "cast": lambda b, x: b.cast(x, "i32"),
    "bitcast": lambda b, x: b.bitcast(x),
}
"""Elementwise ops that are not made by their operands alone."""


def index(b: Builder, *dims: Dim | int) -> SSAValue:
    return b.input("index", dims, "i32")


def scaled(b: Builder, x: SSAValue, source: SSAValue) -> SSAValue:
    """x, which is three times as steep along a source."""
    inner = Builder(Block(arg_types=[x.type]))
    grad = inner.reduce("sum", inner.mul(inner.block.args[0], inner.full_like(x, 3.0)), range(3))
    return b.with_gradient(x, [source], [], inner, [grad])


MOVES: dict[str, Callable[[Builder, SSAValue], SSAValue]] = {
    "param": lambda b, x: b.param("p", ["S", 3]),
    "constant": lambda b, x: b.constant(np.eye(3), "f32"),
    "fill": lambda b, x: b.fill(0.5, ["S", "T", 3]),
    "iota": lambda b, x: b.iota(["S", "T", 3], 1),
    "size": lambda b, x: b.size(T * N),
    "uniform": lambda b, x: b.uniform(index(b, S, T), b.input("i", ["S", "T"], "i32"), 1),
    "logical": lambda b, x: b.logical("xor", *(b.input(n, ["S", "T"], "i1") for n in "pq")),
    "bits": lambda b, x: b.bits("left", *(b.input(n, ["S", "T"], "i32") for n in "pq")),
    "not": lambda b, x: b.logical_not(b.input("p", ["S", "T"], "i1")),
    "reshape, joined": lambda b, x: b.reshape(x, [S * T, "N"]),
    "reshape, split": lambda b, x: b.reshape(b.input("y", [S * T, "N"]), ["S", "T", "N"]),
    "reshape, moved": lambda b, x: b.reshape(b.input("y", [1, "S", 2, 3]), ["S", 1, 6]),
    "reshape, mixed": lambda b, x: b.reshape(x, ["T", "S", "N"]),
    "transpose": lambda b, x: b.transpose(x, [2, 0, 1]),
    "broadcast": lambda b, x: b.broadcast(b.input("y", ["S", 1]), ["T", "S", 3, "N"], [1, 3]),
    "slice": lambda b, x: b.slice(x, 1, 1, T - 2),
    "concat": lambda b, x: b.concat([x, x, b.input("y", ["S", 2, "N"])], 1),
    "reverse_segments": lambda b, x: b.reverse_segments(x, index(b, T)),
    "shift": lambda b, x: b.shift(x, b.input("y", ["T", "N"])),
    "shift back": lambda b, x: b.shift(x, b.input("y", ["T", "N"]), True),
    "gather": lambda b, x: b.gather(x, index(b, Dim.of(2), Dim.of("M")), 1),
    "gather of rows": lambda b, x: b.gather(x, index(b, Dim.of("M")), 0),
    "scatter": lambda b, x: b.scatter("sum", x, b.input("y", ["S", 2, 5, "N"]), index(b, 2, 5), 1),
    "windows": lambda b, x: b.windows(x, 1, 1, T - 4, 1, 2, 3),
    "matmul": lambda b, x: b.matmul(x, b.input("y", ["N", "M"])),
    "matmul, flags": lambda b, x: b.matmul(x, b.input("y", ["M", "T"]), True, True),
    "matmul of stacks": lambda b, x: b.matmul(x, b.input("y", ["S", "M", "N"]), False, True),
    "reduce": lambda b, x: b.reduce("sum", x, [1]),
    "reduce of two": lambda b, x: b.reduce("max", x, [0, 2]),
    "contract": lambda b, x: b.contract(
        b.input("i", [4, 3]), b.input("x", ["T", 4]), b.input("y", ["T", 3])
    ),
    "with_gradient": lambda b, x: scaled(b, x, b.input("s", [])),
    "sum_rows": lambda b, x: b.sum_rows(b.input("i", ["T", "N"]), x, True),
}


def samples() -> dict[str, RnnOp]:
    """By name, each in a net of its own."""
    makers: dict[str, Callable[[Builder, SSAValue], SSAValue]] = dict(MOVES)
    for op in OPS:
        name = op.name.removeprefix("rnn.")
        if issubclass(op, Elementwise) and name not in (*MOVES, "apply"):
            count = len(op.get_irdl_definition().operands) - (name == "select")
            make = FLOATS.get(name, getattr(Builder, name, None))
            assert make is not None
            makers[name] = lambda b, x, make=make, count=count: make(
                b, x, *(b.input(f"y{i}", ["S", "T", "N"]) for i in range(count - 1))
            )
    result = dict[str, RnnOp]()
    for name, make in makers.items():
        b = Builder.net("sample")
        op = make(b, b.input("x", ["S", "T", "N"])).owner
        assert isinstance(op, RnnOp)
        result[name] = op
    return result


def draw(dtype: str, shape: list[int], seed: int = 0) -> Array:
    """Numbers that are right for any op's operand of that type."""
    rng = np.random.default_rng(seed)
    if dtype == "f32":
        return rng.uniform(0.1, 0.9, shape)
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(np.bool_)
    return rng.integers(1, 3, shape, np.int32)
