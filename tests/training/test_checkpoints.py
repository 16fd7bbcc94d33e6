"""Checkpoints along time: not a bit of any output or gradient changes, and memory keeps within."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime
from hypothesis import given
from hypothesis import strategies as st

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.caffe2 import import_net
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.program import Program
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.kern.interpreter import run as run_kernels
from rnncc.options import Options
from rnncc.planning.layout import make_plan
from tests.codegen.guarded import guards
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.compiling import trained_library, training_of
from tests.golden import CASES, GOLDEN, KINDS, arrays_of, random_inputs, sizes_of
from tests.strategies import make_inputs
from tests.training.checkpoints import bodies, compiled, cut_model, phases_of, taken
from tests.training.models import (
    assert_same_bits,
    check_close,
    interpreted,
    run_guarded,
    trainable,
    with_gradients,
)

SIZES = [(0, 1, 3), (1, 1, 1), (2, 2, 2), (3, 3, 2), (4, 1, 4), (9, 5, 4)]
"""T, N, S."""
CHUNKS = [(3,), (4, 2)]
LSTM = GOLDEN / "caffe2" / "lstm"


def each_case() -> list[Any]:
    """Runs of runs for every net, plain runs for one of each kind."""
    cases = [(case, chunks) for chunks in CHUNKS for case in (CASES if len(chunks) > 1 else KINDS)]
    return [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in cases]


@pytest.mark.parametrize(("case", "chunks"), each_case())
def test_golden_nets(case: Path, chunks: tuple[int, ...]) -> None:
    """Caffe2's gradients, and at other sizes the bits that are there without checkpoints."""
    model, plain = cut_model(case, chunks), trainable(case)
    inputs, weights = arrays_of(case, "in:"), arrays_of(case, "weight:")
    program = interpreted(case)
    sizes = sizes_of(program, inputs)
    drawn = {**random_inputs(program, sizes), **inputs}
    for end in (False, True):
        with guards(end) as memory:
            _, grads = run_guarded(model, drawn, weights, sizes, memory)
        check_close(arrays_of(case, "grad:"), grads)
    for size in SIZES:
        sizes = dict[str, int](zip("TNS", size, strict=True))
        drawn = random_inputs(program, sizes)
        weights = {n.removeprefix("grad:"): a for n, a in drawn.items() if n.startswith("grad:")}
        with guards(end=True) as memory:
            results = [run_guarded(m, drawn, weights, sizes, memory) for m in (plain, model)]
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"at {sizes}")


@pytest.mark.parametrize("name", ["lstm", "lstm_bidirectional", "attention_recurrent"])
def test_what_is_absent_changes_nothing(name: str) -> None:
    case = GOLDEN / "caffe2" / name
    model, program = cut_model(case, (4, 2)), interpreted(case)
    sizes = {"T": 7, "N": 3, "S": 2}
    drawn = random_inputs(program, sizes)
    weights = {n.removeprefix("grad:"): a for n, a in drawn.items() if n.startswith("grad:")}
    with guards(end=True) as memory:
        outputs, grads = run_guarded(model, drawn, weights, sizes, memory)
    kept = set(model.metadata["kept"])
    for name in grads:
        absent = {*grads, *outputs} - {name} - kept
        with guards(end=False) as memory:
            _, alone = run_guarded(model, drawn, weights, sizes, memory, absent)
        assert_same_bits(alone, {name: grads[name]}, "alone")


@pytest.mark.parametrize("name", ["lstm", "lstm_two_layers", "attention_regular"])
def test_absent_gradients_of_outputs_are_zeros(name: str) -> None:
    case = GOLDEN / "caffe2" / name
    model, program = cut_model(case, (4, 2)), interpreted(case)
    drawn = random_inputs(program, {"T": 9, "N": 3, "S": 4})
    inputs = {name: drawn[name] for name in model.inputs}
    outputs, _ = model.forward(inputs)
    for given_one in model._output_grads:
        results = []
        for others in ({}, {n: np.zeros_like(outputs[n]) for n in model._output_grads}):
            _, tape = model.forward(inputs)
            grads = {**others, given_one: np.ones_like(outputs[given_one])}
            results.append(model.backward(tape, grads))
        assert_same_bits(results[0], results[1], given_one)


@examples(12)
@given(PROGRAMS, st.sampled_from([(2,), (3, 1), (4, 2)]))
def test_random_programs_keep_their_meaning(program: Program, chunks: tuple[int, ...]) -> None:
    """In float64, half by half."""
    check_meaning(program, chunks)


@pytest.mark.slow
@examples(1000)
@given(PROGRAMS, st.sampled_from([(2,), (3, 1), (4, 2)]))
def test_many_programs_keep_their_meaning(program: Program, chunks: tuple[int, ...]) -> None:
    check_meaning(program, chunks)


def check_meaning(program: Program, chunks: tuple[int, ...]) -> None:
    wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
    both = with_gradients(program, wanted)
    _, cut = phases_of(program.copy(), chunks)
    for steps in (0, 1, 2, 3, 4, 5, 9):
        sizes = {"T": steps, "N": 2}
        _, inputs = make_inputs(both, sizes, steps)
        want = run(both, inputs, np.float64, sizes)
        values = {**program.arrays, **inputs}
        known = {n: a for n, a in values.items() if takes(cut.forward, n)}
        outputs = run(cut.forward, known, np.float64, sizes)
        known = {n: a for n, a in values.items() if takes(cut.backward, n)}
        known |= {n: outputs[n.removeprefix("kept:")] for n in (*cut.saved, *cut.kept)}
        outputs |= run(cut.backward, known, np.float64, sizes)
        for name in outputs.keys() - set(cut.saved):
            told = f"{name} at {sizes}"
            np.testing.assert_allclose(outputs[name], want[name], 1e-7, 1e-7, err_msg=told)


def takes(program: Program, name: str) -> bool:
    return name in program.net.inputs or name in program.params


@examples(6)
@given(PROGRAMS, st.sampled_from([(1,), (3,), (4, 2)]))
def test_random_programs_keep_their_bits(program: Program, chunks: tuple[int, ...]) -> None:
    models = compiled(program.copy(), chunks)
    for sizes in ({"T": 0, "N": 3}, {"T": 1, "N": 1}, {"T": 7, "N": 3}):
        wanted = [name for name, v in program.net.outputs.items() if dtype_of(v) in FLOATS]
        _, drawn = make_inputs(with_gradients(program, wanted), sizes, sizes["T"])
        inputs = {name: single(drawn[name]) for name in models[0].inputs}
        outer = {name: single(drawn[f"grad:{name}"]) for name in models[0]._output_grads}
        with guards(end=True) as memory:
            results = [run_guarded(model, inputs, outer, sizes, memory) for model in models]
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"{chunks} at {sizes}")


def test_nothing_but_the_carry_is_kept() -> None:
    """Of two layers that run over time together; and all that a run needs is in the run."""
    case = GOLDEN / "caffe2" / "lstm_two_layers"
    program = import_net(case / "net.pb", case / "init.pb")
    _, cut = phases_of(program, (4, 2))
    saved = [cut.backward.net.inputs[name] for name in cut.saved]
    assert sorted(str(dims_of(v)[0]) for v in saved) == ["T/4"] * 4
    assert cut.kept == []
    assert [(op.chunk.data, bool(op.reverse)) for op in bodies(cut)] == [
        (4, False),
        (2, False),
        (4, True),
        (2, False),
        (2, True),
    ]


def test_what_joins_two_directions_is_computed_outside_of_the_runs_of_either() -> None:
    """Within the runs of one, backward would read the whole sequence of the other once more."""
    b = Builder.net("directions")
    x, w, start = b.input("x", ["T", "N", 3]), b.param("w", [3, 3]), b.fill(0.0, ["N", 3])

    def step(b: Builder, consts: list, carry: list, rows: list) -> tuple[list, list]:
        state = b.tanh(b.add(rows[0], b.matmul(carry[0], consts[0])))
        return [state], [state]

    forth, back = (b.scan([w], [start], [x], step, reverse=way)[1][0] for way in (False, True))
    joined = b.tanh(b.mul(forth, back))
    _, cut = phases_of(b.finish({"y": joined}, {"w": np.eye(3, dtype=np.float32)}), (4,))
    lengths = sorted(str(dims_of(cut.backward.net.inputs[name])[0]) for name in cut.saved)
    assert lengths == ["T", "T", "T/4", "T/4"]
    assert cut.kept == ["kept:y"]


@pytest.mark.parametrize("name", ["lstm_two_layers", "lstm_bidirectional", "attention_recurrent"])
def test_planned_memory(name: str) -> None:
    """Kernels over poisoned memory at the planned offsets, and hardly more than lives at once."""
    case = GOLDEN / "caffe2" / name
    program = import_net(case / "net.pb", case / "init.pb")
    both = with_gradients(program.copy(), list(program.net.outputs))
    held = dict(program.arrays)
    whole, cut = phases_of(program, (4, 2))
    assert cut is not whole
    programs = trained_library(training_of(program, Options(train=True)), cut).programs
    forward, backward = programs["forward"], programs["backward"]
    for sizes in ({"T": 1000, "N": 32, "S": 20}, {"T": 100, "N": 1, "S": 20}):
        for plan in map(make_plan, (forward, backward)):
            assert plan.peak(sizes) <= 1.05 * plan.bound(sizes)
    for steps in (0, 1, 4, 7):
        sizes = {"T": steps, "N": 2, "S": 3}
        drawn = random_inputs(both, sizes)
        want = run(both, drawn, np.float64, sizes)
        known = held | drawn
        made = run_kernels(forward, {p.name: known[p.name] for p in forward.inputs}, sizes)
        known |= made | {f"kept:{output}": array for output, array in made.items()}
        made |= run_kernels(backward, {p.name: known[p.name] for p in backward.inputs}, sizes)
        check_close({n: a for n, a in want.items() if n in made}, made, f"at {sizes}")


def test_states_that_start_alike_stay_apart() -> None:
    b = Builder.net("net")
    x, start = b.input("x", ["T", "N", 3]), b.input("start", ["N", 3])

    def step(b: Builder, consts: list, carry: list, rows: list) -> tuple[list, list]:
        grown = b.tanh(b.add(carry[0], rows[0]))
        return [grown, b.mul(carry[1], grown)], [b.mul(grown, carry[1])]

    finals, ys = b.scan([], [start, start], [x], step)
    check_meaning(b.finish({"y": ys[0], "end": finals[1]}), (3, 1))


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("reverse", [False, True])
def test_runs_of_loops_over_the_step_before(chunks: tuple[int, ...], reverse: bool) -> None:
    """Of x[t - 1], a run's rows but one are x's own: the last run may have no others."""
    b, dims = Builder.net("shifted"), ["N", 3]
    x, h = b.input("x", ["T", *dims]), b.input("h", dims)

    def step(i: Builder, _: Any, carry: Any, rows: Any) -> Any:
        after = i.tanh(i.add(i.mul(carry[0], i.sigmoid(rows[0])), rows[1]))
        return [after], [i.mul(after, i.sigmoid(rows[0]))]

    _, [y] = b.scan([], [h], [b.shift(x, h, reverse), x], step, reverse)
    program = b.finish({"y": y})
    models = compiled(program, chunks, recompute="none")
    for steps in (0, 1, 2, 3, 4, 7, 9):
        sizes = {"T": steps, "N": 2}
        _, drawn = make_inputs(with_gradients(program, ["y"]), sizes, steps)
        arrays = {name: single(array) for name, array in drawn.items()}
        inputs, outer = {name: arrays[name] for name in "xh"}, {"y": arrays["grad:y"]}
        with guards(end=True) as memory:
            results = [run_guarded(model, inputs, outer, sizes, memory) for model in models]
        for one, other in zip(*results, strict=True):
            assert_same_bits(one, other, f"at {sizes}")


def test_a_budget_is_kept() -> None:
    sizes = {"T": 1000, "N": 4}
    plain = rnncc.compile(LSTM / "net.pb", LSTM / "init.pb", train=True)
    whole = taken(plain, sizes)
    roomy = train_within(whole)
    assert taken(roomy, sizes) == whole
    assert roomy.metadata["checkpoints"].startswith("no checkpoints")
    model = train_within(whole // 5)
    assert taken(model, sizes) <= whole // 5
    assert model.metadata["checkpoints"].startswith("checkpoints every ")


def test_a_library_keeps_a_budget(tmp_path: Path) -> None:
    """And gives Caffe2's gradients, with the bits that there are without a budget."""
    wanted = list(arrays_of(LSTM, "weight:"))
    options = {"memory_budget": "64K", "plan_for": "1000,4", "outputs_with_grads": wanted}
    files = LSTM / "net.pb", LSTM / "init.pb"
    made = rnncc.build(*files, out=tmp_path, name="tight", train=True, products=("so",), **options)
    assert made.library is not None
    model = rnncc_runtime.load(made.library, train=True)
    assert model.metadata["checkpoints"].startswith("checkpoints every ")
    assert taken(model, {"T": 1000, "N": 4}) <= 64 * 1024
    inputs, weights = arrays_of(LSTM, "in:"), arrays_of(LSTM, "weight:")
    results = []
    for each in (model, trainable(LSTM)):
        outputs, tape = each.forward(inputs)
        results.append(outputs | each.backward(tape, weights))
    check_close(arrays_of(LSTM, "grad:"), results[0])
    assert_same_bits(results[0], results[1], "of the library")


def test_the_least_budget_is_told_and_can_be_met() -> None:
    with pytest.raises(CompileError, match="the least is ") as caught:
        train_within(1000)
    least = int(str(caught.value).split("the least is ")[1])
    model = train_within(least)
    assert taken(model, {"T": 1000, "N": 4}) == least
    assert "within a run every" in model.metadata["checkpoints"]
    with pytest.raises(CompileError, match=f"the least is {least}"):
        train_within(least - 1)


def test_a_net_without_loops_has_no_checkpoints() -> None:
    case = GOLDEN / "caffe2" / "lstm_unrolled"
    with pytest.raises(CompileError, match=r"a budget of 1 bytes cannot be met at .*: the least"):
        sizes = {"T": 5, "N": 4}
        rnncc.compile(
            case / "net.pb", case / "init.pb", train=True, memory_budget=1, plan_for=sizes
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_budget": 1000, "plan_for": "5,4"}, "memory_budget goes with train"),
        ({"memory_budget": 1000, "train": True}, "needs a value for T, N"),
        ({"memory_budget": "12Q", "train": True, "plan_for": "5,4"}, "'12Q' is not a number of"),
        ({"memory_budget": 1000, "train": True, "plan_for": (5,)}, "needs a value for N"),
        ({"memory_budget": 1000, "train": True, "plan_for": "5,4,3"}, "has no size number 3"),
    ],
)
def test_wrong_budgets(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rnncc.compile(LSTM / "net.pb", LSTM / "init.pb", **options)


def test_a_net_without_open_sizes_needs_no_values() -> None:
    b = Builder.net("fixed")
    net = b.finish({"y": b.tanh(b.input("x", (3, 4)))})
    assert rnncc.compile(net, train=True, memory_budget="1K").metadata["workspace"] is not None
    with pytest.raises(CompileError, match="a budget of 16 bytes cannot be met"):
        rnncc.compile(net, train=True, memory_budget=16)


def train_within(budget: int) -> rnncc.TrainableModel:
    return rnncc.compile(
        LSTM / "net.pb", LSTM / "init.pb", train=True, memory_budget=budget, plan_for=(1000, 4)
    )
