"""The search for garbage while something is compiled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator

import pytest

from rnncc.garbage import only_among_new_objects


class Ring:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _unfrozen() -> Generator[None]:
    """As in a process that has frozen nothing; those of the tests are frozen again."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_old_objects_are_looked_at_after_the_block() -> None:
    old = Ring()
    seen = weakref.ref(old)
    with only_among_new_objects():
        new = Ring()
        recent = weakref.ref(new)
        del old, new
        gc.collect()
        assert seen() is not None and recent() is None
    gc.collect()
    assert seen() is None and gc.get_freeze_count() == 0


def test_what_a_user_froze_stays_frozen() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    with pytest.raises(ValueError, match="inside"), only_among_new_objects():
        raise ValueError("inside")
    assert gc.get_freeze_count() == pytest.approx(count, rel=0.01)


def test_nothing_stays_frozen_behind_an_error() -> None:
    with pytest.raises(ValueError, match="inside"), only_among_new_objects():
        raise ValueError("inside")
    assert gc.get_freeze_count() == 0
