"""docs/recipes.md: its program in C++ compiles and prints what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import rnncc_runtime

import rnncc
from tests.sanitizers import sanitizers

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/recipes.md").read_text()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_audio(tmp_path: Path) -> None:
    net = ROOT / "examples/lstm.pbtxt", ROOT / "examples/lstm_init.pbtxt"
    rnncc.build(*net, out=tmp_path, flush_denormals=True)
    (code,) = re.findall(r"```cpp\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "main.cpp").write_text(code)
    flags = f"-std=c++17 -O1 -Wall -Wextra -Wpedantic -Werror {sanitizers()}".split()
    include = f"-I{Path(rnncc_runtime.__file__).parent / 'include'}"
    paths = [f"-I{tmp_path}", include, f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}"]
    command = ["c++", tmp_path / "main.cpp", *flags, *paths, "-llstm", "-o", tmp_path / "main"]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    (told,) = re.findall(r"It prints `(.*)`", TEXT)
    assert printed.stdout == f"{told}\n"
