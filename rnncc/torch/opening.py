# pyright: basic, reportMissingImports=false
"""Leaves open how often the loops of a graph run, so that graphs of all lengths are one program.

TorchDynamo reads a loop of Python for each length anew, and guards it. What is traced here has
the length at hand as a symbol with that value: whatever the trace asks of it holds for this graph,
and a program of another length is another text where that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from rnncc.frontends.torch.unrolled.editor import NEAR
from rnncc.frontends.torch.unrolled.view import known, value_of
from rnncc.records import record
from rnncc.sizes import BATCH, TIME

SCAN = torch.ops.higher_order.scan


@record
class OpenedInputs:
    """Stand-ins for a graph's inputs.

    Attributes:
        inputs: fakes and sizes, in order.
        mode: the mode that the fakes are of.
        names: what their symbols are called.
        old: the graph's own symbols behind ours.
        hints: the values of symbols that the graph does not have.
    """

    inputs: Sequence[Any]
    mode: FakeTensorMode
    names: dict[str, str]
    old: dict[Any, Any]
    hints: dict[Any, Any]

    def guard(self) -> None:
        """Let TorchDynamo guard what was asked of sizes that it left open."""
        if not self.old:
            return
        env = next(iter(self.old.values())).node.shape_env
        replaced = {new: size.node.expr for new, size in self.old.items()} | self.hints
        assert self.mode.shape_env is not None
        for guard in self.mode.shape_env.guards:
            if guard.expr.free_symbols & set(self.old):
                env.evaluate_expr(guard.expr.xreplace(replaced))


def opened(module: GraphModule) -> OpenedInputs | None:
    """Stand-ins that leave open the sizes that tell how often loops run; None if there are none."""
    places = module.graph.find_nodes(op="placeholder")
    axes = {place: _axes(place, lengths) for place, lengths in _lengths(module).items()}
    if not any(axes.values()):
        return None
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env)
    symbols = _Symbols(env)

    def stand_in(place: Node) -> Any:
        value = value_of(place)
        if not isinstance(value, torch.Tensor):
            return symbols.like(value)
        free = axes.get(place, ())
        shape = [
            symbols.new(size) if axis in free else symbols.like(size)
            for axis, size in enumerate(value.shape)
        ]
        with mode:
            return torch.empty(shape, dtype=value.dtype, device=value.device)

    inputs = [stand_in(place) for place in places]
    return OpenedInputs(inputs, mode, symbols.names, symbols.old, symbols.hints)


class _Symbols:
    """Symbols of a set of shapes of its own, for those of a graph and for new ones."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.names = dict[str, str]()
        self.old = dict[Any, Any]()
        self.hints = dict[Any, Any]()
        self._known = dict[Any, Any]()

    def like(self, size: Any) -> Any:
        """What stands for a size of the graph; those of symbols alone come first."""
        if not isinstance(size, torch.SymInt) or (number := known(size)) is not None:
            return size if not isinstance(size, torch.SymInt) else number
        expression = size.node.expr
        if isinstance(expression, sympy.Symbol) and expression not in self._known:
            _, symbol = self._made(BATCH, size.node.hint)
            self._known[expression], self.old[symbol] = symbol, size
        symbol = expression.xreplace(self._known)
        return self.env.create_symintnode(symbol, hint=size.node.hint)

    def new(self, size: Any) -> Any:
        """A symbol for a size that the graph fixes; one for all of that size."""
        number = int(size)
        if number not in self._known:
            stand_in, symbol = self._made(TIME, number)
            self.hints[symbol], self._known[number] = sympy.Integer(number), stand_in
        return self._known[number]

    def _made(self, letter: str, hint: int) -> tuple[Any, Any]:
        count = sum(name.startswith(letter) for name in self.names.values())
        name = f"{letter}{count + 1 if count else ''}"
        source = ConstantSource(f"rnncc_{name}")
        symbol = self.env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
        self.names[str(symbol)] = name
        return self.env.create_symintnode(symbol, hint=hint, source=source), symbol


def _lengths(module: GraphModule) -> dict[Node, set[int]]:
    """The inputs that loops read rows of, and how many rows."""
    lengths_of = dict[Node, set[int]]()
    for scan in module.graph.find_nodes(op="call_function", target=SCAN):
        rows: Any = scan.args[2]
        lengths = {known(value_of(x).shape[0]) for x in rows if value_of(x).dim()}
        for place in _sources(rows):
            lengths_of.setdefault(place, set()).update(n for n in lengths if n is not None)
    return lengths_of


def _sources(nodes: Sequence[Node]) -> list[Node]:
    """The inputs, other than parameters, that some nodes are computed from."""
    seen, waiting = set[Node](), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.all_input_nodes
    return [node for node in seen if node.op == "placeholder" and _is_given(value_of(node))]


def _is_given(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)


def _axes(place: Node, lengths: set[int]) -> list[int]:
    """The axes that are as long as a loop, else those a little longer."""
    sizes = [known(size) for size in value_of(place).shape]
    for most in (0, NEAR):
        longer = {n + more for n in lengths for more in range(most + 1)}
        if axes := [i for i, size in enumerate(sizes) if size in longer]:
            return axes
    return []
