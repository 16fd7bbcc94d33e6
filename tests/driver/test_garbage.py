"""The search for garbage while something is compiled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator

import pytest

from rnncc import garbage
from rnncc.garbage import only_among_new_objects


class Ring:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def _unfrozen(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """As in a process that has frozen nothing; those of the tests are frozen again."""
    monkeypatch.setattr(garbage._Frozen, "elsewhere", False)
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


def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a block inside of another nor again where somebody else has frozen some."""
    counts = iter([0, 1])
    monkeypatch.setattr(gc, "get_freeze_count", lambda: next(counts))
    with only_among_new_objects(), only_among_new_objects():
        pass
    for _ in range(2):
        with only_among_new_objects():
            pass
    assert next(counts, None) is None
