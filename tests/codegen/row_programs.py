"""Random nets in which no sequence of the batch reads another, and the batch stands anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of

Draw = Callable[..., Any]
Values = list[SSAValue]
Make = Callable[[Draw, Builder, Values, Values], SSAValue]
T, N = Dim.of("T"), Dim.of("N")
MOST_AXES = 4


@st.composite
def row_programs(draw: Draw) -> Program:
    """Layers and loops over x [T, N, width] or [N, T, width], of lengths or whole."""
    b, width = Builder.net("rows"), draw(st.sampled_from([3, 8, 19, 40]))
    x = b.input("x", [*draw(st.permutations(["T", "N"])), width])
    pool = [x, b.input("h", ["N", width])]
    pool += [b.input("m", ["N", width, 5])] if draw(st.booleans()) else []
    lengths = b.input("lengths", ["N"], "i32")
    shapes = {"w": (width, width), "u": (2 * width, width), "bias": (width,)}
    params = [b.param(name, shape) for name, shape in shapes.items()]
    grow(draw, b, pool, params, 4)
    for _ in range(draw(st.integers(1, 2))):
        loop(draw, b, pool, [*params, lengths], draw(st.sampled_from([0, 0, 1])))
        grow(draw, b, pool, params, 3)
    outputs = [v for v in pool if N in dims_of(v)]
    chosen = [outputs[-1], *draw(st.lists(st.sampled_from(outputs), max_size=2))]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = {n: rng.uniform(-0.5, 0.5, s).astype(np.float32) for n, s in shapes.items()}
    return b.finish({f"y{i}": value for i, value in enumerate(chosen)}, arrays)


def grow(draw: Draw, b: Builder, pool: Values, params: Values, most: int) -> None:
    """Append values; a draw that does not fit is left out."""
    for _ in range(draw(st.integers(1, most))):
        make = draw(st.sampled_from(MAKERS))
        try:
            made = make(draw, b, pool, params)
        except CompileError:
            continue
        if len(dims_of(made)) <= MOST_AXES and dims_of(made).count(N) == 1:
            pool.append(made)


def pick(draw: Draw, pool: Values) -> SSAValue:
    return draw(st.sampled_from([*pool, *pool[-3:]]))


def own_axes(x: SSAValue) -> list[int]:
    """All axes but the batch."""
    return [i for i, size in enumerate(dims_of(x)) if size != N]


def own_axis(draw: Draw, x: SSAValue) -> int:
    if not own_axes(x):
        raise CompileError("", "a number for each sequence")
    return draw(st.sampled_from(own_axes(x)))


def _unary(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    f = draw(st.sampled_from([b.tanh, b.sigmoid, b.neg, b.relu, b.sin, b.erf]))
    return f(pick(draw, pool))


def _binary(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Of values whose batches meet."""
    x, y = pick(draw, pool), pick(draw, [*pool, params[2]])
    one, other = b.broadcast_together(x, y)
    made = draw(st.sampled_from([b.add, b.sub, b.maximum, b.mul]))(one, other)
    return b.tanh(made) if draw(st.booleans()) else made


def _product(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """With weights, or a column of them."""
    x, w = pick(draw, pool), draw(st.sampled_from(params[:2]))
    if dims_of(x)[-1] == N:
        raise CompileError("", "the batch is last")
    if draw(st.integers(0, 3)) == 0:
        w = b.slice(w, 1, 0, 1)
    return b.tanh(b.matmul(x, w, False, draw(st.booleans())))


def _scores(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Products of two stacks of matrices, one for each sequence."""
    made = Values()
    for x in (pick(draw, pool), pick(draw, pool)):
        perm = [dims_of(x).index(N), *own_axes(x)]
        made.append(b.transpose(x, perm))
    y = b.matmul(made[0], made[1], draw(st.booleans()), draw(st.booleans()))
    return b.tanh(y)


def _reduce(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Over an axis, and what is normalised with it."""
    x = pick(draw, pool)
    axis, kind = own_axis(draw, x), draw(st.sampled_from(["sum", "max", "min"]))
    if not dims_of(x)[axis].is_static:
        kind = "sum"
    made = b.tanh(b.reduce(kind, x, [axis]))
    if draw(st.booleans()):
        return made
    dims = dims_of(x)
    return b.sub(x, b.broadcast(made, dims, [i for i in range(len(dims)) if i != axis]))


def _softmax(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    x = b.exp(b.tanh(pick(draw, pool)))
    axis, dims = own_axis(draw, x), dims_of(x)
    kept = [i for i in range(len(dims)) if i != axis]
    return b.div(x, b.broadcast(b.reduce("sum", x, [axis]), dims, kept))


def _move(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    x = pick(draw, pool)
    return b.transpose(x, draw(st.permutations(range(len(dims_of(x))))))


def _fold(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Two neighbouring axes as one, the batch among them, through a product, and back."""
    x = pick(draw, pool)
    dims = dims_of(x)
    if len(dims) < 3 or dims[-1] == N:
        raise CompileError("", "no two axes before the last")
    at = draw(st.integers(0, len(dims) - 3))
    flat = b.reshape(x, [*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :]])
    made = b.tanh(b.matmul(flat, params[0]))
    return b.reshape(made, [*dims[:-1], dims_of(made)[-1]])


def _cut(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Columns or steps, put together again in another order, or one of them."""
    x = pick(draw, pool)
    axis = own_axis(draw, x)
    size = dims_of(x)[axis]
    if not size.is_static:
        return b.concat([x, b.neg(x)], axis) if draw(st.booleans()) else b.neg(x)
    at = draw(st.integers(0, int(size) - 1))
    parts = [b.slice(x, axis, at, int(size) - at), b.slice(x, axis, 0, max(at, 1))]
    return b.concat(parts, axis) if draw(st.booleans()) else parts[draw(st.integers(0, 1))]


def _windows(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """A convolution of two taps along an axis."""
    x = pick(draw, pool)
    axis = own_axis(draw, x)
    count = dims_of(x)[axis]
    if count.is_static and int(count) < 2:
        raise CompileError("", "nothing to slide over")
    before, after = draw(st.sampled_from([(0, 1), (1, 0)]))
    sizes = [size if i != axis else Dim.of(1) for i, size in enumerate(dims_of(x))]
    edge = b.fill(0.0, sizes)
    padded = b.concat([*[edge] * before, x, *[edge] * after], axis)
    windows = b.windows(padded, axis, 0, count, 1, 2)
    return b.tanh(b.reduce("sum", windows, [axis + draw(st.integers(0, 1))]))


def _place(draw: Draw, b: Builder, pool: Values, params: Values) -> SSAValue:
    """Chosen by the place in the sequence or in the row."""
    x = pick(draw, pool)
    i = b.iota(dims_of(x), own_axis(draw, x))
    flag = b.compare(draw(st.sampled_from(["lt", "ne"])), i, b.fill(2, [], "i32"))
    return b.select(flag, x, draw(st.sampled_from([b.neg(x), b.full_like(x, 0.5)])))


MAKERS: list[Make] = [_unary, _binary, _binary, _product, _product, _scores, _reduce, _softmax]
MAKERS += [_move, _fold, _cut, _windows, _place]


def loop(draw: Draw, b: Builder, pool: Values, consts: Values, depth: int) -> None:
    """Over time, or a few times; what it does to a sequence ends with its length, or does not."""
    sequences = [b.transpose(v, _time_first(v)) for v in pool if dims_of(v).count(T) == 1]
    xs = draw(st.lists(st.sampled_from(sequences), max_size=2)) if sequences else []
    states = [v for v in pool if len(dims_of(v)) < MOST_AXES]
    inits = draw(st.lists(st.sampled_from(states), min_size=1, max_size=2))
    whole = draw(st.lists(st.sampled_from(pool), max_size=2))
    ends = draw(st.booleans())
    count = T if xs else draw(st.sampled_from([T, Dim.of(2)]))

    def body(i: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        *params, lengths = ks[: len(consts)]
        *own, t = rows
        local = [*ks[len(consts) :], *carry, *own]
        grow(draw, i, local, params, 4)
        if depth:
            loop(draw, i, local, ks[: len(consts)], depth - 1)
            grow(draw, i, local, params, 2)
        following = Values()
        for old in carry:
            alike = [v for v in local if v.type == old.type]
            new = i.tanh(i.add(*(draw(st.sampled_from(alike[-3:])) for _ in range(2))))
            following.append(_until(i, t, lengths, new, old) if ends else new)
        ys = [v for v in local if len(dims_of(v)) < MOST_AXES and N in dims_of(v)]
        return following, [draw(st.sampled_from(ys)), following[0]]

    rows = [*xs, b.iota([count], 0)]
    finals, ys = b.scan([*consts, *whole], inits, rows, body, draw(st.booleans()))
    pool += [*finals, *(y for y in ys if len(dims_of(y)) <= MOST_AXES)]


def _time_first(x: SSAValue) -> list[int]:
    axis = dims_of(x).index(T)
    return [axis, *(i for i in range(len(dims_of(x))) if i != axis)]


def _until(b: Builder, t: SSAValue, lengths: SSAValue, new: SSAValue, old: SSAValue) -> SSAValue:
    """The new value where the sequence has not ended."""
    dims = dims_of(old)
    inside = b.compare("lt", b.broadcast(t, [N], []), lengths)
    return b.select(b.broadcast(inside, dims, [dims.index(N)]), new, old)
