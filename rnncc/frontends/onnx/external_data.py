"""Which files beside an ONNX model hold data of its tensors.

In: a message and its path. Out: paths in the model's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rnncc.frontends.onnx.reading import EXTERNAL, graphs_of, path_inside
from rnncc.sources import is_regular

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto


def external_files(model: ModelProto, folder: Path) -> list[Path]:
    """The files that a model's tensors lie in, as far as they are there."""
    names = dict[str, None]()
    waiting: list[Any] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        waiting += graphs_of(graph)
        for tensor in _tensors_of(graph):
            if tensor.data_location == EXTERNAL:
                entries: list[tuple[Any, Any]] = [(e.key, e.value) for e in tensor.external_data]
                # protobuf hands bytes out where a string field is not UTF-8
                texts = (v for k, v in entries if k == "location" and isinstance(v, str))
                names.update(dict.fromkeys(texts))
    paths = [path_inside(folder, name) for name in names]
    return [path for path in paths if path is not None and is_regular(path)]


def _tensors_of(graph: Any) -> Iterator[TensorProto]:
    """The tensors of a graph or function and its nodes, but for those of graphs in them."""
    yield from getattr(graph, "initializer", ())
    sparse = [*getattr(graph, "sparse_initializer", ())]
    for attribute in (a for node in graph.node for a in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        sparse += attribute.sparse_tensor, *attribute.sparse_tensors
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
