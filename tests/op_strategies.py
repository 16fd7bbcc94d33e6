"""Random single ops of the `rnn` dialect over values that there are, which stay tame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import dims_of, dtype_of

Draw = Callable[[st.SearchStrategy[Any]], Any]
Pool = list[SSAValue]
T, N = Dim.of("T"), Dim.of("N")


def pick(draw: Draw, pool: Pool, least_rank: int = 0) -> SSAValue:
    fitting = [v for v in pool if len(dims_of(v)) >= least_rank and dtype_of(v) == "f32"]
    if not fitting:
        raise CompileError("", f"no value of rank {least_rank}")
    return draw(st.sampled_from(fitting))


def _unary(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool)
    f = draw(st.sampled_from([b.tanh, b.sigmoid, b.neg, b.abs, b.relu, lambda v: b.exp(b.tanh(v))]))
    return f(x)


def _binary(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x, y = pick(draw, pool), pick(draw, pool)
    options = [b.add, b.add, b.sub, b.maximum, b.minimum, lambda p, q: b.mul(p, b.tanh(q))]
    return draw(st.sampled_from(options))(x, y)


def _with_constant(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool)
    number = b.fill(draw(st.sampled_from([0.0, -0.0, 1.0, 0.5])), [])
    return draw(st.sampled_from([b.add, b.sub, b.mul, b.maximum]))(x, number)


def _choose(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x, y = pick(draw, pool), pick(draw, pool)
    condition = b.compare(draw(st.sampled_from(["lt", "ge", "ne"])), x, y)
    if draw(st.booleans()):
        condition = b.logical_not(condition)
    return b.select(condition, x, y)


def _tame(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Functions that are smooth where they are used."""
    x, y = pick(draw, pool), pick(draw, pool)
    positive = b.add(b.abs(y), b.fill(1.0, []))
    made = [b.sin(x), b.cos(x), b.erf(x), b.sqrt(positive), b.log(positive), b.div(x, positive)]
    made += [b.log1p(b.abs(y)), b.expm1(b.tanh(x)), b.rem(b.tanh(x), b.fill(2.0, []))]
    return draw(st.sampled_from(made))


def _positions(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Integers that depend on the place, as floats."""
    x = pick(draw, pool, 1)
    dims = dims_of(x)
    dtype = draw(st.sampled_from(["i32", "i64"]))
    i = b.iota(dims, draw(st.integers(0, len(dims) - 1)), dtype)
    other = draw(
        st.sampled_from([b.fill(2, [], dtype), b.size(draw(st.sampled_from([T, N])), dtype)])
    )
    i = draw(st.sampled_from([b.add, b.sub, b.mul, b.maximum, b.minimum]))(i, other)
    if draw(st.booleans()):
        i = b.cast(i, "i64" if dtype == "i32" else "i32")
    if draw(st.booleans()):
        i = b.reduce("sum", i, [draw(st.integers(0, len(dims) - 1))])
    return b.mul(b.cast(i, "f32"), b.fill(2.0**-6, []))


def _drawn(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Plus random numbers of the place."""
    x = pick(draw, pool, 1)
    index = b.iota(dims_of(x), draw(st.integers(0, len(dims_of(x)) - 1)))
    seed = b.fill(draw(st.integers(-9, 9)), [], "i32")
    return b.add(x, b.uniform(seed, index, draw(st.integers(0, 2))))


def _masked(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """A choice by integers alone, which no rounding tips over."""
    x, y = pick(draw, pool, 1), pick(draw, pool)
    dims = dims_of(x)

    def condition() -> SSAValue:
        i = b.iota(dims, draw(st.integers(0, len(dims) - 1)))
        limit = b.fill(draw(st.integers(0, 3)), [], "i32")
        return b.compare(draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])), i, limit)

    mask = b.logical(draw(st.sampled_from(["and", "or", "xor"])), condition(), condition())
    return b.mul(b.select(mask, x, y), b.cast(b.logical_not(condition()), "f32"))


def _literal(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    return b.add(pick(draw, pool), b.constant(np.array([0.25, -1.5, 0.0]), "f32"))


def _slice(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 1)
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    if not dims_of(x)[axis].is_static:
        return x
    extent = int(dims_of(x)[axis])
    start = draw(st.integers(0, max(extent - 1, 0)))
    return b.slice(x, axis, start, draw(st.integers(1, extent - start)))


def _concat(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 1)
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    parts = [x] + [pick(draw, pool, 1) for _ in range(draw(st.integers(1, 2)))]
    return b.concat(parts, axis)


def _reshape(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool)
    dims = list(dims_of(x))
    how = draw(st.sampled_from(["insert", "remove", "flatten", "split"]))
    if how == "insert":
        dims.insert(draw(st.integers(0, len(dims))), Dim.of(1))
    elif how == "remove":
        dims = [d for d in dims if d != 1]
    elif how == "flatten" and len(dims) > 1:
        dims = [dims[0] * dims[1], *dims[2:]]
    elif how == "split" and dims and dims[0] == T * N:
        dims = [T, N, *dims[1:]]
    return b.reshape(x, dims)


def _transpose(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 2)
    return b.transpose(x, draw(st.permutations(range(len(dims_of(x))))))


def _shift(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x, init = pick(draw, pool, 1), pick(draw, pool)
    return b.shift(
        x, b.broadcast_together(init, b.fill(0.0, dims_of(x)[1:]))[0], draw(st.booleans())
    )


def _broadcast(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool)
    axis = draw(st.integers(0, len(dims_of(x))))
    dims = [*dims_of(x)[:axis], draw(st.sampled_from([T, N, Dim.of(2)])), *dims_of(x)[axis:]]
    return b.broadcast(x, dims, [i for i in range(len(dims)) if i != axis])


def _matmul(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x, y = pick(draw, pool, 2), pick(draw, pool, 2)
    flags = [draw(st.booleans()), draw(st.booleans())]
    depth = dims_of(x)[-2 if flags[0] else -1]
    scale = 1.5 / max(int(depth), 3) if depth.is_static else 0.5
    return b.mul(b.matmul(x, y, *flags), b.fill(scale, []))


def _reduce(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 1)
    axes = draw(st.sets(st.integers(0, len(dims_of(x)) - 1), min_size=1, max_size=2))
    kind = draw(st.sampled_from(["sum", "max", "min"]))
    small = all(dims_of(x)[axis].is_static for axis in axes)
    return b.reduce(kind if small else "sum", x, sorted(axes))


def _contract(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Outer products over the rows of two tensors, which all axes but the last make up."""
    x, y = pick(draw, pool, 2), pick(draw, pool, 2)
    rows = [b.reshape(v, [product(dims_of(v)[:-1]), dims_of(v)[-1]]) for v in (x, y)]
    shape = [dims_of(x)[-1], dims_of(y)[-1]]
    total = b.contract(_start(draw, b, pool, shape), rows[0], rows[1], draw(st.booleans()))
    return b.mul(total, b.fill(0.125, []))


def _sum_rows(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 1)
    start = _start(draw, b, pool, dims_of(x)[1:])
    return b.mul(b.sum_rows(start, x, draw(st.booleans())), b.fill(0.25, []))


def _start(draw: Draw, b: Builder, pool: Pool, shape: Sequence[Dim]) -> SSAValue:
    """What a sum starts at: a number, or a value of the shape."""
    number = b.fill(draw(st.sampled_from([0.0, -0.0, 0.5])), shape)
    return draw(st.sampled_from([number, *(v for v in pool if v.type == number.type)]))


def _windows(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    x = pick(draw, pool, 1)
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    stride, taps = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    if not dims_of(x)[axis].is_static:
        return b.windows(x, axis, 0, dims_of(x)[axis])
    count = (int(dims_of(x)[axis]) - taps) // stride + 1
    return b.windows(x, axis, 0, max(count, 1), stride, taps)


def _gathered(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Along an axis of any size, by its own numbers backwards."""
    x = pick(draw, pool, 1)
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    size = dims_of(x)[axis]
    return b.gather(x, b.sub(b.size(size - 1), b.iota([size], 0, "i64")), axis)


def _scattered(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """Rows folded with themselves, last to first."""
    x = pick(draw, pool, 1)
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    size = dims_of(x)[axis]
    kind = draw(st.sampled_from(["sum", "max", "min"]))
    return b.scatter(kind, x, x, b.sub(b.size(size - 1), b.iota([size], 0, "i64")), axis)


MAKERS = [_unary, _unary, _binary, _binary, _with_constant, _choose, _slice, _concat]
MAKERS += [_windows, _gathered, _scattered]
MAKERS += [_tame, _positions, _masked, _literal, _drawn, _shift]
MAKERS += [_contract, _sum_rows]
MAKERS += [_reshape, _reshape, _transpose, _broadcast, _matmul, _matmul, _reduce]
