"""One branch of a function, whose ways become functions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from rnncc.torch.branching.assignments import (
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
from rnncc.torch.branching.syntax import (
    OWN,
    AsVariables,
    Returns,
    Unwritable,
    assigned,
    called,
    check_iterators,
    forgotten,
    function_of,
    is_finite,
    is_flag,
    is_identity,
    kept,
    like,
    plain_super,
    replace,
    truth_of,
    tuple_of,
)

_LOOPS = ast.For, ast.AsyncFor, ast.While
_GENERATES = ast.Yield, ast.YieldFrom, ast.Await


class Branch:
    """A branch within a function.

    Args:
        chain: the branch, what it is in, and so on, up to the outermost function.

    Raises:
        Unwritable: it stands where its ways cannot be functions.
    """

    def __init__(self, chain: Sequence[ast.AST]) -> None:
        scope = next(i for i, node in enumerate(chain) if isinstance(node, SCOPES))
        self.chain, owner, self.outermost = chain[: scope + 1], chain[scope], chain[-1]
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
        self.number = getattr(self.outermost, "branches", 0)
        self.outermost.branches = self.number + 1  # pyright: ignore

    def rewrite_expression(self, node: ast.IfExp) -> None:
        """Of `a if test else b`, in place."""
        for part in (node.body, node.orelse):
            if has([part], ast.NamedExpr):
                raise Unwritable("a branch of an expression assigns a variable")
        check_iterators([node.body, node.orelse])
        ways = [plain_super(part, self.owner) for part in (node.body, node.orelse)]
        functions = [function_of(ast.Tuple([way], ast.Load())) for way in ways]
        call = called("either", truth_of(node.test), *functions, ast.Tuple([], ast.Load()))
        replace(self.chain[1], node, like(node, ast.Subscript(call, ast.Constant(0), ast.Load())))

    def rewrite_flag(self) -> None:
        """Of `a and b`, `a or b`, `not a`, `any(...)` or `all(...)`, in place."""
        if any(map(is_identity, within(self.outermost.body))):  # pyright: ignore
            raise Unwritable("a function asks whether something `is` true, which a tensor is not")
        at = next(i for i, node in enumerate(self.chain[1:]) if not is_flag(node))
        node: Any = self.chain[at]
        is_test = isinstance(self.chain[at + 1], ast.Assert)
        replace(self.chain[at + 1], node, truth_of(node, exact=not is_test))

    def rewrite_statement(self, node: ast.If) -> None:
        """Of `if test: ... else: ...`, in place."""
        one, other = list(node.body), list(node.orelse)
        if is_flag(node.test) and _raises(one) != _raises(other):
            node.test = truth_of(node.test)  # one tensor, of which a check is made
            return
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
        is_plain = isinstance(loop, ast.For) and node in loop.body
        if not is_plain or all(ends) or leaves_loop([*rest[0], *rest[1]]):
            raise Unwritable("a loop ends by it")
        assert isinstance(loop, ast.For)
        at, name = loop.body.index(node), f"_goes_on_{self.number}_rnncc"
        following = loop.body[at + 1 :]
        if leaves_loop([*loop.body[:at], *following]):
            raise Unwritable("a loop ends in several ways")
        node.body, node.orelse = (
            [*way, *([assigned(name, ast.Constant(False))] if end else following)]
            for way, end in zip(rest, ends, strict=True)
        )
        if not is_finite(loop.iter):
            loop.iter = like(loop.iter, called("sized", loop.iter))
        goes_on = ast.If(ast.Name(name, ast.Load()), loop.body[: at + 1], [])
        loop.body = [like(loop, goes_on)]
        outer = _block_of(self.chain[2], loop)
        outer.insert(outer.index(loop), like(loop, assigned(name, ast.Constant(True))))
        behind = like(loop, ast.If(ast.Name(name, ast.Load()), loop.orelse, []))
        if loop.orelse:
            outer.insert(outer.index(loop) + 1, behind)
            loop.orelse = []
        ast.fix_missing_locations(self.owner)
        around = [*self.chain[1:], self.outermost]
        Branch([node, goes_on, *around]).rewrite_statement(node)
        Branch([goes_on, *around]).rewrite_statement(goes_on)
        if behind in outer:
            Branch([behind, *self.chain[2:], self.outermost]).rewrite_statement(behind)

    def _rest(self) -> list[ast.stmt]:
        """What follows the branch in its function."""
        rest = list[ast.stmt]()
        for node, outer in zip(self.chain[:-1], self.chain[1:], strict=True):
            block = _block_of(outer, node)
            after = block[block.index(node) + 1 :]
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
            before = bound_after(block[: block.index(node)], bound)
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
            Returns().visit_all(way)
            way.append(ast.Return(ast.Tuple([ast.Constant(None)], ast.Load())))
        functions, call = self._both(node, one, other, held)
        value = ast.Subscript(call, ast.Constant(0), ast.Load())
        return [*functions, like(node, ast.Return(value))]

    def _merging(self, node: ast.If, one: list[ast.stmt], other: list[ast.stmt]) -> list[ast.stmt]:
        """What branches assign is merged behind them."""
        places = places_in([one, other])
        asks = f"{OWN}_test_{self.number}"
        test = like(node, assigned(asks, truth_of(node.test)))
        node.test = like(node.test, ast.Name(asks, ast.Load()))
        names = AsVariables({ast.dump(place): name for name, place in places.items()})
        for way in (one, other):
            way[:] = [names.visit(statement) for statement in way]
        first = [like(node, assigned(name, place)) for name, place in places.items()]
        stored, before = self._stored([*one, *other]), self._before() | {*places}
        held = sorted(stored & before)
        inside = frozenset(before)
        after = [bound_after(way, inside) for way in (one, other)]
        if None in after:
            raise Unwritable("a branch raises an error")
        known = sorted(name for name in stored if all(name in x for x in after if x is not None))
        for way in (one, other):
            way.append(ast.Return(tuple_of(known, ast.Load())))
        functions, call = self._both(node, one, other, held)
        target = like(node, ast.Assign([tuple_of(known, ast.Store())], call))
        if not known:
            target = like(node, ast.Expr(call))
        lost = sorted(stored - {*known})
        unbound = [like(node, x) for name in lost for x in forgotten(name)]
        last = [like(node, kept(place, name)) for name, place in places.items()]
        return [test, *first, *functions, target, *last, *unbound]

    def _stored(self, statements: list[ast.stmt]) -> set[str]:
        stored = stored_in(statements)
        if not stored.isdisjoint(self.outer):
            raise Unwritable("a branch assigns a variable of another function")
        names = [n for n in within(statements) if isinstance(n, ast.Name)]
        if any(isinstance(n.ctx, ast.Del) and not is_ours(n) for n in names):
            raise Unwritable("a branch deletes a variable")
        check_iterators(statements)
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
            body = [plain_super(statement, self.owner) for statement in way]
            made = ast.FunctionDef(f"{OWN}_{kind}_{self.number}", given, body, [])
            made.type_params = []  # pyright: ignore
            functions.append(like(node, ours(made)))
        names = [ast.Name(f.name, ast.Load()) for f in functions]  # pyright: ignore
        call = called("either", truth_of(node.test), *names, tuple_of(held, ast.Load()))
        return functions, like(node, call)


def _raises(way: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but raise an error."""
    return len(way) == 1 and isinstance(way[0], ast.Raise)


def _then(way: list[ast.stmt], rest: list[ast.stmt]) -> list[ast.stmt]:
    """A branch, and what follows it if anything does."""
    goes_on = bound_after(way, frozenset()) is not None
    return [*way, *copy.deepcopy(rest)] if goes_on else way


def _block_of(outer: ast.AST, node: ast.AST) -> list[Any]:
    for name in ("body", "orelse", "finalbody"):
        block: list[Any] = getattr(outer, name, None) or []
        if node in block:
            return block
    raise Unwritable("it asks within `try` or `match`")
