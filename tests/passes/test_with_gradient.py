"""A gradient that a user gives: whatever passes do, each use of an op has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Block, SSAValue
from xdsl.parser import Parser

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.rnn import RNN
from rnncc.passes.cleanup.cse import Cse
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.strip_stop_gradient import StripStopGradient
from rnncc.passes.loops.hoist import Hoist
from rnncc.passes.loops.split_scans import SplitScans
from tests.passes.helpers import applied, count, loops_of

Made = Callable[[Builder, SSAValue, SSAValue], SSAValue]
LINEAR: dict[str, Made] = {
    "mul": lambda b, dy, r: b.mul(dy, r),
    "twice": lambda b, dy, r: b.sub(b.neg(dy), b.mul(dy, r)),
    "masked": lambda b, dy, r: b.select(b.compare("gt", r, dy_like(b, r)), dy, dy_like(b, r)),
    "divided": lambda b, dy, r: b.div(b.cast(dy, "f32"), r),
    "product": lambda b, dy, r: b.matmul(dy, b.matmul(r, r, transpose_b=True)),
    "sum": lambda b, dy, r: b.broadcast(b.reduce("sum", dy, [0]), [4, 4], [1]),
    "joined": lambda b, dy, r: b.slice(b.concat([dy, dy_like(b, r)], 0), 0, 2, 4),
}
NONLINEAR: dict[str, Made] = {
    "square": lambda b, dy, r: b.mul(dy, dy),
    "shifted": lambda b, dy, r: b.add(dy, r),
    "bounded": lambda b, dy, r: b.minimum(dy, r),
    "sign": lambda b, dy, r: b.select(b.compare("gt", dy, r), r, b.neg(r)),
    "constant": lambda b, dy, r: r,
    "largest": lambda b, dy, r: b.broadcast(b.reduce("max", dy, [0]), [4, 4], [1]),
    "of a quotient": lambda b, dy, r: b.div(r, dy),
}


def dy_like(b: Builder, x: SSAValue) -> SSAValue:
    return b.full_like(x, 0.0)


def with_gradient(b: Builder, x: SSAValue, source: SSAValue, made: Made) -> SSAValue:
    """x, whose gradient with respect to a source is made of dy and the source itself."""
    inner = Builder(Block(arg_types=[x.type, source.type]))
    dy, read = inner.block.args
    return b.with_gradient(x, [source], [source], inner, [made(inner, dy, read)])


def looped(made: Made) -> Program:
    """A matrix that each step reads twice: as it is, and rounded, with the gradient made."""
    b = Builder.net("loop")
    w, h, xs = b.input("w", [4, 4]), b.input("h", ["N", 4]), b.input("x", ["T", "N", 4])

    def body(b: Builder, ks: list[Any], carry: list[Any], rows: list[Any]) -> Any:
        rounded = with_gradient(b, b.round("even", ks[0]), ks[0], made)
        new = b.tanh(b.add(b.matmul(carry[0], rounded), b.matmul(rows[0], rounded)))
        return [new], []

    (last,), _ = b.scan([w], [h], [xs], body)
    return b.finish({"y": last})


def inputs(steps: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 4), "h": (2, 4), "x": (steps, 2, 4)}
    low = {"w": 0.4, "h": -0.3, "x": -0.3}  # small sums, as functions are flat at large ones
    return {
        name: rng.uniform(low[name], low[name] + 0.6, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("name", [*LINEAR, *NONLINEAR])
def test_what_is_linear_leaves_a_loop(name: str) -> None:
    program = looped({**LINEAR, **NONLINEAR}[name])
    applied(Simplify(), SplitScans(), Hoist(), Simplify())(program)
    (loop,) = loops_of(program)
    assert count(loop.body.block)["with_gradient"] == (name in NONLINEAR)


@pytest.mark.parametrize("name", [*LINEAR, *NONLINEAR])
def test_passes_keep_the_gradient(name: str) -> None:
    """Compiled, interpreted after all passes before reverse mode, and without any of them."""
    program, given = looped({**LINEAR, **NONLINEAR}[name]), inputs()
    seed = {"grad:y": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)}
    plain = run(differentiate(program, ["y"], ["w", "h", "x"]), given | seed)
    model: Any = rnncc.compile(program, train=True)
    outputs, tape = model.forward(given)
    grads = model.backward(tape, {"y": seed["grad:y"]})
    np.testing.assert_allclose(outputs["y"], plain["y"], rtol=1e-5, atol=1e-6)
    for source in ("w", "h", "x"):
        want = plain[f"grad:{source}"]
        np.testing.assert_allclose(grads[source], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_equal_ones_are_not_merged() -> None:
    """Of the square of a gradient, two halves give less than the whole."""
    b = Builder.net("two")
    x = b.input("x", [4, 4])
    parts = [with_gradient(b, x, x, NONLINEAR["square"]) for _ in range(2)]
    program = b.finish({"y": b.add(*parts)})
    applied(Cse(), Simplify())(program)
    ones = np.ones((4, 4), np.float32)
    made = run(differentiate(program, ["y"], ["x"]), {"x": ones, "grad:y": ones * 3})
    assert made["grad:x"].tolist() == (ones * 18).tolist()


def test_its_text_is_read_again() -> None:
    program = looped(NONLINEAR["square"])
    context = Context()
    context.load_dialect(RNN)
    text = str(program.module)
    context.load_dialect(Builtin)
    again = Parser(context, text).parse_module()
    again.verify()
    assert str(again) == text and "rnn.with_gradient" in text


def test_stripped() -> None:
    program = looped(LINEAR["mul"])
    applied(StripStopGradient(), Simplify())(program)
    assert "with_gradient" not in str(program.module)
