"""`state=`: streams of nets that take a state in and give the next one out, whatever that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rnncc_runtime import Model
from xdsl.ir import SSAValue

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from tests.codegen.random_programs import examples
from tests.codegen.row_programs import grow, loop
from tests.golden import Arrays

Draw = Callable[..., Any]
Values = list[SSAValue]
PRECISIONS = st.sampled_from(["fp32", "fp32", "bf16", "int8"])
BATCH = 3


@st.composite
def stateful(draw: Draw) -> tuple[Program, dict[str, str]]:
    """A step over two states of one shape, one of another, and a count; next states are anything
    that has their shape: each other, themselves, rows of x, constants."""
    b, width = Builder.net("stateful"), draw(st.sampled_from([3, 8, 19]))
    dims = ["N", width]
    states = [b.input("a", dims), b.input("c", dims), b.input("m", ["N", width, 5])]
    count, one = b.input("count", ["N"], "i32"), b.fill(1, ["N"], "i32")
    lengths = b.input("lengths", ["N"], "i32") if draw(st.booleans()) else count
    timed = draw(st.booleans())
    x = b.input("x", ["T", *dims] if timed else dims)
    shapes = {"w": (width, width), "u": (2 * width, width), "bias": (width,)}
    params = [b.param(name, shape) for name, shape in shapes.items()]
    pool = [x, *states]
    grow(draw, b, pool, params, 5)
    if timed:
        loop(draw, b, pool, [*params, lengths], 0)
        grow(draw, b, pool, params, 3)
    nexts = Values()
    for state in states:
        alike = [v for v in pool if v.type == state.type]
        nexts.append(draw(st.sampled_from([*alike, *states[:2], b.full_like(state, 0.5)])))
    nexts = [n if n.type == s.type else s for n, s in zip(nexts, states, strict=True)]
    nexts.append(b.add(count, one) if draw(st.booleans()) else count)
    names = ["a", "c", "m", "count"]
    outputs = {"y": pool[-1], "z": draw(st.sampled_from(pool))}
    outputs |= {f"next {name}": value for name, value in zip(names, nexts, strict=True)}
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = {n: rng.uniform(-0.5, 0.5, s).astype(np.float32) for n, s in shapes.items()}
    kept = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    return b.finish(outputs, arrays), {name: f"next {name}" for name in kept}


def check(program: Program, state: dict[str, str], **options: Any) -> None:
    """The bits of a net whose states are given to each call; a stream goes on where one was."""
    plain = rnncc.compile(program.copy(), **options)
    model = rnncc.compile(program.copy(), state=state, **options)
    assert isinstance(plain, Model) and isinstance(model, Model)
    given = drawn(model, 0)
    starts = {name: given[name] for name in model.stream(BATCH).starts}
    stream, other = (model.stream(BATCH, starts) for _ in range(2))
    held = dict(starts)
    for call in range(4):
        inputs = drawn(model, call)
        want = plain.run({name: held.get(name, inputs[name]) for name in plain.inputs})
        before = stream.state
        got = stream.step({name: inputs[name] for name in stream.inputs})
        other.state = before
        again = other.step({name: inputs[name] for name in stream.inputs})
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{name} {call}")
            np.testing.assert_array_equal(again[name], array, err_msg=f"{name} {call} again")
        held |= {name: want[following] for name, following in state.items()}


def drawn(model: Model, seed: int) -> Arrays:
    rng, arrays = np.random.default_rng(seed), dict[str, np.ndarray[Any, Any]]()
    sizes = {"T": (2, 1, 0, 5)[seed], "N": BATCH}
    for name, spec in model.inputs.items():
        shape = [size.evaluate(sizes) for size in spec.sizes]
        whole = spec.dtype.kind == "i"
        made = rng.integers(0, 4, shape) if whole else rng.uniform(-1, 1, shape)
        arrays[name] = made.astype(spec.dtype)
    return arrays


@examples(3)
@given(stateful(), PRECISIONS)
def test_random_steps(net: tuple[Program, dict[str, str]], precision: str) -> None:
    check(*net, precision=precision)


@pytest.mark.slow
@examples(500)
@given(stateful(), PRECISIONS, st.booleans())
def test_many(net: tuple[Program, dict[str, str]], precision: str, threads: bool) -> None:
    check(*net, precision=precision, threads=threads)
