"""README.md: its commands and programs print what it says they print."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from rnncc.cli import cli
from tests.sanitizers import sanitizers

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like a clone in which the two commands were given."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    demo, compile_net = blocks("sh")[1].splitlines()
    assert demo == "make demo"
    shell(compile_net.removeprefix(".venv/bin/"), folder)
    return folder


def shell(command: str, folder: Path) -> str:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "PWD": str(folder)}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_here(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, which has imported PyTorch already: that takes three seconds."""
    monkeypatch.chdir(program.parent)
    runpy.run_path(str(program), run_name=f"readme_{program.stem}")


CALL, SCAN, STREAM, *CAFFE2 = blocks("python")
CALLED, SCANNED, STREAMED, *COMPUTED = blocks("text")


def test_two_commands(folder: Path) -> None:
    assert {"liblstm.so", "lstm.h", "lstm.py"} <= {
        path.name for path in (folder / "build").iterdir()
    }


def test_caffe2(folder: Path) -> None:
    (folder / "program.py").write_text("".join(CAFFE2))
    assert shell(f"{sys.executable} program.py", folder) == "".join(COMPUTED)


@pytest.mark.peers
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch")
def test_from_a_cell_to_a_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gate.py").write_text(CALL)
    (folder / "main.c").write_text(blocks("c")[0])
    python, _, commands = blocks("sh")[0].partition(" && ")
    assert python == "python gate.py"
    run_here(folder / "gate.py", monkeypatch)
    assert shell(commands, folder).split() == CALLED.split()


@pytest.mark.peers
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch")
def test_torch(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cell.py").write_text(SCAN)
    run_here(folder / "cell.py", monkeypatch)
    assert capsys.readouterr().out == SCANNED


@pytest.mark.skipif(find_spec("onnx") is None, reason="no onnx")
def test_onnx(folder: Path) -> None:
    (folder / "stream.py").write_text(STREAM)
    assert shell(f"{sys.executable} stream.py", folder) == STREAMED
    (command,) = re.findall(r"`(rnncc compile examples/onnx\S+ [^`]*)`", README)
    shell(command, folder)
    assert {"libgru.so", "gru.h", "gru.py"} <= {path.name for path in (folder / "build").iterdir()}


def test_commands_named() -> None:
    """All that the page names are there."""
    (line,) = re.findall(r"^(`rnncc compile`, .*?);", README, re.MULTILINE)
    named = {name.removeprefix("rnncc ") for name in re.findall(r"`([\w ]+)`", line)}
    assert named | {"netdef"} == set(cli.commands)


def test_example_in_c(folder: Path) -> None:
    command = f"make -C {ROOT}/examples/c run BUILD={folder}/c PYTHON={sys.executable}"
    flags = f"-O1 -Wall -Wextra -Wpedantic -Werror {sanitizers()}"
    printed = shell(f"{command} CFLAGS='{flags}'", folder).splitlines()
    lines = [line for line in printed if " -> " in line]
    assert [line[0] for line in lines] == list("HELLO, WORLD")


def test_links() -> None:
    links = [link.partition("#") for link in re.findall(r"\]\((\S+?)\)", README)]
    assert not [file for file, _, _ in links if not (ROOT / file).exists()]
    for file, _, place in links:
        titles = re.findall(
            r"^#+ (.*)", "" if file.endswith(".svg") else (ROOT / file).read_text(), re.MULTILINE
        )
        known = {title.lower().replace(" ", "-") for title in titles}
        assert place in {*known, ""}, f"{file} has no section {place}"
