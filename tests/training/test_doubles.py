"""Nets of float64 compiled for training: random ones against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from rnncc.ir.program import Program
from tests.codegen.doubled import assert_near, in_doubles
from tests.codegen.random_programs import PROGRAMS, examples
from tests.golden import Arrays
from tests.training.models import RECOMPUTE
from tests.training.random_nets import check_trained


@examples(6)
@given(PROGRAMS, RECOMPUTE)
def test_gradients(program: Program, recompute: str) -> None:
    check_trained(in_doubles(program), recompute, near, np.asarray)


@pytest.mark.slow
@examples(150)
@given(PROGRAMS, RECOMPUTE)
def test_many(program: Program, recompute: str) -> None:
    check_trained(in_doubles(program), recompute, near, np.asarray)


def near(got: Arrays, want: Arrays, told: str) -> None:
    floats = [array.dtype for array in want.values() if array.dtype.kind == "f"]
    assert set(floats) <= {np.dtype(np.float64)}
    assert_near(got, want, told)
