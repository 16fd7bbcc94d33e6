"""Adds up terms before loops sum them, rather than their sums behind loops."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue, Use

from rnncc.ir.attributes import get_ints
from rnncc.ir.builder import Builder
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.linear import Reduce, is_zero
from rnncc.ir.rewriting import NetPass, replace, run_all, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of
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
        _add_terms(scan, *pair)
        changed = True
    return changed


def _pair(scan: Scan) -> tuple[int, int] | None:
    """Two carries whose sums are only added: the one that nothing else reads, and the other."""
    sums: dict[SSAValue, int] = {x: i for i, x in enumerate(scan.finals) if _sum_of(scan, i)}
    for final, number in sums.items():
        add = _only_user(final)
        if not isinstance(add, Add):
            continue
        other = sums.get(add.b if add.a is final else add.a)
        if other is None or other == number:
            continue
        if _are_alike(_sum_of(scan, number), _sum_of(scan, other)):
            return number, other
    return None


def _sum_of(scan: Scan, number: int) -> Reduce | None:
    """The sum of a step's rows, if that is all that a carry adds up, from 0 on."""
    arg = scan.groups[1][number]
    match scan.yields[0][number].owner:
        case Add(a=a, b=b) if a is arg and isinstance(op := b.owner, Reduce):
            alone = arg.has_one_use() and op.y.has_one_use() and is_zero(scan.inits[number])
            return op if alone and op.kind.data == "sum" and dtype_of(op.y) in FLOATS else None
        case _:
            return None


def _only_user(value: SSAValue) -> Operation | None:
    use: Use | None = next(iter(value.uses)) if value.has_one_use() else None
    return use and use.operation


def _are_alike(one: Reduce | None, other: Reduce | None) -> bool:
    assert one is not None and other is not None
    same = dims_of(one.x) == dims_of(other.x) and dtype_of(one.x) == dtype_of(other.x)
    return same and get_ints(one.axes) == get_ints(other.axes)


def _add_terms(scan: Scan, number: int, other: int) -> None:
    """Let the carry `number` sum up the terms of both, and stand for what was their sum."""
    terms, more = _sum_of(scan, number), _sum_of(scan, other)
    assert terms is not None and more is not None
    before = scan.yields[0][number].owner
    yields = scan.body.block.last_op
    assert isinstance(before, Add) and yields is not None
    b = Builder.before(yields)
    both = b.like(terms, [b.add(terms.x, more.x)])
    replace(before, [b.add(before.a, both)])
    terms.detach()
    terms.erase()
    add = _only_user(scan.finals[number])
    assert add is not None
    replace(add, [scan.finals[number]])
