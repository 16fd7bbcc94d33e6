"""What classes are called: a reader who looks for one finds one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import rnncc

PACKAGE = Path(rnncc.__file__).parent
DIALECTS = {
    PACKAGE / "ir" / "ops",
    PACKAGE / "kern",
    PACKAGE / "frontends" / "caffe2" / "ops",
}
"""Folders whose classes are called as their operations are: `rnn.slice`, Caffe2's Slice."""


@pytest.mark.parametrize("package", [PACKAGE, PACKAGE.parent / "runtime" / "rnncc_runtime"])
def test_no_two_classes_share_a_name(package: Path) -> None:
    places = defaultdict[str, list[Path]](list)
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path)
    assert len(places) > 30
    shared = {
        name: paths
        for name, paths in places.items()
        if len(paths) > 1 and len({path.parent for path in paths} & DIALECTS) < len(paths)
    }
    assert shared == {}
