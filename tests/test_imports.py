"""Imports inside functions: CONTRIBUTING.md has a table of what may be imported late, and why."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"rnncc": ROOT, "rnncc_runtime": ROOT / "runtime"}
ROW = re.compile(r"^\| (`[^|]+`) \| (`[^|]+`) \| [^|]+ \|$", re.MULTILINE)
LATE = re.compile(r"\s+(from|import) ")
Import = ast.Import | ast.ImportFrom


def path_of(module: str) -> Path | None:
    """The file of a module of ours."""
    place = SOURCES.get(module.partition(".")[0], Path("/none")) / module.replace(".", "/")
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists()), None)


def modules_of(node: Import) -> list[str]:
    """What an import loads, by full name: modules of ours among the names are told apart."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    names = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if path_of(name) else str(node.module) for name in names]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def at_the_top(nodes: Sequence[ast.stmt]) -> Iterator[str]:
    """What runs as a module is loaded: not for the type checker alone, and in no function."""
    for node in nodes:
        if isinstance(node, Import):
            yield from modules_of(node)
        elif isinstance(node, ast.Try | ast.If) and "TYPE_CHECKING" not in ast.unparse(node):
            yield from at_the_top(node.body)


@cache
def imported_by(module: str) -> list[str]:
    """What loading a module asks for: the packages around it, and what it imports at the top."""
    path = path_of(module)
    parents = [module[: dot.start()] for dot in re.finditer(r"\.", module)]
    return parents + (list(at_the_top(tree_of(path).body)) if path else [])


@cache
def loaded_with(module: str) -> set[str]:
    """All that importing a module loads, as far as our own files say."""
    loaded, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded.add(name)
            waiting += imported_by(name)
    return loaded


def functions(node: ast.AST) -> Iterator[ast.AST]:
    """The functions in a module or a class that lie in no other one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef | ast.If | ast.Try | ast.With):
            yield from functions(child)


def late_imports(path: Path) -> Iterator[tuple[Import, bool]]:
    """The imports inside functions, and whether a comment stands beside them or their group."""
    lines = path.read_text("utf-8").splitlines()
    if not any(LATE.match(line) for line in lines):
        return
    for function in functions(tree_of(path)):
        for node in ast.walk(function):
            if isinstance(node, Import):
                above = reversed(lines[: node.lineno - 1])
                group = [
                    *takewhile(lambda line: re.match(r"\s*(#|from |import |$)", line), above),
                    *lines[node.lineno - 1 : node.end_lineno],
                ]
                yield node, any(re.search("#(?! noqa)", line) for line in group)


def module_of(path: Path) -> str:
    runtime = SOURCES["rnncc_runtime"]
    parts = path.relative_to(runtime if path.is_relative_to(runtime) else ROOT).parts
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def within(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix}.")


@cache
def found() -> list[tuple[Path, Import, bool]]:
    return [
        (path, node, explained)
        for name, place in SOURCES.items()
        for path in sorted((place / name).rglob("*.py"))
        for node, explained in late_imports(path)
    ]


def test_each_has_its_reason() -> None:
    """A row of the table, or a comment beside it; and the table names nothing in vain."""
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    allowed = {
        (number, what, where)
        for number, row in enumerate(rows)
        for what in re.findall("`(.+?)`", row[0])
        for where in re.findall("`(.+?)`", row[1])
    }
    used, without = set[tuple[int, str, str]](), list[str]()
    for path, node, explained in found():
        for name in modules_of(node):
            matching = {
                (number, what, where)
                for number, what, where in allowed
                if within(name, what) and path.is_relative_to(ROOT / where)
            }
            used |= matching
            if not matching and not explained:
                without.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert without == []
    for of in (lambda row: row[:2], lambda row: row[::2]):
        assert {of(row) for row in allowed} == {of(row) for row in used}


def test_none_is_loaded_already() -> None:
    """What a file's other imports load gains nothing by waiting."""
    already = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, node, explained in found()
        if not explained and loaded_with(module_of(path)).issuperset(modules_of(node))
    ]
    assert already == []
