"""Reshapes with the operators that compute their shapes; those before FC are not needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

from rnncc.errors import NetError
from rnncc.netdef.checks import check_net, copy_of, locate
from rnncc.netdef.liveness import kept
from rnncc.netdef.nested import expose
from rnncc.netdef.netdef_pb2 import NetDef
from rnncc.netdef.versions import Steps, Value, consumers_of, producers_of, results, ssa
from rnncc.records import record

MAX_SEEN = 1_000_000
"""How many operators the shapes of all Reshapes may depend on, each counted as often as it is."""

Params = TypeVar("Params", Mapping[str, Any], Sequence[str])


def reshape_subgraphs(net: NetDef) -> list[list[int]]:
    """Of each Reshape: the operators between its data and its shape, then the Reshape.

    Raises:
        NetError: a Reshape that has not two inputs, data and shape; shapes that depend on so many
            operators that nobody would wait for the answer.
    """
    check_net(net)
    steps, _ = ssa(net)
    makers, readers = producers_of(steps), consumers_of(steps)
    seen = 0
    subgraphs: list[list[int]] = []
    for index in _reshapes(net):
        data, shape = steps[index][0]
        before = _before(steps, makers, shape, readers[data][0][0])
        seen += len(before)
        if seen > MAX_SEEN:
            what = f"its shape depends on {len(before)} operators, those of all on over {MAX_SEEN}"
            raise NetError(locate(net, index), what)
        subgraphs.append([*_reached(steps, before, data), index])
    return subgraphs


def _reshapes(net: NetDef) -> list[int]:
    """The Reshapes, each with data and shape as its inputs."""
    reshapes = [index for index, op in enumerate(net.op) if op.type == "Reshape"]
    for index in reshapes:
        count = len(net.op[index].input)
        if count != 2:
            what = f"has {count} inputs, expected 2: data and shape"
            raise NetError(locate(net, index), what)
    return reshapes


def _before(
    steps: Steps, makers: Mapping[Value, tuple[int, int]], shape: Value, first: int
) -> list[int]:
    """The operators from `first` on that a shape depends on, in order."""
    before = set[int]()
    waiting = [shape]
    while waiting:
        maker = makers.get(waiting.pop(), (-1, 0))[0]
        if maker >= first and maker not in before:
            before.add(maker)
            waiting += steps[maker][0]
    return sorted(before)


def _reached(steps: Steps, ops: Sequence[int], data: Value) -> list[int]:
    """Those of some operators that read the data, or what such operators make of it."""
    reached = {data}
    path: list[int] = []
    for index in ops:
        inputs, outputs = steps[index]
        if not reached.isdisjoint(inputs):
            path.append(index)
            reached.update(outputs)
    return path


@record
class Flattening:
    """A Reshape that nothing but FC reads.

    Attributes:
        ops: the Reshape and what computes its shape.
        inputs: the parameters that those read, each with an operator that does.
        readers: the (operator, input) that read the Reshape.
    """

    reshape: int
    ops: frozenset[int]
    data: Value
    inputs: Mapping[str, int]
    readers: Sequence[tuple[int, int]]


def remove_reshape_before_fc(net: NetDef, params: Params) -> tuple[NetDef, Params]:
    """Let FC read what a Reshape before it reads, and leave the Reshape out.

    A Reshape goes with what computes its shape if an operator made its data, if FC operators and
    nothing else read it, if its shape depends on its data and on parameters alone and nothing else
    reads that, and if the data is still there when FC reads it. Parameters that only such shapes
    needed are taken out of the external inputs and of `params`. That the shape flattens as FC
    itself does is taken for granted; `prune` makes sure of it.

    Args:
        params: the net's parameters: their names, or a dict of them by name.
    Returns:
        The new net and the parameters that are left.
    Raises:
        NetError: as `reshape_subgraphs`; a shape depends on a blob that is no declared external
            input or not in `params`; an external output that the net does not know.
    """
    check_net(net)
    _reshapes(net)
    removable = flattenings(net)
    known = {"external inputs": set(net.external_input), "params": set(params)}
    for flattening in removable:
        for name, reader in flattening.inputs.items():
            for where, names in known.items():
                if name not in names:
                    what = f'reads "{name}", which is not among the {where}'
                    raise NetError(locate(net, reader), what)
    result, unread = without(net, removable)
    if isinstance(params, Mapping):
        return result, {name: params[name] for name in params if name not in unread}
    return result, [name for name in params if name not in unread]


def flattenings(net: NetDef) -> list[Flattening]:
    """The Reshapes that can be left out, in order; raises `NetError` as `results` does."""
    exposed = expose(net)
    steps, last = ssa(exposed)
    search = _ReshapeSearch(exposed, steps, set(results(net, last)))
    reshapes = [index for index, op in enumerate(net.op) if op.type == "Reshape"]
    return [
        flattening for index in reshapes if (flattening := search.flattening(index)) is not None
    ]


def without(net: NetDef, removed: Sequence[Flattening]) -> tuple[NetDef, set[str]]:
    """A net without these, and the external inputs that went because nothing reads them now."""
    copy = copy_of(net)
    for flattening in removed:
        for op, index in flattening.readers:
            copy.op[op].input[index] = flattening.data[0]
    removed_ops = {op for flattening in removed for op in flattening.ops}
    copy = kept(copy, [index for index in range(len(net.op)) if index not in removed_ops])
    steps, _ = ssa(expose(copy))
    read = {value for inputs, _ in steps for value in inputs}
    named = {name for flattening in removed for name in flattening.inputs}
    unread = {name for name in named if (name, 0) not in read} - set(net.external_output)
    copy.external_input[:] = [name for name in copy.external_input if name not in unread]
    return copy, unread


class _ReshapeSearch:
    """Looks for Reshapes that can be left out of a net."""

    def __init__(self, net: NetDef, steps: Steps, ends: set[Value]) -> None:
        self.net, self.steps, self.ends = net, steps, ends
        self.makers, self.readers = producers_of(steps), consumers_of(steps)
        self.writers: dict[str, list[int]] = {}
        for index, op in enumerate(net.op):
            for name in dict.fromkeys(op.output):
                self.writers.setdefault(name, []).append(index)

    def flattening(self, index: int) -> Flattening | None:
        inputs, outputs = self.steps[index]
        if not inputs or not outputs or len(set(inputs)) < len(inputs):
            return None
        data = inputs[0]
        readers = self.readers.get(outputs[0], [])
        fc = bool(readers) and all(self.net.op[op].type == "FC" for op, _ in readers)
        if not fc or data[1] == 0 or outputs[0] in self.ends:
            return None
        ops = self._shape_alone(index)
        if ops is None or self._overwritten(data, ops) <= readers[-1][0]:
            return None
        params = {
            name: op for op in sorted(ops) for name, version in self.steps[op][0] if version == 0
        }
        return Flattening(index, frozenset(ops), data, params, readers)

    def _shape_alone(self, index: int) -> set[int] | None:
        """A Reshape and what computes its shape, if all that depends on the data and nothing else
        reads it; the last operators first, so that readers are known when their maker comes."""
        inputs, outputs = self.steps[index]
        ops, waiting = set[int](), [-index]
        free = {outputs[0]}
        while waiting:
            op = -heappop(waiting)
            if op in ops:
                continue
            for value in self.steps[op][1]:
                used = any(reader not in ops for reader, _ in self.readers.get(value, ()))
                if value not in free and (used or value in self.ends):
                    return None
            ops.add(op)
            computed = [v for v in self.steps[op][0] if v[1] > 0 and v != inputs[0]]
            for value in computed:
                heappush(waiting, -self.makers[value][0])
        return ops if len(_reached(self.steps, sorted(ops), inputs[0])) == len(ops) else None

    def _overwritten(self, data: Value, ops: set[int]) -> int:
        """The operator that next writes the data's name, apart from some."""
        writers = self.writers[data[0]]
        later = range(bisect_right(writers, self.makers[data][0]), len(writers))
        return next((writers[i] for i in later if writers[i] not in ops), len(self.steps))
