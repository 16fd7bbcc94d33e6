"""Random nets in which sums, functions, other sums over axes and outputs read the same products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of

Draw = Callable[..., Any]
Values = list[SSAValue]


@st.composite
def product_programs(draw: Draw) -> Program:
    """A loop over products and sums of few values, and such behind it; all of them tame."""
    b, width = Builder.net("products"), draw(st.sampled_from([3, 19]))
    x, h = b.input("x", ["T", "N", width]), b.input("h", ["N", width])
    consts = [b.input("p", [width]), b.param("w", [width, width])]

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        pool = [carry[0], rows[0], i.broadcast(consts[0], ["N", width], [1])]
        grow(draw, i, pool, consts[1])
        return [i.tanh(pool[-1])], [draw(st.sampled_from(pool[3:])) for _ in range(2)]

    (last,), ys = b.scan(consts, [h], [x], step, reverse=draw(st.booleans()))
    pool = [x, *ys]
    grow(draw, b, pool, consts[1])
    outputs = [pool[-1], *draw(st.lists(st.sampled_from(pool[1:]), max_size=2))]
    return b.finish({"last": last, **{f"y{i}": value for i, value in enumerate(outputs)}})


def grow(draw: Draw, b: Builder, pool: Values, weights: SSAValue) -> None:
    """Append a product, and ops that may read it again."""
    pool.append(product(draw, b, pool))
    for _ in range(draw(st.integers(2, 6))):
        make = draw(st.sampled_from([total, total, product, difference, norm, function, matmul]))
        pool.append(make(draw, b, pool) if make is not matmul else matmul(draw, b, pool, weights))
    pool.append(total(draw, b, pool))


def recent(draw: Draw, pool: Values) -> SSAValue:
    return draw(st.sampled_from(pool[-4:]))


def product(draw: Draw, b: Builder, pool: Values) -> SSAValue:
    return b.mul(recent(draw, pool), b.tanh(draw(st.sampled_from(pool[:3]))))


def total(draw: Draw, b: Builder, pool: Values) -> SSAValue:
    return b.add(recent(draw, pool), recent(draw, pool))


def difference(draw: Draw, b: Builder, pool: Values) -> SSAValue:
    return b.sub(recent(draw, pool), recent(draw, pool))


def function(draw: Draw, b: Builder, pool: Values) -> SSAValue:
    return draw(st.sampled_from([b.tanh, b.sigmoid]))(recent(draw, pool))


def norm(draw: Draw, b: Builder, pool: Values) -> SSAValue:
    """A value times a sum over its last axis."""
    x = recent(draw, pool)
    dims = dims_of(x)
    small = b.tanh(b.reduce("sum", x, [len(dims) - 1]))
    return b.mul(x, b.broadcast(small, dims, range(len(dims) - 1)))


def matmul(draw: Draw, b: Builder, pool: Values, weights: SSAValue) -> SSAValue:
    return b.tanh(b.matmul(recent(draw, pool), weights))
