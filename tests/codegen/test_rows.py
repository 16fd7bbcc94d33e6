"""A sequence of a batch has the bits that it has alone, whatever the net does to each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rnncc_runtime import Model

import rnncc
from rnncc.ir.program import Program
from tests.codegen.random_programs import examples, single
from tests.codegen.row_programs import row_programs
from tests.doubles import doubled
from tests.golden import take_rows
from tests.strategies import make_inputs

OPTIONS: list[dict[str, Any]] = [{}, {"precision": "bf16"}, {"precision": "int8"}]
EACH = st.sampled_from(OPTIONS)
BATCHES = st.integers(2, 50)


@examples(3)
@given(row_programs(), st.booleans(), EACH, BATCHES)
def test_some(program: Program, wide: bool, options: dict[str, Any], batch: int) -> None:
    check(program, wide, options, batch)


@pytest.mark.slow
@examples(1000)
@given(row_programs(), st.booleans(), EACH, BATCHES)
def test_many(program: Program, wide: bool, options: dict[str, Any], batch: int) -> None:
    check(program, wide, options, batch)


def check(program: Program, wide: bool, options: dict[str, Any], batch: int) -> None:
    """Some of the sequences at a time, and each number of them."""
    double = wide and not options
    model = rnncc.compile(doubled(program) if double else program, **options)
    assert isinstance(model, Model)
    for steps in (4, 1):
        sizes = {"T": steps, "N": batch}
        _, drawn = make_inputs(program, sizes, batch)
        inputs = {name: drawn[name] if double else single(drawn[name]) for name in model.inputs}
        whole = model.run(inputs)
        for first, rows in ((0, 1), (batch - 1, 1), (1, batch - 1), (0, batch // 2)):
            part = take_rows(program.net.inputs, inputs, first, rows)
            alone = model.run({n: np.ascontiguousarray(a) for n, a in part.items()})
            for name, want in take_rows(program.net.outputs, whole, first, rows).items():
                np.testing.assert_array_equal(alone[name], want, f"{name} {sizes} {first} {rows}")
