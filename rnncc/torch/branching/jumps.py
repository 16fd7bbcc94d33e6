"""Loops without `break`, `continue` and `return`: variables say what becomes of them.

    for x in xs:                        goes_on = True
        a                               for x in xs:
        if test:              ->            if goes_on:
            break                               a
        b                                       if test:
    else:                                           goes_on = False
        c                                       else:
                                                    b
                                        if goes_on:
                                            c

A loop that returns ends so, too, and the function returns behind it.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from rnncc.torch.branching.assignments import (
    SCOPES,
    bound_after,
    has,
    leaves_loop,
    stored_in,
)
from rnncc.torch.branching.syntax import Unwritable, assigned, is_finite, like, with_length

LOOPS = ast.For, ast.AsyncFor, ast.While
_RETURNED = "_returned_{}_rnncc"
_MOST_UNROLLED = 4
"""Iterations up to which compiling each takes less time than a loop of the run."""


def is_result(name: str) -> bool:
    """Whether a variable is what a loop returns: a tuple of one, or None."""
    return name.startswith("_returned_") and name.endswith("_rnncc")


def settle(loop: Any, block: list[Any], number: int) -> list[ast.If]:
    """Let a loop have no jumps, in place.

    Args:
        block: what it stands in.
        number: what names end in.

    Returns:
        What asks whether it has ended, in it and behind it.

    Raises:
        Unwritable: it jumps out of a `with`, `try` or `match`, or returns from a loop in it.
    """
    goes_on, returns = f"_goes_on_{number}_rnncc", f"_returns_{number}_rnncc"
    value = _RETURNED.format(number)
    first = [assigned(goes_on, ast.Constant(True))]
    behind = [_if(goes_on, loop.orelse)] if loop.orelse else []
    if has(loop.body, ast.Return):
        first += [assigned(returns, ast.Constant(False)), assigned(value, ast.Constant(None))]
        _Returns(value, returns).visit_all(loop.body)
        result = ast.Subscript(ast.Name(value, ast.Load()), ast.Constant(0), ast.Load())
        behind.insert(0, _if(returns, [ast.Return(result)]))
    is_for = isinstance(loop, ast.For)
    body, asking = _without_jumps(loop.body, goes_on), list(behind)
    if is_for:
        if not is_finite(loop.iter):
            loop.iter = like(loop.iter, with_length(loop.iter))
        asking.insert(0, _if(goes_on, body))
        body = asking[:1]
    else:
        loop.test = _and(goes_on, loop.test)
    loop.body, loop.orelse = body, []
    at = block.index(loop)
    block[at : at + 1] = [*first, loop, *behind]
    for statement in (*first, *asking):
        like(loop, statement)
    return asking


def may_be_counted(loop: Any) -> bool:
    """Whether a loop goes over a `range`, not a short one, whose variable its body only reads."""
    match loop:
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(func=ast.Name(id="range"), args=[_, *_] as limits, keywords=[]),
        ):
            numbers = [_number_of(limit) for limit in limits]
            known = [n for n in numbers if n is not None]
            if len(known) == len(limits) and len(range(*known)) <= _MOST_UNROLLED:
                return False
            is_plain = not has(limits, ast.Starred) and (len(limits) < 3 or bool(numbers[2]))
            return is_plain and name not in stored_in(loop.body)
        case _:
            return False


def as_counted(loop: ast.For, block: list[Any], number: int) -> ast.While:
    """A loop over a `range` as one that counts, in its place: its body is compiled once.

    Args:
        block: what it stands in.
        number: what names end in.
    """
    call: Any = loop.iter
    first, last, *step = [ast.Constant(0), *call.args] if len(call.args) == 1 else call.args
    by = _number_of(step[0]) if step else 1
    at, end = f"_at_{number}_rnncc", f"_end_{number}_rnncc"
    order = ast.Lt() if (by or 0) > 0 else ast.Gt()
    test = ast.Compare(ast.Name(at, ast.Load()), [order], [ast.Name(end, ast.Load())])
    body: list[ast.stmt] = [
        ast.Assign([loop.target], ast.Name(at, ast.Load())),
        ast.AugAssign(ast.Name(at, ast.Store()), ast.Add(), ast.Constant(by)),
        *loop.body,
    ]
    counting = like(loop, ast.While(like(call, test), body, loop.orelse))
    place = block.index(loop)
    block[place : place + 1] = [
        *(like(loop, assigned(*both)) for both in ((at, first), (end, last))),
        counting,
    ]
    for statement in block[place : place + 3]:
        ast.fix_missing_locations(statement)
    return counting


def _number_of(node: ast.expr) -> int | None:
    """The integer that is written there."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
        case _:
            return None


def test_within(loop: ast.While) -> None:
    """Let a loop ask within its body, in place: a variable that the test assigns is one of its."""
    if loop.orelse:
        raise Unwritable("the test assigns a variable")
    ends = ast.If(ast.UnaryOp(ast.Not(), loop.test), [ast.Break()], [])
    loop.body.insert(0, like(loop.test, ends))
    loop.test = like(loop.test, ast.Constant(True))
    ast.fix_missing_locations(loop)


def _if(name: str, body: list[ast.stmt]) -> ast.If:
    return ast.If(ast.Name(name, ast.Load()), body, [])


def _and(name: str, test: ast.expr) -> ast.expr:
    flag = ast.Name(name, ast.Load())
    if isinstance(test, ast.Constant) and test.value:
        return like(test, flag)
    return like(test, ast.BoolOp(ast.And(), [flag, test]))


class _Returns(ast.NodeTransformer):
    """Writes `return x` as two variables and `break`."""

    def __init__(self, value: str, flag: str) -> None:
        self.value, self.flag = value, flag

    def visit_all(self, statements: list[ast.stmt]) -> None:
        """In place."""
        new: list[Any] = [self.visit(statement) for statement in statements]
        parts: list[list[Any]] = [one if isinstance(one, list) else [one] for one in new]
        statements[:] = [x for part in parts for x in part]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        """A tuple of one, and an end."""
        value = ast.Tuple([node.value or ast.Constant(None)], ast.Load())
        flag = assigned(self.flag, ast.Constant(True))
        statements = [assigned(self.value, value), flag, ast.Break()]
        return [like(node, x) for x in statements]

    def visit(self, node: ast.AST) -> Any:
        """Not what is defined there; nor may another loop be left so."""
        if isinstance(node, SCOPES):
            return node
        if isinstance(node, LOOPS) and has([node], ast.Return):
            raise Unwritable("it returns from within two loops")
        return super().visit(node)


def _without_jumps(statements: list[ast.stmt], goes_on: str) -> list[ast.stmt]:
    """What follows a jump moves to where there is none."""
    for number, statement in enumerate(statements):
        before, rest = statements[:number], statements[number + 1 :]
        if isinstance(statement, ast.Break):
            return [*before, like(statement, assigned(goes_on, ast.Constant(False)))]
        if isinstance(statement, ast.Continue):
            return before or [like(statement, ast.Pass())]
        if not leaves_loop([statement]):
            continue
        if not isinstance(statement, ast.If):
            raise Unwritable("a loop ends within `with`, `try` or `match`")
        goes_there = bound_after(statement.body, frozenset()) is not None
        other = [*statement.orelse, *(copy.deepcopy(rest) if goes_there else rest)]
        one = [*statement.body, *(rest if goes_there else [])]
        statement.body = _without_jumps(one, goes_on)
        statement.orelse = _without_jumps(other, goes_on)
        return [*before, statement]
    return statements
