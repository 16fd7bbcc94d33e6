"""Random programs: compiled code, and the kernels' own meaning, against the interpreter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnncc.ir.program import Program
from tests.codegen.random_programs import (
    PROGRAMS,
    after_passes,
    as_it_is,
    check,
    compiled,
    examples,
    interpreted,
)
from tests.strategies import laid_out_programs


@examples(20)
@given(PROGRAMS)
def test_compiled(program: Program) -> None:
    check(program, as_it_is, compiled)


@examples(20)
@given(PROGRAMS)
def test_whole_pipeline(program: Program) -> None:
    check(program, after_passes, compiled)


@pytest.mark.slow
@examples(2000)
@given(PROGRAMS, st.booleans())
def test_many(program: Program, passes: bool) -> None:
    check(program, after_passes if passes else as_it_is, compiled)


@examples(12)
@given(laid_out_programs())
def test_layouts(program: Program) -> None:
    check(program, after_passes, compiled)


@pytest.mark.slow
@examples(2000)
@given(laid_out_programs(), st.booleans())
def test_many_layouts(program: Program, passes: bool) -> None:
    check(program, after_passes if passes else as_it_is, compiled)


@examples(20)
@given(PROGRAMS)
def test_kernels(program: Program) -> None:
    check(program, as_it_is, interpreted)
