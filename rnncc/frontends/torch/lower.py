# pyright: basic, reportMissingImports=false
"""From a graph of aten operators to ops of `rnn`, one node after another."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.aten import OPERATORS
from rnncc.frontends.torch.site import Site, Value, location
from rnncc.frontends.torch.types import DTYPES, fixed_size
from rnncc.ir.build import Build
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of

LARGEST_CONSTANT = 4096
"""Elements of a tensor that is written into the program."""
SIZES: dict[Any, Callable[[Dim, Dim], Dim]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
}


def lower_graph(
    module: GraphModule,
    b: Build,
    inputs: Sequence[Value],
    size: Callable[[Any], Dim] = fixed_size,
) -> list[Any]:
    """Append a graph's ops.

    Args:
        module: the graph, and the constants that it names.
        inputs: the values of its placeholders, in order.
        size: what a size of a fake tensor is.

    Returns:
        What it returns, in order.

    Raises:
        CompileError: an operator, or a form of it, is not supported; it names the user's line.
    """
    graph: Graph = module.graph
    env: dict[Node, Any] = dict(zip(graph.find_nodes(op="placeholder"), inputs, strict=True))
    for node in graph.nodes:
        match node.op:
            case "get_attr":
                env[node] = _constant(b, node, getattr(module, str(node.target)))
            case "call_function":
                env[node] = _call(b, node, env, size)
            case "output":
                results = node.args[0]
                many = results if isinstance(results, (tuple, list)) else (results,)
                return [env[r] if isinstance(r, Node) else r for r in many]
            case _:
                continue
    raise AssertionError("a graph has no output")


def _call(b: Build, node: Node, env: dict[Node, Any], size: Callable[[Any], Dim]) -> Any:
    values: Any = map_arg((node.args, node.kwargs), lambda n: env[n])
    args, kwargs = values
    if node.target is operator.getitem:
        return args[0][args[1]]
    if node.target in SIZES:
        return _plain(SIZES[node.target](*map(Dim.of, args)))
    if node.target is torch.ops.aten.sym_size.int:
        return _plain(dims_of(args[0])[args[1]])
    site = Site(b, node, size)
    translation = _translation(node)
    if translation is None:
        site.refuse("operator is not supported", _hint(node))
    made = translation(site, *args, **kwargs)
    if isinstance(made, SSAValue):
        made.name_hint = made.name_hint or node.name
    return made


def _translation(node: Node) -> Callable[..., Any] | None:
    """By the operator's full name, else without its overload."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    name = node.target.name().removeprefix("aten::")
    full = name if "." in name else f"{name}.default"
    return OPERATORS.get(full) or OPERATORS.get(name.partition(".")[0])


def _hint(node: Node) -> str:
    name = str(node.target)
    if any(word in name for word in ("dropout", "bernoulli", "rand", "aten.empty")):
        return "draw random numbers outside and give them as inputs"
    return "docs/torch.md lists what is"


def _plain(size: Dim) -> Dim | int:
    return int(size) if size.is_static else size


def _constant(b: Build, node: Node, tensor: torch.Tensor) -> Value:
    b.loc = location(node)
    if tensor.dtype not in DTYPES or tensor.numel() > LARGEST_CONSTANT:
        what = f"a constant of {tensor.numel()} elements of {tensor.dtype}"
        raise CompileError(b.loc, f"{what} is made here", "make it outside")
    return b.constant(tensor.detach().cpu().numpy(), DTYPES[tensor.dtype])
