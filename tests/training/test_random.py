"""Random programs compiled for training against the interpreter; recomputing changes no bit."""

from __future__ import annotations

import pytest
from hypothesis import given

from rnncc.ir.program import Program
from tests.codegen.random_programs import PROGRAMS, examples, single
from tests.golden import Arrays
from tests.training.models import (
    RECOMPUTE,
    check_close,
)
from tests.training.random_nets import check_trained


@examples(12)
@given(PROGRAMS, RECOMPUTE)
def test_gradients(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single)


@pytest.mark.slow
@examples(1000)
@given(PROGRAMS, RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check_trained(program, recompute, near, single)


def near(got: Arrays, want: Arrays, told: str) -> None:
    check_close(want, got, told)
