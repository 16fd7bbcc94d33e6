"""Sizes that occur more than once in a product: what does not fit is refused, nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rnncc_runtime import Model

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product
from rnncc.ir.program import Program
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.kern.size_limits import LARGEST_PRODUCT, LARGEST_SIZE, power_bounds
from tests.codegen.reference.built import built
from tests.compiling import lower

FORMULAS = [
    "4*T*T*N + 48",
    "T*N",
    "8*T*T*T",
    "T*T*N*N*S",
    "(T + 1)/2*T",
    "3*(16*T*N - 5)/7*N",
    "12",
]


def drawn(rng: random.Random, names: str) -> dict[str, int]:
    """Sizes, many of them small, some at the edges."""
    edges = (0, 1, 2**20, 2**20 + 1, LARGEST_SIZE)
    return {
        name: rng.choice(edges) if rng.random() < 0.2 else int(2 ** rng.uniform(0, 32))
        for name in names
    }


def fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


@pytest.mark.parametrize("text", FORMULAS)
def test_what_passes_the_bounds_fits(text: str) -> None:
    rng, formula, passed = random.Random(text), Dim.parse(text), 0
    bounds = power_bounds([formula])
    for _ in range(3000):
        sizes = drawn(rng, "TNS")
        at_least_one = [max(size, 1) for size in sizes.values()]
        if max(sizes.values()) > LARGEST_SIZE or int(product(at_least_one)) > LARGEST_PRODUCT:
            continue
        for bound in bounds:
            value = bound.evaluate(sizes)
            assert fits(value), (text, sizes, bound)
            if value < 0:
                break
        else:
            passed += 1
            assert fits(formula.evaluate(sizes)), (text, sizes)
    assert passed > 100


def test_formulas_without_powers_have_none() -> None:
    assert power_bounds([Dim.parse("4*T*N*S + 16*T"), Dim.of(3)]) == ()
    assert list(map(str, power_bounds([Dim.parse("T*T*N")]))) == [
        "-T + 1048576",
        "-T*T*N + 1099511627776",
    ]


def test_bounds_are_among_what_must_fit() -> None:
    cube = Dim.parse("T*T*T - 5")
    b = Builder.net("net")
    library = Library.of(lower(b.finish({"y": b.tanh(b.input("x", ["T"]))})))
    assert library.whole_bounds == ()
    library.bounds = (cube,)
    assert set(library.whole_bounds) == {cube, *power_bounds([cube])}


def scores() -> Program:
    """x times its own rows: as many numbers as T has pairs."""
    b = Builder.net("net")
    x = b.input("x", ["N", "T", 4])
    return b.finish({"y": b.matmul(b.matmul(x, b.transpose(x, [0, 2, 1])), x)})


@pytest.mark.parametrize("kind", ["cpu", "c99"])
def test_a_library_tells_bytes_or_that_they_are_too_many(kind: str, tmp_path: Path) -> None:
    model = rnncc.compile(scores()) if kind == "cpu" else built(scores(), tmp_path)
    assert isinstance(model, Model)
    told, symbols = model._functions["workspace_bytes"], model.metadata["symbols"]
    formula, rng, answers = Largest.parse(model.metadata["workspace"]), random.Random(0), 0
    assert "T*T" in str(formula)
    for _ in range(2000):
        sizes = drawn(rng, "TN")
        answer = told(*(sizes[name] for name in symbols))
        if 0 <= answer < 2**64 - 1:
            answers += 1
            assert answer == formula.evaluate(sizes), sizes
        elif max(sizes.values()) <= LARGEST_SIZE:
            assert formula.evaluate({name: max(size, 1) for name, size in sizes.items()}) > 2**40
    assert answers > 100
