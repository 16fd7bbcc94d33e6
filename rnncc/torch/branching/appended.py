"""Lists to which both ways of a branch append.

    if test:                        if test:
        ys.append(f(h))                 y = f(h)
    else:                 ->        else:
        ys.append(h)                    y = h
                                    ys.append(y)

A way may change nothing, as both are read. So it is for lists that the function makes itself, where
nothing but the function can see that an entry comes later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from rnncc.torch.branching.assignments import captured_in, within

_MODULES = "torch", "F"
"""Names of modules whose functions keep no list that they take."""


def let_append_behind(
    ways: Sequence[list[ast.stmt]], function: ast.FunctionDef, number: int
) -> list[ast.stmt]:
    """Statements for behind a branch, whose ways assign variables now; none where it must stay.

    Args:
        number: of the branch in its function.
    """
    appends = [[x for x in way if _list_of(x) is not None] for way in ways]
    one, other = ([str(_list_of(x)) for x in way] for way in appends)
    if one != other or not all(_is_own(name, ways, function) for name in {*one}):
        return []
    behind = list[ast.stmt]()
    for place, pair in enumerate(zip(*appends, strict=True)):
        name = f"_added_{number}_{place}_rnncc"
        for way, statement in zip(ways, pair, strict=True):
            value = ast.Assign([ast.Name(name, ast.Store())], _call_of(statement).args[0])
            way[way.index(statement)] = ast.copy_location(value, statement)
        method = ast.Attribute(ast.Name(one[place], ast.Load()), "append", ast.Load())
        behind.append(ast.Expr(ast.Call(method, [ast.Name(name, ast.Load())], [])))
    return behind


def _list_of(statement: ast.stmt) -> str | None:
    """The variable of `ys.append(y)`."""
    match statement:
        case ast.Expr(
            ast.Call(ast.Attribute(ast.Name(id=name), "append"), args=[value], keywords=[])
        ):
            return None if isinstance(value, ast.Starred) else name
        case _:
            return None


def _call_of(statement: ast.stmt) -> ast.Call:
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return statement.value


def _is_own(name: str, ways: Sequence[list[ast.stmt]], function: ast.FunctionDef) -> bool:
    """Whether a variable is a list that nothing else has, and that ways append to alone."""
    nodes = list(within(function.body))
    return (
        _is_only_appended_to(name, ways)
        and _is_hidden(name, nodes)
        and name not in captured_in(function.body, ())
        and not any(name in x.names for x in nodes if isinstance(x, ast.Global | ast.Nonlocal))
    )


def _is_only_appended_to(name: str, ways: Sequence[list[ast.stmt]]) -> bool:
    uses = sum(len(_uses(name, within(way))) for way in ways)
    return uses == sum(_list_of(statement) == name for way in ways for statement in way)


def _is_hidden(name: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether a variable is always a new list, which nothing is given that may keep it."""
    uses = _uses(name, nodes)
    stores = [x for x in uses if not isinstance(x.ctx, ast.Load)]
    reads = [x for x in uses if isinstance(x.ctx, ast.Load)]
    pairs = [pair for node in nodes for pair in _pairs_of(node)]
    new = {id(target) for target, value in pairs if _is_list(value)}
    seen = {id(x) for node in nodes for x in _seen_by(node)}
    return bool(stores) and all(id(x) in new for x in stores) and all(id(x) in seen for x in reads)


def _uses(name: str, nodes: Iterable[ast.AST]) -> list[ast.Name]:
    return [x for x in nodes if isinstance(x, ast.Name) and x.id == name]


def _pairs_of(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment puts where."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            return list(zip(targets, values, strict=False))
        case ast.Assign(targets=[target], value=value):
            return [(target, value)]
        case _:
            return []


def _is_list(value: ast.expr) -> bool:
    match value:
        case ast.List() | ast.ListComp() | ast.Call(func=ast.Name(id="list")):
            return True
        case _:
            return False


def _seen_by(node: ast.AST) -> list[ast.AST]:
    """Expressions whose values a piece of code uses, and gives to nobody."""
    match node:
        case ast.Attribute(value=value, attr="append" | "extend"):
            return [value]
        case ast.Subscript(value=value):
            return [value]
        case ast.Call(func=ast.Name(id="len" | "sum" | "zip" | "enumerate"), args=args):
            return list(args)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=args) if name in _MODULES:
            return list(args)
        case ast.Return(value=ast.Tuple(elts=values)):
            return list(values)
        case ast.Return(value=ast.expr() as value):
            return [value]
        case ast.For(iter=values):
            return [values]
        case _:
            return []
