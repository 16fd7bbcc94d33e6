"""README.md: its commands and programs print what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sanitizers import sanitizers

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like a clone in which the first commands were given."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    demo, compile_net = blocks("sh")[0].splitlines()
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


def test_python(folder: Path) -> None:
    (folder / "program.py").write_text("".join(blocks("python")[:3]))
    assert shell(f"{sys.executable} program.py", folder) == "".join(blocks("text")[:3])


def test_c(folder: Path) -> None:
    (folder / "main.c").write_text(blocks("c")[0])
    assert shell(blocks("sh")[1], folder) == blocks("text")[3]


def test_onnx(folder: Path) -> None:
    pytest.importorskip("onnx")
    shell(blocks("sh")[2], folder)
    assert {"libgru.so", "gru.h", "gru.py"} <= {path.name for path in (folder / "build").iterdir()}


@pytest.mark.peers
def test_torch(folder: Path) -> None:
    pytest.importorskip("torch")
    (folder / "cell.py").write_text(blocks("python")[3])
    assert shell(f"{sys.executable} cell.py", folder) == blocks("text")[4]


def test_example_in_c(folder: Path) -> None:
    command = f"make -C {ROOT}/examples/c run BUILD={folder}/c PYTHON={sys.executable}"
    flags = f"-O1 -Wall -Wextra -Wpedantic -Werror {sanitizers()}"
    printed = shell(f"{command} CFLAGS='{flags}'", folder).splitlines()
    lines = [line for line in printed if " -> " in line]
    assert [line[0] for line in lines] == list("HELLO, WORLD")


def test_links() -> None:
    text = (ROOT / "README.md").read_text()
    links = [link.partition("#") for link in re.findall(r"\]\((\S+?)\)", text)]
    assert not [file for file, _, _ in links if not (ROOT / file).exists()]
    for file, _, place in links:
        titles = re.findall(r"^#+ (.*)", (ROOT / file).read_text(), re.MULTILINE)
        known = {title.lower().replace(" ", "-") for title in titles}
        assert place in {*known, ""}, f"{file} has no section {place}"
