"""One branch of a function, whose ways become functions."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from rnncc.torch.branching.appended import let_append_behind
from rnncc.torch.branching.assignments import (
    SCOPES,
    bound_after,
    captured_in,
    has,
    is_ours,
    leaves_loop,
    left_by,
    ours,
    parameters_of,
    places_in,
    stored_in,
    within,
)
from rnncc.torch.branching.counted import Counted
from rnncc.torch.branching.jumps import (
    LOOPS,
    as_counted,
    is_result,
    may_be_counted,
    settle,
    test_within,
)
from rnncc.torch.branching.syntax import (
    OWN,
    AsVariables,
    Returns,
    Unwritable,
    assigned,
    called,
    chain_to,
    check_iterators,
    forgotten,
    function_of,
    is_flag,
    is_identity,
    kept,
    like,
    nothing,
    plain_super,
    replace,
    truth_of,
    tuple_of,
    unless_bound,
)

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
        if has([*one, *other], ast.Return) or leaves_loop([*one, *other]):
            loop = next((x for x in self.chain[1:-1] if isinstance(x, LOOPS)), None)
            if loop is not None:
                self._ending(node, loop)
                return
            rest = self._rest()
            block[at:] = self._returning(node, _then(one, rest), _then(other, rest))
            return
        block[at : at + 1] = self._merging(node, one, other)

    def _ending(self, node: ast.If, loop: Any) -> None:
        """A loop ends by one of the ways: from then on its body does nothing."""
        block = _block_of(self.chain[self.chain.index(loop) + 1], loop)
        if not getattr(self.outermost, "unrolls", False) and may_be_counted(loop):
            loop = as_counted(loop, block, self.number)
            self.outermost.counts = True  # pyright: ignore
            self._at(node)._ending(node, loop)
            return
        asking = self._settled(loop)
        if isinstance(loop, ast.While):
            self._at(loop).rewrite_loop(loop)
        for part in (node, *asking):
            self._at(part).rewrite_statement(part)

    def _settled(self, loop: Any) -> list[ast.If]:
        if isinstance(loop, ast.AsyncFor):
            raise Unwritable("a loop ends by it")
        block = _block_of(self.chain[self.chain.index(loop) + 1], loop)
        names = left_by(loop, self.owner)
        ends = isinstance(loop, ast.For) and has(loop.body, ast.Break)
        if ends and _read_beside(loop, self.owner):
            # The loop goes on through its items, doing nothing: its variable would be the last.
            raise Unwritable("the variable of a loop that ends by it is read behind the loop")
        asking = settle(loop, block, self.number)
        at = block.index(loop)
        unbound = [like(loop, assigned(name, nothing())) for name in names]
        behind = [like(loop, unless_bound(name)) for name in names]
        block[at : at + 1] = [*unbound, loop, *behind]
        ast.fix_missing_locations(self.owner)
        return asking

    def _at(self, node: ast.AST) -> Branch:
        """Another branch or loop of the function, wherever it is by now."""
        return Branch(chain_to(self.outermost, node))

    def rewrite_loop(self, node: ast.While) -> None:
        """Of `while test: ...`, in place."""
        if has([node.test], ast.NamedExpr):
            test_within(node)
        if node.orelse or leaves_loop(node.body) or has(node.body, ast.Return):
            asking = self._settled(node)
            self._at(node).rewrite_loop(node)
            for part in asking:
                self._at(part).rewrite_statement(part)
            return
        stored, before = self._stored(node.body), self._before()
        after = bound_after(node.body, before)
        if after is None:
            raise Unwritable("the loop raises an error")
        new = sorted(stored - before)
        names, numbers = [*sorted(stored & before), *new], f"{OWN}_numbers_{self.number}"
        counted = Counted(names, [*node.body, node.test], numbers)
        body = [counted.visit(statement) for statement in node.body]
        results: list[ast.expr] = [
            ast.Name(name, ast.Load()) if name in after else nothing() for name in names
        ]
        body.append(ast.Return(ast.Tuple(results, ast.Load())))
        test = self._function("goes_on", names, [ast.Return(truth_of(node.test))])
        step = self._function("step", [numbers, *names], body)
        step.unbound = {numbers, *new}  # pyright: ignore
        held = [nothing() if name in new else ast.Name(name, ast.Load()) for name in names]
        functions = [ast.Name(f.name, ast.Load()) for f in (test, step)]
        call = called("repeated", *functions, ast.Tuple(held, ast.Load()))
        block = _block_of(self.chain[1], node)
        at = block.index(node)
        unbound = [unless_bound(name) for name in new]
        assign = ast.Assign([tuple_of(names, ast.Store())], call)
        block[at : at + 1] = [like(node, x) for x in (test, step, assign, *unbound)]

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
        unbound: set[str] = getattr(self.owner, "unbound", set())
        bound = frozenset(parameters_of(self.owner) - unbound)
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
        appends = let_append_behind([one, other], self.owner, self.number)
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
        for name in filter(is_result, known):
            blank = called("blank", ast.Name(name, ast.Load()), *call.args)
            blank.args.append(ast.Constant(known.index(name)))
            functions.append(like(node, assigned(name, blank)))
        target = like(node, ast.Assign([tuple_of(known, ast.Store())], call))
        if not known:
            target = like(node, ast.Expr(call))
        lost = sorted(stored - {*known})
        unbound = [like(node, x) for name in lost for x in forgotten(name)]
        last = [like(node, kept(place, name)) for name, place in places.items()]
        last += [like(node, statement) for statement in appends]
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
    ) -> tuple[list[Any], ast.Call]:
        """The branches as functions, and the call that takes one of them."""
        functions = [self._function(*way) for way in (("yes", held, one), ("no", held, other))]
        functions = [like(node, function) for function in functions]
        names = [ast.Name(f.name, ast.Load()) for f in functions]
        call = called("either", truth_of(node.test), *names, tuple_of(held, ast.Load()))
        return functions, like(node, call)

    def _function(self, kind: str, names: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
        """A function of variables."""
        arguments = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
        body = [plain_super(statement, self.owner) for statement in body]
        function = ast.FunctionDef(f"{OWN}_{kind}_{self.number}", arguments, body, [])
        function.type_params = []  # pyright: ignore
        return ours(function)


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


def _read_beside(loop: ast.For, owner: ast.AST) -> set[str]:
    """The variables of a loop that a function reads, but in loops and comprehensions that bind
    them."""
    inside = {name: set[int]() for name in stored_in([loop.target])}
    for node in ast.walk(owner):
        binding = [node] if isinstance(node, ast.For) else getattr(node, "generators", [])
        for name in stored_in([each.target for each in binding]) & inside.keys():
            inside[name] |= set(map(id, ast.walk(node)))
    loaded = (x for x in ast.walk(owner) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load))
    return {x.id for x in loaded if x.id in inside and id(x) not in inside[x.id]}
