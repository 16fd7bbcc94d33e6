"""What `make dist` makes: installed into clean environments, each Python that there is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rnncc

ROOT = Path(__file__).parents[2]


def works(python: str) -> bool:
    """Whether it is there: some systems have names that lead to nothing."""
    found = shutil.which(python)
    return (
        found is not None and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0
    )


OTHERS = [name for minor in range(11, 15) if works(name := f"python3.{minor}")]
PYTHONS = OTHERS or [sys.executable]


def run(*command: str | Path, cwd: Path) -> str:
    """In a clean environment: nothing of this process's paths."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=cwd, env=kept, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made from the files that git knows, as in a clone."""
    clone = tmp_path_factory.mktemp("release")
    listed = run("git", "ls-files", cwd=ROOT).splitlines()
    for name in listed:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    run("make", "dist", f"PYTHON={sys.executable}", cwd=clone)
    return clone / "dist"


@pytest.mark.slow
def test_what_is_made(dist: Path) -> None:
    version = rnncc.__version__
    names = {f"{name}-{version}" for name in ("rnncc", "rnncc_runtime")}
    expected = {f"{name}{end}" for name in names for end in (".tar.gz", "-py3-none-any.whl")}
    assert {path.name for path in dist.iterdir()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_the_demo_works_where_it_is_installed(python: str, dist: Path, tmp_path: Path) -> None:
    run(python, "-m", "venv", "venv", cwd=tmp_path)
    pip = tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", "--find-links", dist
    run(*pip, f"rnncc[onnx]=={rnncc.__version__}", cwd=tmp_path)
    told = run(tmp_path / "venv/bin/rnncc", "demo", "-o", "out", cwd=tmp_path)
    assert "off the interpreter" in told and (tmp_path / "out/plan.html").is_file()
    gru = ROOT / "examples/onnx/gru.onnx"
    run(tmp_path / "venv/bin/rnncc", "compile", gru, "-o", "out", cwd=tmp_path)
    assert (tmp_path / "out/libgru.so").is_file()


@pytest.mark.slow
def test_the_runtime_alone_runs_a_library(dist: Path, tmp_path: Path) -> None:
    rnncc.build(rnncc.cells.lstm(2, 3), out=tmp_path, name="layer")
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    (wheel,) = dist.glob("rnncc_runtime-*.whl")
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    program = "import rnncc_runtime as r; print(r.load('liblayer.so').name)"
    assert run(tmp_path / "venv/bin/python", "-c", program, cwd=tmp_path) == "layer\n"


def test_the_index_renders_both_pages() -> None:
    markdown = pytest.importorskip("readme_renderer.markdown")
    for page in (ROOT / "README.md", ROOT / "runtime/README.md"):
        rendered = markdown.render(page.read_text())
        assert rendered is not None and "<h1>" in rendered


def test_the_changelog_begins_with_the_version() -> None:
    first = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if "## " in line)
    assert first.startswith(f"## {rnncc.__version__} ")
