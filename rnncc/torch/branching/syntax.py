"""Pieces of Python's syntax from which branches are written anew."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from rnncc.torch.branching.assignments import has, ours, within

OWN = "_rnncc"
"""What our names begin with."""


class Unwritable(Exception):
    """A function stays as it is; the text says why."""


class Returns(ast.NodeTransformer):
    """Lets statements return tuples of what they return."""

    def visit_all(self, statements: list[ast.stmt]) -> None:
        """In place."""
        statements[:] = [self.visit(statement) for statement in statements]

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """A tuple of one."""
        value = node.value or ast.Constant(None)
        return like(node, ast.Return(like(node, ast.Tuple([value], ast.Load()))))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Not what is defined there."""
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Nor this."""
        return node


class _Super(ast.NodeTransformer):
    """Writes out what `super()` takes from the function that it stands in."""

    def __init__(self, first: str) -> None:
        self.first = first

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
        return node


def plain_super(node: Any, owner: ast.FunctionDef) -> Any:
    """A node whose calls of `super()` say of what, as a method within a method must."""
    plain = [*owner.args.posonlyargs, *owner.args.args]
    return _Super(plain[0].arg).visit(node) if plain else node


def takes_number(node: ast.Call) -> bool:
    """Whether a call is one of `float(x)` or `int(x)`."""
    is_kind = isinstance(node.func, ast.Name) and node.func.id in ("float", "int")
    return is_kind and len(node.args) == 1 and not node.keywords


class ScalarCalls(ast.NodeTransformer):
    """Lets `x.item()`, `x.tolist()`, `float(x)`, `int(x)` and `bool(x)` be tensors."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[], keywords=[]):
                return like(node, called("number", value, ast.Constant("item")))
            case ast.Call(func=ast.Attribute(value=value, attr="tolist"), args=[], keywords=[]):
                return like(node, called("numbers", value))
            case ast.Call(
                func=ast.Name(id="float" | "int" | "bool" as kind), args=[value], keywords=[]
            ):
                return like(node, called("number", value, ast.Constant(kind)))
            case _:
                return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Not what is called later."""
        return node


def truth_of(test: ast.expr, exact: bool = False) -> ast.expr:
    """A test as an expression that may be a tensor.

    Args:
        exact: `and` and `or` give one of their operands, which must be true or false then.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return like(test, called("negated", truth_of(inner)))
        case ast.BoolOp(op=op, values=[first, *others]):
            if has(others, ast.NamedExpr):
                raise Unwritable("the test assigns a variable")
            rest = others[0] if len(others) == 1 else like(test, ast.BoolOp(op, others))
            name = "both" if isinstance(op, ast.And) else "some"
            operands = truth_of(first, exact), function_of(truth_of(rest, exact))
            flags = ast.Constant(exact), ast.Constant(_looks_up(rest))
            return like(test, called(name, *operands, *flags))
        case ast.Call(func=ast.Name(id="any" | "all") as function, args=[items], keywords=[]):
            return like(test, called("of_several", function, items))
        case ast.Compare(left=left, ops=[first, *ops], comparators=[middle, *others]) if ops:
            if has([left, *others], ast.NamedExpr):
                raise Unwritable("the test assigns a variable")
            name = f"{OWN}_middle"
            parts: list[ast.expr] = [
                ast.Compare(left, [first], [ast.Name(name, ast.Load())]),
                ast.Compare(ast.Name(name, ast.Load()), ops, others),
            ]
            inner = truth_of(like(test, ast.BoolOp(ast.And(), [like(test, x) for x in parts])))
            function = function_of(inner)
            function.args.args = [ast.arg(name)]
            return like(test, ast.Call(function, [ScalarCalls().visit(middle)], []))
        case _:
            return ScalarCalls().visit(test)


def _looks_up(node: ast.AST) -> bool:
    """Whether an expression may ask for a place that is not there."""
    indices = [part.slice for part in ast.walk(node) if isinstance(part, ast.Subscript)]
    return any(isinstance(part, ast.Name) for index in indices for part in ast.walk(index))


def is_flag(node: ast.AST) -> bool:
    """Whether an expression asks for the truth of what it consists of."""
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.BoolOp) or _is_of_several(node)


def is_identity(node: ast.AST) -> bool:
    """Whether it asks `x is True` or the like."""
    if not isinstance(node, ast.Compare):
        return False
    flags = [isinstance(x, ast.Constant) and isinstance(x.value, bool) for x in node.comparators]
    return any(flags) and any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)


def _is_of_several(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="any" | "all"), args=[_], keywords=[]):
            return True
        case _:
            return False


class AsVariables(ast.NodeTransformer):
    """Lets attributes be variables."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute, read or assigned."""
        name = self.names.get(ast.dump(ast.Attribute(node.value, node.attr, ast.Load())))
        return self.generic_visit(node) if name is None else like(node, ast.Name(name, node.ctx))


def check_iterators(nodes: Sequence[ast.AST]) -> None:
    """Refuse ways that would both take an item."""
    if any(isinstance(n, ast.Name) and n.id == "next" for n in within(nodes)):
        raise Unwritable("a branch takes the next item of an iterator")


def is_finite(items: ast.expr) -> bool:
    """Whether a loop over items is sure to end."""
    if not isinstance(items, ast.Call) or not isinstance(items.func, ast.Name):
        return False
    name = items.func.id
    return name == "range" or (name in ("enumerate", "zip") and any(map(is_finite, items.args)))


def with_length(items: ast.expr) -> ast.expr:
    """Items, of which it is checked that they are so many: `enumerate(xs)` has no length itself."""
    match items:
        case ast.Call(ast.Name(id="enumerate" | "zip" as name), args=[_, *_] as parts):
            if not has(parts, ast.Starred):
                own = 1 if name == "enumerate" else len(parts)
                items.args = [*map(with_length, parts[:own]), *parts[own:]]
                return items
        case _:
            pass
    return items if is_finite(items) else ast.copy_location(called("sized", items), items)


def called(name: str, *args: ast.expr) -> ast.Call:
    """A call of a function of `run.py`."""
    helper = ast.Attribute(ast.Name(OWN, ast.Load()), name, ast.Load())
    return ast.Call(helper, list(args), [])


def function_of(body: ast.expr) -> ast.Lambda:
    """A function without arguments."""
    return ours(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body))


def tuple_of(names: Sequence[str], context: Any) -> ast.Tuple:
    """Variables, read or assigned together."""
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def forgotten(name: str) -> list[ast.stmt]:
    """Let a variable be unbound, as one that a branch assigns, or does not, may be."""
    store = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))
    return [store, ast.Delete([ours(ast.Name(name, ast.Del()))])]


def nothing() -> ast.expr:
    """What stands for a variable that is not bound."""
    return ast.Attribute(ast.Name(OWN, ast.Load()), "Unbound", ast.Load())


def unless_bound(name: str) -> ast.stmt:
    """Let a variable be unbound that has that for its value."""
    test = ast.Compare(ast.Name(name, ast.Load()), [ast.Is()], [nothing()])
    return ast.If(test, [ast.Delete([ours(ast.Name(name, ast.Del()))])], [])


def chain_to(function: ast.AST, node: ast.AST) -> list[ast.AST]:
    """A node, what it is in, and so on, up to a function."""
    parents = {part: outer for outer in ast.walk(function) for part in ast.iter_child_nodes(outer)}
    chain = [node]
    while chain[-1] is not function:
        chain.append(parents[chain[-1]])
    return chain


def replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """Put a node in the place of another one."""
    for name, value in ast.iter_fields(parent):
        items: Any = value
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and old in items:
            items[items.index(old)] = new


def like(node: ast.AST, new: Any) -> Any:
    """A new node, where an old one was."""
    return ast.copy_location(new, node)


def assigned(name: str, place: ast.expr) -> ast.stmt:
    """`name = place`"""
    return ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(place))


def kept(place: ast.Attribute, name: str) -> ast.stmt:
    """`place = name`"""
    target = ast.Attribute(place.value, place.attr, ast.Store())
    return ast.Assign([target], ast.Name(name, ast.Load()))
