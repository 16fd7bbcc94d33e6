"""`n += 1` where numbers become tensors: in the body of a loop, and in one way of a branch."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from rnncc.torch.branching.assignments import is_ours, ours, within
from rnncc.torch.branching.syntax import called, like

_OPERANDS = ast.BinOp, ast.Compare, ast.UnaryOp, ast.BoolOp
_ARITHMETIC = ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub
_INTEGRAL = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, *_ARITHMETIC)


class Counted(ast.NodeTransformer):
    """Lets numbers be replaced where Python says so, and a tensor would be changed in place.

    Args:
        names: the variables of the loop, in order.
        statements: its body and its test.
        flags: the name of what says which of them were numbers.
    """

    def __init__(self, names: Sequence[str], statements: Sequence[ast.AST], flags: str) -> None:
        replaceable = set(_replaceable(list(within(statements))))
        self.places = {name: place for place, name in enumerate(names) if name in replaceable}
        self.places |= _copies(list(within(statements)), self.places)
        self.flags = flags

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """One of its variables."""
        if not isinstance(node.target, ast.Name) or node.target.id not in self.places:
            return node
        name = node.target.id
        value = ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
        replaced = ours(ast.Assign([ast.Name(name, ast.Store())], value))
        self.generic_visit(node)
        return like(node, ast.If(self._is_number(name), [like(node, replaced)], [node]))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Quotients and powers are as exact as Python's."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Div | ast.Pow):
            node.left, node.right = self._exact(node.left), self._exact(node.right)
        return node

    def _exact(self, node: ast.expr) -> ast.expr:
        parts = list(ast.walk(node))
        names = sorted({part.id for part in parts if isinstance(part, ast.Name)})
        if not names or not self.places.keys() >= {*names} or not all(map(_is_arithmetic, parts)):
            return node
        tests = [self._is_number(name) for name in names]
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        return like(node, ast.IfExp(test, called("as_exact", node), copy.deepcopy(node)))

    def _is_number(self, name: str) -> ast.expr:
        place = ast.Constant(self.places[name])
        return ast.Subscript(ast.Name(self.flags, ast.Load()), place, ast.Load())


def _is_arithmetic(node: ast.AST) -> bool:
    """Whether a node may be part of an expression that gives an integer, of integers."""
    return isinstance(node, (*_INTEGRAL, ast.expr_context))


def _copies(nodes: Sequence[Any], places: dict[str, int]) -> dict[str, int]:
    """The places of what variables are copies of that nothing else is assigned to."""
    stores = [n for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    copied = dict[str, int]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=source)):
                if source in places and [n.id for n in stores].count(name) == 1:
                    copied[name] = places[source]
            case _:
                pass
    return copied


def _replaceable(nodes: Sequence[Any]) -> Iterator[str]:
    """Variables that no other name in a loop can stand for while they are changed.

    Those that count by given numbers, and those of which nothing but arithmetic is read; neither is
    assigned anything else than a given number.
    """
    changes: list[Any] = [
        n for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    ]
    names = [n for n in nodes if isinstance(n, ast.Name)]
    reads = [n for n in names if isinstance(n.ctx, ast.Load)]
    stores = [n for n in names if not isinstance(n.ctx, ast.Load)]
    known = {id(n.target) for n in changes} | _given_numbers(nodes)
    others = {n.id for n in stores if id(n) not in known}
    operands = _operands(nodes) | {id(n.value) for n in changes}
    passed = {n.id for n in reads if id(n) not in operands}
    for name in {n.target.id for n in changes} - others:
        own = (n for n in changes if n.target.id == name)
        if name not in passed or all(isinstance(n.value, ast.Constant) for n in own):
            yield name


def _given_numbers(nodes: Sequence[Any]) -> set[int]:
    """The targets of `n = 0`, and of what branches assign; by identity."""
    assigns = (n for n in nodes if isinstance(n, ast.Assign))
    plain = (n for n in assigns if isinstance(n.value, ast.Constant) or is_ours(n))
    return {id(target) for n in plain for target in n.targets}


def _operands(nodes: Sequence[Any]) -> set[int]:
    """What arithmetic reads; by identity."""
    return {id(part) for n in nodes if isinstance(n, _OPERANDS) for part in ast.iter_child_nodes(n)}
