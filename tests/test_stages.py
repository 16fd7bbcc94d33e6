"""What --time-passes shows, and work beside the main thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rnncc.cli import main
from rnncc.stages import beside

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
