"""Random loops in loops: values and gradients, first and second, whatever is kept on the tape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.ir.program import Program
from rnncc.passes.gradients.gradient_program import gradient_program
from tests.codegen.random_programs import examples, single
from tests.golden import Arrays
from tests.passes.gradients import float_outputs, float_sources
from tests.training.kept import WAYS, check_kept
from tests.training.models import check_close
from tests.training.nested_programs import EMPTY, SIZES, nested_programs
from tests.training.random_nets import check_trained

FIRST, SECOND = ["auto", "all", "auto"], ["second auto", "second all"]
EACH = st.sampled_from([*FIRST, *SECOND, *(way for way in WAYS if way not in FIRST)])
LONGER = {"T": 7, "N": 3, "K": 2}


@examples(2)
@given(nested_programs(), EACH)
def test_some(program: Program, way: str) -> None:
    check(program, way)


@pytest.mark.slow
@examples(500)
@given(nested_programs(), EACH)
def test_many(program: Program, way: str) -> None:
    check(program, way)


def check(program: Program, way: str) -> None:
    """Against the interpreter; bits, where what is kept or asked for is another."""
    if way in FIRST:
        check_trained(program, way, near, single, [*SIZES, *EMPTY])
    elif way in SECOND:
        sources = float_outputs(program), float_sources(program)
        again = gradient_program(program, *sources, "d:")
        check_trained(again, way.split()[1], near, single, SIZES)
    else:
        check_kept(program, way, LONGER)


def near(got: Arrays, want: Arrays, told: str) -> None:
    check_close(want, got, told)
