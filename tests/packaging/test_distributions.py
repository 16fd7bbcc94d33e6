"""Two distributions that belong together: the compiler, and the runtime that needs NumPy alone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import rnncc

ROOT = Path(__file__).parents[2]


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def test_they_are_of_one_version() -> None:
    compiler, runtime = project(ROOT), project(ROOT / "runtime")
    assert runtime["version"] == rnncc.__version__
    assert f"rnncc-runtime=={runtime['version']}" in compiler["dependencies"]
    assert (ROOT / "LICENSE").read_text() == (ROOT / "runtime" / "LICENSE").read_text()


def test_the_runtime_needs_numpy_alone() -> None:
    (dependency,) = project(ROOT / "runtime")["dependencies"]
    assert dependency.startswith("numpy")
    sources = [path.read_text() for path in (ROOT / "runtime").rglob("*.py")]
    assert not any("import rnncc\n" in text or "from rnncc." in text for text in sources)
