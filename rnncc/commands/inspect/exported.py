"""What `rnncc inspect` tells of a program of torch.export: its operators, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncc.commands.inspect.interface import Report, described
from rnncc.frontends.torch.programs.archives import load_exported
from rnncc.options import Options
from rnncc.sources import NetFile


def inspect(path: NetFile, options: Options) -> Report:
    """The program as plain data, in the form of a net's report.

    Raises:
        CompileError: the file cannot be read.
    """
    program: Any = load_exported(path, str(path))
    return described(path, options, list(_operators(program.graph_module)))


def _operators(module: Any) -> Iterator[Report]:
    """The calls of a graph, those of graphs inside beneath theirs."""
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    for index, node in enumerate(calls):
        parts = [getattr(module, n.target) for n in node.all_input_nodes if n.op == "get_attr"]
        inside = [e for part in parts if hasattr(part, "graph") for e in _operators(part)]
        yield {
            "index": index,
            "type": getattr(node.target, "__name__", None) or str(node.target),
            "name": node.name,
            **({"operators": inside} if inside else {}),
            "inputs": [operand.name for operand in node.all_input_nodes],
            "outputs": [node.name],
        }
