"""Size formulas: arithmetic, texts, and how long they may become."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from rnncc_runtime.sizes import Size, parse_largest

from rnncc.errors import CompileError, SizeError
from rnncc.ir.builder import Builder
from rnncc.ir.dims import MOST_DEPTH, MOST_DIVISOR, MOST_FACTORS, MOST_PAIRS, Dim
from rnncc.ir.size_proofs import is_natural, larger, smaller
from rnncc.ir.types import dims_of
from rnncc.kern.largest import Largest
from tests.codegen.random_programs import examples
from tests.ir.random_sizes import FORMULAS, VALUES, Formula

T, N = Dim.of("T"), Dim.of("N")
TEXTS = ["0", "-3", "T*N", "2*T*N - 3*T + 7", "N*T/32 + 1", "N - T"]
TEXTS += ["(T + 1)/2 - 1", "2*T*(max(T - 5, 0))/3", "(N/3 + T/2)/4", "N - max(N - T, 0)"]


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str) -> None:
    assert str(Dim.parse(text)) == text
    assert pickle.loads(pickle.dumps(Dim.parse(text))) == Dim.parse(text)


@examples(300)
@given(FORMULAS, VALUES, VALUES)
def test_formulas_keep_their_values(
    formula: Formula, values: Mapping[str, int], others: Mapping[str, int]
) -> None:
    """Built, read again, substituted, as the runtime reads them; none is wrongly called natural."""
    dim, value = formula
    size, moved = Size.parse(str(dim)), {**values, "T": 2 * values["N"] + 3}
    assert Dim.parse(str(dim)) == dim
    assert dim.evaluate(values) == size.evaluate(values) == value(values)
    assert size.symbols == dim.symbols
    assert dim.substitute({"N": values["N"]}).evaluate(values) == value(values)
    assert dim.substitute({"T": N * 2 + 3}).evaluate(values) == value(moved)
    assert all(atom.evaluate(values) >= 0 for atom in dim.atoms)
    assert not is_natural(dim) or min(value(values), value(others), value(moved)) >= 0


@examples(100)
@given(FORMULAS, FORMULAS, VALUES)
def test_larger_and_smaller(a: Formula, b: Formula, values: Mapping[str, int]) -> None:
    pair = a[1](values), b[1](values)
    assert larger(a[0], b[0]).evaluate(values) == max(pair)
    assert smaller(a[0], b[0]).evaluate(values) == min(pair)


EQUAL = {
    "what divides": ((T * 2).over(2), T),
    "of a multiple": ((T * 6 + 3).over(4), (T * 2 + 3).over(4) + T),
    "a common factor": ((T * 6 + 3).over(9), (T * 2 + 1).over(3)),
    "of a quotient": ((T.over(2) + 3).over(5), (T + 6).over(10)),
    "floor and ceiling": ((T - 1).under(2) + 1, T.over(2)),
    "convolutions in a row": (((T - 1).under(2) + 1 - 1).under(2) + 1, T.over(4)),
    "a difference": ((N - T).excess(), N - T + (T - N).excess()),
    "of a maximum": ((((T - 5).excess() - 3) * 2).excess(), (T - 8).excess() * 2),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_values_are_equal_formulas(name: str) -> None:
    one, other = EQUAL[name]
    assert one == other


@pytest.mark.parametrize(
    "dim",
    [
        T - T.over(2),
        T * N - N * T.under(3) * 3,
        (T + 2).over(3) * 3 - 3,
        T.over(4) * 4 - T,
        T.over(4) * -4 + T + 3,
        T - (T - 3).excess(),
        (N - T).excess() + T - N,
        smaller(T, Dim.of(9)).over(2) * -2 + 10,
    ],
)
def test_what_is_never_negative(dim: Dim) -> None:
    assert is_natural(dim)
    assert not is_natural(dim - 9 * T - 9)


def test_facts_times_sizes() -> None:
    size, fact = T * N.over(2) * 2 - T * 2, N.over(2) - 1
    assert is_natural(size, [fact])
    assert not is_natural(size, [fact + 1]) and not is_natural(size - 1, [fact])


def test_atoms_are_bounded() -> None:
    with pytest.raises(SizeError, match="divides a size by"):
        T.over(MOST_DIVISOR + 1)
    size = T
    for _ in range(MOST_DEPTH):
        size = (size * 2 + N).over(3)
    with pytest.raises(SizeError, match="quotients in each other"):
        size = (size * 2 + N).over(3)
    size = T
    with pytest.raises(SizeError, match=r"characters|terms|sizes"):
        for _ in range(MOST_DEPTH):
            size = (size * size + N).over(3)


def test_the_largest_of_formulas_with_maxima() -> None:
    largest = Largest([(T - 5).excess() * 2, T.over(2) + 1])
    assert str(largest) == "max(2*max(T - 5, 0), T/2 + 1)"
    assert Largest.parse(str(largest)).formulas == largest.formulas
    assert [size.evaluate({"T": 9}) for size in parse_largest(str(largest))] == [8, 6]
    alone = Largest([(T - 5).excess()])
    assert Largest.parse(str(alone)).evaluate({"T": 9}) == 4


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        (T * N * 6 + N * 4, N * 2, T * 3 + 2),
        ((T + 1) * (N + 2), N + 2, T + 1),
        (T * 3 + 1, Dim.of(3), None),
        (T * N, N + 1, None),
        (Dim.of(0), N, Dim.of(0)),
        (T, Dim.of(0), None),
    ],
)
def test_quotients(dividend: Dim, divisor: Dim, quotient: Dim | None) -> None:
    assert dividend.divide(divisor) == quotient


def test_products_are_bounded() -> None:
    power = Dim.of(1)
    for _ in range(MOST_FACTORS):
        power = power * (T + N)
    with pytest.raises(SizeError, match="more than 16 sizes"):
        power *= T + N
    many = sum((Dim.of(f"n{i}") for i in range(MOST_PAIRS // 64)), Dim.of(0))
    assert len((many * many).terms) == 64 * 65 // 2
    with pytest.raises(SizeError, match="more than 4096 terms"):
        many *= many + 1
    with pytest.raises(SizeError, match="more than 127 bits"):
        power = T * 2**64 * 2**64


def test_a_long_sum_of_symbols() -> None:
    """A net may have many inputs, each with a length of its own."""
    total = sum((Dim.of(f"n{i}") for i in range(500)), Dim.of(0))
    assert Dim.parse(str(total)) == total
    assert (total * 4).divide(4) == total


def test_a_quotient_without_end_is_none() -> None:
    assert (Dim.of("T") * 2**40).divide(T * 3 + N) is None


def test_a_size_below_0_is_refused_where_it_is_built() -> None:
    """Code for it would write in front of its buffer."""
    b = Builder.net("negative")
    x = b.input("x", (1, 3))
    for build in (
        lambda: b.iota((2, -1), 1),
        lambda: b.fill(0.0, (Dim.of(-1),)),
        lambda: b.input("y", (-1,)),
        lambda: b.broadcast(x, (-2, 3), (0, 1)),
        lambda: b.scan([], [x], [], lambda _, c, s, r: (s, []), length=Dim.of(-1)),
    ):
        with pytest.raises(CompileError, match="is below 0"):
            build()
    assert dims_of(b.fill(0.0, (Dim.of("T") - 3,))) == (Dim.of("T") - 3,)
