"""Sums over rows of light loops: element by element in the loop, over the rows behind it."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import product
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.control import Net, Scan
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.linear import Reduce, SumRows, is_zero
from rnncc.ir.ops.shape import Reshape, Transpose
from rnncc.ir.rewriting import Carry, Loop, NetPass, run_all, scans_of
from rnncc.ir.size_proofs import at_most
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.passes.dependence import kinds_of
from rnncc.passes.loops.light_loops import is_light
from rnncc.passes.loops.multiply_adds import plus
from rnncc.records import record

VIEWS = (Reshape, Transpose)


@record
class SumLate(NetPass):
    """A carry that sums up rows of each step keeps a sum of its own for each row.

    What a loop adds up is then elementwise too, and goes into the kernel of the state; the rows
    are summed once, behind the loop. Only in light loops (see `is_light`), and only where that
    keeps no more sums than the state has elements: else a step would touch more than it did.

    Before:

        for t in reversed 0..T, h from h, c from 0:
            v1 = mul(h[t+1], x[t])
            v2 = sum_rows(c[t+1], v1, reverse=true)
            h[t] = v1
            c[t] = v2
        return c[0]

    After:

        for t in reversed 0..T, h from h, c from 0:
            v1 = mul(h[t+1], x[t])
            v2 = multiply_add(h[t+1], x[t], c[t+1], kind=add)
            h[t] = v1
            c[t] = v2
        v3 = sum_rows(0, c[0], reverse=true)
        return v3
    """

    name = "rnn-sum-late"

    def rewrite(self, net: Net) -> bool:
        return run_all(_rewrite(scan) for scan in scans_of(net.body.block))


def _rewrite(scan: Scan) -> bool:
    # A conditional is a loop of one step at most: a sum behind it would read the whole state again,
    # and where the step does not run, a state of zeros.
    if scan.gate is not None or not is_light(scan, kinds_of(scan)):
        return False
    loop = Loop(scan)
    sums = {i: op for i, carry in enumerate(loop.carries) if (op := _sum_of(scan, carry))}
    if not sums:
        return False

    def final(scan: Scan, number: int, per_element: SSAValue) -> SSAValue:
        return _sum_behind(scan, scan.inits[number], sums[number], per_element)

    loop.exchange({i: _sum_of_each(loop, _terms(op)) for i, op in sums.items()}, final)
    return True


def _sum_of(scan: Scan, carry: Carry) -> SumRows | Reduce | None:
    """What adds up the rows of a step, if a carry does nothing else."""
    op: SumRows | Reduce | None
    match carry.next.owner:
        case SumRows() as op if op.init is carry.arg and is_read_once(carry.arg, carry.next):
            pass
        case _:
            # Where the number of rows is known, `Accumulate` leaves a reduction and an add.
            op = added_sum(carry.arg, carry.next)
    return op if op is not None and _fits(scan, _terms(op)) else None


def added_sum(arg: SSAValue, total: SSAValue) -> Reduce | None:
    """The sum of a step's rows that, added to a carry's `arg`, makes the next, if a carry does
    nothing else."""
    match total.owner:
        case Add(a=a, b=b) if a is arg and isinstance(op := b.owner, Reduce):
            of_floats = op.kind.data == "sum" and dtype_of(op.y) in FLOATS
            return op if of_floats and is_read_once(arg, total, op.y) else None
        case _:
            return None


def is_read_once(*values: SSAValue) -> bool:
    """Whether each has one reader: a step that reads the sum so far needs it summed."""
    return all(value.has_one_use() for value in values)


def _terms(op: SumRows | Reduce) -> SSAValue:
    """The rows that are summed, before they are viewed as such."""
    value = op.x
    while isinstance(value.owner, VIEWS):
        value = value.owner.x
    return value


def _fits(scan: Scan, terms: SSAValue) -> bool:
    """Whether a sum an element is no larger than the state, which the step touches anyway."""
    size = product(dims_of(terms))
    return any(at_most(size, product(dims_of(init))) for init in scan.inits)


def _sum_of_each(loop: Loop, terms: SSAValue) -> Carry:
    """A sum for each element."""
    init = Builder.before(loop.scan).fill(0.0, dims_of(terms), dtype_of(terms))
    arg = loop.add_arg(terms.type)
    # `MultiplyAdds` has run by now: a product and this sum become one op here.
    return Carry(init, arg, plus(Builder.before(loop.yields), arg, terms))


def _sum_behind(
    scan: Scan, init: SSAValue, op: SumRows | Reduce, per_element: SSAValue
) -> SSAValue:
    """The sum over the rows, given the sum for each element."""
    assert scan.next_op is not None
    b, views, value = Builder.before(scan.next_op), list[RnnOp](), op.x
    while isinstance(view := value.owner, VIEWS):
        views.append(view)
        value = view.x
    for view in reversed(views):
        per_element = b.like(view, [per_element])
    if isinstance(op, SumRows):
        return b.like(op, [init, per_element])
    total = b.like(op, [per_element])
    return total if is_zero(init) else b.add(init, total)
