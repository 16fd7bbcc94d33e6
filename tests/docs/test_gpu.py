"""docs/gpu.md: its programs print what it says, on the emulated driver; PyTorch's on the CPU."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import rnncc
from tests.gpu import emulated, libcuda
from tests.sanitizers import sanitizers

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gpu.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", TEXT, re.DOTALL)
FOR_TORCH = "# on a GPU\n"
EMULATED = """
import runpy, sys
from rnncc.codegen.targets import TARGETS
from tests.gpu import emulated
emulated.register()
TARGETS["nvptx"] = TARGETS[emulated.NAME]
runpy.run_path(sys.argv[1])
"""


def run(*command: str | Path) -> str:
    environment = {**os.environ, "RNNCC_LIBCUDA": str(libcuda.path())}
    paths = os.pathsep.join((str(ROOT), str(ROOT / "runtime")))
    done = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def programs(for_torch: bool) -> tuple[str, str]:
    """The blocks of one kind, as one program, and what they print."""
    chosen = [pair for pair in PROGRAMS if pair[0].startswith(FOR_TORCH) is for_torch]
    return "".join(code for code, _ in chosen), "".join(text for _, text in chosen)


def test_every_block_is_run() -> None:
    assert len(PROGRAMS) == TEXT.count("```python") == TEXT.count("```text") == 5
    assert TEXT.count("```c\n") == 1


def test_python(tmp_path: Path) -> None:
    code, text = programs(for_torch=False)
    path = tmp_path / "program.py"
    path.write_text(code)
    assert run(sys.executable, "-c", EMULATED, path) == text


@pytest.mark.peers
@pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch")
def test_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch knows no emulated GPU: the program runs on the CPU, in this process."""
    code, text = programs(for_torch=True)
    path = tmp_path / "program.py"
    path.write_text(code.replace('"cuda"', '"cpu"'))
    runpy.run_path(str(path))
    assert capsys.readouterr().out == text


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder with the page's library, for the emulated GPU."""
    emulated.register()
    layer = rnncc.cells.lstm(16, 32)
    rnncc.build(layer, out=tmp_path, name="lstm", target=emulated.NAME)
    return tmp_path


def test_c(built: Path) -> None:
    (code,) = re.findall(r"```c\n(.*?)```", TEXT, re.DOTALL)
    (built / "main.c").write_text(code)
    include = run(sys.executable, "-m", "rnncc_runtime", "--include").strip()
    flags = f"-std=c11 -O1 -Wall -Wextra -Wpedantic -Werror {sanitizers()}".split()
    paths = [f"-I{built}", f"-I{include}", f"-L{built}", f"-Wl,-rpath,{built}"]
    run("cc", built / "main.c", *flags, *paths, "-llstm", "-ldl", "-o", built / "main")
    printed = run(built / "main")
    assert re.fullmatch(r"code 0, found 0, last y -?0\.\d{4}\n", printed)


def test_example_in_c(built: Path) -> None:
    """examples/gpu steps through the text as examples/c does on the CPU."""
    example = ROOT / "examples"
    net = example / "lstm.pbtxt", example / "lstm_init.pbtxt"
    rnncc.build(*net, out=built, target=emulated.NAME)
    command = ["make", "-s", "-C", example / "gpu", f"BUILD={built}", f"PYTHON={sys.executable}"]
    printed = run(*command, f"CFLAGS=-O1 -Wall -Wextra -Wpedantic -Werror {sanitizers()}")
    stream = rnncc.compile(*net).stream()
    for line, x in zip(printed.splitlines(), np.load(example / "lstm.npz")["x"], strict=True):
        (found,) = stream.step({"x": x})["probabilities"].reshape(1, -1)
        best = int(found.argmax())
        assert line == f"{chr(int(x.argmax()) + 32)} -> {chr(best + 32)} ({found[best]:.4f})"
