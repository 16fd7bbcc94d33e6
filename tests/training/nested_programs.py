"""Random loops in loops: over sequences of before both, of the loop around, and of each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.ir.builder import Body, Builder
from rnncc.ir.dims import Dim
from rnncc.ir.gates import Branch, repeat, when
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of

Draw = Callable[..., Any]
Values = list[SSAValue]
T, K = Dim.of("T"), Dim.of("K")
SIZES = [{"T": 4, "N": 2, "K": 3}, {"T": 1, "N": 1, "K": 2}]
EMPTY = [{"T": 0, "N": 2, "K": 2}, {"T": 2, "N": 1, "K": 0}]
MOST = 3
"""Iterations of a loop that ends by itself, and the axes of what leaves a loop."""


@st.composite
def nested_programs(draw: Draw) -> Program:
    """A loop with one or two levels of loops in it, and what is computed before and behind it."""
    b, width = Builder.net("nested"), draw(st.sampled_from([3, 3, 8, 17]))
    dims = ["N", width]
    pool = [b.input("h", dims), b.input("x", ["T", *dims]), b.input("z", ["K", *dims])]
    pool += [b.input("s", ["K", "T", *dims])] if draw(st.booleans()) else []
    w = b.param("w", [width, width])
    pool += [b.matmul(pool[1], w), b.matmul(pool[2], w)]  # which are kept on the tape
    grow(draw, b, pool, w, 3)
    before = len(pool)
    loop(draw, b, pool, w, draw(st.sampled_from([1, 1, 2])))
    outputs = pool[before:]
    grow(draw, b, pool, w, 2)
    return b.finish({"last": pool[-1], **{f"y{i}": value for i, value in enumerate(outputs)}})


def grow(draw: Draw, b: Builder, pool: Values, w: SSAValue, most: int) -> None:
    """Append values between -1 and 1, or a little beyond."""
    makers = draw(st.sampled_from([ELEMENTWISE, ELEMENTWISE, MAKERS]))
    for _ in range(draw(st.integers(1, most))):
        pool.append(draw(st.sampled_from(makers))(draw, b, pool, w))


def latest(draw: Draw, pool: Values) -> SSAValue:
    return draw(st.sampled_from([*pool, *pool[-3:]]))


def pair(draw: Draw, b: Builder, pool: Values) -> Values:
    """A value, and one of its shape or of its rows' shape."""
    x = latest(draw, pool)
    dims = dims_of(x)
    y = draw(st.sampled_from([v for v in pool if dims[-len(dims_of(v)) :] == dims_of(v)]))
    return b.broadcast_together(x, y)


def joined(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    return b.tanh(draw(st.sampled_from([b.add, b.sub, b.mul]))(*pair(draw, b, pool)))


def gated(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    x, y = pair(draw, b, pool)
    return b.mul(x, b.sigmoid(y))


def function(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    x = latest(draw, pool)
    return draw(st.sampled_from([b.tanh, b.sigmoid, b.sin, lambda x: b.mul(x, x)]))(x)


def product(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    y = b.matmul(latest(draw, pool), w, False, draw(st.booleans()))
    return y if draw(st.booleans()) else b.tanh(y)


def total(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    """A sum over the first axis, or over the last, which the value is scaled with."""
    x = latest(draw, pool)
    dims = dims_of(x)
    if len(dims) > 2 and draw(st.booleans()):
        return b.tanh(b.reduce("sum", x, [0]))
    scale = b.sigmoid(b.reduce("sum", x, [len(dims) - 1]))
    return b.mul(x, b.broadcast(scale, dims, range(len(dims) - 1)))


def later(draw: Draw, b: Builder, pool: Values, w: SSAValue) -> SSAValue:
    """The rows of a sequence one step later, or earlier."""
    x = latest(draw, pool)
    if len(dims_of(x)) < 3:
        return b.neg(x)
    first = [v for v in pool if dims_of(v) == dims_of(x)[1:]]
    start = draw(st.sampled_from(first)) if first else b.fill(0.5, dims_of(x)[1:])
    return b.shift(x, start, draw(st.booleans()))


ELEMENTWISE = [joined, gated, function]
MAKERS = [*ELEMENTWISE, *ELEMENTWISE, product, total, later]
KINDS = [*["rows"] * 7, "skip", "count", "when", "while"]


def loop(draw: Draw, b: Builder, pool: Values, w: SSAValue, depth: int) -> None:
    """A loop with others in it, `depth` levels of them; its results join the pool."""
    sequences = [v for v in pool if len(dims_of(v)) > 2]
    kind = draw(st.sampled_from(KINDS))
    # those of outside come first, which the loop around reads again and again
    likely = [*sequences, *sequences[:2], *sequences[:2]]
    xs = [draw(st.sampled_from(likely))] if likely and kind in ("rows", "skip") else []
    count = dims_of(xs[0])[0] if xs else draw(st.sampled_from([T, K, Dim.of(2)]))
    alike = [v for v in sequences if dims_of(v)[0] == count]
    xs += draw(st.lists(st.sampled_from(alike), max_size=1)) if xs else []
    carried = [v for v in pool if len(dims_of(v)) <= MOST]
    same = [v for v in carried if xs and dims_of(v) == dims_of(xs[0])[1:]]  # a row and a state meet
    inits = [draw(st.sampled_from(same or carried))]
    inits += draw(st.lists(st.sampled_from(carried), max_size=1))
    consts = [w, *draw(st.lists(st.sampled_from(sequences[-4:] or pool), min_size=1, max_size=3))]
    consts += draw(st.lists(st.sampled_from(pool), max_size=1))

    def body(i: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        local = [*ks[1:], *carry, *rows]
        grow(draw, i, local, ks[0], 2)
        if depth:
            for _ in range(draw(st.sampled_from([1, 1, 2]))):
                loop(draw, i, local, ks[0], depth - 1)
                grow(draw, i, local, ks[0], 2)
        ys = [v for v in local if len(dims_of(v)) <= MOST]
        following = [_next(draw, i, local, old) for old in carry]
        return following, [draw(st.sampled_from(ys)) for _ in range(draw(st.integers(0, 2)))]

    pool += _run(draw, b, kind, (consts, inits, xs), count, body)


def _run(
    draw: Draw, b: Builder, kind: str, groups: tuple[Values, Values, Values], count: Dim, body: Body
) -> Values:
    """The results of a loop of a kind that others may read."""
    consts, inits, xs = groups
    if kind == "when":
        branch: Branch = lambda i, ks, carry: body(i, ks, carry, [])[0]  # noqa: E731
        return when(b, _small(b, inits[0]), consts, inits, branch)
    if kind == "while":
        return _while(b, consts, inits, body)
    reverse = draw(st.booleans())
    if kind != "skip":
        finals, ys = b.scan(consts, inits, xs, body, reverse, count)
        return [*finals, *ys]
    skipped = b.fill(draw(st.integers(0, 2)), [count], "i32")
    flags = b.compare("ne", b.iota([count], 0), skipped)
    step: Body = lambda i, ks, carry, rows: body(i, ks, carry, rows[:-1])  # noqa: E731
    gate = len(consts) + len(inits) + len(xs)
    # of steps that do not run, ys hold anything
    return b.scan(consts, inits, [*xs, flags], step, reverse, count, gate)[0]


def _next(draw: Draw, b: Builder, local: Values, old: SSAValue) -> SSAValue:
    """What a loop carries on, tame however often it is computed."""
    alike = [v for v in local if v.type == old.type]
    x, y = draw(st.sampled_from(alike)), draw(st.sampled_from(alike[-2:]))
    gated = b.tanh(b.add(b.mul(x, b.sigmoid(y)), b.tanh(y)))
    return draw(st.sampled_from([y, b.tanh(b.add(x, y)), gated]))


def _small(b: Builder, x: SSAValue) -> SSAValue:
    """A bool of rank 0 that no rounding tips over, often true."""
    total = b.reduce("sum", b.tanh(x), range(len(dims_of(x))))
    return b.compare("lt", total, b.fill(0.7123, []))


def _while(b: Builder, consts: Values, inits: Values, body: Body) -> Values:
    """A loop that ends by what it computes, or after some iterations."""

    def step(i: Builder, ks: Values, carry: Values) -> Values:
        following = list(body(i, ks, carry[1:], [])[0])
        return [_small(i, following[0]), *following]

    return repeat(b, consts, [_small(b, inits[0]), *inits], step, MOST, limited=False)[1:]
