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


@pytest.mark.parametrize(("seconds", "share"), [(0.4, 1), (0.9, 2), (1.9, 3), (9.0, 3)])
def test_long_cases_are_in_some_draws(seconds: float, share: int) -> None:
    draws = [drawn("a_test", 3, seconds, state) for state in map(str, range(300))]
    assert 0.8 < share * sum(map(bool, draws)) / len(draws) < 1.2
    assert set.union(*draws) == {0, 1, 2}
