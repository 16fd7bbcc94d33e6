"""Products whose results are rearranged in ways that no index of the product tells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder, Values
from rnncc.ir.dims import Dim
from rnncc.ir.interpreter import run
from rnncc.kern import interpreter as kern_interpreter
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import as_it_is

T = Dim.of("T")


def swapped(b: Builder, x: SSAValue) -> SSAValue:
    """[T, 1, 4] with its columns 0, 2, 1, 3."""
    pairs = b.transpose(b.reshape(x, (T, 1, 2, 2)), [0, 1, 3, 2])
    return b.reshape(pairs, (T, 1, 4))


MAKES: dict[str, Callable[[Builder, SSAValue], SSAValue]] = {
    "the product": swapped,
    "a function of it": lambda b, x: swapped(b, b.mul(x, x)),
    "beside the product": lambda b, x: b.add(x, swapped(b, x)),
    "the rows before": lambda b, x: b.tanh(b.shift(x, b.fill(0.5, [1, 4]))),
    "beside the rows behind": lambda b, x: b.mul(x, b.shift(x, b.fill(0.5, [1, 4]), True)),
    "a function of both": lambda b, x: b.mul(swapped(b, b.neg(x)), swapped(b, x)),
}


@pytest.mark.parametrize("name", MAKES)
def test_rearranged(name: str) -> None:
    b = Builder.net("made")
    x, w = b.input("x", (T, 1, 4)), b.input("w", (4, 4))
    program = b.finish({"y": MAKES[name](b, b.matmul(x, w))})
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal(s, np.float32) for n, s in (("x", (5, 1, 4)), ("w", (4, 4)))}
    want = run(program, inputs)["y"]
    made = as_it_is(program)
    found = kern_interpreter.run(made, inputs, {"T": 5})["y"]
    np.testing.assert_allclose(found, want, 1e-5, 1e-6)
    with guards(True) as memory:
        code = Bare(made, resolve_target()).run(inputs, {"T": 5, "N": 1}, memory)["y"]
    np.testing.assert_allclose(code, want, 1e-5, 1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_rows_before_of_two(reverse: bool) -> None:
    """A loop of two iterations, of which LLVM's NewGVN once took the first's row in the second."""
    b = Builder.net("made")
    x, first = b.input("x", (2, "N", 8)), b.input("first", ("N", 8))
    made = as_it_is(b.finish({"y": b.shift(x, first, reverse)}))
    inputs = {"x": np.arange(48, dtype="f4").reshape(2, 3, 8), "first": np.ones((3, 8), "f4")}
    with guards(True) as memory:
        code = Bare(made, resolve_target()).run(inputs, {"T": 2, "N": 3}, memory)["y"]
    rows = [*inputs["x"][1:], inputs["first"]] if reverse else [inputs["first"], inputs["x"][0]]
    np.testing.assert_array_equal(code, np.stack(rows))


def test_known_matrices_of_each_step() -> None:
    """A loop that reads a matrix of known numbers for each step."""
    rng = np.random.default_rng(0)
    x, h = (rng.standard_normal(shape, np.float32) for shape in ((3, 2, 4), (2, 4)))

    def body(b: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = b.add(b.matmul(carry[0], rows[0], transpose_b=True), rows[1])
        return [h], [h]

    b = Builder.net("made")
    known = b.constant(rng.standard_normal((3, 4, 4), np.float32))
    _, (y,) = b.scan([], [b.input("h", (2, 4))], [known, b.input("x", (3, 2, 4))], body)
    program, inputs = b.finish({"y": y}), {"x": x, "h": h}
    want, made = run(program, inputs)["y"], as_it_is(program)
    np.testing.assert_allclose(kern_interpreter.run(made, inputs)["y"], want, 1e-5, 1e-6)
    with guards(True) as memory:
        code = Bare(made, resolve_target()).run(inputs, {"T": 1, "N": 1}, memory)["y"]
    np.testing.assert_allclose(code, want, 1e-5, 1e-6)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("width", [1, 3])
def test_a_column_for_many_units(rows: int, width: int) -> None:
    """A product of one column, repeated along the units of what it is added to."""
    b = Builder.net("made")
    x, z, w = b.input("x", (rows, 8)), b.input("z", (rows, width)), b.input("w", (8, 1))
    column = b.reshape(b.matmul(x, w), (rows,))
    program = b.finish({"y": b.add(z, b.broadcast(column, (rows, width), [0]))})
    rng = np.random.default_rng(0)
    shapes = {"x": (rows, 8), "z": (rows, width), "w": (8, 1)}
    inputs = {n: rng.standard_normal(s, np.float32) for n, s in shapes.items()}
    want = run(program, inputs)["y"]
    made = as_it_is(program)
    np.testing.assert_allclose(kern_interpreter.run(made, inputs)["y"], want, 1e-5, 1e-6)
    with guards(True) as memory:
        code = Bare(made, resolve_target()).run(inputs, {"T": 1, "N": 1}, memory)["y"]
    np.testing.assert_allclose(code, want, 1e-5, 1e-6)
