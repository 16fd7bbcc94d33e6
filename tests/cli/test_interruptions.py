"""Commands that get a signal, Ctrl-C, SIGTERM or SIGHUP: they tidy up, and say how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.surrounded import COMMANDS, WRITERS, Run, environment


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("command", ["compile", "run", "check", "netdef split"])
def test_interruptions(command: str, seconds: float, number: int, run: Run, tmp_path: Path) -> None:
    words = WRITERS.get(command) or COMMANDS[command]
    (tmp_path / "new").mkdir()
    status, _, told = run(words, seconds=seconds, signal=number)
    what = "interrupted" if number == signal.SIGINT else "terminated"
    ended = 128 + number
    assert (status, told) in ((ended, f"rnncc: error: {what}\n"), (ended, ""), (0, ""))
    assert list(tmp_path.rglob(".rnncc-*")) == []
    names = [path.name for path in (tmp_path / "new").iterdir()]
    complete = {"compile": 7, "netdef split": 2, "run": 1}
    assert len(names) in (0, complete.get(command, 0)), names


LONG_CALL = """
import ctypes, os, signal, sys, threading, click
from rnncc.commands import console
from rnncc.commands.run.arrays import compute

class Model:
    metadata = {}
    inputs = {}

    def run(self, inputs, pool):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2):  # the second time for ever, signals or not
            ctypes.CDLL(None).pthread_mutex_lock(mutex)

@click.command()
def run():
    compute(Model(), {}, 1)

sys.argv = ["run"]
console.run_process(run)
"""


def test_an_interruption_of_a_long_call() -> None:
    """Code of a library releases Python's lock, but nothing interrupts it."""
    done = subprocess.run(
        [sys.executable, "-c", LONG_CALL],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "rnncc: error: interrupted\n")


HALFWAY = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\ndone = sum(range(10**6)) > 0\n"
INTERRUPTED_IMPORT = """
import sys, time
from rnncc.commands import console
console._expect_interruption()
try:
    import halfway
    time.sleep(10)
except KeyboardInterrupt:
    print(sys.modules["halfway"].done)
"""


def test_an_interruption_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "halfway.py").write_text(HALFWAY)
    paths = os.pathsep.join([str(tmp_path), *(p for p in sys.path if p)])
    command = [sys.executable, "-c", INTERRUPTED_IMPORT]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_of_the_linker(number: int, files: Path, tmp_path: Path) -> None:
    """It ends with the processes that it has started, and its temporary files."""
    script, started = tmp_path / "cc", tmp_path / "started"
    script.write_text(f"#!/bin/sh\ntouch $TMPDIR/left\nsleep 60 &\necho $! > {started}\nwait\n")
    script.chmod(0o755)
    words = [
        "compile",
        str(files / "nöt.pbtxt"),
        "--init",
        str(files / "init.pb"),
        "-o",
        str(tmp_path / "o"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "rnncc", *words],
        env={**environment(), "CC": str(script)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (started.exists() and started.read_text().endswith("\n")):
        assert process.poll() is None
    process.send_signal(number)
    _, told = process.communicate(timeout=30)
    what = "interrupted" if number == signal.SIGINT else "terminated"
    assert (process.returncode, told) == (128 + number, f"rnncc: error: {what}\n")
    assert not (tmp_path / "o").exists()
    deadline = time.monotonic() + 30  # it was killed, but perhaps had no turn yet to die
    with suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{int(started.read_text())}/stat").read_text().split()[2] not in "XZ":
            assert time.monotonic() < deadline
            time.sleep(0.01)


INTERRUPTED_DESTRUCTOR = """
import sys, time, click
from rnncc.commands import console

class Slow:
    def __del__(self):
        print("here", flush=True)
        time.sleep(60)

@click.command()
def wait():
    Slow()
    time.sleep(60)

sys.argv = ["wait"]
sys.exit(console.run_process(wait))
"""


def test_an_interruption_of_a_destructor() -> None:
    """Python ignores what a destructor raises; Ctrl-C is not to be lost."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_DESTRUCTOR],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "rnncc: error: interrupted\n")
