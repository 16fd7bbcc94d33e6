"""Checkpoints along time: the carry is kept every so many steps, and backward repeats the rest.

In: a block with a forward and a backward phase. Out: loops over time of both are cut into runs. A
forward run leaves the carry that it starts with; a backward one repeats the forward steps from
there and then goes back over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Yield
from rnncc.ir.order import post_order
from rnncc.ir.types import dims_of
from rnncc.passes.gradients.checkpointing.chunk_body import Body, Cut, Hand, finish
from rnncc.passes.gradients.checkpointing.clusters import find_cluster
from rnncc.passes.gradients.checkpointing.time_local import is_timed
from rnncc.records import record


@record
class Runs:
    """The two loops over runs; in the backward one the ops that repeat forward, and the others."""

    forward: Chunks
    backward: Chunks
    early: list[Operation]
    late: list[Operation]


def strip_mine_time(
    block: Block,
    early: Sequence[Operation],
    late: Sequence[Operation],
    cut: Cut,
    reverse: bool,
) -> Runs | None:
    """Cut the loops that go one way, and their gradients', which go the other way.

    Args:
        early, late: the ops of both phases, each in order.
        reverse: the direction of the forward loops.

    Returns:
        None where there are none of them.
    """
    forward = find_cluster(early, late, cut.length, reverse)
    backward = find_cluster(late, (), cut.length, not reverse)
    both = {*forward, *backward}
    repeated = _needed(forward, backward)
    if not repeated:
        return None
    behind = Body(cut)
    hands = behind.add(repeated)
    # each backward run starts the repeated ops from marks; only gradients go from run to run
    again, behind.hands = len(behind.ops), []
    behind.add(backward)
    # Forward makes what others read and what marks need; the rest, made for the gradients alone,
    # backward makes again.
    done = _needed(forward, [*_read_by_others(forward, both, cut), *(h.op for h in hands)])
    ahead = Body(cut)
    carried = _numbered(ahead.add(done))
    marked = [carried[key].arg for key in _numbered(hands)]
    ahead_ys, behind_ys = (_shown(ops, both, cut) for ops in (done, backward))
    loop = finish(ahead, ahead_ys, {}, marked, reverse)
    marks = dict[SSAValue, SSAValue](zip(loop.marked, (h.arg for h in hands), strict=True))
    back = finish(behind, behind_ys, marks, [], not reverse)
    _put(block, [(loop, ahead, ahead_ys), (back, behind, behind_ys)], both)
    late = behind.ops[again:]
    return Runs(loop, back, [op for op in back.body.block.ops if op not in late][:-1], late)


def strip_mine_loops(block: Block, cut: Cut, reverse: bool) -> None:
    """Cut a block's loops that go one way; what they leave stays as it is."""
    ops = [op for op in block.ops if not isinstance(op, Yield)]
    cluster = find_cluster(ops, (), cut.length, reverse)
    if cluster:
        body = Body(cut)
        body.add(cluster)
        ys = _shown(cluster, set(cluster), cut)
        loop = finish(body, ys, {}, [], reverse)
        _put(block, [(loop, body, ys)], cluster)


def _numbered(hands: Sequence[Hand]) -> dict[tuple[Operation, int], Hand]:
    """Loop-carried values by op and number: several may start alike."""
    counts = Counter[Operation]()
    numbered: dict[tuple[Operation, int], Hand] = {}
    for hand in hands:
        numbered[hand.op, counts[hand.op]] = hand
        counts[hand.op] += 1
    return numbered


def _needed(ops: Sequence[Operation], roots: Iterable[Operation]) -> list[Operation]:
    """The ops that roots are or read, directly or not."""
    needed, work = set[Operation](), list(roots)
    among, seen = set(ops), set[Operation]()
    while work:
        op = work.pop()
        if op in seen:
            continue
        seen.add(op)
        needed.update([op] if op in among else [])
        owners = (v.owner for v in op.operands)
        work += [owner for owner in owners if isinstance(owner, Operation) and owner in among]
    return [op for op in ops if op in needed]


def _read_by_others(
    ops: Sequence[Operation], both: Collection[Operation], cut: Cut
) -> list[Operation]:
    """The ops whose results others read, or of which a whole result is read."""
    return [op for op in ops if any(_is_shown(v, both, cut) for v in op.results)]


def _is_shown(value: SSAValue, both: Collection[Operation], cut: Cut) -> bool:
    outside = any(use.operation not in both for use in value.uses)
    return outside or (value.first_use is not None and not is_timed(value, cut.length))


def _shown(ops: Sequence[Operation], both: Collection[Operation], cut: Cut) -> list[SSAValue]:
    """The timed results that others read."""
    results = (v for op in ops for v in op.results if is_timed(v, cut.length))
    return [v for v in results if any(use.operation not in both for use in v.uses)]


def _put(
    block: Block,
    loops: Sequence[tuple[Chunks, Body, Sequence[SSAValue]]],
    replaced: Collection[Operation],
) -> None:
    """Put loops in the place of ops; each with its body and the values that it yields rows of."""
    end = block.last_op
    assert end is not None
    block.insert_ops_before([loop for loop, _, _ in loops], end)
    for loop, body, ys in loops:
        _replace(loop, body, ys)
    for op in reversed(list(block.ops)):
        if op in replaced:
            op.detach()
            op.erase()
    sort(block)


def _replace(loop: Chunks, body: Body, ys: Sequence[SSAValue]) -> None:
    for hand, final in zip(body.hands, loop.finals, strict=True):
        if hand.final is not None:
            hand.final.replace_all_uses_with(final)
    for old, new in zip(ys, loop.ys, strict=True):
        assert loop.next_op is not None
        old.replace_all_uses_with(Builder.before(loop.next_op).reshape(new, dims_of(old)))


def sort(block: Block) -> None:
    """Topological order: every op behind those that it reads, else as before."""
    order = dict[Operation, None]()

    def needs(op: Operation) -> list[Operation]:
        owners = [value.owner for value in op.operands]
        return [o for o in owners if isinstance(o, Operation) and o not in order]

    for op in list(block.ops):
        if op not in order:
            order.update(dict.fromkeys(post_order(op, needs)))
    for op in order:
        op.detach()
        block.add_op(op)
