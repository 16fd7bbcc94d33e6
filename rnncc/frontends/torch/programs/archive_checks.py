# pyright: basic
"""Files of `torch.export.save` made safe: what PyTorch's reader would run as code is refused.

That reader evaluates expressions of sizes as Python, writes names of values into code, imports
modules that a file names, unpickles objects and loads compiled libraries. It also reads zip files
by rules of its own, so that it gets an archive that is written anew, of the members that were
checked. Light to import.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
import zlib
from collections.abc import Container, Iterator
from typing import Any

from rnncc.errors import CompileError
from rnncc.sources import limit, too_large

_MODELS, _CODE = "models", "aotinductor"
"""Folders of the graphs, which are JSON whatever they are called, and of compiled libraries."""
_TENSORS = ("weight_", "tensor_")
"""What files of plain tensors are called; others are unpickled."""
_FACTORIES = ("builtins", "collections")
_MOST_CHARACTERS, _MOST_LEVELS = 10_000, 400
_MOST_EXPONENT, _MOST_POWERS = 64, 2
"""Of powers, and of powers within powers: larger numbers take no end of time."""

_RAISING = "Pow PowByNatural FloatPow LShift RShift".split()
_FUNCTIONS = frozenset(
    """Abs Add And Eq Equality Float Ge GreaterThan Gt Integer Le LessThan Lt Max Min Mod Mul Ne Not
    Or Rational StrictGreaterThan StrictLessThan Symbol Unequality ceiling floor
    CeilDiv CeilToInt CleanDiv FloatTrueDiv FloorDiv FloorToInt Identity IntTrueDiv
    IsNonOverlappingAndDenseIndicator ModularIndexing PythonMod RoundDecimal RoundToInt ToFloat
    TruncToFloat TruncToInt Where""".split()
    + _RAISING
)
"""Of SymPy and of PyTorch, that expressions of sizes are made of."""
_OPERATORS = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{0,40})?(e[+-]?\d{1,3})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def checked_archive(data: bytes, where: str) -> bytes:
    """The same archive, of checked members alone.

    Raises:
        CompileError: it is damaged, holds more than the limit of `rnncc.sources`, or what would be
            run as code.
    """
    try:
        return _repacked(data, where)
    except (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, EOFError) as error:
        raise CompileError(where, f"damaged: {str(error)[:100]}") from error
    except RecursionError as error:
        raise CompileError(where, "damaged: its JSON is nested too deeply") from error


def _repacked(data: bytes, where: str) -> bytes:
    remaining, names, empty, held = limit(), set[str](), set[str](), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(held, "w") as copy:
        for entry in archive.infolist():
            name, folders = entry.filename, entry.filename.split("/")[:-1]
            if name in names:
                raise CompileError(where, f"damaged: it holds {name[:80]!r} twice")
            if _CODE in folders:
                raise CompileError(where, "it holds compiled libraries, which are not run")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise CompileError(where, f"damaged: {name[:80]!r} is packed in an unknown way")
            names.add(name)
            with archive.open(entry) as member:
                content = member.read(remaining + 1)
            remaining -= len(content)
            if remaining < 0:
                raise too_large(where, limit())
            if not content and name.rpartition("/")[2].startswith(_TENSORS):
                empty.add(name.rpartition("/")[2])
            if _MODELS in folders or name.endswith(".json"):
                parsed = json.loads(content)
                for fault in (*faults(parsed), *_without_values(parsed, empty)):
                    raise CompileError(where, f"{name[:80]}: {fault}")
            copy.writestr(name, content)
    return held.getvalue()


def _without_values(config: Any, empty: Container[str]) -> Iterator[str]:
    """Tensors whose file is empty, which PyTorch's reader takes for zeros."""
    entries = config.get("config") if isinstance(config, dict) else None
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        meta = entry.get("tensor_meta") if isinstance(entry, dict) else None
        sizes = meta.get("sizes") if isinstance(meta, dict) else ()
        if meta and str(entry.get("path_name")) in empty and {"as_int": 0} not in (sizes or ()):
            yield f"the file of {name[:80]!r} is empty"


def faults(value: Any) -> Iterator[str]:
    """What in JSON, and in JSON within its texts, PyTorch's reader would run as code."""
    remaining, known = [(value, False)], set[str]()
    while remaining:
        part, within = remaining.pop()
        if isinstance(part, str):
            if part.lstrip()[:1] in ("[", "{"):
                remaining += [(element, True) for element in _json_within(part)]
        elif isinstance(part, list):
            remaining += [(element, within) for element in part]
        elif isinstance(part, dict):
            remaining += [(element, within) for element in part.values()]
            yield from _bad_expression(part, known)
            yield from _bad_references(part)
            if not within:
                yield from _bad_names(part)


def _bad_expression(part: dict[str, Any], known: set[str]) -> Iterator[str]:
    """`known`: expressions that are as they should be."""
    expression = part.get("expr_str", "0")
    if isinstance(expression, str) and (expression in known or is_of_sizes(expression)):
        known.add(expression)
    else:
        yield f"{str(expression)[:80]!r} is no expression of sizes"


def _bad_references(part: dict[str, Any]) -> Iterator[str]:
    """Files that are unpickled, and modules that are imported."""
    if not str(part.get("path_name", _TENSORS[0])).startswith(_TENSORS):
        yield f"{str(part['path_name'])[:80]!r} is no tensor"
    if part.get("default_factory_module", _FACTORIES[0]) not in _FACTORIES:
        yield f"it imports {str(part['default_factory_module'])[:80]!r}"
    if "__enum__" in part:
        yield "it imports enumerations"


def _bad_names(part: dict[str, Any]) -> Iterator[str]:
    """Names of a graph's values, which PyTorch writes into code that it runs."""
    arguments = part.get("forward_arg_names")
    names = [*arguments] if isinstance(arguments, list) else []
    names += [part[key] for key in ("name", "as_name") if part.get(key) is not None]
    for name in names:
        if not _NAME.fullmatch(str(name)) and (name != "" or "arg" not in part):
            yield f"{str(name)[:80]!r} is no name of a value"


def _json_within(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return []


def is_of_sizes(expression: str) -> bool:
    """Whether a text is arithmetic on sizes: functions, names and numbers, and of a size that
    evaluating it is quick."""
    if len(expression) > _MOST_CHARACTERS:
        return False
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    remaining: list[tuple[ast.AST, int, int]] = [(tree, 0, 0)]
    while remaining:
        node, level, powers = remaining.pop()
        powers += _raises(node)
        if level > _MOST_LEVELS or powers > _MOST_POWERS or not _is_plain(node):
            return False
        parts = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        if not _holds_text(node):
            remaining += [(part, level + 1, powers) for part in parts]
    return True


def _is_plain(node: ast.AST) -> bool:
    match node:
        case ast.Name(name):
            return _NAME.fullmatch(name) is not None and not name.startswith("_")
        case ast.Constant(value):
            return isinstance(value, (bool, float)) or (isinstance(value, int) and value < 1 << 64)
        case ast.Call(keywords=keywords) if _holds_text(node):
            return all(isinstance(k.value, ast.Constant) for k in keywords)
        case ast.Call(ast.Name(function), args, keywords):
            if function in _RAISING and not (len(args) == 2 and _is_quick(*args)):
                return False
            return function in _FUNCTIONS and not keywords
        case ast.BinOp(_, ast.Pow() | ast.LShift() | ast.RShift(), right):
            return _is_small(right)
        case _:
            return isinstance(node, _OPERATORS)


def _holds_text(node: ast.AST) -> bool:
    """Whether it is `Symbol('s0', ...)` or `Float('1.5', ...)`, the places of a text."""
    match node:
        case ast.Call(ast.Name("Symbol"), [ast.Constant(str(name))]):
            return _NAME.fullmatch(name) is not None
        case ast.Call(ast.Name("Float"), [ast.Constant(str(number))]):
            return _NUMBER.fullmatch(number) is not None
        case _:
            return False


def _raises(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Name(function)):
            return function in _RAISING
        case ast.BinOp(_, operator):
            return isinstance(operator, (ast.Pow, ast.LShift, ast.RShift))
        case _:
            return False


def _is_quick(base: ast.AST, exponent: ast.AST) -> bool:
    """Whether a power has few digits: those of floats always do."""
    match base:
        case ast.Call(ast.Name("Float" | "ToFloat")):
            return True
        case _:
            return _is_small(exponent)


def _is_small(node: ast.AST) -> bool:
    """Whether it is a number that may be an exponent."""
    match node:
        case ast.Constant(int() | float() as value):
            return abs(value) <= _MOST_EXPONENT
        case ast.UnaryOp(ast.USub(), operand):
            return _is_small(operand)
        case ast.Constant(str(number)):
            return _NUMBER.fullmatch(number) is not None and abs(float(number)) <= _MOST_EXPONENT
        case ast.Call(ast.Name("Integer" | "Float" | "Rational"), args):
            return all(map(_is_small, args))
        case _:
            return False
