"""Size formulas: arithmetic, texts, and how long they may become."""

from __future__ import annotations

import pytest

from rnncc.errors import SizeError
from rnncc.ir.dims import MOST_FACTORS, MOST_PAIRS, Dim

T, N = Dim.of("T"), Dim.of("N")


@pytest.mark.parametrize("text", ["0", "-3", "T*N", "2*T*N - 3*T + 7", "N*T/32 + 1", "N - T"])
def test_texts(text: str) -> None:
    assert str(Dim.parse(text)) == text


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
