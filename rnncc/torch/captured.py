# pyright: basic, reportMissingImports=false
"""A graph that TorchDynamo made of one step, and the loops that are made of it.

Dynamo calls it with sizes and tensors, in the order of the graph's inputs, wherever its guards
hold. Sizes that it left open are symbols of the loop, so that one loop serves all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.cell import CellStep, Places, scan_program
from rnncc.frontends.torch.checks import without_checks
from rnncc.frontends.torch.graphs import fake_mode
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.numbers.taken_numbers import refuse_taken
from rnncc.frontends.torch.patches import ThreadStack
from rnncc.frontends.torch.trace import KeepsTensors, aten_graph
from rnncc.records import record
from rnncc.torch.changed_states import change_copies
from rnncc.torch.devices import check_tensor
from rnncc.torch.exactness import let_numbers_be_exact
from rnncc.torch.nets import TorchNet
from rnncc.torch.objects.kept import Snapshot
from rnncc.torch.side_effects import counts, leaves_given_tensors
from rnncc.torch.versions import check_begun

Tensors = Sequence[torch.Tensor]
_LEAVES = "a tensor leaves the cell by other ways than its result", "return it as part of y"


@record
class CellCall:
    """A call that is under way.

    Attributes:
        cell: what is called.
        rows, states: stand-ins for what one step takes; their values are never read. States are
            those that are given to the cell, and those that it keeps.
        names: what the states are called.
        is_first: whether the first step has not been done yet.
        plain: the numbers of the states that need no gradient before the first step; None where
            that is known of no tensor.
        reverse: whether the last row comes first.
        precision: of products.
        run: does all steps, given their loop, the numbers of the xs that it takes, the tensors
            that the cell holds and the numbers of the states that steps change in place; None
            where a further step is read, which must be like the one before.
        kept: how many of the states the cell keeps; these are the last.
        counters: the numbers of the states that are numbers of Python's.
        used: the graphs that were met, and what they gave.
        before: what the cell's objects held before a call that leaves numbers there.
    """

    cell: Callable[..., Any]
    rows: Tensors
    states: Tensors
    names: Sequence[str]
    is_first: bool
    plain: frozenset[int] | None
    reverse: bool
    precision: str
    run: Callable[[TorchNet, Sequence[int], Tensors, Collection[int]], Tensors] | None
    kept: int = 0
    counters: frozenset[int] = frozenset()
    used: list[tuple[Captured, Tensors]] = field(default_factory=list["tuple[Captured, Tensors]"])
    before: list[Snapshot] = field(default_factory=list[Snapshot])


class Counts(CompileError):
    """Steps differ by numbers that Python keeps.

    Attributes:
        before: what the cell's objects held before the first step that was read, if that is known.
    """

    before: Snapshot | None = None

    def __init__(self, step: Captured, reading: CellCall) -> None:
        self.before = next(iter(reading.before), None)
        calls = step.graph.graph.nodes
        calls = [node for node in calls if node.op == "call_function"]
        what = "a step changes a number of Python's that the next one reads"
        hint = "carry it in the state, as a tensor"
        super().__init__(location(calls[0]) if calls else "", what, hint)


readings = ThreadStack[CellCall]()


@torch._dynamo.allow_in_graph
def row(x: torch.Tensor) -> torch.Tensor:
    """Marks a row of ys."""
    return x.clone()


@torch._dynamo.allow_in_graph
def state(x: torch.Tensor, place: int) -> torch.Tensor:
    """Marks a state after the step, and where it stands among what the step gives."""
    return x.clone()


def captured(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Tensors]:
    """What Dynamo calls in place of the graph; the examples are what a call gives.

    It is traced now: what the trace asks of open sizes becomes part of Dynamo's guards.
    """
    check_begun()
    try:
        if leaves_given_tensors(also_held=readings.stack[-1].is_first):
            raise KeepsTensors("", *_LEAVES)
        order, ys = _unmark(module)
        fakes = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
        for fake in fakes:
            if isinstance(fake, torch.Tensor):
                check_tensor(fake)
        reading = readings.stack[-1]
        states = _places(examples, reading).states
        changed = change_copies(module, states, len(reading.names) - reading.kept, ys)
        plain = _plain(examples, reading, ys)
        graph = aten_graph(module, fakes, fake_mode(fakes), plain)
        refuse_taken(graph)
        without_checks(graph)
        return Captured(graph, fakes, order, ys, counts(), changed)
    except CompileError as error:
        return _refusal(error.with_traceback(None))


def _refusal(error: CompileError) -> Callable[..., Tensors]:
    def refuse(*arguments: Any) -> Tensors:
        if isinstance(error, KeepsTensors):
            raise _of_call(error, [arguments[i] for i in error.changed])
        raise error

    return refuse


def _of_call(error: KeepsTensors, changed: Tensors) -> CompileError:
    """The error for a call, whose rows and states no step may change."""
    reading = readings.stack[-1]
    stand_ins = {id(x) for x in (*reading.rows, *reading.states)}
    if not stand_ins.isdisjoint(map(id, changed)):
        what = "a step changes a row in place, which is part of the caller's tensor"
        return CompileError(error.location, what, "x = x + 1, not x += 1")
    refusal = KeepsTensors(error.location, error.what, error.hint)
    refusal.tensors = changed
    return refusal


def _places(arguments: Sequence[Any], reading: CellCall) -> Places:
    places = {id(x): i for i, x in enumerate(arguments)}
    rows = [places.get(id(x)) for x in reading.rows]
    states = [places.get(id(x)) for x in reading.states]
    known = {*rows, *states}
    tensors = (i for i, x in enumerate(arguments) if isinstance(x, torch.Tensor))
    return Places(rows, states, [i for i in tensors if i not in known])


def _plain(arguments: Sequence[Any], reading: CellCall, ys: int) -> dict[int, int | None]:
    """Which inputs of a graph need no gradient, and which results take the places of states.

    Of what the cell holds Dynamo notices where that changes.
    """
    if reading.plain is None:
        return {}
    places = _places(arguments, reading)
    plain: dict[int, int | None] = {i: None for i in places.held if not arguments[i].requires_grad}
    states = [places.states[number] for number in reading.plain]
    return plain | {
        at: ys + n for n, at in zip(reading.plain, states, strict=True) if at is not None
    }


@dataclass(eq=False)
class Captured:
    """A traced graph.

    Attributes:
        inputs: what it takes, as fakes and symbols.
        order: where each result of Dynamo's graph is among the tensors of a loop.
        ys: how many rows it gives, before the next states.
        counts: whether the step leaves numbers in Python's objects.
        changed: the numbers of the states that it changes in place.
    """

    graph: GraphModule
    inputs: Sequence[Any]
    order: Sequence[int]
    ys: int
    counts: bool
    changed: frozenset[int]
    places: Places | None = None
    loops: dict[Any, TorchNet] = field(default_factory=dict[Any, TorchNet])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, *arguments: Any) -> Tensors:
        reading = readings.stack[-1]
        if self.counts and not reading.before:  # what the step leaves is put there behind this
            reading.before.append(Snapshot(reading.cell))
        if reading.run is None:
            known, ordered = reading.used[-1]
            if known is not self and str(known.graph.graph) != str(self.graph.graph):
                raise Counts(self, reading)
            reading.used.append((self, ordered))
            return ordered
        places = self.places
        if places is None:
            places = self.places = _places(arguments, reading)
        kinds = _unguarded(reading, places)
        loop = self.loops.get(kinds) or self._made(kinds, reading, places)
        held = [arguments[i] for i in places.held]
        results = reading.run(loop, places.taken, held, self.changed)
        ordered = [results[i] for i in self.order]
        reading.used.append((self, ordered))
        return ordered

    def _made(self, kinds: Any, reading: CellCall, places: Places) -> TorchNet:
        with self.lock:
            if kinds not in self.loops:
                step = self._step(reading, places)
                program, dtypes = scan_program(step, reading.reverse)
                self.loops[kinds] = TorchNet.of(program, dtypes, reading.precision)
            return self.loops[kinds]

    def _step(self, reading: CellCall, places: Places) -> CellStep:
        results: Any = self.graph.graph.output_node().args[0]
        before, after = len(reading.states), len(results) - self.ys
        if before != after:
            what = f"the state has {before} tensors before a step and {after} after it"
            hint = "what a cell returns second is the whole state: `return h, (h, c)`"
            raise CompileError("", what, hint)
        counters = [places.states[number] for number in reading.counters]
        let_numbers_be_exact(self.graph, counters)
        taken = places.taken
        rows = [reading.rows[i] for i in taken], [places.rows[i] for i in taken]
        row_types, state_types = (
            [x if at is None else self.inputs[at] for x, at in zip(kind, indices, strict=True)]
            for kind, indices in (rows, (reading.states, places.states))
        )
        return CellStep(
            self.graph, self.inputs, places, row_types, state_types, reading.names, self.ys
        )


def _unguarded(reading: CellCall, places: Places) -> Any:
    """What a loop depends on besides: of what a cell does not read, Dynamo notices no change."""
    unread_rows, unread_states = places.unread
    return (
        reading.reverse,
        reading.precision,
        *[(x.dim(), x.dtype) for x in map(reading.rows.__getitem__, unread_rows)],
        *[(x.shape, x.dtype) for x in map(reading.states.__getitem__, unread_states)],
    )


def _unmark(module: GraphModule) -> tuple[list[int], int]:
    """Take the marks away, put rows first, then states by their places.

    Returns:
        Where each result is now, and how many rows there are.
    """
    graph = module.graph
    output = graph.output_node()
    results: Any = output.args[0]
    nodes: list[Node] = list(results)
    for node in nodes:
        if node.target not in (row, state):
            if isinstance(node.meta.get("example_value"), torch.Tensor):
                raise KeepsTensors(location(node), *_LEAVES)
            raise CompileError(location(node), "a size that is open leaves the cell")
    places = [-1 if node.target is row else int(str(node.args[1])) for node in nodes]
    order = sorted(range(len(nodes)), key=places.__getitem__)
    output.args = (tuple(nodes[i].args[0] for i in order),)
    for node in nodes:
        graph.erase_node(node)
    module.recompile()
    return [order.index(i) for i in range(len(nodes))], sum(n.target is row for n in nodes)
