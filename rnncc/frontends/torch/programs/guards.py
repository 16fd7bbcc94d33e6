# pyright: basic, reportMissingImports=false
"""What an exported program takes for granted of its open sizes.

`torch.export` runs a module's code at the sizes of an example. Of what the code decides by them
the graph has one way alone. Where that is right the program tells by ranges of its sizes and by
guards in Python, `L['x'].size()[0] % 2 == 0`.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import MappingKey, SequenceKey, tree_flatten_with_path, tree_unflatten

from rnncc.errors import CompileError
from rnncc.frontends.torch.sizes import Sizes, floor_divide, remainder, symbols_of
from rnncc.ir.dims import Dim
from rnncc.ir.size_proofs import is_natural, larger, smaller

_ARITHMETIC: dict[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: floor_divide,
    ast.Mod: remainder,
}
_CALLS: dict[str, Callable[..., Dim]] = {
    "max": lambda *sizes: reduce(larger, sizes),
    "min": lambda *sizes: reduce(smaller, sizes),
    "abs": lambda size: larger(size, -size),
}
_OPPOSITES: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Lt: ast.GtE(),
    ast.GtE: ast.Lt(),
    ast.Gt: ast.LtE(),
    ast.LtE: ast.Gt(),
}
_OF_QUOTIENTS: dict[type[ast.cmpop], list[tuple[ast.cmpop, int]]] = {
    ast.GtE: [(ast.GtE(), 0)],
    ast.Gt: [(ast.GtE(), 1)],
    ast.Lt: [(ast.Lt(), 0)],
    ast.LtE: [(ast.Lt(), 1)],
    ast.Eq: [(ast.GtE(), 0), (ast.Lt(), 1)],
}
"""What a // b compared to c is of a and b·(c + number), b being above 0."""
_Path = tuple[Any, ...]
"""A parameter's name, then indices and keys."""
_ONE_OF_SEVERAL = re.compile(r"(.*)_(\d+)")
"""PyTorch's name for what `*NAME` has at an index."""
_LEAST = 2
"""PyTorch's own lower limit of open sizes, which it does not hold calls to."""


def facts_of(exported: ExportedProgram, plain: ExportedProgram, sizes: Sizes) -> Iterator[Dim]:
    """Formulas of sizes, each 0 or more wherever the program is what its module does.

    Args:
        plain: what PyTorch made of it, without its guards: its inputs' names are in these.

    Raises:
        CompileError: there is no formula for a guard.
    """
    inputs = _inputs(plain)
    known = {
        name
        for x in inputs.values()
        for size in getattr(x, "shape", ())
        for name in symbols_of(size)
    }
    for symbol, limits in exported.range_constraints.items():
        if not {str(part) for part in symbol.free_symbols} <= known:
            continue  # a number that is computed
        size = sizes.read(symbol)
        if limits.lower > _LEAST:
            yield size - int(limits.lower)
        if limits.upper < sys.maxsize - 1:
            yield int(limits.upper) - size
    for guard in getattr(exported, "_guards_code", []):
        try:
            yield from _facts(_parsed(guard), _GuardReader(inputs, sizes))
        except CompileError as error:
            what = f"what the module does depends on {_shown(guard)}: {error.what}"
            raise CompileError("", what, "fix this size") from error


def _parsed(guard: Any) -> ast.expr:
    try:
        return ast.parse(guard, mode="eval").body
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise CompileError("", "it is damaged") from error


def _inputs(exported: ExportedProgram) -> dict[_Path, Any]:
    """What the user gives, as fakes, by the paths and by the numbers that guards know it by.

    Placeholders' names will not do: `x["B"]` is x_b there, and `x["b"]` beside it x_b_1.
    """
    specs = exported.graph_signature.input_specs
    names = {spec.arg.name for spec in specs if spec.kind == InputKind.USER_INPUT}
    places = exported.graph.find_nodes(op="placeholder")
    fakes = [place.meta.get("val") for place in places if place.name in names]
    by_path: dict[_Path, Any] = {("flat_args", number): x for number, x in enumerate(fakes)}
    signature = exported.module_call_graph[0].signature
    if signature is None or signature.in_spec.num_leaves != len(fakes):
        return by_path
    try:
        for path, number in _paths(signature, len(fakes)):
            by_path.setdefault(path, fakes[number])
    except (AttributeError, TypeError, ValueError) as error:
        raise CompileError("", "what it is called with is damaged") from error
    return by_path


def _paths(signature: Any, count: int) -> Iterator[tuple[_Path, int]]:
    """Each path of what the user gives, and its number."""
    args, kwargs = tree_unflatten(range(count), signature.in_spec)
    arguments, several = [*args, *kwargs.values()], list[tuple[_Path, int]]()
    for name, argument in zip(signature.forward_arg_names or (), arguments, strict=False):
        for path, number in tree_flatten_with_path(argument)[0]:
            inner = tuple(map(_key, path))
            yield (name, *inner), number
            if parts := _ONE_OF_SEVERAL.fullmatch(name):
                several.append(((parts[1], int(parts[2]), *inner), number))
    yield from several


def _key(part: Any) -> Any:
    match part:
        case SequenceKey(idx=key) | MappingKey(key=key):
            return key
        case _:  # attributes, which guards are not read with
            return part


def _shown(guard: Any) -> str:
    """For people: `x.size()[0] % 2 == 0`."""
    return re.sub(r"\bL\['(\w+)'\]", r"\1", str(guard))


def _facts(test: ast.expr, reader: Callable[[ast.expr], Dim]) -> Iterator[Dim]:
    """Formulas that all are 0 or more where a test holds, and only there."""
    match test:
        case ast.Constant(value=True):
            return
        case ast.BoolOp(op=ast.And(), values=parts):
            for part in parts:
                yield from _facts(part, reader)
        case ast.BoolOp(values=parts):
            facts = [list(_facts(part, reader)) for part in parts]
            if all(facts):  # else one part holds anyway
                yield reduce(larger, (reduce(smaller, of_part) for of_part in facts))
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left=a, ops=[op], comparators=[b])) if (
            type(op) in _OPPOSITES
        ):
            yield from _compared_sizes(a, _OPPOSITES[type(op)], b, reader)
        case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp(op=op, values=parts)):
            opposites: list[ast.expr] = [ast.UnaryOp(ast.Not(), part) for part in parts]
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield from _facts(ast.BoolOp(other, opposites), reader)
        case ast.Compare(left=left, ops=ops, comparators=others) if _OPPOSITES.keys() >= set(
            map(type, ops)
        ):
            for a, op, b in zip([left, *others], ops, others, strict=False):
                yield from _compared_sizes(a, op, b, reader)
        case _:
            raise CompileError("", "there is no formula for it")


def _compared_sizes(
    left: ast.expr, op: ast.cmpop, right: ast.expr, reader: Callable[[ast.expr], Dim]
) -> Iterator[Dim]:
    b = reader(right)
    match left:
        case ast.BinOp(left=whole, op=ast.FloorDiv(), right=part) if type(op) in _OF_QUOTIENTS:
            by = reader(part)
            for bound, more in _OF_QUOTIENTS[type(op)]:  # of a quotient there may be no formula
                yield from _compared(reader(whole), bound, by * (b + more))
        case _:
            yield from _compared(reader(left), op, b)


def _compared(a: Dim, op: ast.cmpop, b: Dim) -> Iterator[Dim]:
    match op:
        case ast.GtE():
            yield a - b
        case ast.Gt():
            yield a - b - 1
        case ast.LtE() | ast.Lt():
            yield from _compared(b, ast.Gt() if isinstance(op, ast.Lt) else ast.GtE(), a)
        case ast.Eq():
            yield from (a - b, b - a)
        case _ if is_natural(a - b):
            yield a - b - 1
        case _ if is_natural(b - a):
            yield b - a - 1
        case _:
            yield (a - b) * (a - b) - 1


class _GuardReader:
    """Reads sizes in the text of a guard; raises `CompileError` where there is no formula."""

    def __init__(self, inputs: Mapping[_Path, Any], sizes: Sizes) -> None:
        self._inputs, self._sizes = inputs, sizes

    def __call__(self, size: ast.expr) -> Dim:
        match size:
            case ast.Constant(value=int(number)):
                return Dim.of(number)
            case ast.Constant(value=float(number)) if number.is_integer():
                return Dim.of(int(number))
            case ast.Call(func=ast.Attribute(attr="sym_float"), args=[part]):
                return self(part)
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return -self(part)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](self(a), self(b))
            case ast.Call(func=ast.Name(id=name), args=parts) if name in _CALLS:
                return _CALLS[name](*map(self, parts))
            case ast.Subscript(
                value=ast.Call(func=ast.Attribute(value=place, attr="size")),
                slice=ast.Constant(value=int(axis)),
            ):
                return self._size(place, axis)
            case _:
                raise CompileError("", "there is no formula for it")

    def _size(self, place: ast.expr, axis: int) -> Dim:
        """Of an axis of `L['x']['k'][0]`."""
        path: _Path = ()
        while isinstance(place, ast.Subscript) and isinstance(place.slice, ast.Constant):
            path = (place.slice.value, *path)
            place = place.value
        tensor = self._inputs.get(path)
        if not isinstance(tensor, torch.Tensor) or axis >= tensor.dim():
            raise CompileError("", "it is not known of what")
        return self._sizes(tensor.shape[axis])
