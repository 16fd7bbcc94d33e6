"""Programs in doubles, and how near two results of theirs must be."""

from __future__ import annotations

import numpy as np
from hypothesis import assume

from rnncc.ir.ops.random import Uniform
from rnncc.ir.program import Program
from tests.doubles import doubled
from tests.golden import Arrays

NEAR = 1e-12


def in_doubles(program: Program) -> Program:
    assume(not any(isinstance(op, Uniform) for op in program.net.walk()))
    return doubled(program)


def assert_near(got: Arrays, want: Arrays, message: str) -> None:
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(got[name], array, NEAR, NEAR * scale, err_msg=message + name)
