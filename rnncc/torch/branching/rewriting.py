"""Functions whose `if` asks for a tensor's value, written anew with both branches as functions.

    if x.sum() > 0:                 def yes(h): h = f(h); return (h,)
        h = f(h)            ->      def no(h): h = g(h); return (h,)
    else:                           (h,) = either(x.sum() > 0, yes, no, (h,))
        h = g(h)

So a trace can see both. The new code is compiled from the function's source, where that is still
what was compiled, and holds the old code too, which runs wherever nothing is read.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from rnncc.records import record
from rnncc.torch.branching.filled import FillCalls
from rnncc.torch.branching.syntax import (
    OWN,
    ScalarCalls,
    Unwritable,
    called,
    chain_to,
    is_flag,
    takes_number,
    truth_of,
)
from rnncc.torch.branching.ways import Branch

_MOST_GROWTH = 12
"""How many times the nodes of a function its new code may have."""
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_Span = tuple[int, int, int, int]


@record
class Asked:
    """Where code asks whether a tensor is true.

    Attributes:
        code: the code, of a function or of one within it.
        span: what asks, as in `co_positions()`: first and last line, first and last column.
        of_number: whether it asks for a number that was in a tensor.
    """

    code: CodeType
    span: _Span
    of_number: bool = False


def with_branches(
    code: CodeType, asked: Sequence[Asked], number: int, unrolls: bool = False
) -> tuple[CodeType, bool]:
    """New code of a function, in which what asks decides between two functions; and whether a loop
    over numbers has become one that counts.

    Args:
        number: what it says of itself when it is read.
        unrolls: whether such loops are read iteration by iteration instead.

    Raises:
        Unwritable: there is no such code.
    """
    tree = _parsed(code)
    if _content(_compiled(tree, code)) != _content(code):
        raise Unwritable("the function's source is no longer what was compiled")
    function = _function(tree, code)
    size, function.unrolls = _size(function), unrolls  # pyright: ignore
    for node in _functions_in(function):
        node.users = True  # pyright: ignore
    takers = [place for place in asked if place.of_number or _is_taken(function, place.span)]
    if takers:
        function.old = copy.deepcopy(function.body)  # pyright: ignore
        ScalarCalls().visit(function)
    for place in asked:
        if not _rewrite(function, place.span) and place not in takers:
            raise Unwritable("what asks is no `if`")
        if _size(function) > _MOST_GROWTH * size:
            raise Unwritable("the function has too many branches")
    for node in _functions_in(function):
        _begin(node, number)
    compiled = _compiled(ast.fix_missing_locations(tree), code)
    if compiled.co_freevars != code.co_freevars:
        raise Unwritable("the function would close over other variables")
    return compiled, getattr(function, "counts", False)


def _functions_in(function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """It, and those within."""
    return [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef)]


def _content(code: CodeType) -> Any:
    """What code does."""
    consts = [_content(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, *names, consts


def _size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _parsed(code: CodeType) -> ast.Module:
    """The file that has the source of some code."""
    try:
        return ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError) as error:
        raise Unwritable("the function's source cannot be read") from error


def _function(tree: ast.Module, code: CodeType) -> ast.FunctionDef:
    """Where some code is in its file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            if min(lines) == code.co_firstlineno:
                return node
    raise Unwritable("the function's source is not found")


def _compiled(tree: ast.Module, code: CodeType) -> CodeType:
    """What a function's code is, once its whole file is compiled: the compiler looks at what is
    imported, and at classes and variables around it."""
    flags = code.co_flags & _FUTURE
    module = compile(tree, code.co_filename, "exec", flags, dont_inherit=True)
    for own in codes_in(module):
        if (own.co_qualname, own.co_firstlineno) == (
            code.co_qualname,
            code.co_firstlineno,
        ):
            return own
    raise Unwritable("the function's source is not found")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions and classes within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes_in(const)


def _rewrite(function: ast.FunctionDef, span: _Span) -> bool:
    """Let what asks there, wherever it stands by now, decide between functions, in place; whether
    anything does."""
    done = list[ast.AST]()
    while (node := _next(function, span, done)) is not None:
        done.append(node)
        place = Branch(chain_to(function, node))
        if isinstance(node, ast.If):
            place.rewrite_statement(node)
        elif isinstance(node, ast.While):
            place.rewrite_loop(node)
        else:
            place.rewrite_expression(node)
    flags = [node for node in ast.walk(function) if not done and _is_asked(node, span)]
    for node in flags:
        if not any(part is node for part in ast.walk(function)):
            continue  # written anew with the one that it stood in
        place = Branch(chain_to(function, node))
        if isinstance(node, ast.Assert):
            node.test = truth_of(node.test)
        else:
            place.rewrite_flag()
    return bool(done or flags)


def _next(function: ast.FunctionDef, span: _Span, done: list[ast.AST]) -> Any:
    """A branch that asks there; there may be several copies of one."""
    nodes = (node for node in ast.walk(function) if not any(node is x for x in done))
    return next((node for node in nodes if _asks(node, span)), None)


def _asks(node: ast.AST, span: _Span) -> bool:
    """Whether a branch asks there, not one within it."""
    if not isinstance(node, ast.If | ast.IfExp | ast.While):
        return False
    return _span(node) == span or any(_span(part) == span for part in ast.walk(node.test))


def _is_asked(node: ast.AST, span: _Span) -> bool:
    """Whether `and`, `or`, `not`, `any` or `all` asks there, or an `assert` of one."""
    if isinstance(node, ast.Assert):
        return is_flag(node.test) and _span(node) == span
    return is_flag(node) and any(_span(x) == span for x in (node, *ast.iter_child_nodes(node)))


def _is_taken(function: ast.FunctionDef, span: _Span) -> bool:
    """Whether a number is taken out of a flag there: `float(n == 0)`."""
    nodes = (node for node in ast.walk(function) if _span(node) == span)
    return any(isinstance(node, ast.Call) and takes_number(node) for node in nodes)


def _span(node: ast.AST) -> Any:
    known = (getattr(node, n, None) for n in ("lineno", "end_lineno", "col_offset"))
    return (*known, getattr(node, "end_col_offset", None))


def _begin(function: ast.FunctionDef, number: int) -> None:
    """Let a user's function that has branches begin with the choice of its old and new code."""
    old: list[ast.stmt] | None = getattr(function, "old", None)
    if old is not None:
        function.body = [FillCalls().visit(statement) for statement in function.body]
        names = [ast.alias("run", OWN)]
        ways = ast.If(called("reading", ast.Constant(number)), function.body, old)
        function.body = [ast.ImportFrom("rnncc.torch.branching", names, 0), ways]
