"""Work beside the main thread."""

from __future__ import annotations

import threading

import pytest

from rnncc.stages.threads import beside


def test_beside() -> None:
    release = threading.Event()

    def work() -> int:
        assert release.wait(60)
        return 7

    wait = beside(work)
    release.set()
    assert wait() == 7


def test_errors_reach_who_waits() -> None:
    wait = beside(lambda: [].pop())
    with pytest.raises(IndexError):
        wait()
