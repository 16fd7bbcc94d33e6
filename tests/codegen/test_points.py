"""Recurrences with several states a unit, one point of a unit after another for a run of steps."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

import rnncc
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.orders import interchanged
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.planning.interchange import Interchange
from rnncc.planning.point_phases import PointPhases
from tests.codegen.compiled import Bare
from tests.codegen.guarded import guards
from tests.codegen.random_programs import after_passes
from tests.golden import Arrays
from tests.training.models import run_guarded, with_gradients

Values = list[SSAValue]
BATCH = 3


def recurrence(
    units: int,
    states: int,
    kind: str,
    bounded: bool = False,
    by_length: bool = True,
    steps: int | str = "T",
    batch_first: bool = False,
    batch: int | str = "N",
) -> Program:
    """h[s] = a[s] h[s] + b[s] x, or tanh of it; y = the sum, or largest, of h[s] c[s]."""
    b = Builder.net("points")
    x, h = b.input("x", [steps, batch, units]), b.input("h", [batch, states, units])
    consts = [b.input(name, [states, units]) for name in "abc"]
    consts += [b.input("lengths", [batch], "i32")] if by_length else []

    def body(inner: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        old, dims = carry[0], dims_of(carry[0])
        a, scale, c = (inner.broadcast(k, dims, [1, 2]) for k in ks[:3])
        new = inner.add(inner.mul(a, old), inner.mul(scale, inner.broadcast(rows[0], dims, [0, 2])))
        new = inner.tanh(new) if bounded else new
        y = inner.add(inner.reduce(kind, inner.mul(new, c), [1]), rows[0])
        if by_length:
            inside = inner.compare("lt", inner.broadcast(rows[1], [batch], []), ks[3])
            new = inner.select(inner.broadcast(inside, dims, [0]), new, old)
        return [new], [y]

    rows = [x, b.iota([steps], 0)] if by_length else [x]
    (final,), (y,) = b.scan(consts, [h], rows, body)
    y = b.transpose(y, [1, 0, 2]) if batch_first else y
    return b.finish({"y": y, "final": final})


def drawn(program: Program, steps: int, seed: int = 0) -> Arrays:
    rng, sizes = np.random.default_rng(seed), {"T": steps, "N": BATCH}
    arrays: Arrays = {}
    for name, value in program.net.inputs.items():
        shape = [dim.evaluate(sizes) for dim in dims_of(value)]
        if dtype_of(value) in FLOATS:
            arrays[name] = rng.uniform(-0.9, 0.9, shape).astype(np.float32)
        else:
            arrays[name] = rng.integers(0, steps + 1, shape, np.int32)
    return arrays


@pytest.fixture
def phased(monkeypatch: pytest.MonkeyPatch) -> list[PointPhases]:
    """The loops that take one point after another, as they are compiled."""
    phases, phases_of = list[PointPhases](), interchanged._phases_of

    def noted(plan: Interchange) -> PointPhases | None:
        chosen = phases_of(plan)
        phases.extend([chosen] if chosen else [])
        return chosen

    monkeypatch.setattr(interchanged, "_phases_of", noted)
    return phases


def check(program: Program, cpu: str | None) -> None:
    """Outputs and gradients, in guarded memory, against the interpreter."""
    both = with_gradients(program, ["y", "final"])
    model = rnncc.compile(program, train=True, cpu=cpu)
    for steps in (0, 1, 8, 9, 21):
        arrays, sizes = drawn(both, steps), {"T": steps, "N": BATCH}
        expected = run(both, arrays, np.float64, sizes)
        outer = {name: arrays[f"grad:{name}"] for name in ("y", "final")}
        with guards(end=True) as memory:
            outputs, grads = run_guarded(model, arrays, outer, sizes, memory)
            results = {**outputs, **{f"grad:{name}": array for name, array in grads.items()}}
            for name, array in results.items():
                np.testing.assert_allclose(array, expected[name], 1e-4, 1e-4, err_msg=name)


@pytest.mark.parametrize("cpu", [None, "x86-64-v3"])
@pytest.mark.parametrize("by_length", [False, True])
def test_points_one_after_another(
    by_length: bool, cpu: str | None, phased: list[PointPhases]
) -> None:
    check(recurrence(70, 5, "sum", by_length=by_length), cpu)
    assert phased


@pytest.mark.parametrize("steps", [9, "T"])
def test_outputs_with_the_batch_first(steps: int | str, phased: list[PointPhases]) -> None:
    """Nothing stands in for such an output where nobody wants it: then its steps write nothing."""
    program = recurrence(70, 5, "sum", by_length=False, steps=steps, batch_first=True)
    arrays, sizes = drawn(program, 9), {"T": 9, "N": BATCH}
    code = Bare(after_passes(program), resolve_target())
    assert phased
    expected = run(program, arrays, np.float64, sizes)
    with guards(end=True) as memory:
        results = code.run(arrays, sizes, memory)
        alone = code.run(arrays, sizes, memory, absent={"y"})
        for name, array in results.items():
            np.testing.assert_allclose(array, expected[name], 1e-4, 1e-4, err_msg=name)
        np.testing.assert_array_equal(alone["final"], results["final"])


def test_a_single_sequence(phased: list[PointPhases]) -> None:
    """Some of its kernels have an axis of one sequence, others none: of both halves of training."""
    check(recurrence(64, 5, "sum", by_length=False, batch=1), None)
    assert len({id(phases.points[0].op) for phases in phased}) == 2


def test_rows_are_fetched_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core follows a few sequences by itself, but not the states of all points and steps."""
    fetched = list[int]()
    monkeypatch.setattr(CpuEmit, "fetch", lambda emit, at, ahead, level: fetched.append(level))
    short, wide = (recurrence(units, 8, "sum", by_length=False) for units in (64, 512))
    with_short, with_wide = (with_gradients(p, ["y", "final"]) for p in (short, wide))
    for program in (short, wide, with_short):
        Bare(after_passes(program), resolve_target())
    assert not fetched
    Bare(after_passes(with_wide), resolve_target())
    assert fetched


@pytest.mark.parametrize("units", [16, 64])
def test_rows_ahead_of_a_run(units: int) -> None:
    """Steps go on from where the rows are that the kernels before them have read, too."""
    check(recurrence(units, 16, "max", bounded=True), None)
