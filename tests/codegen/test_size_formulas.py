"""Formulas of sizes in code, whatever they are: quotients and maxima in each other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rnncc_runtime import Model

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from tests.codegen.random_programs import examples
from tests.codegen.reference.built import COMPILER, built
from tests.ir.random_sizes import FORMULAS, SYMBOLS, VALUES, Formula

SEVERAL = st.lists(FORMULAS, min_size=8, max_size=24)
SIZES = st.lists(VALUES, min_size=8, max_size=8)


def of_formulas(formulas: list[Formula]) -> Program:
    """A net whose output is the values of formulas, by the lengths of its inputs."""
    b = Builder.net("formulas")
    for name in SYMBOLS:
        b.input(f"x_{name}", [name])
    return b.finish({"y": b.concat([b.reshape(b.size(dim), (1,)) for dim, _ in formulas], 0)})


def check(model: Model, formulas: list[Formula], sizes: list[Mapping[str, int]]) -> None:
    for values in sizes:
        inputs = {f"x_{name}": np.zeros(size, np.float32) for name, size in values.items()}
        assert model.run(inputs)["y"].tolist() == [value(values) for _, value in formulas]


@examples(4)
@given(SEVERAL, SIZES)
def test_machine_code(formulas: list[Formula], sizes: list[Mapping[str, int]]) -> None:
    check(rnncc.compile(of_formulas(formulas)), formulas, sizes)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
def test_c(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = partial(tmp_path_factory.mktemp, "formulas")

    @examples(3)
    @given(SEVERAL, SIZES)
    def test(formulas: list[Formula], sizes: list[Mapping[str, int]]) -> None:
        path: Path = folder()
        check(built(of_formulas(formulas), path), formulas, sizes)

    test()
