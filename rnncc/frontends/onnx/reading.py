"""ONNX files: read, bounded, and with external data from nowhere but the model's own folder.

In: a path, bytes or a ModelProto. Out: a message, and the arrays of its tensors on demand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rnncc.errors import CompileError, Location
from rnncc.formats import kind_of, starts_as_onnx
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.texts import texts_of
from rnncc.records import record
from rnncc.sources import (
    HINT,
    called,
    check_message,
    check_name,
    head,
    is_regular,
    limit,
    note,
    read_bytes,
)

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

Array = np.ndarray[Any, np.dtype[Any]]

MAX_STORED = 1 << 31
"""How many elements one tensor may have."""
MAX_SPARSE = 1 << 26
"""How many elements a sparse tensor may have, zeros among them: its file holds none of these."""
MAX_NODES = 30_000
"""How many nodes are read, those of functions each time that they are called."""
MAX_NAMES = 300_000
"""Of all graphs: names of values, attributes, graphs and functions; so many are read in seconds."""
MAX_DEPTH = 24
"""How many graphs may stand inside each other."""
OLDEST_OPSET = 6
"""What it says otherwise than opset 7 is in `opset6.py`."""
EXTERNAL = 1
"""The `data_location` of tensors whose data lies in another file."""
SUFFIX = ".onnx"
_FIELDS = "float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data"
"""Where a tensor's data lies in a model but as `raw_data`."""
_PACKED = re.compile(r"(?:U?INT|FLOAT)([246])(?:$|E)")
"""Names of types of less than a byte, whose numbers share bytes in a file, and how many bits."""


def is_onnx(source: object) -> bool:
    """Whether something is an ONNX model: by its suffix, its message's name, or its first bytes."""
    if isinstance(source, (str, Path)):
        return Path(source).suffix == SUFFIX or starts_as_onnx(_head(Path(source)))
    if isinstance(source, bytes):
        return starts_as_onnx(source[:64])
    descriptor = getattr(source, "DESCRIPTOR", None)
    return getattr(descriptor, "full_name", "") == "onnx.ModelProto"


def _head(path: Path) -> bytes:
    """The first bytes of a file without a suffix that tells; nothing of others."""
    return head(path, 64) if path.suffix in ("", ".bin", ".model") else b""


def onnx_package() -> Any:
    """The package `onnx`, imported only where a model is one of its own.

    Raises:
        CompileError: it is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        what = "ONNX models need the package onnx"
        raise CompileError("", what, "pip install 'rnncc[onnx]'") from error
    return onnx


def load(source: object) -> ModelProto:
    """Read a model; `source` as for `rnncc.compile`.

    Raises:
        CompileError: no such file, damaged, or with an opset that is not read.
    """
    onnx = onnx_package()
    name = called(source, "<model>")
    if isinstance(source, (str, Path, bytes)):
        data = source if isinstance(source, bytes) else read_bytes(Path(source))
        model = _parse(onnx, data, name)
    else:
        model = cast("ModelProto", source)
    if not model.HasField("graph"):
        raise CompileError(name, "holds no graph", "is it an ONNX model?")
    _check_graphs(model, name)
    _check_opset(onnx, model, name)
    return model


def _parse(onnx: Any, data: bytes, name: str) -> ModelProto:
    from google.protobuf.message import DecodeError  # `is_onnx` is asked of any file

    if not data:
        raise CompileError(name, "is empty", "an ONNX model is expected")
    check_message(data, name)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError) as error:
        what, hint = "is no ONNX model, or a damaged one", None
        if kind := kind_of(data):
            what, hint = f"is no ONNX model but {kind[0]}", kind[1]
        raise CompileError(name, what, hint) from error
    return model


def _check_graphs(model: ModelProto, name: str) -> None:
    """Raise `CompileError` for too many nodes, graphs too deep in others, or unreadable names."""
    level, nodes, names = [model.graph, *model.functions], 0, len(model.functions)
    for _ in range(MAX_DEPTH):
        nodes += sum(len(graph.node) for graph in level)
        if nodes > MAX_NODES:  # each takes a thousand bytes as soon as Python sees it
            raise CompileError(name, f"has {nodes} nodes; at most {MAX_NODES} are read")
        names += sum(map(_count_names, level))
        if names > MAX_NAMES:
            what = f"has more than {MAX_NAMES} names of values, attributes and graphs"
            raise CompileError(name, what, "so many are read")
        for graph in level:
            _check_text(graph, name)
        level = [inner for graph in level for inner in graphs_of(graph)]
        if not level:
            return
    raise CompileError(name, f"has graphs inside each other, more than {MAX_DEPTH} deep")


def _count_names(graph: Any) -> int:
    """How many names of values, attributes and graphs a graph or function has."""
    lists = [getattr(graph, part, ()) for part in ("initializer", "input", "output")]
    lists += [part for node in graph.node for part in (node.input, node.output, node.attribute)]
    count = sum(map(len, lists))
    if count > MAX_NAMES:  # enough is known, and looking at each attribute would take long
        return count
    return count + sum(len(a.graphs) for node in graph.node for a in node.attribute)


def _check_text(graph: Any, name: str) -> None:
    """Raise `CompileError` unless every name in a graph or function is readable text."""
    lists: list[Any] = []
    for node in graph.node:
        lists += [node.input, node.output, (node.name, node.op_type, node.domain)]
        lists.append([a.name for a in node.attribute] + [a.ref_attr_name for a in node.attribute])
    for part in ("initializer", "input", "output"):
        entries = getattr(graph, part, ())
        lists.append([e if isinstance(e, (str, bytes)) else e.name for e in entries])
    lists.append([sparse.values.name for sparse in getattr(graph, "sparse_initializer", ())])
    for text in (text for names in lists for text in names):
        check_name(text, name)


def graphs_of(graph: Any) -> Iterator[GraphProto]:
    """The graphs that a graph's or function's nodes hold."""
    for node in graph.node:
        yield from graphs_in(node)


def graphs_in(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _check_opset(onnx: Any, model: ModelProto, name: str) -> None:
    newest = onnx.defs.onnx_opset_version()
    opset = opsets_of(model).get("")
    if opset is None and any(not node.domain for node in model.graph.node):
        raise CompileError(name, "does not say which opset its operators are of")
    if opset is not None and not OLDEST_OPSET <= opset <= newest:
        what = f"is of opset {opset}; {OLDEST_OPSET} to {newest} are read"
        raise Unsupported(name, what, "onnx.version_converter changes it")


def opsets_of(model: Any) -> dict[str, int]:
    """Domain -> the version of its operators that a model or function is written in."""
    return {plain_domain(entry.domain): entry.version for entry in model.opset_import}


def place_of(op: NodeProto, index: int) -> str:
    """A node in messages."""
    name = op.name or next(filter(None, op.output), "")
    return f"node {repr(name[:80]) if name else index} ({op.op_type[:80]})"


def plain_domain(domain: str) -> str:
    """A domain; the standard's, which has two names, is empty."""
    return "" if domain == "ai.onnx" else domain


class Tensors:
    """Arrays of a model's tensors.

    Args:
        source: the model as it was given; external data is looked for beside a path alone.
    """

    def __init__(self, source: object) -> None:
        self.folder = Path(source).parent if isinstance(source, (str, Path)) else None
        self._regions = dict[_FileRange, bytes]()
        self._counted, self._total = set[tuple[str, _FileRange]](), 0
        self._helper = onnx_package().numpy_helper

    @property
    def outside(self) -> int:
        """The bytes of tensors in other files, of those that were read."""
        return self._total

    def array(self, tensor: TensorProto, location: Location | str) -> Array:
        """A tensor's array, read-only where it can be.

        Raises:
            CompileError: damaged, of a type that has no numbers, too large, or not to be found.
        """
        onnx = onnx_package()
        shown = f'tensor "{tensor.name}"' if tensor.name else "a tensor"
        kinds = onnx.TensorProto.DataType
        if tensor.data_type not in kinds.values() or tensor.data_type == kinds.UNDEFINED:
            raise CompileError(location, f"{shown} has the unknown type {tensor.data_type}")
        dims = list(tensor.dims)
        if min(dims, default=0) < 0:
            raise CompileError(location, f"{shown} has the shape {dims}")
        if prod(dims) > MAX_STORED:
            raise CompileError(location, f"{shown} of shape {dims} is too large")
        if tensor.data_location == EXTERNAL:
            return self._external(tensor, location, shown)
        filled = [field for field in _FIELDS if getattr(tensor, field)]
        filled += ["raw_data"] if tensor.HasField("raw_data") else []
        if len(filled) > 1:
            what = f"{shown} has its data twice, in {' and '.join(filled)}"
            raise CompileError(location, what, "ONNX allows one field")
        try:
            if tensor.data_type == kinds.STRING:
                return texts_of([bytes(text).decode() for text in tensor.string_data], dims)
            return self._helper.to_array(tensor)
        except (ValueError, TypeError, OverflowError) as error:
            raise CompileError(location, f"{shown} is damaged: {error}") from error

    def dense(self, sparse: SparseTensorProto, location: Location | str) -> Array:
        """A sparse tensor's array, with its zeros.

        Raises:
            CompileError: damaged, or too large.
        """
        shown, dims = f'sparse tensor "{sparse.values.name}"', list(sparse.dims)
        if min(dims, default=0) < 0 or prod(dims) > MAX_SPARSE:
            raise CompileError(location, f"{shown} of shape {dims} is too large, or negative")
        values = self.array(sparse.values, location).reshape(-1)
        places = self.array(sparse.indices, location)
        array = np.zeros(dims, values.dtype)
        try:
            if places.ndim == 2:
                places = np.ravel_multi_index(list(places.T), dims)
            if not len(values) == places.size == len(np.unique(places)):
                raise ValueError(
                    f"{len(values)} values have {places.size} places, or some share one"
                )
            if np.min(places, initial=0) < 0:
                raise ValueError("an index is below 0")
            array.reshape(-1)[places] = values
        except (ValueError, TypeError, IndexError) as error:
            raise CompileError(location, f"{shown} is damaged: {error}") from error
        return array

    def _external(self, tensor: TensorProto, location: Location | str, shown: str) -> Array:
        entries: dict[Any, Any] = {entry.key: entry.value for entry in tensor.external_data}
        # protobuf hands bytes out where a string field is not UTF-8
        if not all(isinstance(text, str) for pair in entries.items() for text in pair):
            raise CompileError(location, f"{shown} has damaged external data")
        path = self._inside(entries.get("location", ""), location, shown)
        onnx = onnx_package()
        packed = _PACKED.match(onnx.TensorProto.DataType.Name(tensor.data_type))
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        bits = int(packed[1]) if packed else 8 * dtype.itemsize
        if bits == 6:
            raise CompileError(location, f"{shown} has numbers of 6 bits, which are not supported")
        if dtype.kind == "O":
            raise CompileError(location, f"{shown} has texts in another file")
        size = -(-prod(tensor.dims) * bits // 8)
        offset, length = (_number(entries.get(k, d)) for k, d in (("offset", 0), ("length", size)))
        if offset is None or length != size:
            raise CompileError(location, f"{shown} of {size} bytes has damaged external data")
        region = _FileRange(path, offset, size)
        self._count(tensor.name, region, location)
        try:
            if region not in self._regions:
                note(path)
                self._regions[region] = region.read()
        except OSError as error:
            what = f"{shown}: cannot read {path.name}: {error.strerror}"
            raise CompileError(location, what) from error
        except EOFError as error:
            what = f"{shown} wants {size} bytes from {offset} on of {path.name}, of {error}"
            raise CompileError(location, what) from error
        data = self._regions[region]
        if packed:
            held = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data)
            return self._helper.to_array(held)
        return np.frombuffer(data, dtype).reshape(tuple(tensor.dims))

    def _count(self, name: str, region: _FileRange, location: Location | str) -> None:
        """Raise `CompileError` if all tensors in other files are larger than an input may be.

        Tensors over one region count each, although they share what is read: as weights of the
        compiled model they lie apart.
        """
        if (name, region) not in self._counted:
            self._counted.add((name, region))
            self._total += region.size
            if self._total > limit():
                what = f"the model's tensors in other files take more than {limit()} bytes"
                raise CompileError(location, what, HINT)

    def _inside(self, text: str, location: Location | str, shown: str) -> Path:
        """A path that stays in the model's folder, followed through links."""
        if self.folder is None:
            hint = "give the model's path"
            raise CompileError(location, f"{shown} has its data in another file", hint)
        path = path_inside(self.folder, text)
        if path is None:
            what = f"{shown} has its data in {text[:80]!r}, which is not in the model's folder"
            raise CompileError(location, what)
        if not is_regular(path):
            raise CompileError(location, f"{shown} has its data in {text[:80]!r}, which is no file")
        return path


def path_inside(folder: Path, text: str) -> Path | None:
    """The path of a file in a model's folder, links followed; None where it is not in there."""
    try:
        root = folder.resolve()
        path = (root / text).resolve()
        inside = bool(text) and path.is_relative_to(root) and path != root
        return path if inside and not Path(text).is_absolute() else None
    except (OSError, ValueError, RuntimeError):
        return None


@record
class _FileRange:
    """Bytes of a file."""

    path: Path
    offset: int
    size: int

    def read(self) -> bytes:
        """The bytes; raises `EOFError` with the file's size where there are fewer."""
        with self.path.open("rb") as file:
            held = os.fstat(file.fileno()).st_size
            if self.offset + self.size > held:
                raise EOFError(held)
            file.seek(self.offset)
            data = file.read(self.size)
        if len(data) != self.size:
            raise EOFError(f"{self.offset + len(data)}, which changes while it is read")
        return data


def _number(text: Any) -> int | None:
    """An offset or a length in a file; None for anything else."""
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
