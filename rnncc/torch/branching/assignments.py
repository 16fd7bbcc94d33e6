"""Which local variables statements of Python assign, and which are certainly bound behind them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Statements = Sequence[ast.stmt]
SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef
_COMPREHENSIONS = ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
_AT_ONCE = ("any", "all", "sum", "max", "min", "list", "tuple")
_COMPOUND = ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match


def ours(node: Any) -> Any:
    """A node that was written here, marked."""
    node.is_ours = True
    return node


def is_ours(node: ast.AST) -> bool:
    """Whether a node was."""
    return getattr(node, "is_ours", False)


def within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes but those within functions and classes that are defined there."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, SCOPES):
            continue
        waiting += ast.iter_child_nodes(node)


def stored_in(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that they bind, or delete, anywhere."""
    names = set[str]()
    for node in within(nodes):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchMapping(rest=str(name)):
                names.add(name)
            case _:
                pass
    return names - _of_comprehensions(nodes)


def _of_comprehensions(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are bound in comprehensions alone, which have scopes of their own."""
    known = list(within(nodes))
    parts = [
        part for node in known if isinstance(node, _COMPREHENSIONS) for part in node.generators
    ]
    targets = [n for part in parts for n in ast.walk(part.target) if isinstance(n, ast.Name)]
    stored = [n for n in known if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    return {n.id for n in targets} - {n.id for n in stored if n not in targets}


def bound_after(statements: Statements, bound: frozenset[str]) -> frozenset[str] | None:
    """The names that are bound behind statements, whatever happens; None if nothing gets there.

    Args:
        bound: those before.
    """
    known: frozenset[str] | None = bound
    for statement in statements:
        if known is None:
            return None
        known = _after(statement, known)
    return known


def _after(statement: ast.stmt, bound: frozenset[str]) -> frozenset[str] | None:
    match statement:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return None
        case ast.If(test=test, body=body, orelse=orelse):
            bound |= _surely_in(test)
            one, other = bound_after(body, bound), bound_after(orelse, bound)
            if one is None or other is None:
                return other if one is None else one
            return one & other
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            return bound_after(body, bound | stored_in(items))
        case ast.Assign() | ast.AugAssign() | ast.Import() | ast.ImportFrom():
            return bound | stored_in([statement])
        case ast.AnnAssign(value=ast.expr()):
            return bound | stored_in([statement])
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return bound | {name}
        case ast.Delete():
            return bound - stored_in([statement])
        case ast.For() | ast.AsyncFor() | ast.While() | ast.Try() | ast.Match():
            return bound - _deleted(statement)
        case _:
            return bound


def _surely_in(test: ast.expr) -> frozenset[str]:
    """The names that an expression binds, whatever it is."""
    match test:
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            return frozenset({name}) | _surely_in(value)
        case ast.BoolOp(values=[first, *_]):
            return _surely_in(first)
        case ast.Compare(left=left, comparators=[other, *_]):
            return _surely_in(left) | _surely_in(other)
        case ast.UnaryOp(operand=operand):
            return _surely_in(operand)
        case _:
            return frozenset()


def _deleted(statement: ast.stmt) -> set[str]:
    nodes = within([statement])
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)} | {
        n.name for n in within([statement]) if isinstance(n, ast.ExceptHandler) and n.name
    }


def captured_in(statements: Statements, apart: Iterable[ast.AST]) -> set[str]:
    """The names that functions and generators within statements read, but for some statements, and
    for generators that are run through where they stand."""
    without = {id(node) for node in apart}
    names, waiting = set[str](), list[ast.AST](statements)
    while waiting:
        node = waiting.pop()
        if id(node) in without or is_ours(node):
            continue
        if (generator := _run_at_once(node)) is not None:
            waiting += ast.iter_child_nodes(generator)
        elif isinstance(node, (*SCOPES, ast.GeneratorExp)):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        else:
            waiting += ast.iter_child_nodes(node)
    return names


def _run_at_once(node: ast.AST) -> ast.GeneratorExp | None:
    """The generator that a call runs through before anything else happens."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.GeneratorExp() as generator]):
            return generator if name in _AT_ONCE and not node.keywords else None
        case _:
            return None


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names of a function's arguments."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {a.arg for a in (*plain, arguments.vararg, arguments.kwarg) if a is not None}


def has(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    """Whether there is a node of a kind, outside of functions that are defined there."""
    return any(isinstance(node, kinds) for node in within(nodes))


def leaves_loop(nodes: Iterable[ast.AST]) -> bool:
    """Whether there is a `break` or `continue` of a loop around them."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if not isinstance(node, (*SCOPES, ast.For, ast.AsyncFor, ast.While)):
            waiting += ast.iter_child_nodes(node)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            waiting += node.orelse
    return False


def left_by(loop: ast.For | ast.While, function: ast.FunctionDef) -> list[str]:
    """The variables that the body of a loop alone assigns, and that are read outside of it."""
    inside = {id(node) for node in ast.walk(loop)}
    names = [node for node in within(function.body) if isinstance(node, ast.Name)]
    others = [node for node in names if id(node) not in inside]
    read = {node.id for node in others if isinstance(node.ctx, ast.Load)}
    stored = {node.id for node in others if not isinstance(node.ctx, ast.Load)}
    return sorted((stored_in(loop.body) & read) - stored - parameters_of(function))


def places_in(ways: Sequence[Statements]) -> dict[str, ast.Attribute]:
    """Attributes such as `self.h` that ways assign, by names for variables in their place.

    None if anything is called, or another attribute is read, behind an assignment: that might read
    the attribute.
    """
    statements = [statement for way in ways for statement in way]
    nodes = [node for node in within(statements) if isinstance(node, ast.Attribute)]
    stored = [node for node in nodes if not isinstance(node.ctx, ast.Load)]
    texts = {ast.unparse(node) for node in stored}
    bound, attributes = stored_in(statements), dict[str, ast.Attribute]()
    if any(_reads_behind(way, texts, False) is None for way in ways):
        return {}
    for node in stored:
        text = ast.unparse(node)
        is_plain = all(part.isidentifier() for part in text.split("."))
        if is_plain and text.partition(".")[0] not in bound:
            name = f"_at_{text.replace('.', '_')}_rnncc"
            attributes[name] = ast.Attribute(node.value, node.attr, ast.Load())
    return attributes


def _reads_behind(statements: Statements, texts: set[str], assigned: bool) -> bool | None:
    """Whether statements assign attributes, or others did before; None if they read something else
    behind that."""
    for statement in statements:
        tests = [statement.test] if isinstance(statement, ast.If) else [statement]
        if assigned and _reads(tests, texts):
            return None
        if isinstance(statement, ast.If):
            ways = [
                _reads_behind(way, texts, assigned) for way in (statement.body, statement.orelse)
            ]
            if None in ways:
                return None
            assigned = any(ways)
            continue
        nodes = [n for n in within([statement]) if isinstance(n, ast.Attribute)]
        stores = any(not isinstance(n.ctx, ast.Load) for n in nodes)
        if stores and isinstance(statement, _COMPOUND) and _reads([statement], texts):
            return None
        assigned |= stores
    return assigned


def _reads(nodes: Iterable[ast.AST], texts: set[str]) -> bool:
    """Whether they call something, or read other attributes than those."""
    for node in within(nodes):
        if isinstance(node, ast.Call):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            text = ast.unparse(node)
            if not any(own == text or own.startswith(text + ".") for own in texts):
                return True
    return False
