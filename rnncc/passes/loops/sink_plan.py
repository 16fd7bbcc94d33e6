"""What `sink` can move behind a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.dims import product
from rnncc.ir.ops.base import Cost, Elementwise, RnnOp, cost_of
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.linear import Contract, Matmul, OrderedSum, Reduce, SumRows
from rnncc.ir.ops.shape import Broadcast, Reshape, Slice, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rewriting import is_used
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.batching import can_batch
from rnncc.passes.dependence import Kind, kinds_of
from rnncc.passes.loops.light_loops import is_light

VIEWS = (Reshape, Transpose, Slice)
"""Ops that a sum over steps may pass through."""


@dataclass
class SinkPlan:
    """What of a scan to move.

    Attributes:
        sums: a carry's index → the terms that each step adds to it.
        added: a carry's index → the sum of the terms that each step adds to it.
        rows: the indices of ys.
        leaving: the values of the body that are read outside then.
    """

    kinds: dict[SSAValue, Kind]
    sums: dict[int, list[SSAValue]] = field(default_factory=dict[int, list[SSAValue]])
    added: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    rows: list[int] = field(default_factory=list[int])
    leaving: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])

    def read(self, value: SSAValue) -> None:
        """A value is to be read outside; a view is made there of what it is a view of."""
        while isinstance(value.owner, (*VIEWS, Windows)):
            value = value.owner.x
        if self.kinds[value] != Kind.CONST:
            self.leaving[value] = None

    def is_product(self, term: SSAValue) -> bool:
        """Whether a term is a view of a product of two matrices that both change."""
        op = _base(term).owner
        if not isinstance(op, Matmul | Contract) or len(dims_of(op.a)) != len(dims_of(op.b)):
            return False
        if not _is_whole(term) or dtype_of(term) not in FLOATS:
            return False
        return Kind.CONST not in (self.kinds[op.a], self.kinds[op.b])

    def is_sum(self, term: SSAValue, available: set[SSAValue]) -> bool:
        """Whether a term is a view of a sum over values that are there for all steps."""
        op = _base(term).owner
        if isinstance(op, SumRows):
            return _is_whole(term) and op.x in available
        return isinstance(op, Reduce) and op.kind.data == "sum" and op.x in available

    def can_leave(self, terms: Sequence[SSAValue], available: set[SSAValue]) -> bool:
        """Whether all of some terms are sums that can be taken over all steps."""
        return all(self.is_product(term) or self.is_sum(term, available) for term in terms)

    def is_able(self, op: Operation) -> bool:
        """Whether an op can be done for all steps at once, behind the loop."""
        if isinstance(op, Matmul) and self.kinds[op.b] == Kind.CONST:
            # One matrix for all steps: rows of all steps are rows of one product. A stack of
            # matrices would need its own for each step.
            return len(dims_of(op.b)) == 2 and self.kinds[op.a] != Kind.CONST
        if isinstance(op, Matmul):
            return self.is_product(op.y)
        return can_batch(op, self.kinds) and self.kinds[op.results[0]] != Kind.CONST


def plan_sink(scan: Scan, keeps_rows: bool = False) -> SinkPlan:
    """Choose what of a scan leaves it.

    Args:
        keeps_rows: whether rows become a sequence for a sum that can leave so.
    """
    plan = SinkPlan(kinds_of(scan))
    _plan_rows(plan, scan)
    sums = {i: terms for i in range(len(scan.finals)) if (terms := _terms(scan, i))}
    for terms in sums.values():
        # First those whose factors leave the loop anyway: what they read is there for all steps
        # then, and sums of it may leave as well.
        if all(plan.is_product(term) for term in terms):
            _read_factors(plan, terms)
    # in a light loop a sum costs nothing beside the step's memory traffic: `SumLate` has it there
    light = is_light(scan, plan.kinds)
    if keeps_rows and not light:
        plan.added = _added_in_steps(plan, scan, sums)
        _keep_rows(plan, scan, sums.values())
    available = set[SSAValue]() if light else _available_rows(plan, scan)
    leaving = {i: terms for i, terms in sums.items() if plan.can_leave(terms, available)}
    plan.added = {i: added for i, added in plan.added.items() if i in leaving}
    for index, terms in leaving.items():
        if index not in plan.added:
            _read_factors(plan, [term for term in terms if plan.is_product(term)])
            plan.sums[index] = terms
    return plan


def _added_in_steps(
    plan: SinkPlan, scan: Scan, sums: dict[int, list[SSAValue]]
) -> dict[int, SSAValue]:
    """What a step adds to carries of several terms that leave only if rows are kept for them.

    Where they are not, a loop adds up a step's terms first, and no bit may depend on that. Carries
    that a step adds to in another way are left to the loop: they are taken out of the sums.
    """
    available, later = _available_rows(plan, scan), dict[int, SSAValue]()
    for index, terms in list(sums.items()):
        if len(terms) == 1 or plan.can_leave(terms, available):
            continue
        arg, total = scan.groups[1][index], scan.yields[0][index].owner
        reduced = all(isinstance(_base(term).owner, Reduce) for term in terms)
        if reduced and isinstance(total, Add) and arg in total.operands:
            later[index] = total.b if total.a is arg else total.a
        else:
            del sums[index]
    return later


def _plan_rows(plan: SinkPlan, scan: Scan) -> None:
    """Find the products with a const matrix, and what follows them, that lead to ys alone."""
    rows, sunk = scan.yields[1], _sunk(plan, scan)
    plan.rows += [i for i, row in enumerate(rows) if row.owner in sunk and is_used(scan.ys[i])]
    work, seen = [rows[i] for i in plan.rows], set[SSAValue]()
    while work:
        value = work.pop()
        if value not in seen:
            seen.add(value)
            if isinstance(value.owner, Operation) and value.owner in sunk:
                work += value.owner.operands
            else:
                plan.read(value)


def _sunk(plan: SinkPlan, scan: Scan) -> set[Operation]:
    """Of the ops whose results ys alone depend on, products and what follows them.

    A product is worth leaving for; what only follows one goes along, as its rows are outside then.
    """
    ops, able, sunk = list(scan.body.block.ops), set[Operation](), set[Operation]()
    for op in reversed(ops):
        uses = [use for result in op.results for use in result.uses]
        leads_to_ys = all(u.operation in able or _makes_y(scan, u.operation, u.index) for u in uses)
        if leads_to_ys and plan.is_able(op):
            able.add(op)
    for op in (op for op in ops if op in able):
        root = isinstance(op, Matmul) and plan.kinds[op.b] == Kind.CONST
        if root or any(operand.owner in sunk for operand in op.operands):
            sunk.add(op)
    return sunk


def _makes_y(scan: Scan, user: Operation, index: int) -> bool:
    return isinstance(user, Yield) and index >= len(scan.inits)


def _available_rows(plan: SinkPlan, scan: Scan) -> set[SSAValue]:
    """The values whose rows exist for all steps anyway, and what is cheap to make of them."""
    rows = enumerate(scan.yields[1])
    ys = [row for i, row in rows if i not in plan.rows and is_used(scan.ys[i])]
    available = {*plan.leaving, *ys, *scan.groups[2]}
    available.update(value for value, kind in plan.kinds.items() if kind == Kind.CONST)
    for op in scan.body.block.ops:
        if _is_cheap(op) and available.issuperset(op.operands):
            available.update(op.results)
    return available


def _is_cheap(op: Operation | Block) -> TypeGuard[RnnOp]:
    """Whether to compute an op once more costs less than to keep its result."""
    return isinstance(op, (Elementwise, Broadcast, *VIEWS)) and cost_of(op) < Cost.FUNCTION


def _keep_rows(plan: SinkPlan, scan: Scan, sums: Iterable[Sequence[SSAValue]]) -> None:
    """Let sums leave whose rows nobody else wants: with what these are cheaply made of, where that
    is no larger than what there is for all steps."""
    row_sizes = [product(dims_of(row)) for row in (*scan.yields[1], *scan.groups[2])]
    for terms in sums:
        summed = [_base(term).owner for term in terms if not plan.is_product(term)]
        ops = [op for op in summed if isinstance(op, (Reduce, SumRows))]
        available = _available_rows(plan, scan)
        made_of = [value for op in ops for value in _made_of(op.x, available)]
        sizes = [product(dims_of(value)) for value in made_of]
        fit = all(any(at_most(size, most) for most in row_sizes) for size in sizes)
        if ops == summed and fit:
            for value in made_of:
                plan.read(value)


def _made_of(value: SSAValue, available: set[SSAValue]) -> Iterator[SSAValue]:
    """The values that are not available, and that a value is cheaply made of."""
    work = [value]
    while work:
        value = work.pop()
        if value in available:
            continue
        if _is_cheap(value.owner):
            work += value.owner.operands
        else:
            yield value


def _terms(scan: Scan, index: int) -> list[SSAValue]:
    """What each step adds to a carry that nothing else reads; nothing where it does more."""
    arg, total = scan.groups[1][index], scan.yields[0][index]
    if not is_used(scan.finals[index]) or arg.get_user_of_unique_use() is None:
        return []  # dead, or a step reads the sum so far
    terms = _summands(total)
    # Only carry + term + ...: a carry that is scaled, or that a step starts anew, is no sum over
    # steps.
    return [term for term in terms if term is not arg] if arg in terms else []


def _summands(value: SSAValue) -> list[SSAValue]:
    """The terms of a sum, in order; one that goes on from another sum stands for its own part."""
    terms, pending = list[SSAValue](), [value]
    while pending:  # from the last term to the first
        value = pending.pop()
        op = value.owner
        once = value.get_user_of_unique_use() is not None
        if once and isinstance(op, Add):
            pending += [op.a, op.b]
            continue
        terms.append(value)
        if once and isinstance(op, OrderedSum) and not op.starts_at_zero:
            pending.append(op.init)
    return terms[::-1]


def _is_whole(term: SSAValue) -> bool:
    """Whether a sum is all of its value, or goes on from what is a term of its own."""
    op = _base(term).owner
    if not isinstance(op, OrderedSum) or op.starts_at_zero:
        return True
    return op.y is term and term.get_user_of_unique_use() is not None


def _base(term: SSAValue) -> SSAValue:
    """What a term is a view of."""
    while isinstance(term.owner, VIEWS):
        term = term.owner.x
    return term


def _read_factors(plan: SinkPlan, terms: Sequence[SSAValue]) -> None:
    for op in (_base(term).owner for term in terms):
        assert isinstance(op, Matmul | Contract)
        plan.read(op.a)
        plan.read(op.b)
