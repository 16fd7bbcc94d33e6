"""Functions: the model's own, and operators that the standard defines by others."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rnncc.errors import CompileError, Location
from rnncc.frontends.onnx.errors import Unsupported
from rnncc.frontends.onnx.lists import SplitAxis, StackedRows
from rnncc.frontends.onnx.reading import graphs_in, onnx_package, opsets_of, plain_domain
from rnncc.frontends.onnx.signature import schema_of
from rnncc.frontends.onnx.values import Value

if TYPE_CHECKING:
    from onnx import NodeProto

    from rnncc.frontends.onnx.model import ModelContext
    from rnncc.frontends.onnx.node import Node

KINDS = {
    **{"f32": 1, "i32": 6, "i64": 7, "i1": 9, "f64": 11},
    **{"u8": 2, "i8": 3, "u16": 4, "i16": 5, "f16": 10, "u32": 12, "u64": 13, "bf16": 16},
    "text": 8,
}
"""The numbers of element types in ONNX."""
STANDARDISED = 27
"""The opset in which the standard took over some of ONNX Runtime's own operators."""
EXTENSIONS: dict[str, int] = {
    **{"ndim": 1, "dilation": 1, "channels_last": 0, "state_window": 0, "state_length": 0},
    **{"state_update_capacity": 0, "state_channels_last": -1},
    **{"input_channels": 0, "input_channel_offset": 0},
}
"""Attributes of these that the standard's form lacks -> the value at which they do nothing."""

FunctionKey = tuple[str, str, str]


def function_key(message: Any, name: str) -> FunctionKey:
    """What tells a model's functions apart: of a function, or of a node that calls one."""
    return plain_domain(message.domain), name, getattr(message, "overload", "")


def functions_of(message: Any, file: str) -> dict[FunctionKey, Any]:
    """The functions that a model holds; raises `CompileError` if one is there twice."""
    functions = dict[FunctionKey, Any]()
    for function in message.functions:
        key = function_key(function, function.name)
        if key in functions:
            raise CompileError(file, f"has two functions {function.domain}.{function.name}")
        functions[key] = function
    return functions


def own_function(
    model: ModelContext, op: NodeProto, opsets: Mapping[str, int], location: Location
) -> Any:
    """The model's function that a node calls; None of an operator, as which ONNX Runtime takes all
    that the standard and itself have, whatever functions are named so.

    Raises:
        Unsupported: it is written in other versions of operators than the model.
    """
    function = model.functions.get(function_key(op, op.op_type))
    if function is None:
        return None
    domain = plain_domain(op.domain)
    name = f"{domain}.{op.op_type}" if domain else op.op_type
    if not getattr(op, "overload", "") and (
        name in model.operators or schema_of(op.op_type, opsets.get(domain, 0), domain)
    ):
        return None
    _check_versions(model.opsets, function, location)
    return function


def _check_versions(opsets: Mapping[str, int], function: Any, location: Location) -> None:
    """Refuse operators of other forms in the versions that a model and its function import: these
    are no valid models, and ONNX Runtime takes the model's version."""
    own = opsets_of(function)
    other = {domain for domain, opset in own.items() if opsets.get(domain, opset) != opset}
    waiting = [*function.node] if other else []
    while waiting:
        node = waiting.pop()
        waiting += [inner for graph in graphs_in(node) for inner in graph.node]
        kind, domain = node.op_type, plain_domain(node.domain)
        if domain not in other:
            continue
        if _form(kind, own[domain], domain) != _form(kind, opsets[domain], domain):
            what = f"calls a function of opset {own[domain]}, in which {kind} is another than in"
            hint = "onnx.version_converter changes it"
            raise Unsupported(location, f"{what} the model's opset {opsets[domain]}", hint)


def _form(kind: str, opset: int, domain: str) -> tuple[Any, ...] | None:
    """What the standard says of an operator besides its types: its inputs, and attributes with
    their defaults. Versions that behave in other ways differ in these."""
    schema = schema_of(kind, opset, domain)
    if schema is None:
        return None
    inputs = tuple((i.name, str(i.option)) for i in (*schema.inputs, *schema.outputs))
    attributes = ((n, a.default_value.SerializeToString()) for n, a in schema.attributes.items())
    return inputs, tuple(sorted(attributes))


def arguments_of(op: NodeProto, function: Any, location: Location) -> dict[str, str]:
    """What a function's inputs stand for, where a node that calls it has them.

    Raises:
        CompileError: it has more.
    """
    if len(op.input) > len(function.input):
        what = f"has {len(op.input)} inputs, its function takes {len(function.input)}"
        raise CompileError(location, what)
    return {name: read for name, read in zip(function.input, op.input, strict=False) if read}


def inlined(op: NodeProto, function: Any) -> list[NodeProto]:
    """A function's nodes, with the attributes of the call in the place of their names, and without
    the inputs that the call leaves out."""
    attributes = {a.name: a for a in function.attribute_proto} | {a.name: a for a in op.attribute}
    absent = {name for name, argument in zip_longest(function.input, op.input) if not argument}
    return [_bound(node, attributes, absent) for node in function.node]


def _bound(node: Any, attributes: dict[str, Any], absent: set[str]) -> Any:
    """A node with given attributes in the place of their names, in the graphs that it holds too."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in attributes:
                bound = copy.attribute.add()
                bound.CopyFrom(attributes[attribute.ref_attr_name])
                bound.name = attribute.name
            continue
        kept = copy.attribute.add()
        kept.CopyFrom(attribute)
        if kept.HasField("g"):
            nodes = [_bound(inner, attributes, absent) for inner in kept.g.node]
            del kept.g.node[:]
            kept.g.node.extend(nodes)
    return copy


def definition_of(node: Node, schema: Any) -> Any:
    """The function that the standard defines an operator by, for these inputs.

    Raises:
        CompileError: it has none for them.
    """
    function = onnx_package().FunctionProto()
    if schema is not None and schema.has_function:
        body = schema.function_body
        function.CopyFrom(body)
    elif schema is not None and schema.has_context_dependent_function:
        types = [_type(node, value) for value in node.inputs]
        text = schema.get_context_dependent_function(node.op.SerializeToString(), types)
        function.ParseFromString(text)
    if not function.node:
        raise node.unsupported("has no definition by other operators for these inputs")
    _add_defaults(function, schema)
    return function


def standard_form(op: NodeProto, location: Location) -> tuple[NodeProto, int]:
    """One of ONNX Runtime's own operators as that of the standard which it became, and the opset.

    Raises:
        Unsupported: it has an attribute that the standard's lacks.
    """
    copy = type(op)()
    copy.CopyFrom(op)
    copy.domain = ""
    del copy.attribute[:]
    for attribute in op.attribute:
        if attribute.name not in EXTENSIONS:
            copy.attribute.add().CopyFrom(attribute)
        elif attribute.i != EXTENSIONS[attribute.name]:
            what = f"has {attribute.name} = {attribute.i}, supported: {EXTENSIONS[attribute.name]}"
            raise Unsupported(location, what)
    return copy, STANDARDISED


def _add_defaults(function: Any, schema: Any) -> None:
    """Attributes that a call leaves out have the standard's values."""
    present = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.name:
            function.attribute_proto.add().CopyFrom(attribute.default_value)


def _type(node: Node, value: Value | None) -> bytes:
    """A value's type as the standard's functions want it."""
    if value is None:
        return b""
    if isinstance(value, StackedRows | SplitAxis):
        [first, *_] = [*value.tensors(), Value("f32", ())]
        helper = onnx_package().helper
        kind = helper.make_tensor_type_proto(KINDS[first.dtype], None)
        return helper.make_sequence_type_proto(kind).SerializeToString()
    shape = [int(d) if d.is_static else str(d) for d in value.dims]
    kind = KINDS.get(value.dtype)
    if kind is None:
        raise node.unsupported(f"reads {value.dtype}, which its definition does not take")
    return onnx_package().helper.make_tensor_type_proto(kind, shape).SerializeToString()
