"""Random small programs of the `rnn` dialect, and the check that two programs mean the same.

Values stay tame: products are with numbers below 1 and exponentials of numbers in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.gates import repeat, when
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of, dtype_of
from tests.op_strategies import MAKERS, Draw, N, Pool, T, pick

Array = np.ndarray[Any, Any]
SIZES = {"T": 4, "N": 3}
WIDTHS = [1, 2, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 20, 23, 31, 33, 48]


def assert_same_meaning(
    program: Program, change: Callable[[Program], object], rtol: float = 0.0, seed: int = 0
) -> None:
    """Interpret a program before and after a change, on several sizes; 0 compares bits."""
    cases = [make_inputs(program, {**SIZES, "T": t}, seed + t) for t in (4, 1, 0)]
    before = [run(program, inputs, np.float64, sizes) for sizes, inputs in cases]
    change(program)
    program.module.verify()
    for (sizes, inputs), expected in zip(cases, before, strict=True):
        known = {n: a for n, a in inputs.items() if n in program.net.inputs or n in program.params}
        after = run(program, known, np.float64, sizes)
        assert list(after) == list(expected)
        for name, array in expected.items():
            np.testing.assert_allclose(after[name], array, rtol=rtol, atol=rtol, err_msg=name)
            if rtol == 0:
                signs = [np.signbit(a) & ~np.isnan(a) for a in (after[name], array)]
                np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


def make_inputs(
    program: Program, sizes: dict[str, int], seed: int = 0
) -> tuple[dict[str, int], dict[str, Array]]:
    """Random inputs, and values of parameters that have none; lengths are up to T."""
    rng = np.random.default_rng(seed)
    values = {n: v for n, v in program.net.inputs.items() if n not in program.arrays}
    values |= {n: p.y for n, p in program.params.items() if n not in program.arrays}
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        shape = [d.evaluate(sizes) for d in dims_of(value)]
        if dtype_of(value) == "i32":
            arrays[name] = rng.integers(0, sizes["T"] + 1, shape).astype(np.int32)
        else:
            arrays[name] = rng.uniform(-1, 1, shape)
    return sizes, arrays


@st.composite
def programs(draw: Draw, scans: bool = True, known: bool = True, width: int = 3) -> Program:
    """A net of a few ops over a sequence, states, lengths and parameters (`known`: with values)."""
    b = Builder.net("random")
    x, h = b.input("x", ["T", "N", width]), b.input("h", ["N", width])
    pool = [x, h, b.input("c", [1, "N", width]), b.input("v", [width])]
    lengths = b.input("lengths", ["N"], "i32")
    shapes = {"w": (width, width), "u": (2 * width, width), "bias": (width,)}
    pool += [b.param(name, shape) for name, shape in shapes.items()]
    pool += [b.fill(draw(st.sampled_from([0.0, -0.0, 1.0, 0.5])), ["N", width])]
    if draw(st.booleans()):
        pool.append(b.reverse_segments(x, lengths))
    _grow(draw, b, pool, 5)
    for _ in range(draw(st.integers(0, 2)) if scans else 0):
        draw(st.sampled_from(LOOPS))(draw, b, pool, lengths, depth=1)
        _grow(draw, b, pool, 3)
    count = draw(st.integers(1, 3))
    outputs = {f"y{i}": draw(st.sampled_from(pool)) for i in range(count)} | {"last": pool[-1]}
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = {n: rng.uniform(-0.5, 0.5, s) for n, s in shapes.items()} if known else {}
    return b.finish(outputs, arrays)


@st.composite
def laid_out_programs(draw: Draw) -> Program:
    """A net whose inputs and outputs lie in any order of their axes, of widths around vectors'."""
    b, width = Builder.net("laid_out"), draw(st.sampled_from(WIDTHS))
    other = draw(st.sampled_from([width, 2 * width, *WIDTHS]))

    def laid_out(name: str, dims: Sequence[str | int]) -> SSAValue:
        order = draw(st.permutations(range(len(dims))))
        x = b.input(name, [dims[axis] for axis in order])
        return b.transpose(x, [order.index(axis) for axis in range(len(dims))])

    shapes = {"x": ["T", "N", width], "h": ["N", width], "z": ["T", "N", other], "v": [width]}
    pool = [laid_out(name, dims) for name, dims in shapes.items()]
    pool += [laid_out("m", ["N", width, other]), b.param("w", [width, width])]
    lengths = b.input("lengths", ["N"], "i32")
    _grow(draw, b, pool, 5)
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from(LOOPS))(draw, b, pool, lengths, depth=1)
        _grow(draw, b, pool, 3)
    outputs = [pool[-1], *draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))]
    turned = [b.transpose(y, draw(st.permutations(range(len(dims_of(y)))))) for y in outputs]
    return b.finish({f"y{i}": y for i, y in enumerate(turned)})


def _grow(draw: Draw, b: Builder, pool: Pool, most: int) -> None:
    """Append ops over the pool's values; a draw that does not fit is left out."""
    for _ in range(draw(st.integers(1, most))):
        make = draw(st.sampled_from(MAKERS))
        try:
            y = make(draw, b, pool)
        except CompileError:
            continue
        if len(dims_of(y)) <= 4:
            pool.append(y)


def _scan(draw: Draw, b: Builder, pool: Pool, lengths: SSAValue, depth: int) -> None:
    """A loop over some of the pool's values; its results join the pool."""
    sequences = [v for v in pool if dims_of(v)[:1] == (T,)]
    xs = draw(st.lists(st.sampled_from(sequences), max_size=2)) if sequences else []
    inits = [pick(draw, pool) for _ in range(draw(st.integers(0, 3)))]
    consts = [pick(draw, pool) for _ in range(draw(st.integers(0, 3)))]
    masked = draw(st.booleans())

    def body(inner: Builder, ks: Pool, carry: Pool, rows: Pool) -> tuple[Pool, Pool]:
        *ks, ends = ks
        *rows, t = rows
        local = [*ks, *carry, *rows]
        if not local:
            local.append(inner.fill(0.5, [3]))
        _grow(draw, inner, local, 6)
        if depth and draw(st.integers(0, 3)) == 0:
            draw(st.sampled_from(LOOPS))(draw, inner, local, ends, depth - 1)
        new = [_next(draw, inner, local, c, masked, t, ends) for c in carry]
        return new, [pick(draw, local) for _ in range(draw(st.integers(0, 2)))] + new[:1]

    time = b.iota(["T"], 0)
    reverse = draw(st.booleans())
    finals, ys = b.scan([*consts, lengths], inits, [*xs, time], body, reverse)
    pool += [*finals, *(y for y in ys if len(dims_of(y)) <= 4)]


def _when(draw: Draw, b: Builder, pool: Pool, lengths: SSAValue, depth: int) -> None:
    """A conditional over some of the pool's values, or two of opposite conditions."""
    gate, consts, inits = _condition(draw, b, pool), _some(draw, pool), _some(draw, pool)
    body = _branch(draw, lengths, depth)
    finals = when(b, gate, [*consts, lengths], inits, body)
    if draw(st.booleans()):
        opposite = b.logical_not(gate)
        other = when(b, opposite, [*consts, lengths], finals, _branch(draw, lengths, depth))
        finals = draw(st.sampled_from([other, [*finals, *other]]))
    pool += finals


def _while(draw: Draw, b: Builder, pool: Pool, lengths: SSAValue, depth: int) -> None:
    """A loop that ends by a count, or by what it computes, or after four iterations."""
    consts, inits = _some(draw, pool), _some(draw, pool)
    last = b.reduce("sum", lengths, [0])
    zero = b.fill(0, [], "i32")
    by_count, other = draw(st.booleans()), _branch(draw, lengths, depth)

    def body(inner: Builder, ks: Pool, carry: Pool) -> Pool:
        *ks, ends, last = ks
        _, count, *values = carry
        new = other(inner, [*ks, ends], values)
        count = inner.add(count, inner.fill(1, [], "i32"))
        go = inner.compare("lt", count, last)
        if not by_count:
            go = inner.logical("and", go, _condition(draw, inner, new))
        return [go, count, *new]

    go = b.compare("lt", zero, last)
    finals = repeat(b, [*consts, lengths, last], [go, zero, *inits], body, 4, limited=False)
    pool += finals[2:]


def _branch(draw: Draw, lengths: SSAValue, depth: int) -> Callable[[Builder, Pool, Pool], Pool]:
    """The body of a conditional or of a loop that ends by itself; lengths are its last const."""

    def body(inner: Builder, ks: Pool, carry: Pool) -> Pool:
        *ks, ends = ks
        local = [*ks, *carry] or [inner.fill(0.5, [3])]
        _grow(draw, inner, local, 4)
        if depth and draw(st.integers(0, 2)) == 0:
            draw(st.sampled_from(LOOPS))(draw, inner, local, ends, depth - 1)
        return [_next(draw, inner, local, c, False, ends, ends) for c in carry]

    return body


def _condition(draw: Draw, b: Builder, pool: Pool) -> SSAValue:
    """A bool of rank 0 that depends on what a value holds."""
    x = pick(draw, pool)
    total = b.reduce("sum", b.tanh(x), range(len(dims_of(x)))) if dims_of(x) else x
    return b.compare("lt", total, b.fill(draw(st.sampled_from([-9.0, 0.011, 9.0])), []))


def _some(draw: Draw, pool: Pool) -> Pool:
    return [pick(draw, pool) for _ in range(draw(st.integers(1, 3)))]


LOOPS = [_scan, _scan, _when, _while]


def _next(
    draw: Draw, b: Builder, local: Pool, old: SSAValue, masked: bool, t: SSAValue, ends: SSAValue
) -> SSAValue:
    """A new value for a carry, of its type; kept where the step is beyond the length."""
    same = [v for v in local if v.type == old.type]
    new = draw(st.sampled_from(same))
    if draw(st.booleans()):
        new = b.tanh(b.add(new, draw(st.sampled_from(same))))
    if masked and dims_of(old)[-2:-1] == (N,):
        live = b.reshape(b.compare("lt", t, ends), ["N", 1])
        new = b.select(live, new, old)
    return new


@st.composite
def ragged_programs(draw: Draw) -> Program:
    """Loops with products whose states are kept, or zero, where steps are beyond the lengths."""
    width, batch = draw(st.sampled_from([3, 18])), draw(st.sampled_from(["N", "N", 1]))
    b = Builder.net("ragged")
    x, h = b.input("x", ["T", batch, width]), b.input("h", [batch, width])
    lengths, w = b.input("lengths", [batch], "i32"), b.param("w", (width, width))
    pool, outputs = [x, b.tanh(b.matmul(x, w))], dict[str, SSAValue]()
    for number in range(draw(st.integers(1, 2))):
        final, y = _ragged_loop(draw, b, pool, h, [w, lengths])
        pool += [y, b.reverse_segments(y, lengths)]
        outputs |= {f"final{number}": final, f"y{number}": draw(st.sampled_from(pool))}
    array = np.random.default_rng(draw(st.integers(0, 99))).uniform(-0.5, 0.5, (width, width))
    return b.finish({**outputs, "last": pool[-1]}, {"w": array})


def _ragged_loop(draw: Draw, b: Builder, pool: Pool, h: SSAValue, consts: Pool) -> Pool:
    """The last state and all of them."""
    sequences = [v for v in pool if dims_of(v)[-1] == dims_of(h)[-1]]
    fill, ends_it = draw(st.booleans()), draw(st.booleans())

    def body(inner: Builder, ks: Pool, carry: Pool, rows: Pool) -> tuple[Pool, Pool]:
        (w, ends), (old,), (row, t) = ks, carry, rows
        local = [old, row, inner.add(inner.matmul(old, w), row)]
        _grow(draw, inner, local, 6)
        same = [v for v in local if v.type == old.type]
        new = inner.tanh(inner.add(inner.matmul(draw(st.sampled_from(same)), w), same[-1]))
        dims = dims_of(old)
        other = inner.fill(0.0, dims) if fill else draw(st.sampled_from([old, old, *same]))
        kind, branches = ("ge", (other, new)) if ends_it else ("lt", (new, other))
        mask = inner.compare(kind, inner.broadcast(t, dims[:1], []), ends)
        kept = inner.select(inner.broadcast(mask, dims, [0]), *branches)
        return [kept], [draw(st.sampled_from([kept, kept, new]))]

    xs = [draw(st.sampled_from(sequences)), b.iota(["T"], 0)]
    (final,), (y,) = b.scan(consts, [h], xs, body, draw(st.booleans()))
    return [final, y]
