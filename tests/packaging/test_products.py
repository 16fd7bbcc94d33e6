"""The files of a model: what they say, and that C, C++, CMake and Python can use them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

from rnncc.errors import CompileError
from rnncc.packaging import texts
from rnncc.packaging.compiled import OBJECT_PRODUCTS, Artifacts
from rnncc.packaging.products import write_products
from tests import samples

INCLUDE = Path(rnncc_runtime.__file__).parent / "include"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "rnncc.h"
#include "twice.h"

int main(void) {
    float x[2 * 1 * 3] = {1, 2, 3, 4, 5, 6}, y[6];
    int32_t lengths[1] = {2};
    twice_inputs inputs = {x, lengths};
    twice_outputs outputs = {y, NULL};
    void *workspace = aligned_alloc(64, (twice_workspace_bytes(2, 1) + 63) / 64 * 64);
    int code = twice_run(&inputs, &outputs, workspace, 2, 1);
    printf("%s:", rnncc_error_string(code));
    for (int i = 0; i < 6; i++) printf(" %g", y[i]);
    lengths[0] = 3;
    printf("\n%s\n", rnncc_error_string(twice_run(&inputs, &outputs, workspace, 2, 1)));
    printf("%s\n", rnncc_error_string(99));
    free(workspace);
    return 0;
}
"""
PRINTED = "no error: 2 4 6 8 10 12\na sequence length is beyond T\nunknown error code\n"


def run(*command: str | Path, **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr + done.stdout
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return write_products(samples.compiled(), tmp_path_factory.mktemp("built"), OBJECT_PRODUCTS)


@pytest.fixture(scope="module")
def folder(built: Artifacts) -> Path:
    assert built.library is not None
    return built.library.parent


def test_every_file_is_written(built: Artifacts, folder: Path) -> None:
    expected = "libtwice.so twice.h twice.py twice.o libtwice.a twice.pc twiceConfig.cmake"
    *others, wheel = [path.name for path in built.paths]
    assert others == expected.split()
    assert wheel.startswith("twice-0.1-py3-none-") and wheel.endswith(".whl")
    assert sorted(path.name for path in folder.iterdir()) == sorted([*expected.split(), wheel])


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    artifacts = write_products(samples.compiled(), tmp_path / "new" / "folder", {"h"})
    assert artifacts.paths == [tmp_path / "new" / "folder" / "twice.h"]
    assert artifacts.library is None


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="no product is named exe"):
        write_products(samples.compiled(), tmp_path, {"exe"})
    (tmp_path / "file").write_text("")
    with pytest.raises(CompileError, match="file: cannot write"):
        write_products(samples.compiled(), tmp_path / "file", {"h"})


@pytest.mark.parametrize("kind", ["h", "py"])
def test_a_source_of_somebody_elses_is_kept(kind: str, tmp_path: Path) -> None:
    own, text = tmp_path / f"twice.{kind}", "# made with rnncc: what made the model\n"
    own.write_text(text)
    with pytest.raises(CompileError, match=f"twice.{kind}: is there already"):
        write_products(samples.compiled(), tmp_path, {"o", "h", "py"})
    assert own.read_text() == text
    assert list(tmp_path.iterdir()) == [own]
    own.write_text("")  # as a name that mktemp has taken
    for _ in range(2):  # ours are replaced
        write_products(samples.compiled(), tmp_path, {"o", "h", "py"})
    assert "compiled by rnncc" in own.read_text()


@pytest.mark.parametrize("linked", [["-ltwice"], ["-l:libtwice.a", "-lm"]])
def test_c_program(folder: Path, tmp_path: Path, linked: list[str]) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=c11", *STRICT, f"-I{folder}", f"-I{INCLUDE}", f"-L{folder}"]
    run("cc", *flags, "main.c", *linked, f"-Wl,-rpath,{folder}", "-o", "main", cwd=tmp_path)
    assert run(tmp_path / "main") == PRINTED


@pytest.mark.parametrize("standard", ["c99", "c17", "c++11", "c++20"])
@pytest.mark.parametrize("header", ["rnncc.h", "twice.h", "empty.h", "odd.h"])
def test_headers_are_clean(folder: Path, tmp_path: Path, header: str, standard: str) -> None:
    empty = {**samples.metadata("empty"), "inputs": [], "outputs": [], "parameters": []}
    (tmp_path / "empty.h").write_text(texts.header(empty))
    (tmp_path / "odd.h").write_text(texts.header(odd_metadata()))
    language = "c++" if "+" in standard else "c"
    flags = [f"-std={standard}", *STRICT, "-x", language, "-fsyntax-only"]
    source = f'#include "{header}"\n#include "{header}"\n'
    run("cc", *flags, f"-I{folder}", f"-I{INCLUDE}", f"-I{tmp_path}", "-", input=source)


def odd_metadata() -> dict[str, Any]:
    """A model whose names try to break out of comments, strings and declarations."""
    metadata = samples.metadata("odd")
    name = '*/ int; """ \\ \n ?\u202e'
    metadata["inputs"][0] |= {"name": name, "c_name": "new_"}
    metadata["parameters"][0]["name"] = name
    metadata["symbols"] = ["T", "N", "int", "inputs"]
    return metadata


def test_wrapper_of_odd_names_is_python() -> None:
    text = texts.wrapper(odd_metadata())
    docstring = compile(text, "odd.py", "exec").co_consts[0]
    assert '*/ int; """ \\ \n ?' in docstring


def test_header_says_what_the_arrays_are(folder: Path) -> None:
    text = (folder / "twice.h").read_text()
    assert "const float *in_x; /* in/x [T, N, 3] */" in text
    assert "float *padded; /* padded [T*N + 1] */" in text
    assert "Bytes of the workspace: 64 + 4*T*N;" in text


def test_python_module(folder: Path) -> None:
    code = "import twice, numpy as np; " + (
        "print(twice.run({'in/x': np.ones((1, 1, 3), 'f4'), 'lengths': np.ones(1, 'i4')})['y'])"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(sys.executable, "-c", code, cwd=folder, env=environment) == "[[[2. 2. 2.]]]\n"
    told = run(sys.executable, folder / "twice.py")
    assert "in/x: float32 [T, N, 3]" in told
    assert "Workspace, one for each thread: 64 + 4*T*N bytes." in told
    assert "lengths: int32 [N]" in run(sys.executable, "-OO", folder / "twice.py")  # no docstrings


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_package(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        f"""cmake_minimum_required(VERSION 3.10)
        project(program C)
        find_package(twice REQUIRED)
        foreach(kind twice twice_static)
          add_executable(use_${{kind}} main.c)
          target_include_directories(use_${{kind}} PRIVATE {INCLUDE})
          target_link_libraries(use_${{kind}} twice::${{kind}})
        endforeach()"""
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-Dtwice_DIR={folder}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("twice", "twice_static"):
        assert run(tmp_path / "build" / f"use_{kind}") == PRINTED


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_pkg_config(folder: Path) -> None:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    flags = run("pkg-config", "--cflags", "--libs", "twice", env=environment).split()
    assert flags == [f"-I{folder}", f"-L{folder}", "-ltwice"]


def test_outputs_through_the_library(built: Artifacts) -> None:
    assert built.library is not None
    model = rnncc_runtime.load(built.library)
    x = np.ones((2, 2, 3), np.float32)
    result = model.run({"in/x": x, "lengths": np.full(2, 2, np.int32)})
    np.testing.assert_array_equal(result["y"], 2 * x)


@pytest.mark.parametrize(
    ("name", "kinds", "file"),
    [
        ("m", ["so"], "libm.so"),
        ("c", ["py", "a"], "libc.a"),
        ("pthread", ["so", "h"], "libpthread.so"),
        ("gcc_s", ["a", "so"], "libgcc_s.so"),
        ("math", ["so", "h"], "math.h"),
        ("rnncc", ["h"], "rnncc.h"),
    ],
)
def test_names_of_the_system(name: str, kinds: list[str], file: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=f"name '{name}': {file} would be taken for the system"):
        write_products(samples.compiled(name), tmp_path, kinds)
    assert not list(tmp_path.iterdir())
    assert write_products(samples.compiled(name), tmp_path, ["o"]).object is not None
