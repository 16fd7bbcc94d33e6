"""Adds up terms before loops sum them, rather than their sums behind loops."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add, Neg, Sub
from rnncc.ir.ops.linear import Reduce, SumRows, is_zero
from rnncc.ir.rewriting import NetPass, replace, run_all, scans_of
from rnncc.ir.types import dims_of, dtype_of
from rnncc.passes.loops.sum_late import added_sum
from rnncc.records import record


@record
class AddBeforeSums(NetPass):
    """Two carries that sum up rows, and are added behind the loop, become the sum of both terms.

    A parameter that a step reads twice, once as part of what is computed before the loop, has two
    such sums for its gradient. Where they are nearly opposite, as in a step of an implicit solver
    or of a leaky integrator, a·h + (1 - a)·x, each has the rounding errors of a large number; their
    terms, added row by row, are small. The same holds where one is taken away from the other, and
    for sums of rows outside of loops.

    Before:

        for t in reversed 0..T, c from 0, d from 0:
            v1 = reduce(x[t], kind=sum, axes=[0])
            v2 = add(c[t+1], v1)
            v3 = reduce(y[t], kind=sum, axes=[0])
            v4 = add(d[t+1], v3)
            c[t] = v2
            d[t] = v4
        v5 = add(c[0], d[0])
        return v5, d[0]

    After:

        for t in reversed 0..T, c from 0, d from 0:
            v1 = reduce(y[t], kind=sum, axes=[0])
            v2 = add(d[t+1], v1)
            v3 = add(x[t], y[t])
            v4 = reduce(v3, kind=sum, axes=[0])
            v5 = add(c[t+1], v4)
            c[t] = v5
            d[t] = v2
        return c[0], d[0]
    """

    name = "rnn-add-before-sums"

    def rewrite(self, net: Net) -> bool:
        block = net.body.block
        sums = [op for op in block.ops if isinstance(op, SumRows)]
        return run_all([*map(_rewrite, scans_of(block)), *map(_rewrite_rows, sums)])


@dataclass(frozen=True)
class _Pair:
    """Two values that are added, or one taken away from the other.

    Attributes:
        behind: the op that does that.
        own, other: the values.
        own_less, other_less: whether one is taken away; not both are.
    """

    behind: Operation
    own: SSAValue
    other: SSAValue
    own_less: bool
    other_less: bool

    def joined(self, b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        """The same of other values."""
        if self.own_less:
            return b.sub(y, x)
        return b.sub(x, y) if self.other_less else b.add(x, y)


def _pair(value: SSAValue) -> _Pair | None:
    """What a value is added to, or its negative, if nothing else reads it."""
    last, user = value, value.get_user_of_unique_use()
    if isinstance(user, Neg):
        last, user = user.y, user.y.get_user_of_unique_use()
    if not isinstance(user, Add | Sub):
        return None
    partner = user.b if user.a is last else user.a
    other = partner.owner.x if isinstance(partner.owner, Neg) else partner
    own_less = (last is not value) != (isinstance(user, Sub) and last is user.b)
    other_less = (other is not partner) != (isinstance(user, Sub) and partner is user.b)
    # -x - y: a sum and a negation, where joining is to leave one op
    if own_less and other_less:
        return None
    return _Pair(user, value, other, own_less, other_less)


def _rewrite(scan: Scan) -> bool:
    changed = False
    # looked up again each time: a rewrite replaces ops that an earlier look found
    while joinable := _carries(scan):
        _add_terms(*joinable)
        changed = True
    return changed


def _carries(scan: Scan) -> tuple[_Pair, Reduce, Reduce] | None:
    """Last values of carries; the sums of a step's rows that are added to them."""
    sums = _sums(scan)
    for final, terms in sums.items():
        if (pair := _pair(final)) is not None:
            other = sums.get(pair.other)
            # a carry added to itself has one sum only: nothing to join
            if other is not None and other is not terms and _are_alike(terms, other):
                return pair, terms, other
    return None


def _sums(scan: Scan) -> dict[SSAValue, Reduce]:
    """The last values of the carries that sum up rows from 0 on -> the sum of a step's."""
    parts = zip(scan.finals, scan.inits, scan.groups[1], scan.yields[0], strict=True)
    # Joined, one carry sums the terms of both: what the other one started at would be lost.
    sums = ((last, added_sum(arg, total)) for last, init, arg, total in parts if is_zero(init))
    return {last: op for last, op in sums if op is not None}


def _are_alike(one: Reduce, other: Reduce) -> bool:
    same = dims_of(one.x) == dims_of(other.x) and dtype_of(one.x) == dtype_of(other.x)
    return same and get_ints(one.axes) == get_ints(other.axes)


def _rewrite_rows(op: SumRows) -> bool:
    pair = _pair(op.y) if is_zero(op.init) else None
    other = None if pair is None else pair.other.owner
    if pair is None or not isinstance(other, SumRows) or other is op or not is_zero(other.init):
        return False
    # Sums that run against each other have no common order, which the joined one would have to
    # state.
    if dims_of(op.x) != dims_of(other.x) or op.reverse != other.reverse:
        return False
    b = Builder.before(pair.behind)
    replace(pair.behind, [b.like(op, [op.init, pair.joined(b, op.x, other.x)])])
    return True


def _add_terms(pair: _Pair, terms: Reduce, other: Reduce) -> None:
    """Let the carry of `terms` sum up both, and stand for what is computed behind the loop."""
    before, body = terms.y.get_user_of_unique_use(), terms.parent
    assert isinstance(before, Add) and body is not None and body.last_op is not None
    # At the end of the body: the other sum's rows may be computed behind this one's.
    b = Builder.before(body.last_op)
    both = b.like(terms, [pair.joined(b, terms.x, other.x)])
    replace(before, [b.add(before.a, both)])
    # the carry of `other` stays: it may have other readers, and has its own sum for them
    terms.detach()
    terms.erase()
    replace(pair.behind, [pair.own])
