"""Adds up terms before loops sum them, rather than their sums behind loops."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.linear import Reduce, is_zero
from rnncc.ir.rewriting import NetPass, replace, run_all, scans_of
from rnncc.ir.types import dims_of, dtype_of
from rnncc.passes.sum_late import added_sum
from rnncc.records import record


@record
class AddBeforeSums(NetPass):
    """Two carries that sum up rows, and are added behind the loop, become the sum of both terms.

    A parameter that a step reads twice, once as part of what is computed before the loop, has two
    such sums for its gradient. Where they are nearly opposite, as in a step of an implicit solver,
    each has the rounding errors of a large number; their terms, added row by row, are small.

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
        return run_all(_rewrite(scan) for scan in scans_of(net.body.block))


def _rewrite(scan: Scan) -> bool:
    changed = False
    while pair := _pair(scan):
        _add_terms(*pair)
        changed = True
    return changed


def _pair(scan: Scan) -> tuple[SSAValue, Reduce, Reduce] | None:
    """The last value of a carry that is only added to another's; what a step adds to either."""
    sums = _sums(scan)
    for final, terms in sums.items():
        add = final.get_user_of_unique_use()
        if isinstance(add, Add):
            other = sums.get(add.b if add.a is final else add.a)
            if other is not None and other is not terms and _are_alike(terms, other):
                return final, terms, other
    return None


def _sums(scan: Scan) -> dict[SSAValue, Reduce]:
    """The last values of the carries that sum up rows from 0 on -> the sum of a step's."""
    parts = zip(scan.finals, scan.inits, scan.groups[1], scan.yields[0], strict=True)
    found = ((last, added_sum(arg, total)) for last, init, arg, total in parts if is_zero(init))
    return {last: op for last, op in found if op is not None}


def _are_alike(one: Reduce, other: Reduce) -> bool:
    same = dims_of(one.x) == dims_of(other.x) and dtype_of(one.x) == dtype_of(other.x)
    return same and get_ints(one.axes) == get_ints(other.axes)


def _add_terms(final: SSAValue, terms: Reduce, other: Reduce) -> None:
    """Let the carry of `terms` sum up both, and stand for what was the sum of the carries."""
    before, add = (value.get_user_of_unique_use() for value in (terms.y, final))
    body = terms.parent
    assert isinstance(before, Add) and isinstance(add, Add)
    assert body is not None and body.last_op is not None
    b = Builder.before(body.last_op)
    both = b.like(terms, [b.add(terms.x, other.x)])
    replace(before, [b.add(before.a, both)])
    terms.detach()
    terms.erase()
    replace(add, [final])
