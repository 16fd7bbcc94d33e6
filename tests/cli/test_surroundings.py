"""Every command with closed, full and broken streams, in ASCII, interrupted, without space."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import click
import numpy as np
import pytest

from rnncc.cli import cli
from rnncc.netdef import Argument, NetDef, OperatorDef, save

HERE = Path(__file__).parent
Run = Callable[..., tuple[int, str, str]]

COMMANDS = {
    "compile": "compile NET --init INIT -v -o OUT",
    "compile --emit llvm": "compile NET --init INIT --emit llvm",
    "run": "run NET --init INIT -i ARRAYS",
    "draw": "draw NET --init INIT",
    "inspect": "inspect NET --init INIT",
    "plan": "plan NET --init INIT --json",
    "check": "check NET --init INIT --for 2",
    "demo": "demo",
    "targets": "targets",
    "ops": "ops",
    "bench": "bench",
    "netdef show": "netdef show NET",
    "netdef ssa": "netdef ssa NET",
    "netdef extract": "netdef extract NET größe",
    "netdef prune": "netdef prune NET",
    "netdef rename": "netdef rename NET größe länge",
    "netdef split": "netdef split NET --init INIT -o OUT",
    "netdef diff": "netdef diff NET INIT",
    "netdef draw": "netdef draw NET --layout own",
}
WRITERS = {
    "compile": "compile NET --init INIT --products so,h,py,o,a,pc,cmake -o OUT",
    "compile --emit obj": "compile NET --init INIT --emit obj -o OUT/x.o",
    "compile --emit llvm": "compile NET --init INIT --emit llvm -o OUT/x.ll",
    "compile --dump-ir": "compile NET --init INIT --emit rnn --dump-ir OUT",
    "run": "run NET --init INIT -i ARRAYS -o OUT/y.npz",
    "run one": "run NET --init INIT -i ARRAYS -o OUT/y.npy",
    "plan": "plan NET --init INIT --html OUT/plan.html",
    "netdef show": "netdef show NET -o OUT/net.pb",
    "netdef extract": "netdef extract NET größe -o OUT/net.pbtxt",
    "netdef prune": "netdef prune NET --init INIT -o OUT/net.pb --init-out OUT/init.pb",
    "netdef split": "netdef split NET --init INIT -o OUT",
    "draw": "draw NET --init INIT -o OUT/net.svg",
    "netdef draw": "netdef draw NET --layout own -o OUT/net.svg",
}
OUTPUTS = [(command, "closed") for command in COMMANDS]
OUTPUTS += [(command, "broken") for command in COMMANDS if command not in ("check", "demo")]
OUTPUTS += [(command, "/dev/full") for command in ("ops", "targets", "netdef draw")]
SMALL = 600
"""Bytes: less than any file that is written, more than an error."""
NORMAL = ("/dev/null", "out", "err")


def leaves(group: click.Group, before: str = "") -> Iterator[str]:
    """The names of all commands."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}"


def test_every_command_is_here() -> None:
    assert set(leaves(cli)) <= COMMANDS.keys()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small net whose names are not ASCII."""
    folder = tmp_path_factory.mktemp("größe")
    names = [*(f"schön{i}" for i in range(30)), "größe"]
    ops = [OperatorDef(type="FC", input=["x", "wörter", "b"], output=names[:1])]
    pairs = pairwise(names)
    ops += [OperatorDef(type="Relu", input=[a], output=[b]) for a, b in pairs]
    inputs = ["x", "wörter", "b"]
    net = NetDef(name="nämlich", op=ops, external_input=inputs, external_output=["größe"])
    init = NetDef()
    for name, shape in (("wörter", [3, 4]), ("b", [3])):
        values = Argument(name="values", floats=[0.5] * int(np.prod(shape)))
        arg = [Argument(name="shape", ints=shape), values]
        init.op.append(OperatorDef(type="GivenTensorFill", output=[name], arg=arg))
    save(net, folder / "nöt.pbtxt", text=True)
    save(init, folder / "init.pb")
    np.savez(folder / "x.npz", x=np.ones((60, 4), np.float32))
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # others would not be there after a fork
    environment.pop("RNNCC_DEBUG", None)
    process = subprocess.Popen(
        [sys.executable, HERE / "surroundings.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def run(files: Path, server: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Runs words in a child: its status, and what it printed."""
    names = {"NET": "nöt.pbtxt", "INIT": "init.pb", "ARRAYS": "x.npz"}
    places = {word: str(files / name) for word, name in names.items()}

    def run(
        text: str, streams: tuple[str, str, str] = NORMAL, **more: object
    ) -> tuple[int, str, str]:
        words = [
            places.get(word, word.replace("OUT", str(tmp_path / "new"))) for word in text.split()
        ]
        where = [
            s if s.startswith("/") or s in ("closed", "broken") else str(tmp_path / s)
            for s in streams
        ]
        request = {"words": words, "streams": where, "encoding": "utf-8", **more}
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = json.loads(server.stdout.readline())["status"]
        printed = [tmp_path / name for name in ("out", "err")]
        texts = [path.read_bytes().decode() if path.exists() else "" for path in printed]
        for path in printed:
            path.unlink(missing_ok=True)
        return status, texts[0], texts[1]

    return run


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


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("command", ["compile", "run", "check", "netdef split"])
def test_interruptions(command: str, seconds: float, run: Run, tmp_path: Path) -> None:
    words = WRITERS.get(command) or COMMANDS[command]
    (tmp_path / "new").mkdir()
    status, _, told = run(words, seconds=seconds)
    assert (status, told) in ((130, "rnncc: error: interrupted\n"), (130, ""), (0, ""))
    names = [path.name for path in (tmp_path / "new").iterdir()]
    complete = {"compile": 7, "netdef split": 2, "run": 1}
    assert len(names) in (0, complete.get(command, 0)), names


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


def test_an_interruption_of_the_linker(files: Path, tmp_path: Path) -> None:
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
    paths = os.pathsep.join(p for p in sys.path if p)
    process = subprocess.Popen(
        [sys.executable, "-m", "rnncc", *words],
        env={**os.environ, "CC": str(script), "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (started.exists() and started.read_text().endswith("\n")):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "rnncc: error: interrupted\n")
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
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "rnncc: error: interrupted\n")


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
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        ["bash", "-c", f'{command}; echo "${{PIPESTATUS[@]}}" >&2'],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.stderr == told + " ".join(map(str, statuses)) + "\n"
