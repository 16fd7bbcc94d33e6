# pyright: basic, reportMissingImports=false
"""The back end `rnncc` of torch.compile: graphs with recurrent layers or cells are compiled.

Everything else stays with PyTorch, which is said once for each reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.interface import complex_ones, declared, given_out
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.recurrent_op import recurrent_kind
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.trace import aten_graph, fake_mode
from rnncc.ir.builder import Builder
from rnncc.nn.complex_numbers import Complex
from rnncc.torch.autograd import apply
from rnncc.torch.devices import check_tensor
from rnncc.torch.nets import TorchNet

MOST_CELLS = 16
"""Calls of cells in one graph; more are a loop that was unrolled, for which `scan` is the way."""
CELLS = (torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell)

_said: set[str] = set()


def backend(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    """A graph's compiled form, or the graph itself where it is left to PyTorch."""
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    layers = sum(recurrent_kind(target) is not None for target in targets)
    cells = sum(target in CELLS for target in targets)
    if not layers and not cells:
        return _left(module, "a graph holds no recurrent layer or cell")
    if cells > MOST_CELLS:
        return _left(module, f"a graph holds {cells} calls of cells: rnncc.torch.scan is a loop")
    try:
        return _compiled(module)
    except CompileError as error:
        return _left(module, str(error))


def _left(module: GraphModule, reason: str) -> Callable[..., Any]:
    if reason not in _said:
        _said.add(reason)
        warnings.warn(f"rnncc leaves it to PyTorch: {reason}", stacklevel=2)
    return module.forward


def _compiled(module: GraphModule) -> Callable[..., Any]:
    fakes = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
    for fake in fakes:
        if isinstance(fake, torch.Tensor):
            check_tensor(fake)
    graph = aten_graph(module, fakes, fake_mode(fakes))
    b, sizes = Builder.net("graph"), Sizes()

    def value_of(number: int, fake: Any) -> Any:
        if not isinstance(fake, torch.Tensor):
            return sizes(fake)
        return declared(b, b.input, f"x{number}", fake, [sizes(size) for size in fake.shape])

    values = [value_of(number, fake) for number, fake in enumerate(fakes)]
    made = lower_graph(graph, b, values, sizes, Random(b))
    if not all(isinstance(value, (SSAValue, Complex)) for value in made):
        raise CompileError("", "a graph gives what is no tensor")
    outputs = {f"y{i}": value for i, value in enumerate(made)}
    net = TorchNet.of(b.finish(given_out(b, outputs)), complex_ones(outputs))

    def run(*given: Any) -> list[torch.Tensor]:
        return apply(net, [x for x in given if isinstance(x, torch.Tensor)])

    return run
