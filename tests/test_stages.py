"""What --time-passes shows, and work beside the main thread."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

import rnncc
from rnncc.cli import main
from rnncc.errors import CompileError
from rnncc.stages import SELDOM, beside, collections

ROOT = Path(__file__).parents[1]
NET, INIT = (str(ROOT / "examples" / name) for name in ("lstm.pbtxt", "lstm_init.pbtxt"))


@pytest.mark.parametrize("train", [[], ["--train"]])
def test_time_passes(train: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", NET, "--init", INIT, "-o", str(tmp_path), "--time-passes", *train]
    assert main(arguments) == 0
    lines = [line.rsplit(maxsplit=2) for line in capsys.readouterr().err.splitlines()]
    names = [name.strip() for name, _, _ in lines]
    assert names[:3] == ["start", "imports", "read"]
    assert names[-5:] == ["ir", "llvm", "machine code", "write", "total"]
    assert {"fuse", "plan", "differentiate" if train else "hoist"} <= set(names)
    times = [float(milliseconds) for _, milliseconds, _ in lines]
    assert sum(times[:-1]) <= times[-1] * 1.01


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


def test_garbage_is_looked_for_seldom_meanwhile() -> None:
    before = gc.get_threshold()
    with collections.seldom(), collections.seldom():
        assert gc.get_threshold() == (SELDOM, *before[1:])
    assert gc.get_threshold() == before
    with pytest.raises(CompileError):
        rnncc.compile("nothing.pb")
    assert gc.get_threshold() == before


def test_garbage_that_nobody_looks_for_stays() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collections.seldom():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
