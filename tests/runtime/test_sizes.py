"""Symbols solved from shapes."""

from __future__ import annotations

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from rnncc_runtime import ArrayError, LoadError
from rnncc_runtime.sizes import Size, solve

from rnncc.ir.dims import Dim, product


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (7, 7),
        ("T", 5),
        ("T*N + 1", 16),
        ("2*T - N", 7),
        ("-T + 9", 4),
        ("T * T*3", 75),
        ("4096 + 6144*N", 4096 + 6144 * 3),
        ("T/2", 3),
        ("2*N*T/4 - T/5", 11),
        ("(T + 2)/3 + 2*max(N - 1, 0)", 3 + 4),
        ("max(N - T, 0) + max*1", 6),
        ("((T + 1)/4 + N)/2", 3),
    ],
)
def test_formula(text: int | str, value: int) -> None:
    assert Size.parse(text).evaluate({"T": 5, "N": 3, "max": 6}) == value


MONOMIALS = st.lists(
    st.sampled_from(["T", "N", "S2", "T/2", "(N + 1)/16", "max(T - N, 0)"]), max_size=3
).map(tuple)


@for_all(st.lists(st.tuples(MONOMIALS, st.integers(-9, 9)), max_size=4))
def test_reads_what_the_compiler_writes(terms: list[tuple[tuple[str, ...], int]]) -> None:
    products = (product([Dim.of(name) for name in names]) * factor for names, factor in terms)
    dim, values = sum(products, Dim.of(0)), {"T": 5, "N": 3, "S2": 7}
    size = Size.parse(str(dim))
    assert size.evaluate(values) == dim.evaluate(values)
    assert size.symbols == dim.symbols


@pytest.mark.parametrize(
    "text",
    [
        *("", "T +", "T N", "T**2", "1.5", "(T)", "T; import os", "2T", "T/", "T/0", "4/2"),
        *("(T)/", "(T", "max(T)", "max(T, 1)", "(T)/2/2", "max(", "(" * 999 + "T" + ")/2" * 999),
    ],
)
def test_damaged_formula_is_refused(text: str) -> None:
    with pytest.raises(LoadError, match="is not a size"):
        Size.parse(text)


def shapes(**arrays: tuple[list[int | str], list[int]]):
    return [(n, tuple(map(Size.parse, spec)), tuple(got)) for n, (spec, got) in arrays.items()]


def test_symbols_and_formulas() -> None:
    given = shapes(x=(["T", "N", 4], [5, 3, 4]), y=(["T*N + 2*S"], [21]), z=(["S + 1"], [4]))
    assert solve(given, ["T", "N", "S"]) == {"T": 5, "N": 3, "S": 3}


def test_a_part_rounded_up_does_not_tell_the_whole() -> None:
    assert solve(shapes(x=(["T"], [5]), y=(["T/2", "T/2 + N"], [3, 7])), "TN") == {"T": 5, "N": 4}
    with pytest.raises(ArrayError, match="axis 0 is 2, expected T/2 = 3"):
        solve(shapes(x=(["T"], [5]), y=(["T/2"], [2])), "T")
    for extent in (1, 3):
        with pytest.raises(ArrayError, match="determines T"):
            solve(shapes(y=(["T/2"], [extent])), "T")
    assert solve(shapes(y=(["W/2"], [1]), x=(["4*W"], [8])), "W") == {"W": 2}


def test_zero_is_a_size() -> None:
    assert solve(shapes(x=(["T", "N"], [0, 3])), ["T", "N"]) == {"T": 0, "N": 3}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            shapes(x=(["T", "N"], [2, 3]), h0=(["N", 4], [4, 4])),
            "N is 3 in x but 4 in h0",
        ),
        (
            shapes(x=(["T", 4], [2, 5])),
            "x has shape [2, 5]: axis 1 is 5, expected 4",
        ),
        (shapes(x=(["T", 4], [2])), "x has shape [2], expected [T, 4]"),
        (
            shapes(x=(["T"], [2]), y=(["2*T + 1"], [4])),
            "y has shape [4]: axis 0 is 4, expected 2*T + 1 = 5 (T = 2)",
        ),
        (shapes(y=(["S*T"], [6])), "no array given has a shape that determines T"),
        (shapes(y=(["2*T"], [7])), "no array given has a shape that determines T"),
    ],
)
def test_wrong_shapes(given: list[object], message: str) -> None:
    with pytest.raises(ArrayError) as caught:
        solve(given, ["T"])  # type: ignore[bad-argument-type]
    assert str(caught.value) == message
