"""Which ops of a block run over time together, one run of steps after another.

In: the ops of one phase, in order, and the direction in which they are to take the steps. Out: a
cluster: no path leads out of it and back in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.ir.dims import Dim, product
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan, Yield
from rnncc.ir.ops.linear import OrderedSum
from rnncc.ir.types import dims_of
from rnncc.passes.gradients.checkpointing.time_local import in_order, is_local, is_timed

REFERENCE = 64
"""The value of every symbol when sizes are compared."""


def find_cluster(
    ops: Sequence[Operation], later: Collection[Operation], length: Dim, reverse: bool
) -> list[Operation]:
    """Loops of one direction and what each step of them needs or leads to; empty without loops.

    Args:
        later: ops of another phase; what they read is there for them in any case.
    """
    local = {op for op in ops if is_local(op, length) and in_order(op, length, reverse)}
    chosen = local - _foreign(ops, local, length)
    before = None
    while before != chosen:
        before = set(chosen)
        chosen = _attached(ops, chosen, later)
        chosen -= _returning(ops, chosen, length)
    return [op for op in ops if op in chosen]


def _foreign(ops: Sequence[Operation], local: Collection[Operation], length: Dim) -> set[Operation]:
    """Ops that read sequences of loops outside the local ops; loops that do may stay."""
    # A run that repeats such an op reads the other loop's rows again: all of them stay on the tape,
    # beside those that lead there.
    outer_results, foreign = set[SSAValue](), set[Operation]()
    for op in ops:
        reads = any(v in outer_results and is_timed(v, length) for v in op.operands)
        outer = isinstance(op, Scan | Chunks) and op not in local
        if reads and not isinstance(op, Scan):
            foreign.add(op)
        if outer or (reads and not isinstance(op, Scan)):
            outer_results.update(op.results)
    return foreign


def _attached(
    ops: Sequence[Operation], chosen: set[Operation], later: Collection[Operation]
) -> set[Operation]:
    """The loops, what follows from them and is of use, and what they alone need."""
    kept, reached = set[Operation](), set[SSAValue]()
    for op in ops:
        if op in chosen and (isinstance(op, Scan) or not reached.isdisjoint(op.operands)):
            kept.add(op)
            reached.update(op.results)
    for op in reversed(ops):
        users = _users(op)
        inside = {user for user in users if user in kept}
        # A sum leaves the cluster as one value, not as a sequence: it stays, whoever reads it.
        if isinstance(op, Scan | OrderedSum) or op not in chosen:
            continue
        if op in kept and users and not inside and not _leaves(users, later):
            kept -= _after_narrowest(op, kept)
        # What others read, too, they have outside in any case.
        elif op not in kept and inside and all(user in kept or user in later for user in users):
            kept.add(op)
    return kept


def _users(op: Operation) -> set[Operation]:
    return {use.operation for result in op.results for use in result.uses}


def _leaves(users: set[Operation], later: Collection[Operation]) -> bool:
    return any(isinstance(user, Yield) or user in later for user in users)


def _after_narrowest(op: Operation, kept: Collection[Operation]) -> set[Operation]:
    """Of a chain of ops that leads out of the cluster, those after its narrowest point.

    What leaves the cluster is as long as the sequence: a product that widens its rows had better be
    done outside.
    """
    chain, best = [op], (_elements(op.results), 0)
    while True:
        rows = [v for v in chain[-1].operands if v.owner in kept]
        best = min(best, (_elements(rows), len(chain)))
        owners = {v.owner for v in rows}
        before = owners.pop() if len(owners) == 1 else None
        if not isinstance(before, RnnOp) or _users(before) != {chain[-1]}:
            return set(chain[: best[1]])
        chain.append(before)


def _elements(values: Iterable[SSAValue]) -> int:
    sizes = [product(dims_of(v)) for v in values]
    return sum(size.evaluate(dict.fromkeys(size.symbols, REFERENCE)) for size in sizes)


def _returning(ops: Sequence[Operation], chosen: set[Operation], length: Dim) -> set[Operation]:
    """Chosen ops that wait for what others lead to: for an op between or for a loop's end."""
    within, after, returning = set[SSAValue](), set[SSAValue](), set[Operation]()
    for op in ops:
        waits = not after.isdisjoint(op.operands)
        if op in chosen and not waits:
            timed = [is_timed(v, length) for v in op.results]
            for result, is_row in zip(op.results, timed, strict=True):
                (within if is_row else after).add(result)
        elif waits or not within.isdisjoint(op.operands):
            returning.update([op] if op in chosen else [])
            after.update(op.results)
    return returning
