"""Gradients in the place of what was saved: where they may go, and where not."""

from __future__ import annotations

import numpy as np

from rnncc.driver.compiling import build_library
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern import interpreter as kern_interpreter
from rnncc.kern.program import KernelProgram
from rnncc.nn.reduction import cumulate
from rnncc.options import Options
from tests.codegen.random_programs import single
from tests.compiling import phases_of
from tests.golden import Arrays
from tests.passes.nets import gated
from tests.strategies import make_inputs
from tests.training.models import check_close
from tests.training.random_nets import check_trained

SIZES = {"T": 5, "N": 3}


def backward_of(program: Program) -> KernelProgram:
    return build_library(program, None, Options(name="net", train=True)).programs["backward"]


def within(program: KernelProgram) -> dict[str, str]:
    return {b.label.data: b.within.data for b in program.buffers if b.within is not None}


def test_gate_gradients_replace_the_gates() -> None:
    backward = backward_of(gated())
    assert list(within(backward).values()) == ["saved:i"]
    (slot,) = (port for port in backward.inputs if port.name == "saved:i")
    assert str(slot.dims[-1]) == "9"
    assert not any("T" in formula.symbols for formula in backward.workspace.formulas)


def test_the_gradients_stay_right() -> None:
    """In the kern dialect's own meaning, the same array under both names."""
    phases = phases_of(gated(), Options(name="net", train=True))
    _, inputs = make_inputs(phases.forward, SIZES)
    made = run(phases.forward, inputs, np.float64, SIZES)
    given: Arrays = {**inputs, "grad:y": np.ones((5, 3, 3))}
    given |= {name: made[name] for name in phases.saved}
    given |= {name: made[name.removeprefix("kept:")] for name in phases.kept}
    known = {n: a for n, a in given.items() if n in (*phases.backward.net.inputs, "u", "w")}
    want = run(phases.backward, known, np.float64, SIZES)
    single = {name: array.astype(np.float32) for name, array in known.items()}
    got = kern_interpreter.run(backward_of(gated()), single, SIZES)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, 1e-4, 1e-4, err_msg=name)


def repeated() -> Program:
    """A loop over rows that another loop runs again and again."""
    b = Builder.net("repeated")
    x, h0, again = b.input("x", ["T", "N", 3]), b.input("h0", ["N", 4]), b.input("again", ["K"])

    def step(inner: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        return [inner.tanh(inner.mul(carry[0], rows[0]))], []

    def body(outer: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        return outer.scan([], carry, ks, step)[0], []

    projected = b.matmul(x, b.param("w", [3, 4]))
    (last,), _ = b.scan([projected], [h0], [again], body)
    return b.finish({"y": last})


def test_rows_that_an_outer_loop_reads_again_stay() -> None:
    check_trained(repeated(), "auto", check_close, single, [{**SIZES, "K": 3}])


def test_what_is_read_behind_the_loop_stays() -> None:
    """The sigmoids of x are saved as one sequence, and read again for a weight outside."""
    b = Builder.net("read_later")
    x, v, h0 = b.input("x", ["T", "N", 3]), b.param("v", [3, 3]), b.input("h0", ["N", 3])

    def body(inner: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        z = inner.sigmoid(inner.add(inner.matmul(carry[0], ks[0]), rows[0]))
        return [inner.mul(z, z)], [z]

    _, (gate,) = b.scan([v], [h0], [x], body)
    program = b.finish({"y": b.matmul(gate, b.param("out", [3, 3]))})
    assert within(backward_of(program)) == {}


def summed_along_units() -> Program:
    """Gradients that lie across what was saved, in whose place they are put."""
    b = Builder.net("across")
    x, h0 = b.input("x", [2, "T", 6]), b.input("h0", [2, 6])

    def body(inner: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        y = inner.tanh(inner.add(carry[0], rows[0]))
        for _ in range(3):
            y = inner.sub(y, inner.mul(y, inner.mul(y, y)))
        return [cumulate(inner, y, 1)], []

    (last,), _ = b.scan([], [h0], [b.transpose(x, [1, 0, 2])], body)
    return b.finish({"y": last})


def test_gradients_in_place_that_are_turned_round() -> None:
    """Tiles of the last columns are not computed twice: they would read their own results."""
    assert within(backward_of(summed_along_units()))
    check_trained(summed_along_units(), "auto", check_close, single, [SIZES])
