"""What classes are called: a reader who looks for one finds one. And what locals are not called."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
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
STORED = re.compile(rf"\b({'|'.join(VAGUE)})( =| :=| in |[,:)\]])")
"""Where such a local may be stored."""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_share_a_name(package: Path) -> None:
    places = defaultdict[str, list[Path]](list)
    for path in sorted(package.rglob("*.py")):
        for name in re.findall(r"^ *class (\w+)", path.read_text("utf-8"), re.M):
            places[name].append(path)
    assert len(places) > 30
    shared = {
        name: paths
        for name, paths in places.items()
        if len(paths) > 1 and len({path.parent for path in paths} & DIALECTS) < len(paths)
    }
    assert shared == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_locals_say_what_they_are(package: Path) -> None:
    texts = {path: path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    vague = {
        f"{path.relative_to(package)}:{local.lineno}: {local.id}"
        for path, text in texts.items()
        if STORED.search(text)  # to parse all takes seconds
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef)
        for local in ast.walk(function)
        if isinstance(local, ast.Name) and isinstance(local.ctx, ast.Store) and local.id in VAGUE
    }
    assert vague == set()
