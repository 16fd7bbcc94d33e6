# pyright: basic, reportMissingImports=false
"""Reading a cell as a graph, with guards.

TorchDynamo reads the cell's Python once. It finds every tensor that the cell reads and hands them
over at each call, and it notices when something else that the cell depends on has changed; then it
reads again.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch._dynamo
from torch._dynamo.exc import TorchDynamoException
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from rnncc.errors import CompileError, Location
from rnncc.frontends.torch.cell import Step, scan_program
from rnncc.frontends.torch.site import LINE, location
from rnncc.frontends.torch.trace import aten_graph
from rnncc.torch.nets import TorchNet, check_tensor, is_wide

_RAISED = re.compile(r"raised exception (.+)")
_GOT = re.compile(r"got (\w+\(.+\))")
VARIANTS = 1 << 12
"""How often a cell is read anew for other shapes or settings."""

Tensors = Sequence[torch.Tensor]


@dataclass(frozen=True)
class Reading:
    """A call that is under way.

    Attributes:
        rows, states: stand-ins for what one step takes; their values are never read.
        reverse: whether the last row comes first.
        run: does all steps, given their loop and the tensors that the cell holds.
    """

    rows: Tensors
    states: Tensors
    reverse: bool
    run: Callable[[TorchNet, Tensors], Tensors]


class _Readings(threading.local):
    def __init__(self) -> None:
        self.stack: list[Reading] = []


_readings = _Readings()
_readers: WeakKeyDictionary[Any, Callable[..., Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def read(cell: Callable[..., Any], rows: Any, state: Any, reading: Reading) -> tuple[Any, Any]:
    """What the cell returns for rows and state, with results of `reading.run` as its tensors.

    Raises:
        CompileError: the cell cannot be read.
    """
    _readings.stack.append(reading)
    try:
        return _reader(cell)(cell, rows, state)
    except TorchDynamoException as error:
        text = str(error)
        raise CompileError(_where(cell, text), _reason(text)) from error
    finally:
        _readings.stack.pop()


@torch._dynamo.allow_in_graph
def _row(x: torch.Tensor) -> torch.Tensor:
    """Marks a row of ys."""
    return x.clone()


@torch._dynamo.allow_in_graph
def _state(x: torch.Tensor) -> torch.Tensor:
    """Marks a state after the step."""
    return x.clone()


def _row_or_none(x: Any) -> Any:
    return None if x is None else _row(x)


def _step(cell: Callable[..., Any], rows: Any, state: Any) -> tuple[Any, Any]:
    y, new = cell(rows, state)
    return pytree.tree_map(_row_or_none, y), pytree.tree_map(_state, new)


def _reader(cell: Callable[..., Any]) -> Callable[..., Any]:
    """`_step` with guards of its own for each cell."""
    key = _code(cell)
    with _lock:
        found = _readers.get(key)
        if found is None:
            own = FunctionType(_step.__code__.replace(co_name=_name(cell)), globals())
            options: Any = {"fullgraph": True, "dynamic": False, "recompile_limit": VARIANTS}
            found = _readers[key] = torch.compile(own, backend=_backend, **options)
        return found


def _code(cell: Any) -> Any:
    """What cells that are alike have in common."""
    function = getattr(cell, "__func__", cell)
    return getattr(function, "__code__", type(cell))


def _name(cell: Any) -> str:
    return getattr(cell, "__qualname__", None) or type(cell).__qualname__


def _backend(module: GraphModule, examples: list[torch.Tensor]) -> Callable[..., Any]:
    return _Captured(module)


_Holding = tuple[TorchNet, Sequence[int]]
"""A loop, and which of a graph's inputs are tensors that the cell holds."""


@dataclass(eq=False)
class _Captured:
    """A graph that Dynamo calls with tensors in place of the cell."""

    module: GraphModule
    order: Sequence[int] = ()
    rows: int = 0
    loops: dict[Any, _Holding] = field(default_factory=dict[Any, "_Holding"])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        reading = _readings.stack[-1]
        kinds = reading.reverse, *((x.shape, x.dtype) for x in (*reading.rows, *reading.states))
        loop, held = self.loops.get(kinds) or self._make(kinds, tensors, reading)
        made = reading.run(loop, [tensors[i] for i in held])
        return [made[i] for i in self.order]

    def _make(self, kinds: Any, tensors: Tensors, reading: Reading) -> _Holding:
        """Of what the cell does not read, Dynamo notices no change: hence a loop for all kinds."""
        with self.lock:
            if not self.order:
                self.order, self.rows = _unmark(self.module)
            if kinds not in self.loops:
                step = _step_of(self.module, tensors, reading, self.rows)
                values = [node.meta.get("val") for node in step.graph.graph.nodes]
                wide = is_wide([*step.row_types, *step.state_types, *step.inputs, *values])
                program = scan_program(step, reading.reverse)
                self.loops[kinds] = TorchNet.of(program, wide), step.held
            return self.loops[kinds]


def _step_of(module: GraphModule, tensors: Tensors, reading: Reading, ys: int) -> Step:
    for tensor in tensors:
        check_tensor(tensor)
    places = {id(tensor): i for i, tensor in enumerate(tensors)}
    rows = [places.get(id(x)) for x in reading.rows]
    states = [places.get(id(x)) for x in reading.states]
    held = [i for i in range(len(tensors)) if i not in (*rows, *states)]
    examples = [torch.empty_like(t, requires_grad=False) for t in tensors]
    graph = aten_graph(module, examples)
    results: Any = graph.graph.output_node().args[0]
    if len(results) - ys != len(states):
        what = f"the state has {len(states)} tensors before a step and {len(results) - ys} after it"
        raise CompileError("", what)
    return Step(graph, rows, states, held, examples, reading.rows, reading.states, ys)


def _unmark(module: GraphModule) -> tuple[list[int], int]:
    """Take the marks away, put rows first: where each result is now, and how many rows."""
    graph = module.graph
    output = graph.output_node()
    results: Any = output.args[0]
    nodes: list[Node] = list(results)
    for node in nodes:
        if node.target not in (_row, _state):
            what = "a tensor leaves the cell by other ways than its result"
            raise CompileError(location(node), what, "return it as part of y")
    order = sorted(range(len(nodes)), key=lambda i: nodes[i].target is _state)
    output.args = (tuple(nodes[i].args[0] for i in order),)
    for node in nodes:
        graph.erase_node(node)
    module.recompile()
    return [order.index(i) for i in range(len(nodes))], sum(n.target is _row for n in nodes)


def _where(cell: Any, text: str) -> Location:
    """The user's line in Dynamo's message, or the cell's name."""
    lines = [(file, line) for file, line in LINE.findall(text) if file != __file__]
    return Location(":".join(lines[-1]) if lines else "", _name(cell))


def _reason(text: str) -> str:
    """What Dynamo's message says is wrong, without its advice."""
    for pattern in (_RAISED, _GOT):
        if found := pattern.search(text):
            return found.group(1)
    head, _, rest = text.partition("\n")
    explained = rest.strip().split("\n")[0]
    return f"{head}: {explained.removeprefix('Explanation: ')}" if explained else head
