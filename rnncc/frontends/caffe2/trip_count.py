"""How often a while loop runs, where integers and bools that the net itself holds decide that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rnncc.frontends.caffe2.blobs import Blob
from rnncc.frontends.caffe2.constants import Known
from rnncc.frontends.caffe2.operator import Operator
from rnncc.records import record

MAX_EVALUATIONS = 300_000
"""How many operators may be evaluated to count iterations, in one import: about half a second."""

State = dict[Blob, Known | None]


@dataclass
class Loops:
    """What is asked of the loops of one import.

    Attributes:
        max_iterations: the most iterations of loops whose number of iterations is not known.
        training: whether the program is to be differentiated: then every loop needs a bound.
        evaluations: how many more there may be.
    """

    max_iterations: int | None = None
    training: bool = False
    evaluations: int = field(default=MAX_EVALUATIONS)


@record
class TripCount:
    """How often a loop runs.

    Attributes:
        most: no more than this.
        exact: always just so often.
        last: what is known after the last iteration.
    """

    most: int
    exact: bool
    last: Mapping[Blob, Known | None]


@record
class CountedLoop:
    """One while loop.

    Attributes:
        condition, body: the operators of its nets; the condition's run first.
        gate: what is looked at before each iteration, as the condition net leaves it.
        back: what an iteration starts with -> what takes its place after the iteration.
    """

    condition: Sequence[Operator]
    body: Sequence[Operator]
    gate: Blob
    back: Mapping[Blob, Blob]


def count_iterations(
    loop: CountedLoop, start: Mapping[Blob, Known | None], loops: Loops
) -> TripCount | None:
    """Follow what is known until it ends the loop; None where that never shows.

    Args:
        start: what is known of the keys of `back` before the loop.
    """
    needed = _needed(loop)
    condition, body = (
        [op for op in _flat(ops) if op.ys and op.ys[0] in needed and op.ys[0].known is None]
        for ops in (loop.condition, loop.body)
    )
    back = {blob: after for blob, after in loop.back.items() if blob in needed}
    state: State = {blob: start.get(blob) for blob in back}
    iterations, exact = 0, True
    while loops.evaluations > 0:
        env = dict(state)
        _run(condition, env, loops)
        gate = _look(env, loop.gate)
        if gate == ("i1", 0):
            return TripCount(iterations, exact, {**env, **{b: _look(env, b) for b in loop.back}})
        exact = exact and gate is not None
        _run(body, env, loops)
        after = {blob: _look(env, end) for blob, end in back.items()}
        if after == state:
            return None
        state, iterations = after, iterations + 1
    return None


def _run(ops: Sequence[Operator], env: State, loops: Loops) -> None:
    for op in ops:
        env[op.ys[0]] = op.evaluate([_look(env, x) for x in op.xs])
    loops.evaluations -= len(ops) + 1


def _look(env: State, blob: Blob) -> Known | None:
    return env.get(blob, blob.known)


def _needed(loop: CountedLoop) -> set[Blob]:
    """The blobs that the gate depends on, through all iterations."""
    makers = {y: op for op in _flat([*loop.condition, *loop.body]) for y in op.ys}
    needed, work = set[Blob](), [loop.gate]
    while work:
        blob = work.pop()
        if blob in needed:
            continue
        needed.add(blob)
        work += makers[blob].xs if blob in makers else ()
        work += [loop.back[blob]] if blob in loop.back else ()
    return needed


def _flat(ops: Sequence[Operator]) -> Iterator[Operator]:
    """The operators, those inside a Do in its place."""
    for op in ops:
        if op.op.type == "Do":
            yield from _flat(op.nested())
        else:
            yield op
