# pyright: basic, reportMissingImports=false
"""What nodes of any graph of PyTorch have in common: names, results, and the leaves of arguments.

Graphs are those of TorchDynamo (functions and methods of PyTorch) or of aten operators.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from rnncc.frontends.torch.graphs import held_graph

Path = int | None
"""Which of several results, or the only one."""


def value_of(node: Node) -> Any:
    """A node's result: a fake tensor, a tuple of them, a size."""
    return node.meta.get("val", node.meta.get("example_value"))


def with_value(meta: dict[str, Any], value: Any) -> dict[str, Any]:
    """What is known of a node, but of another result."""
    return {**meta, "example_value" if "example_value" in meta else "val": value}


def parts_of(value: Any) -> Sequence[Any]:
    """The results of a node that has several, or the only one."""
    return value if isinstance(value, (tuple, list)) else (value,)


def results_of(module: GraphModule) -> Sequence[Any]:
    """The nodes and constants that a graph gives."""
    return parts_of(module.graph.output_node().args[0])


def name_of(node: Node) -> str:
    """What a node calls: `select` for the method, the function and the operator."""
    target: Any = node.target
    if isinstance(target, str):
        return target if node.op == "call_method" else ""
    return name_of_function(target)


def name_of_function(target: Any) -> str:
    """The same of a function or an operator."""
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.partition("::")[2]
    return getattr(target, "__name__", "")


def is_call(node: Node) -> bool:
    """Whether a node computes something."""
    return node.op in ("call_function", "call_method")


def producer(node: Node) -> tuple[Node, Path]:
    """A node and the one of its results that another node names."""
    if node.target is operator.getitem:
        source, which = node.args[:2]  # a list of nodes stands there itself
        if isinstance(source, Node) and isinstance(which, int) and _has_parts(source):
            return source, which
    return node, None


def _has_parts(node: Node) -> bool:
    """Whether a node has several results."""
    return isinstance(value_of(node), (tuple, list))


def leaves_of(node: Node) -> list[Any]:
    """Nodes and values in a node's arguments, in order."""
    leaves = list[Any]()
    map_aggregate((node.args, node.kwargs), leaves.append)
    return leaves


def with_leaves(node: Node, new: Callable[[int], Any]) -> tuple[Any, Any]:
    """The arguments with other leaves, which go by their numbers."""
    numbers = iter(range(len(leaves_of(node))))
    arguments: Any = map_aggregate((node.args, node.kwargs), lambda _: new(next(numbers)))
    return arguments


def arguments_of(node: Node, **names: Any) -> dict[str, Any]:
    """Arguments behind the first one, by name, and their defaults; `axis` is NumPy's `dim`."""
    positional = dict(zip(names, node.args[1:], strict=False))
    named = {"dim" if key == "axis" else key: x for key, x in node.kwargs.items()}
    return {**names, **positional, **{key: x for key, x in named.items() if key in names}}


def is_number(leaf: Any) -> bool:
    """Whether a leaf is a number, which may differ between repeats."""
    return type(leaf) in (int, float)


def type_of(value: Any) -> str:
    """Shapes and dtypes of a result; '' for what is neither a tensor nor several of them.

    Some of several may be None, as weights of attention that nobody asked for are.
    """
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{[str(size) for size in value.shape]}"
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        parts = ["None" if part is None else type_of(part) for part in value]
        has_tensor = any(part is not None for part in value)
        return "(" + ",".join(parts) + ")" if has_tensor and all(parts) else ""
    return ""


def known(size: Any) -> int | None:
    """A size that is a number."""
    return size.node.maybe_as_int() if isinstance(size, torch.SymInt) else int(size)


def text_of(module: GraphModule) -> str:
    """A graph's text, by which equal ones are known; constants are compared by identity."""
    numbers = {node: f"%{i}" for i, node in enumerate(module.graph.nodes)}

    def leaf(x: Any) -> str:
        inner = held_graph(x)
        return text_of(inner) if inner is not None else numbers.get(x) or repr(x)

    def line(node: Node) -> str:
        named = node.op in ("placeholder", "output")
        target = "" if named else repr(node.target)
        if node.op == "get_attr":
            target = "graph" if held_graph(node) else f"tensor {id(_attribute(module, node))}"
        return f"{node.op} {target} {map_aggregate((node.args, node.kwargs), leaf)}"

    return "\n".join(line(node) for node in module.graph.nodes)


def _attribute(module: GraphModule, node: Node) -> Any:
    return operator.attrgetter(str(node.target))(module)
