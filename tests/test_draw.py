"""Which cases of long tests are drawn."""

from __future__ import annotations

import pytest

from tests.draw import drawn


def test_as_many_as_fit_and_in_time_all() -> None:
    seen = set[int]()
    for state in map(str, range(100)):
        cases = drawn("a_test", 20, 0.06, state)
        assert len(cases) == 3
        seen |= cases
    assert seen == set(range(20))


@pytest.mark.parametrize("seconds", [0.4, 0.9, 1.9, 9.0])
@pytest.mark.parametrize("count", [1, 3])
def test_every_function_has_a_case(count: int, seconds: float) -> None:
    """But for those that are one case of more than a second, which every third draw has."""
    draws = [drawn("a_test", count, seconds, state) for state in map(str, range(100))]
    sometimes = count == 1 and seconds > 1
    assert {len(cases) for cases in draws} == ({0, 1} if sometimes else {1})
    assert set.union(*draws) == set(range(count))
    assert sum(map(len, draws)) >= 20
