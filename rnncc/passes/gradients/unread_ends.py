"""Stops in the last steps of loops, where nothing reads what they hand on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import RnnOp, Slopes
from rnncc.ir.ops.control import Scan
from rnncc.ir.program import Program
from rnncc.ir.rewriting import Loop, LoopSequence, scans_of
from rnncc.ir.types import FLOATS, dims_of, dtype_of, tensor
from rnncc.passes.gradients.activity import active_values, values_leading_to
from rnncc.records import record


def has_unread_ends(program: Program, names: Collection[str]) -> bool:
    """Whether `stop_unread_ends` changes anything."""
    return any(_unread_ends(program, names))


def stop_unread_ends(program: Program, names: Collection[str]) -> Program:
    """A net of the same outputs. Given gradients of some, what only leads to states that nobody
    reads passes none on: here the logarithm of the last step.

    A backward loop multiplies zeros, the gradient of such a state, by slopes; zero times an
    infinite one is NaN. Only loops are changed that have slopes without a bound there.

    Before:

        for t in 0..T, h from h:
            v1 = add(h[t-1], x[t])
            v2 = log(v1)
            h[t] = v2
            v3[t] = h[t-1]
        return v3, h[T-1]

    After:

        v1 = iota(axis=0)
        v2 = size(dim=T - 1)
        v3 = broadcast(v2, dims=[T], axes=[])
        v4 = sub(v3, v1)
        v5 = broadcast(1, dims=[T], axes=[])
        v6 = minimum(v4, v5)
        v7 = constant(values=[1, 0])
        v8 = gather(v7, v6, axis=0)
        for t in 0..T, h from h:
            v9 = with_gradient(h[t-1], h[t-1], v8[t], operandSegmentSizes=array<i32: 1, 1, 1>)
            v10 = with_gradient(x[t], x[t], v8[t], operandSegmentSizes=array<i32: 1, 1, 1>)
            v11 = add(v9, v10)
            v12 = log(v11)
            h[t] = v12
            v13[t] = h[t-1]
        return v13, h[T-1]

    Args:
        names: the outputs that have gradients.
    """
    result = program.copy()
    # outermost first: that replaces no loop inside, which may be an edge's reader
    for end in reversed(list(_unread_ends(result, names))):
        _stop(end)
    return result


Steps = tuple[bool, ...]
"""Whether something holds in a loop's last step, the one before, ...; what follows the end of the
tuple, repeats the part of it that starts at `_ReadLater.again`."""


@record
class _UnreadUse:
    """An operand of an op in a loop's body that gets no gradient in some steps."""

    reader: Operation
    number: int
    steps: Steps


@record
class _UnreadEnd:
    """A loop and the edges over which zeros times slopes would come."""

    scan: Scan
    edges: Sequence[_UnreadUse]
    again: int


@record
class _ReadLater:
    """Which values something reads later: in a loop's last step, the one before, ...

    Attributes:
        again: states that change places are read in turns: the number that follows the last one.
    """

    by_step: Sequence[Collection[SSAValue]]
    again: int


def _unread_ends(program: Program, names: Collection[str]) -> Iterator[_UnreadEnd]:
    """Loops within loops come before these."""
    net = program.net
    targets = [value for name, value in net.outputs.items() if name in names]
    active = active_values(net.body.block.ops, net.inputs.values(), targets)
    for scan in scans_of(net.body.block):
        if scan.gate is None:  # else which step is the last is not known ahead
            reads = _reads(scan, active)
            if edges := _edges(scan, active, reads):
                yield _UnreadEnd(scan, edges, reads.again)


def _edges(scan: Scan, active: set[SSAValue], reads: _ReadLater) -> list[_UnreadUse]:
    """The edges from what is read to what is not; none where all slopes there are bounded."""
    all_steps = {v: tuple(v not in step for step in reads.by_step) for v in _values_within(scan)}
    unread = {v: steps for v, steps in all_steps.items() if v in active and any(steps)}
    ops = list(scan.body.block.ops)
    if not any(_has_steep_slopes(op, unread) for op in ops):
        return []
    edges = list[_UnreadUse]()
    for op in ops:
        for number, steps in _unread_operands(op, unread):
            value = op.operands[number]
            # the gradient of an argument leaves the step
            within = None if isinstance(value.owner, Block) else unread.get(value)
            if within is not None:
                steps = tuple(reader and not own for reader, own in zip(steps, within, strict=True))
            if value in active and any(steps):
                edges.append(_UnreadUse(op, number, steps))
    return edges


def _reads(scan: Scan, active: set[SSAValue]) -> _ReadLater:
    _, carry, _ = scan.groups
    nexts, rows = scan.yields
    ops = list(scan.body.block.ops)
    always = {row for row, y in zip(rows, scan.ys, strict=True) if y in active}
    last = zip(nexts, scan.finals, strict=True)
    targets = [always | {after for after, final in last if final in active}]
    by_step = list[set[SSAValue]]()
    for _ in range(4 * len(carry) + 2):
        by_step.append(values_leading_to(ops, targets[-1]))
        before = zip(carry, nexts, strict=True)
        earlier = always | {after for arg, after in before if arg in by_step[-1]}
        if earlier in targets:
            return _ReadLater(by_step, targets.index(earlier))
        targets.append(earlier)
    return _ReadLater([*by_step, active], len(by_step))


def _values_within(scan: Scan) -> Iterator[SSAValue]:
    yield from scan.body.block.args
    for op in scan.body.block.ops:
        yield from op.results
        if isinstance(op, Scan):
            yield from _values_within(op)


def _has_steep_slopes(op: Operation, unread: Collection[SSAValue]) -> bool:
    """Whether an op computes something unread by slopes that may be infinite."""
    if isinstance(op, Scan):
        return any(_has_steep_slopes(inner, unread) for inner in op.body.block.ops)
    return isinstance(op, RnnOp) and op.y in unread and op.slopes is Slopes.ANY


def _unread_operands(
    op: Operation, unread: Mapping[SSAValue, Steps]
) -> Iterator[tuple[int, Steps]]:
    """The numbers of the operands that get zeros times slopes in some steps, and these."""
    if isinstance(op, Scan):
        for number, arg in enumerate(op.body.block.args):
            if arg in unread:
                yield number, unread[arg]
    elif isinstance(op, RnnOp) and op.y in unread:
        for number, value in enumerate(op.operands):
            if value in op.differentiable and dtype_of(value) in FLOATS:
                yield number, unread[op.y]


def _stop(end: _UnreadEnd) -> None:
    """Let no gradient pass over the edges in the steps that are unread."""
    scan = end.scan
    outside, loop = Builder.before(scan), Loop(scan)
    flags = dict[Steps, SSAValue]()
    number = _step_numbers(outside, scan, end.again, len(end.edges[0].steps))
    for steps in dict.fromkeys(edge.steps for edge in end.edges):
        flags[steps] = loop.add_arg(tensor((), "i1"))
        chosen = outside.gather(outside.constant(np.array(steps)), number, 0)
        loop.xs.append(LoopSequence(chosen, flags[steps]))
    for edge in end.edges:
        value, flag = edge.reader.operands[edge.number], flags[edge.steps]
        edge.reader.operands[edge.number] = _stopped(Builder.before(edge.reader), value, flag)
    loop.rebuild()


def _step_numbers(b: Builder, scan: Scan, again: int, count: int) -> SSAValue:
    """Each step's number in `_ReadLater.by_step`: [T]."""
    position = b.iota([scan.steps], 0, "i64")
    if not scan.reverse:
        position = b.sub(b.size(scan.steps - 1), position)
    first, period = b.fill(again, (), "i64"), b.fill(count - again, (), "i64")
    if again + 1 == count:
        return b.minimum(position, first)
    turn = b.add(first, b.rem(b.sub(position, first), period))
    return b.select(b.compare("lt", position, first), position, turn)


def _stopped(b: Builder, x: SSAValue, flag: SSAValue) -> SSAValue:
    """x, to which no gradient passes where the flag is true."""
    inner = Builder(Block(arg_types=[x.type, flag.type]), b.loc)
    dy, is_unread = inner.block.args
    chosen = inner.broadcast(is_unread, dims_of(x), ())
    return b.with_gradient(
        x, [x], [flag], inner, [inner.select(chosen, inner.full_like(dy, 0.0), dy)]
    )
