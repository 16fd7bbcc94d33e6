"""Which cases of long tests are drawn."""

from __future__ import annotations

from tests.draw import drawn


def test_as_many_as_fit_and_in_time_all() -> None:
    seen = set[int]()
    for state in map(str, range(100)):
        cases = drawn("a_test", 20, 0.06, state)
        assert len(cases) == 3
        seen |= cases
    assert seen == set(range(20))


def test_long_cases_are_left_out_of_every_second_draw() -> None:
    draws = [drawn("a_test", 3, 1.5, state) for state in map(str, range(100))]
    assert 30 < draws.count(set()) < 70
    assert set.union(*draws) == {0, 1, 2}
    assert all(drawn("a_test", 1, 0.9, state) == {0} for state in map(str, range(20)))
