"""rnncc.hpp: compiled nets in C++, with exceptions and without."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import rnncc_runtime

import rnncc
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from tests.sanitizers import sanitizers

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
INCLUDE = Path(rnncc_runtime.__file__).parent / "include"
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
COUNTED = "-Wl,--wrap=malloc,--wrap=aligned_alloc"

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


def sized() -> Program:
    """Outputs of ones, whose shapes are formulas."""
    b = Builder.net("sized")
    b.input("x", ["T", "N"])
    t, n = Dim.of("T"), Dim.of("N")
    shapes = (
        [t.over(2)],
        [(t + 1).over(2) + 1],
        [(2 * t * (t - 5).excess()).over(3)],
        [n - (n - t).excess()],
        [(n.over(3) + t.over(2)).over(4), n],
    )
    return b.finish({k: b.fill(1, shape) for k, shape in zip("abcde", shapes, strict=True)})


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrapper")
    rnncc.build(EXAMPLES / "lstm.pbtxt", EXAMPLES / "lstm_init.pbtxt", folder, products=["a", "h"])
    rnncc.build(sized(), out=folder, name="sized", products=["a", "h"])
    return folder


@pytest.mark.parametrize("flags", [f"-std=c++17 {sanitizers()}", "-std=c++20 -fno-exceptions"])
def test_wrapper(libraries: Path, flags: str) -> None:
    program = libraries / "program"
    files = [HERE / "wrapper.cpp", libraries / "liblstm.a", libraries / "libsized.a"]
    paths = [f"-I{libraries}", f"-I{INCLUDE}", COUNTED, "-lm", "-o", program]
    subprocess.run(["c++", *flags.split(), *STRICT, *files, *paths], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
