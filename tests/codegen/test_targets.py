"""Targets are a table and a protocol: what they provide, and who may know of them."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from rnncc.codegen import targets
from rnncc.codegen.target import Target
from rnncc.packaging.products import KINDS

ROOT = Path(__file__).parents[2]
MEMBERS = sorted(name for name in vars(Target) if not name.startswith("_"))
PAGE = (ROOT / "docs" / "adding-a-target.md").read_text()


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_target_has_all_members(name: str) -> None:
    target = targets.resolve(name)
    for member in MEMBERS:
        stated = inspect.getattr_static(Target, member)
        own = inspect.getattr_static(type(target), member, None)
        assert own is not None or member in vars(target), member
        if inspect.isfunction(stated):
            assert inspect.isfunction(own)
            expected = list(inspect.signature(stated).parameters)
            assert list(inspect.signature(own).parameters) == expected
    assert hash(target) == hash(targets.resolve(name))
    assert repr(target) == repr(targets.resolve(name))


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_row_is_true(name: str) -> None:
    row = targets.TARGETS[name]
    assert set(row.by_default) <= set(row.products) <= KINDS.keys()
    module = import_module(row.module)
    assert callable(module.resolve)
    target = targets.resolve(name)
    for knob in row.knobs:
        changed = targets.resolve(name, knobs={knob: 3})
        assert getattr(changed, knob) == 3
        assert changed != target


def test_lint_keeps_the_folders_from_those_who_know_the_protocol_alone() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    forbidden = next(c for c in contracts["contracts"] if c["type"] == "forbidden")
    folders = [path.parent.name for path in (ROOT / "rnncc/codegen").glob("*/__init__.py")]
    assert sorted(forbidden["forbidden_modules"]) == sorted(f"rnncc.codegen.{f}" for f in folders)


def test_the_page_tells_of_the_protocol() -> None:
    section = PAGE.split("## The protocol")[1].split("##")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert told == set(MEMBERS)


@pytest.mark.parametrize("stage", ["ir", "passes", "lowering", "planning", "packaging"])
def test_stages_know_the_protocol_alone(stage: str) -> None:
    for path in (ROOT / "rnncc" / stage).rglob("*.py"):
        known = {name for name in imported(path) if name.startswith("rnncc.codegen")}
        # prototypes are of the header, which every target's product has
        assert known <= {"rnncc.codegen.target", "rnncc.codegen.prototypes"}, path


def test_only_the_table_names_targets_to_the_driver() -> None:
    allowed = {"rnncc.codegen", "rnncc.codegen.target", "rnncc.codegen.targets"}
    paths = [*(ROOT / "rnncc").glob("*.py"), *(ROOT / "rnncc" / "driver").rglob("*.py")]
    for path in paths:
        known = {name for name in imported(path) if name.startswith("rnncc.codegen")}
        assert known <= allowed, path


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names
