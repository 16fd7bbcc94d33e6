"""What `rnncc inspect` tells of an ONNX model: its nodes, inputs, outputs and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rnncc.commands.inspect.interface import Report, described
from rnncc.frontends.onnx.reading import graphs_of, load
from rnncc.options import Options
from rnncc.sources import NetFile


def inspect(path: NetFile, options: Options) -> Report:
    """The model as plain data, in the form of a net's report.

    Raises:
        CompileError: the file cannot be read.
    """
    return described(path, options, list(_operators(load(path).graph)))


def _operators(graph: Any) -> Iterator[Report]:
    """The nodes of a graph, those of graphs inside beneath theirs."""
    for index, node in enumerate(graph.node):
        only = type(graph)(node=[node])
        inside = [entry for inner in graphs_of(only) for entry in _operators(inner)]
        yield {
            "index": index,
            "type": node.op_type,
            "name": node.name,
            **({"operators": inside} if inside else {}),
            "inputs": list(node.input),
            "outputs": list(node.output),
        }
