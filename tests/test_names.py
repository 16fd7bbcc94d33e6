"""What classes are called: a reader who looks for one finds one. And what locals are not called."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import rnncc

PACKAGE = Path(rnncc.__file__).parent
PACKAGES = [PACKAGE, PACKAGE.parent / "runtime" / "rnncc_runtime"]
DIALECTS = {
    PACKAGE / "ir" / "ops",
    PACKAGE / "kern",
    PACKAGE / "frontends" / "caffe2" / "ops",
}
"""Folders whose classes are called as their operations are: `rnn.slice`, Caffe2's Slice."""


VAGUE = {"found", "given", "made", "there", "told", "wanted"}
"""Names of locals that leave a reader asking what was found, or told, and by whom."""


@cache
def nodes_of(package: Path) -> list[tuple[Path, ast.AST]]:
    """The classes and functions."""
    return [
        (path, node)
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_share_a_name(package: Path) -> None:
    places = defaultdict[str, list[Path]](list)
    for path, node in nodes_of(package):
        if isinstance(node, ast.ClassDef):
            places[node.name].append(path)
    assert len(places) > 30
    shared = {
        name: paths
        for name, paths in places.items()
        if len(paths) > 1 and len({path.parent for path in paths} & DIALECTS) < len(paths)
    }
    assert shared == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_locals_say_what_they_are(package: Path) -> None:
    vague = {
        f"{path.relative_to(package)}:{local.lineno}: {local.id}"
        for path, node in nodes_of(package)
        if isinstance(node, ast.FunctionDef)
        for local in ast.walk(node)
        if isinstance(local, ast.Name) and isinstance(local.ctx, ast.Store) and local.id in VAGUE
    }
    assert vague == set()
