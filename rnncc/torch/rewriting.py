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
from rnncc.torch.assignments import (
    SCOPES,
    bound_after,
    captured_in,
    has,
    is_ours,
    leaves_loop,
    ours,
    parameters_of,
    places_in,
    stored_in,
    within,
)

OWN = "_rnncc"
"""What our names begin with."""
_MOST_GROWTH = 30
"""How many times the nodes of a function its new code may have."""
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_LOOPS = ast.For, ast.AsyncFor, ast.While
_GENERATES = ast.Yield, ast.YieldFrom, ast.Await
_Span = tuple[int, int, int, int]


class Unwritable(Exception):
    """A function stays as it is; the text says why."""


@record
class Asked:
    """Where code asks whether a tensor is true.

    Attributes:
        code: the code, of a function or of one within it.
        span: what asks, as in `co_positions()`: first and last line, first and last column.
    """

    code: CodeType
    span: _Span


def with_branches(code: CodeType, asked: Sequence[Asked]) -> CodeType:
    """New code of a function, in which what asks decides between two functions.

    Raises:
        Unwritable: there is no such code.
    """
    tree = _parsed(code)
    if _content(_compiled(tree, code)) != _content(code):
        raise Unwritable("the function's source is no longer what was compiled")
    function = _function(tree, code)
    size = _size(function)
    own = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef)]
    for node in own:
        node.users = True  # pyright: ignore
    for place in asked:
        _Rewriting(function).rewrite(place.span)
        if _size(function) > _MOST_GROWTH * size:
            raise Unwritable("the function has too many branches")
    for node in [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef)]:
        _begin(node)
    made = _compiled(ast.fix_missing_locations(tree), code)
    if made.co_freevars != code.co_freevars:
        raise Unwritable("the function would close over other variables")
    return made


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
    for found in codes_in(module):
        if (found.co_qualname, found.co_firstlineno) == (code.co_qualname, code.co_firstlineno):
            return found
    raise Unwritable("the function's source is not found")


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions and classes within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes_in(const)


class _Rewriting:
    """Writes functions, and functions within them, anew, in place."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function

    def rewrite(self, span: _Span) -> None:
        """Let what asks there, wherever it stands by now, decide between functions."""
        parents = {
            part: node for node in ast.walk(self.function) for part in ast.iter_child_nodes(node)
        }
        found = [node for node in ast.walk(self.function) if _asks(node, span)]
        if not found:
            raise Unwritable("what asks is no `if`")
        for node in found:
            chain = [node]
            while chain[-1] is not self.function:
                chain.append(parents[chain[-1]])
            place = _Place(chain)
            if isinstance(node, ast.If):
                place.rewrite_statement(node)
            else:
                assert isinstance(node, ast.IfExp)
                place.rewrite_expression(node)


def _asks(node: ast.AST, span: _Span) -> bool:
    """Whether a branch asks there, not one within it."""
    if not isinstance(node, ast.If | ast.IfExp):
        return False
    return _span(node) == span or any(_span(part) == span for part in ast.walk(node.test))


def _span(node: ast.AST) -> Any:
    known = (getattr(node, n, None) for n in ("lineno", "end_lineno", "col_offset"))
    return (*known, getattr(node, "end_col_offset", None))


class _Place:
    """A branch within a function: it, what it is in, and so on, up to the function."""

    def __init__(self, chain: Sequence[ast.AST]) -> None:
        scope = next(i for i, node in enumerate(chain) if isinstance(node, SCOPES))
        self.chain, owner = chain[: scope + 1], chain[scope]
        if not isinstance(owner, ast.FunctionDef):
            raise Unwritable("it asks within a lambda or a class")
        if has(owner.body, *_GENERATES):
            raise Unwritable("it asks within a generator")
        self.owner = owner
        names = [name for n in within(owner.body) if isinstance(n, ast.Global) for name in n.names]
        names += [n for x in within(owner.body) if isinstance(x, ast.Nonlocal) for n in x.names]
        self.outer = set(names)
        if getattr(owner, "users", False) and not hasattr(owner, "old"):
            owner.old = copy.deepcopy(owner.body)  # pyright: ignore
        self.number = getattr(owner, "branches", 0)
        owner.branches = self.number + 1  # pyright: ignore

    def rewrite_expression(self, node: ast.IfExp) -> None:
        """`a if test else b`"""
        for part in (node.body, node.orelse):
            if has([part], ast.NamedExpr):
                raise Unwritable("a branch of an expression assigns a variable")
        _check_iterators([node.body, node.orelse])
        ways = [_plain_super(part, self.owner) for part in (node.body, node.orelse)]
        functions = [_lambda(ast.Tuple([way], ast.Load())) for way in ways]
        call = _called("either", _truth(node.test), *functions, ast.Tuple([], ast.Load()))
        _replace(self.chain[1], node, _like(node, ast.Subscript(call, _number(0), ast.Load())))

    def rewrite_statement(self, node: ast.If) -> None:
        """`if test: ... else: ...`"""
        one, other = list(node.body), list(node.orelse)
        block = _block_of(self.chain[1], node)
        at = block.index(node)
        if has([*one, *other], ast.Return):
            rest = self._rest()
            new = self._returning(node, _then(one, rest), _then(other, rest))
            block[at:] = new
            return
        if isinstance(self.chain[1], _LOOPS) and block is self.chain[1].body:
            ends = [bool(way) and isinstance(way[-1], ast.Continue) for way in (one, other)]
            if any(ends):
                rest = block[at + 1 :]
                one, other = (
                    way[:-1] if end else [*way, *copy.deepcopy(rest)]
                    for way, end in zip((one, other), ends, strict=True)
                )
                del block[at + 1 :]
        if leaves_loop([*one, *other]):
            self._ending(node, one, other)
            return
        block[at : at + 1] = self._merging(node, one, other)

    def _ending(self, node: ast.If, one: list[ast.stmt], other: list[ast.stmt]) -> None:
        """A loop ends by one of the branches: from then on its body does nothing."""
        loop, ways = self.chain[1], (one, other)
        ends = [bool(way) and isinstance(way[-1], ast.Break) for way in ways]
        rest = [way[:-1] if end else way for way, end in zip(ways, ends, strict=True)]
        is_plain = isinstance(loop, ast.For) and not loop.orelse and node in loop.body
        if not is_plain or all(ends) or leaves_loop([*rest[0], *rest[1]]):
            raise Unwritable("a loop ends by it")
        assert isinstance(loop, ast.For)
        at, name = loop.body.index(node), f"_goes_on_{self.number}_rnncc"
        following = loop.body[at + 1 :]
        if leaves_loop([*loop.body[:at], *following]):
            raise Unwritable("a loop ends in several ways")
        node.body, node.orelse = (
            [*way, *([_assigned(name, ast.Constant(False))] if end else following)]
            for way, end in zip(rest, ends, strict=True)
        )
        if not _is_finite(loop.iter):
            loop.iter = _like(loop.iter, _called("sized", loop.iter))
        goes_on = ast.If(ast.Name(name, ast.Load()), loop.body[: at + 1], [])
        loop.body = [_like(loop, goes_on)]
        outer = _block_of(self.chain[2], loop)
        outer.insert(outer.index(loop), _like(loop, _assigned(name, ast.Constant(True))))
        ast.fix_missing_locations(self.owner)
        _Place([node, goes_on, *self.chain[1:]]).rewrite_statement(node)
        _Place([goes_on, *self.chain[1:]]).rewrite_statement(goes_on)

    def _rest(self) -> list[ast.stmt]:
        """What follows the branch in its function."""
        rest = list[ast.stmt]()
        for node, outer in zip(self.chain[:-1], self.chain[1:], strict=True):
            block = _block_of(outer, node)
            after = block[block.index(node) + 1 :]  # pyright: ignore
            if outer is not self.owner and not isinstance(outer, ast.If):
                raise Unwritable("it returns from within a loop, `with` or `try`")
            rest += after
        return rest

    def _before(self) -> frozenset[str]:
        """What is certainly bound where the branch stands."""
        bound = frozenset(parameters_of(self.owner))
        for outer, node in zip(self.chain[:0:-1], self.chain[-2::-1], strict=True):
            block = _block_of(outer, node)
            if isinstance(outer, ast.For):
                bound |= stored_in([outer.target])
            if isinstance(outer, ast.With):
                bound |= stored_in(outer.items)
            before = bound_after(block[: block.index(node)], bound)  # pyright: ignore
            bound = bound if before is None else before
        return bound

    def _returning(
        self, node: ast.If, one: list[ast.stmt], other: list[ast.stmt]
    ) -> list[ast.stmt]:
        """Both branches go on to the end of the function."""
        if leaves_loop([*one, *other]):
            raise Unwritable("it returns from within a loop")
        held = sorted(self._stored([*one, *other]) & self._before())
        for way in (one, other):
            _Returns().visit_all(way)
            way.append(ast.Return(ast.Tuple([ast.Constant(None)], ast.Load())))
        functions, call = self._both(node, one, other, held)
        value = ast.Subscript(call, _number(0), ast.Load())
        return [*functions, _like(node, ast.Return(value))]

    def _merging(self, node: ast.If, one: list[ast.stmt], other: list[ast.stmt]) -> list[ast.stmt]:
        """What branches assign is merged behind them."""
        places = places_in([one, other])
        asks = f"{OWN}_test_{self.number}"
        test = _like(node, _assigned(asks, _truth(node.test)))
        node.test = _like(node.test, ast.Name(asks, ast.Load()))
        names = _AsVariables({ast.dump(place): name for name, place in places.items()})
        for way in (one, other):
            way[:] = [names.visit(statement) for statement in way]
        first = [_like(node, _assigned(name, place)) for name, place in places.items()]
        stored, before = self._stored([*one, *other]), self._before() | {*places}
        held = sorted(stored & before)
        inside = frozenset(before)
        after = [bound_after(way, inside) for way in (one, other)]
        if None in after:
            raise Unwritable("a branch raises an error")
        known = sorted(name for name in stored if all(name in x for x in after if x is not None))
        for way in (one, other):
            way.append(ast.Return(_tuple(known, ast.Load())))
        functions, call = self._both(node, one, other, held)
        target = _like(node, ast.Assign([_tuple(known, ast.Store())], call))
        if not known:
            target = _like(node, ast.Expr(call))
        forgotten = [_like(node, x) for name in sorted(stored - {*known}) for x in _forget(name)]
        last = [_like(node, _kept(place, name)) for name, place in places.items()]
        return [test, *first, *functions, target, *last, *forgotten]

    def _stored(self, statements: list[ast.stmt]) -> set[str]:
        stored = stored_in(statements)
        if not stored.isdisjoint(self.outer):
            raise Unwritable("a branch assigns a variable of another function")
        names = [n for n in within(statements) if isinstance(n, ast.Name)]
        if any(isinstance(n.ctx, ast.Del) and not is_ours(n) for n in names):
            raise Unwritable("a branch deletes a variable")
        _check_iterators(statements)
        if not stored.isdisjoint(captured_in(self.owner.body, statements)):
            raise Unwritable("a branch assigns a variable that an inner function reads")
        return {name for name in stored if not name.startswith(OWN)}

    def _both(
        self, node: ast.If, one: list[ast.stmt], other: list[ast.stmt], held: list[str]
    ) -> tuple[list[ast.stmt], ast.expr]:
        """The branches as functions, and the call that takes one of them."""
        functions = list[ast.stmt]()
        for kind, way in (("yes", one), ("no", other)):
            given = ast.arguments([], [ast.arg(n) for n in held], None, [], [], None, [])
            body = [_plain_super(statement, self.owner) for statement in way]
            made = ast.FunctionDef(f"{OWN}_{kind}_{self.number}", given, body, [])
            made.type_params = []  # pyright: ignore
            functions.append(_like(node, ours(made)))
        names = [ast.Name(f.name, ast.Load()) for f in functions]  # pyright: ignore
        call = _called("either", _truth(node.test), *names, _tuple(held, ast.Load()))
        return functions, _like(node, call)


class _AsVariables(ast.NodeTransformer):
    """Lets attributes be variables."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute, read or assigned."""
        name = self.names.get(ast.dump(ast.Attribute(node.value, node.attr, ast.Load())))
        return self.generic_visit(node) if name is None else _like(node, ast.Name(name, node.ctx))


def _assigned(name: str, place: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(place))


def _kept(place: ast.Attribute, name: str) -> ast.stmt:
    target = ast.Attribute(place.value, place.attr, ast.Store())
    return ast.Assign([target], ast.Name(name, ast.Load()))


def _check_iterators(nodes: Sequence[ast.AST]) -> None:
    if any(isinstance(n, ast.Name) and n.id == "next" for n in within(nodes)):
        raise Unwritable("a branch takes the next item of an iterator")


def _is_finite(items: ast.expr) -> bool:
    """Whether a loop over items is sure to end."""
    if not isinstance(items, ast.Call) or not isinstance(items.func, ast.Name):
        return False
    name = items.func.id
    return name == "range" or (name in ("enumerate", "zip") and any(map(_is_finite, items.args)))


def _then(way: list[ast.stmt], rest: list[ast.stmt]) -> list[ast.stmt]:
    """A branch, and what follows it if anything does."""
    goes_on = bound_after(way, frozenset()) is not None
    return [*way, *copy.deepcopy(rest)] if goes_on else way


def _block_of(outer: ast.AST, node: ast.AST) -> list[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(outer, name, None)
        if isinstance(block, list) and node in block:
            return block
    raise Unwritable("it asks within `try` or `match`")


class _Returns(ast.NodeTransformer):
    """Lets statements return tuples of what they return."""

    def visit_all(self, statements: list[ast.stmt]) -> None:
        """In place."""
        statements[:] = [self.visit(statement) for statement in statements]

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """A tuple of one."""
        value = node.value or ast.Constant(None)
        return _like(node, ast.Return(_like(node, ast.Tuple([value], ast.Load()))))

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


def _plain_super(node: Any, owner: ast.FunctionDef) -> Any:
    plain = [*owner.args.posonlyargs, *owner.args.args]
    return _Super(plain[0].arg).visit(node) if plain else node


class _Numbers(ast.NodeTransformer):
    """Lets `x.item()`, `float(x)` and `bool(x)` be tensors."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="item"), args=[], keywords=[]):
                return _like(node, _called("number", value))
            case ast.Call(func=ast.Name(id="float" | "bool"), args=[value], keywords=[]):
                return _like(node, _called("number", value))
            case _:
                return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Not what is called later."""
        return node


def _truth(test: ast.expr) -> ast.expr:
    """A test as an expression that may be a tensor."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _like(test, _called("negated", _truth(inner)))
        case ast.BoolOp(op=op, values=[first, *others]):
            if has(others, ast.NamedExpr):
                raise Unwritable("the test assigns a variable")
            rest = others[0] if len(others) == 1 else _like(test, ast.BoolOp(op, others))
            name = "both" if isinstance(op, ast.And) else "some"
            return _like(test, _called(name, _truth(first), _lambda(_truth(rest))))
        case ast.Compare(left=left, ops=[first, *ops], comparators=[middle, *others]) if ops:
            if not isinstance(middle, ast.Name | ast.Constant):
                raise Unwritable("the test compares three values")
            parts: list[ast.expr] = [
                ast.Compare(left, [first], [middle]),
                ast.Compare(copy.deepcopy(middle), ops, others),
            ]
            return _truth(_like(test, ast.BoolOp(ast.And(), [_like(test, x) for x in parts])))
        case _:
            return _Numbers().visit(test)


def _begin(function: ast.FunctionDef) -> None:
    """Let a user's function that has branches begin with the choice of its old and new code."""
    old: list[ast.stmt] | None = getattr(function, "old", None)
    if old is not None:
        names = [ast.alias("branches", OWN)]
        ways = ast.If(_called("reading"), function.body, old)
        function.body = [ast.ImportFrom("rnncc.torch", names, 0), ways]


def _called(name: str, *args: ast.expr) -> ast.Call:
    helper = ast.Attribute(ast.Name(OWN, ast.Load()), name, ast.Load())
    return ast.Call(helper, list(args), [])


def _lambda(body: ast.expr) -> ast.Lambda:
    return ours(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body))


def _tuple(names: Sequence[str], context: Any) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def _number(value: int) -> ast.Constant:
    return ast.Constant(value)


def _forget(name: str) -> list[ast.stmt]:
    """Let a variable be unbound, as one that a branch assigns, or does not, may be."""
    store = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))
    return [store, ast.Delete([ours(ast.Name(name, ast.Del()))])]


def _replace(parent: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list) and old in value:
            value[value.index(old)] = new


def _like(node: ast.AST, new: Any) -> Any:
    """A new node, where an old one was."""
    return ast.copy_location(new, node)
