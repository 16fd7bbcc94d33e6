"""Every command with closed, full and broken streams, in ASCII, without space."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rnncc.cli import cli
from tests.cli.surrounded import COMMANDS, WRITERS, Run, environment

OUTPUTS = [(command, "closed") for command in COMMANDS]
OUTPUTS += [(command, "broken") for command in COMMANDS if command not in ("check", "demo")]
OUTPUTS += [(command, "/dev/full") for command in ("ops", "targets", "netdef draw")]
SMALL = 600
"""Bytes: less than any file that is written, more than an error."""


def leaves(group: click.Group, before: str = "") -> Iterator[str]:
    """The names of all commands."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_is_here() -> None:
    assert set(leaves(cli)) <= COMMANDS.keys()


def one_line(told: str) -> bool:
    """Whether standard error holds an error, in one line, and no traceback."""
    last = told.splitlines()[-1] if told else ""
    return (
        last.startswith("rnncc: error: ") and told.count("rnncc: ") == 1 and "Traceback" not in told
    )


def prints(command: str) -> bool:
    """Whether it prints on standard output."""
    return command not in ("compile", "netdef split")


def status_of(command: str) -> int:
    return 1 if command == "netdef diff" else 0


@pytest.mark.parametrize(("command", "stdout"), OUTPUTS)
def test_output_that_cannot_be_written(command: str, stdout: str, run: Run) -> None:
    status, _, told = run(COMMANDS[command], ("/dev/null", stdout, "err"))
    if not prints(command):
        assert (status, one_line(told)) == (0, False)
    elif stdout == "broken":
        assert (status, one_line(told)) == (141, False)
    else:
        assert (status, one_line(told)) == (2, True)
        assert "standard output: " in told


@pytest.mark.parametrize("command", COMMANDS)
def test_ascii(command: str, run: Run) -> None:
    """Names come as they can; files, such as SVG and LLVM's IR, are UTF-8 whatever the locale."""
    status, printed, told = run(COMMANDS[command], encoding="ascii")
    assert (status, one_line(told)) == (status_of(command), False), told
    assert told.isascii()
    is_file = command in ("draw", "compile --emit llvm") or "netdef" in command
    assert printed.isascii() or is_file or command in ("demo", "ops")


@pytest.mark.parametrize("stderr", ["closed", "/dev/full", "broken"])
@pytest.mark.parametrize("words", ["compile none.pb", "frobnicate", "compile", "ops --json"])
def test_errors_that_nobody_reads(words: str, stderr: str, run: Run) -> None:
    status, printed, _ = run(words, ("/dev/null", "out", stderr))
    assert (status, bool(printed)) == ((0, True) if "ops" in words else (2, False))


def test_errors_in_ascii(run: Run) -> None:
    status, _, told = run("netdef extract NET mögen", encoding="ascii")
    assert status == 2 and one_line(told) and told.isascii() and r"m\xf6gen" in told


def test_no_file_takes_the_place_of_a_stream(run: Run, tmp_path: Path) -> None:
    streams = ("closed", "closed", "closed")
    assert run("compile NET --init INIT -v -o OUT", streams)[0] == 0
    for path in (tmp_path / "new").iterdir():
        assert b"workspace  " not in path.read_bytes()
    assert run("netdef show -", streams)[0] == 2


@pytest.mark.parametrize("command", WRITERS)
def test_writers(command: str, run: Run, tmp_path: Path) -> None:
    """Links are replaced, a device is written to, an old file gives way in one step."""
    (tmp_path / "new").mkdir()
    assert run(WRITERS[command])[0] == 0
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in names:
        (tmp_path / "new" / name).unlink()
        (tmp_path / "new" / name).symlink_to(precious)
    status, _, told = run(WRITERS[command])
    assert (status, told) == (0, "") or "prune" in command
    assert precious.read_text() == "precious"
    found = list((tmp_path / "new").iterdir())
    assert sorted(path.name for path in found) == names
    assert not any(path.is_symlink() for path in found)


@pytest.mark.parametrize("command", WRITERS)
def test_no_space(command: str, run: Run, tmp_path: Path) -> None:
    """A limit of files' size instead of a full disk: nothing that is cut off stays."""
    (tmp_path / "new").mkdir()
    status, _, told = run(WRITERS[command], file_size=SMALL)
    assert (status, one_line(told)) == (2, True), told
    left = [path for path in (tmp_path / "new").iterdir() if not path.name.endswith(".mlir")]
    assert left == []


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("kind", ["file", "read-only", "folder"])
def test_places_that_cannot_be_written(command: str, kind: str, run: Run, tmp_path: Path) -> None:
    words = WRITERS[command]
    if kind == "file":
        (tmp_path / "new").write_text("mine")
    elif kind == "read-only":
        words = words.replace("OUT", "/proc/self")  # for root as well
    else:
        target = words.split()[-1].removeprefix("OUT").lstrip("/")
        names = {"compile": "libn_t.so", "netdef split": "init_net.pb"}
        target = target or names.get(command, "01-read.mlir")
        if command == "compile":
            target = "n_t.h"
            words += " --name n_t"
        (tmp_path / "new" / target).mkdir(parents=True)
    status, _, told = run(words)
    assert (status, one_line(told)) == (2, True), told
    if kind == "file":
        assert (tmp_path / "new").read_text() == "mine"
    assert list(tmp_path.rglob(".rnncc-*")) == []


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
@pytest.mark.parametrize(
    ("line", "statuses", "told"),
    [
        ("RNNCC ops >&-", [2], "rnncc: error: standard output: Bad file descriptor\n"),
        ("RNNCC ops | true", [141, 0], ""),
        ("RNNCC netdef show - <&-", [2], "rnncc: error: <stdin>: Bad file descriptor\n"),
    ],
)
def test_from_a_shell(line: str, statuses: list[int], told: str) -> None:
    """The same as a process that a shell has started."""
    command = line.replace("RNNCC", f"{sys.executable} -m rnncc")
    done = subprocess.run(
        ["bash", "-c", f'{command}; echo "${{PIPESTATUS[@]}}" >&2'],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.stderr == told + " ".join(map(str, statuses)) + "\n"
