"""Store or recompute: what is kept, that both halves mean what the whole means, and refusals."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.ir.interpreter import run
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.passes.cleanup.simplify import Simplify
from rnncc.passes.gradients.differentiate import differentiate
from rnncc.passes.gradients.rematerialise import rematerialise
from rnncc.passes.gradients.split_phases import Phases, split_phases
from tests.passes.gradients import float_outputs, float_sources
from tests.passes.helpers import quick
from tests.passes.nets import gated
from tests.strategies import SIZES, make_inputs, programs

RULES = ["none", "auto", "all"]
Body = tuple[list, list]


def phases_of(program: Program, rule: str | Collection[str]) -> Phases:
    both = differentiate(program, float_outputs(program), float_sources(program))
    phases = split_phases(both, rematerialise(both, rule))
    for half in (phases.forward, phases.backward):
        half.module.verify()
    return phases


def check(program: Program, rule: str | Collection[str]) -> Phases:
    """Forward, then backward, gives what the whole gives, to the bit."""
    both = differentiate(program, float_outputs(program), float_sources(program))
    phases = phases_of(program, rule)
    for steps in (3, 1, 0):
        sizes, inputs = make_inputs(both, {**SIZES, "T": steps})
        want = run(both, inputs, np.float64, sizes)
        given = {n: a for n, a in inputs.items() if not n.startswith("grad:")}
        made = run(phases.forward, given, np.float64, sizes)
        tape = {name: made[name] for name in phases.saved}
        tape |= {name: made[name.removeprefix("kept:")] for name in phases.kept}
        known = {n: a for n, a in inputs.items() if n in phases.backward.params}
        known |= {n: a for n, a in inputs.items() if n in phases.backward.net.inputs}
        got = made | run(phases.backward, known | tape, np.float64, sizes)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)
    return phases


def hints(phases: Phases) -> set[str]:
    return {name.removeprefix("saved:") for name in phases.saved}


@quick
@given(programs(known=False))
@pytest.mark.parametrize("rule", RULES)
def test_random_programs(rule: str, program: Program) -> None:
    Simplify().rewrite(program.net)
    check(program, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("output", ["h", "c"])
def test_halves_mean_what_the_whole_means(rule: str, output: str) -> None:
    check(gated(output), rule)


@pytest.mark.parametrize("rule", RULES)
def test_two_loops_back_over_what_one_yields(rule: str) -> None:
    """The gradient of the product reads as much of the first loop's rows as of its own."""
    b = Builder.net("product")
    x, none = b.input("x", ["T", "N", 3]), b.fill(0.5, ["N", 3])
    for kind in ("add", "mul"):

        def body(inner: Builder, _: list, carry: list, rows: list, kind: str = kind) -> Body:
            made = getattr(inner, kind)(carry[0], rows[0])
            return [made], [inner.tanh(made)]

        finals, (x,) = b.scan([], [none], [x], body)
    check(b.finish({"y": finals[0]}), rule)


@pytest.mark.parametrize("rule", RULES)
def test_a_state_that_is_handed_out_as_it_enters(rule: str) -> None:
    """It is there for all steps, and not the state after the step."""
    b = Builder.net("entering")
    h0, w, x = b.input("h0", ["N", 3]), b.param("w", [3, 3]), b.input("x", ["T", "N", 3])

    def body(inner: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        t = inner.tanh(carry[0])
        return [inner.mul(inner.tanh(t), rows[0])], [carry[0]]

    (last,), (every,) = b.scan([], [h0], [x], body)
    check(b.finish({"y": b.tanh(b.matmul(every, w)), "last": last}), rule)


def test_none_keeps_all_that_is_read() -> None:
    assert hints(phases_of(gated(), "none")) >= {"i", "f", "o", "squashed"}


def test_auto_repeats_what_is_cheaper_than_keeping() -> None:
    phases = phases_of(gated(), "auto")
    assert hints(phases) == {"i", "f", "o", "add"}  # the cell, whose tanh is computed again
    assert phases.kept == ["kept:y"]  # the states, which are an output, are there already
    assert not [op for op in phases.backward.net.walk() if _is_forward_product(op)]


def test_what_is_an_output_is_not_kept_again() -> None:
    phases = phases_of(gated("c"), "auto")
    assert phases.kept == ["kept:y"]
    assert len(phases.saved) == 4  # gates, and the hidden states


def test_all_keeps_states_alone() -> None:
    phases = phases_of(gated(), "all")
    assert len(phases.saved) == 1
    assert [op for op in phases.backward.net.walk() if _is_forward_product(op)]


def test_named_values_are_repeated_and_no_others() -> None:
    assert hints(phases_of(gated(), {"squashed"})) == {"i", "f", "o", "add"}
    kept = hints(phases_of(gated(), {"i", "f", "o"}))
    assert "z" in kept and "squashed" in kept
    assert not kept & {"i", "f", "o"}


def test_what_cannot_be_computed_again_is_refused() -> None:
    b = Builder.net("turned")
    x, lengths = b.input("x", ["T", "N", 3]), b.input("lengths", ["N"], "i32")
    turned = b.reverse_segments(x, lengths)
    turned.name_hint = "turned"
    program = b.finish({"y": b.mul(turned, turned)})
    with pytest.raises(
        CompileError, match=r"'turned', of rnn.reverse_segments, cannot be computed"
    ):
        phases_of(program, {"turned"})


def test_forward_takes_no_gradients_and_backward_yields_nothing_else() -> None:
    phases = phases_of(gated(), "auto")
    assert not [name for name in phases.forward.net.inputs if name.startswith("grad:")]
    assert set(phases.backward.net.outputs) == {f"grad:{n}" for n in ("x", "h0", "c0", "u", "w")}
    assert phases.backward.zeros == {"grad:y"}


def _is_forward_product(op: object) -> bool:
    """With weights as they are: gradients use them transposed."""
    return (
        isinstance(op, Matmul)
        and not op.transpose_a
        and not op.transpose_b
        and (int(dims_of(op.y)[-1]) == 9)
    )
