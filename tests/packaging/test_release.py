"""What `make dist` makes, installed: for this Python, or in clean environments of all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import rnncc

ROOT = Path(__file__).parents[2]
EVERYWHERE = bool(os.environ.get("RNNCC_PYTHONS"))
HERE = "{}.{}".format(*sys.version_info)
VERSIONS = [f"3.{minor}" for minor in range(11, 15)]
TORCH = "2.13.0+cpu"
"""PyTorch without CUDA, which is a hundredth of the other; taken where pip finds it."""
QUICK = (
    *(
        "test_api.py",
        "test_formats.py",
        "test_sources.py",
        "test_writing.py",
        "netdef/test_files.py",
    ),
    *("cli/test_scoring.py", "packaging/test_wrapper.py", "scalar", "runtime/test_model.py"),
    *("runtime/test_stream.py", "cells/test_layers.py", "docs/test_recipes.py"),
)
"""Tests of what follows Python's version: ctypes, ast, inspect, paths, pickles."""
STRICT = "-W", "error"
OURS = [f"-Werror::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning")]


def works(python: Path | str) -> bool:
    """Whether it is there: some systems have names that lead to nothing."""
    found = shutil.which(python)
    return (
        found is not None and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0
    )


def found(version: str) -> str | None:
    """An interpreter: this one, one on the path, or one of pyenv's."""
    if version == HERE:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    known = [f"python{version}", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    return next((python for python in known if works(python)), None)


def run(*command: str | Path, cwd: Path) -> str:
    """In a clean environment: nothing of this process's paths; nothing on standard error."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Warning" not in done.stderr.replace("WARNING", ""), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git knows, as in a clone."""
    clone = tmp_path_factory.mktemp("release")
    listed = run("git", "ls-files", cwd=ROOT).splitlines()
    for name in listed:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    return clone


def beside(venv: Path) -> Path:
    """The Python of a new environment that sees what is installed here."""
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv.parent)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "beside.pth").write_text(sysconfig.get_paths()["purelib"])
    return venv / "bin/python"


@pytest.fixture(scope="module")
def dist(clone: Path) -> Path:
    if not EVERYWHERE:
        beside(clone / ".venv")  # one with a pip of its own takes three seconds
    run("make", "dist", f"PYTHON={sys.executable}", cwd=clone)
    return clone / "dist"


def test_what_is_made(dist: Path) -> None:
    version = rnncc.__version__
    names = {f"{name}-{version}" for name in ("rnncc", "rnncc_runtime")}
    expected = {f"{name}{end}" for name in names for end in (".tar.gz", "-py3-none-any.whl")}
    assert {path.name for path in dist.iterdir()} == expected


def test_it_works_where_it_is_installed(dist: Path, tmp_path: Path) -> None:
    """In an environment of this Python, which sees what is installed beside rnncc here."""
    python = beside(tmp_path / "venv")
    pip = sys.executable, "-m", "pip", "--python", python
    run(*pip, "install", "-q", "--no-deps", *dist.glob("*.whl"), cwd=tmp_path)
    demonstrate(python.parent, tmp_path)


@pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_PYTHONS=1 (make pythons)")
@pytest.mark.parametrize("version", VERSIONS)
def test_all_pythons(version: str, clone: Path, dist: Path, tmp_path: Path) -> None:
    """The demo, and tests that see the wheel alone."""
    python = found(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    venv = installed(python, dist, tmp_path, "rnncc[onnx,parquet]", "pytest", "hypothesis")
    demonstrate(venv, tmp_path)
    for name in ("tests", "examples", "docs"):
        shutil.copytree(clone / name, tmp_path / name)
    shutil.copy2(clone / "pyproject.toml", tmp_path)
    chosen = [f"tests/{name}" for name in QUICK]
    command = "-m", "pytest", "-q", "-o", "pythonpath=.", "-p", "no:cacheprovider", "-m", "not slow"
    run(venv / "python", *OURS, *command, *chosen, cwd=tmp_path)


@pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_PYTHONS=1 (make pythons)")
@pytest.mark.parametrize("version", VERSIONS)
def test_with_pytorch(version: str, dist: Path, tmp_path: Path) -> None:
    python = found(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    wanted = python, "-m", "pip", "download", "--quiet", "--no-deps", f"torch=={TORCH}"
    if subprocess.run([*wanted, "-d", tmp_path], capture_output=True, check=False).returncode:
        pytest.skip(f"pip finds no torch=={TORCH} for Python {version}")
    venv = installed(python, dist, tmp_path, "rnncc[onnx,torch]", f"torch=={TORCH}")
    demonstrate(venv, tmp_path)
    run(venv / "python", ROOT / "examples/torch_cell.py", cwd=tmp_path)


def installed(python: str, dist: Path, folder: Path, first: str, *others: str) -> Path:
    """The folder of programs of a new environment that has these."""
    run(python, "-m", "venv", "venv", cwd=folder)
    programs = folder / "venv/bin"
    pip = programs / "python", "-m", "pip", "install", "--quiet", "--find-links", dist
    run(*pip, f"{first}=={rnncc.__version__}", *others, cwd=folder)
    return programs


def demonstrate(programs: Path, folder: Path) -> None:
    """The demo and a library from an ONNX model, without a warning."""
    strict = programs / "python", "-X", "dev", *STRICT, "-m", "rnncc"
    told = run(*strict, "demo", "-o", "out", cwd=folder)
    assert "off the interpreter" in told and (folder / "out/plan.html").is_file()
    run(*strict, "compile", ROOT / "examples/onnx/gru.onnx", "-o", "out", cwd=folder)
    assert (folder / "out/libgru.so").is_file()


@pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_PYTHONS=1 (make pythons)")
def test_the_runtime_alone_runs_a_library(dist: Path, tmp_path: Path) -> None:
    rnncc.build(rnncc.cells.lstm(2, 3), out=tmp_path, name="layer")
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    (wheel,) = dist.glob("rnncc_runtime-*.whl")
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    program = "import rnncc_runtime as r; print(r.load('liblayer.so').name)"
    assert run(tmp_path / "venv/bin/python", "-c", program, cwd=tmp_path) == "layer\n"


@pytest.mark.skipif(not EVERYWHERE, reason="with RNNCC_PYTHONS=1 (make pythons)")
def test_the_index_takes_all_files(dist: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "twine", cwd=tmp_path)
    run(python, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=tmp_path)


def test_the_index_renders_both_pages() -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    for page in (ROOT / "README.md", ROOT / "runtime/README.md"):
        rendered = markdown.render(page.read_text())
        assert rendered is not None and "<h1>" in rendered


def test_the_changelog_begins_with_the_version() -> None:
    first = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if "## " in line)
    assert first.startswith(f"## {rnncc.__version__} ")
