"""Loops at the speed of memory: random ones against the interpreter, and what they keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from rnncc_runtime import Pool
from xdsl.ir import SSAValue

import rnncc
from rnncc.driver.compiling import build_library
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Reduce
from rnncc.options import Options
from rnncc.passes.loops.trip_counts import restore_trip_counts
from tests.codegen.random_programs import examples, single
from tests.golden import Arrays
from tests.strategies import make_inputs
from tests.teams import insistent
from tests.training.kept import check_kept
from tests.training.light_programs import STATES, UNITS, Values, light_programs
from tests.training.models import RECOMPUTE, assert_same_bits, check_close, with_gradients
from tests.training.random_nets import check_trained

SIZES = [{"T": 0, "N": 2}, {"T": 1, "N": 1}, {"T": 37, "N": 2}]
"""The last one has two runs between checkpoints."""


def near(got: Arrays, want: Arrays, told: str) -> None:
    check_close(want, got, told)


@examples(5)
@given(light_programs(), RECOMPUTE)
def test_against_the_interpreter(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single, SIZES)


@pytest.mark.slow
@examples(500)
@given(light_programs(), RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single, SIZES)


@examples(10)
@given(light_programs())
def test_finite_differences(program: Program) -> None:
    """The gradients along one direction, of what the interpreter computes in float64."""
    sizes = {"T": 5, "N": 2}
    wanted = list(program.net.outputs)
    _, inputs = make_inputs(with_gradients(program, wanted), sizes, 5)
    grads = run(with_gradients(program, wanted), inputs, np.float64, sizes)
    rng = np.random.default_rng(1)
    own = {n: a for n, a in inputs.items() if not n.startswith("grad:")}
    direction = {n: rng.standard_normal(a.shape) for n, a in own.items()}
    slope = sum(float((grads[f"grad:{n}"] * d).sum()) for n, d in direction.items())

    def loss(step: float) -> float:
        moved = {n: a + step * direction[n] for n, a in own.items()}
        outputs = run(program, moved, np.float64, sizes)
        return sum(float((inputs[f"grad:{n}"] * y).sum()) for n, y in outputs.items())

    step = 1e-6
    measured = (loss(step) - loss(-step)) / (2 * step)
    assert abs(measured - slope) <= 1e-5 * max(1.0, abs(slope))


def decayed(i: Builder, s: SSAValue, rows: Values, dims: Sequence[Any]) -> Values:
    """s = a · s + k vᵀ, y = rᵀ (s + k vᵀ), as in RWKV-6."""
    k, r, a, v = (i.broadcast(x, dims, [0, 1, 3 if x is rows[3] else 2]) for x in rows)
    outer = i.mul(k, v)
    y = i.reduce("sum", i.mul(r, i.add(s, i.mul(i.sigmoid(a), outer))), [2])
    return [i.add(i.mul(i.sigmoid(a), s), outer), y]


def corrected(i: Builder, s: SSAValue, rows: Values, dims: Sequence[Any]) -> Values:
    """s = a · s + k (v - kᵀ s)ᵀ, y = rᵀ s, with one a for all of s: the delta rule."""
    k, r, a, v = rows
    key, query = (i.broadcast(x, dims, [0, 1, 2]) for x in (k, r))
    a = i.reduce("max", i.sigmoid(a), [2])
    told = i.reduce("sum", i.mul(s, key), [2])
    error = i.sub(v, i.mul(i.broadcast(a, [*dims[:2], dims[3]], [0, 1]), told))
    kept = i.mul(i.broadcast(a, dims, [0, 1]), s)
    after = i.add(kept, i.mul(key, i.broadcast(error, dims, [0, 1, 3])))
    return [after, i.reduce("sum", i.mul(after, query), [2])]


def matrix_states(step: Callable[..., Values], keys: int = 40, values: int = 56) -> Program:
    """A loop over matrices [N, 3, keys, values]: neither size fills vectors."""
    b, dims = Builder.net("matrices"), ["N", 3, keys, values]
    rows = [b.input(name, ["T", "N", 3, keys]) for name in "kra"]
    rows.append(b.input("v", ["T", "N", 3, values]))

    def body(i: Builder, _: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        after, y = step(i, carry[0], rows, dims)
        return [after], [y]

    finals, ys = b.scan([], [b.input("s", dims)], rows, body)
    return b.finish({"y": ys[0], "last": finals[0]})


def complex_states(units: int, states: int = 16) -> Program:
    """h = a · h + p · x over complex [N, units, states] in pairs; y = Σ re(h) + im(h) · q, beside
    an average of x."""
    b, dims = Builder.net("complex"), ["N", units, states]
    consts = [b.param(name, [units, states]) for name in "abpq"]
    starts = [b.input("re", dims), b.input("im", dims), b.input("mean", ["N", units])]

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        a, b, p, q = (i.broadcast(const, dims, [1, 2]) for const in consts)
        re, im, mean = carry
        x = i.broadcast(i.mul(rows[0], rows[0]), dims, [0, 1])
        after_re = i.add(i.sub(i.mul(a, re), i.mul(b, im)), i.mul(p, x))
        after_im = i.add(i.mul(a, im), i.mul(b, re))
        mean = i.add(i.mul(mean, i.full_like(mean, 0.5)), rows[0])
        y = i.reduce("sum", i.add(after_re, i.mul(after_im, q)), [2])
        return [after_re, after_im, mean], [i.add(y, mean)]

    xs = [b.input("x", ["T", "N", units])]
    return b.finish({"y": b.scan(consts, starts, xs, step)[1][0]})


NETS: dict[str, Callable[[], Program]] = {
    "units": lambda: selective_scan(16),
    "a rest of units": lambda: selective_scan(16, 2 * UNITS + 22),
    "functions of rows": lambda: selective_scan(16, UNITS + 22, lambda i, x: i.log1p(i.exp(x))),
    "points": lambda: complex_states(2 * UNITS + 22),
    "decayed": lambda: matrix_states(decayed),
    "corrected": lambda: matrix_states(corrected),
    "small matrices": lambda: matrix_states(corrected, 31, 34),
}


@pytest.mark.parametrize("name", NETS)
def test_bits_are_those_of_one_step_after_another(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Place by place, and with threads that share the places, as step by step."""
    program = NETS[name]()
    sizes = {"T": 35, "N": 2}
    wanted = list(program.net.outputs)
    _, drawn = make_inputs(with_gradients(program, wanted), sizes, 3)
    inputs = {name: single(array) for name, array in drawn.items()}
    made = list[Arrays]()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for number in range(2):
        model = insistent(rnncc.compile(program, train=True, threads=True))
        with Pool(3) as pool:
            outputs, tape = model.forward({n: inputs[n] for n in model.inputs}, pool=pool)
            seeds = {name: inputs[f"grad:{name}"] for name in wanted}
            grads = model.backward(tape, seeds, pool=pool)
        made.append(outputs | {f"grad:{name}": array for name, array in grads.items()})
        monkeypatch.setattr("rnncc.codegen.cpu.library.entries.loop_orders", lambda *_: {})
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
    assert_same_bits(made[0], made[1], "place by place")


def test_runs_of_steps_that_start_from_a_row() -> None:
    """A budget cuts a loop over a state a unit: each step of a run starts from a row before it."""
    b, dims = Builder.net("averages"), ["N", UNITS]
    x, z, h = b.input("x", ["T", *dims]), b.input("z", ["T", *dims]), b.input("h", dims)

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        kept = i.mul(i.sigmoid(i.broadcast(consts[0], dims, [1])), carry[0])
        after = i.add(kept, i.mul(rows[0], rows[1]))
        return [after], [after]

    _, (y,) = b.scan([b.param("p", [UNITS])], [h], [x, z], step)
    check_kept(b.finish({"y": y}), "runs")


@pytest.mark.parametrize("step", [decayed, corrected])
def test_matrix_states(step: Callable[..., Values]) -> None:
    """Values and gradients; a row's bits do not depend on how many there are."""
    check_trained(matrix_states(step), "auto", near, single, SIZES)


def selective_scan(
    states: int,
    units: int = UNITS,
    rate: Callable[[Builder, SSAValue], SSAValue] = lambda i, x: i.relu(x),
    batch: str | int = "N",
) -> Program:
    """h = exp(-q · rate(x)) · h + z · c over [N, units, states]; y = Σ h · c."""
    b = Builder.net("selective")
    dims = [batch, units, states]
    rows = [b.input(name, ["T", batch, units]) for name in ("x", "z")]
    rows.append(b.input("c", ["T", batch, states]))

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        x, z = (i.broadcast(row, dims, [0, 1]) for row in (rate(i, rows[0]), rows[1]))
        c = i.broadcast(rows[2], dims, [0, 2])
        a = i.exp(i.neg(i.mul(i.broadcast(consts[0], dims, [1, 2]), x)))
        h = i.add(i.mul(a, carry[0]), i.mul(z, c))
        return [h], [i.reduce("sum", i.mul(h, c), [2])]

    start = b.input("h", dims)
    return b.finish({"y": b.scan([b.param("q", [units, states])], [start], rows, step)[1][0]})


def test_a_single_sequence_has_the_bits_of_one_of_several() -> None:
    """Its state has no axis of the batch between steps, and is turned all the same."""
    made, drawn = list[Arrays](), dict[str, Any]()
    for batch in ("N", 1):
        program = selective_scan(16, batch=batch)
        drawn = drawn or make_inputs(with_gradients(program, ["y"]), {"T": 9, "N": 1}, 3)[1]
        model = rnncc.compile(program, train=True)
        outputs, tape = model.forward({name: single(drawn[name]) for name in model.inputs})
        made.append(outputs | model.backward(tape, {"y": single(drawn["grad:y"])}))
    assert_same_bits(made[0], made[1], "one sequence")


@pytest.mark.parametrize(("states", "rows"), [(1, 1000), (STATES, 1000), (16, 32)])
def test_nothing_wide_is_as_long_as_the_sequence(states: int, rows: int) -> None:
    """Workspaces do not grow with T; the tape has the states, of every 32nd step where they are
    far wider than rows."""
    library = build_library(selective_scan(states), None, Options(train=True))
    for program in library.programs.values():
        sizes = [program.workspace.evaluate({"T": T, "N": 2}) for T in (1000, 2000)]
        assert sizes[0] == sizes[1]
    assert library.training is not None
    tape = library.training.tape.evaluate({"T": 1000, "N": 2})
    assert tape <= 4 * rows * 2 * UNITS * states + 256


def test_a_length_that_is_a_number_has_the_tape_of_an_open_one() -> None:
    program, steps = selective_scan(16), 100
    fixed = restore_trip_counts(program, {"T": steps})
    tapes, made = list[int](), list[Arrays]()
    drawn = make_inputs(with_gradients(program, ["y"]), {"T": steps, "N": 2}, 3)[1]
    for each in (program, fixed):
        library = build_library(each, None, Options(train=True))
        assert library.training is not None
        tapes.append(library.training.tape.evaluate({"T": steps, "N": 2}))
        model = rnncc.compile(each, train=True)
        outputs, tape = model.forward({name: single(drawn[name]) for name in model.inputs})
        made.append(outputs | model.backward(tape, {"y": single(drawn["grad:y"])}))
    assert tapes[0] == tapes[1]
    assert_same_bits(made[0], made[1], "a number of steps")


def test_what_is_made_again_is_read() -> None:
    """Backward makes the states of a run again, not the sums that forward's loop gave of them."""
    backward = build_library(selective_scan(16), None, Options(train=True)).programs["backward"]
    loops = [op for op in backward.func.walk() if isinstance(op, For) and not op.reverse]
    assert len(loops) == 1
    assert not any(isinstance(op, Reduce) for op in loops[0].walk())
