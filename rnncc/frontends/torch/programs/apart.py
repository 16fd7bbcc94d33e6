# pyright: basic, reportMissingImports=false
"""Programs of `torch.export` without changes in place, and of operators that have translations.

PyTorch makes them by running a program as a whole, a millisecond or two for each node. Where
nothing is changed in place, only those operators run here that have no translation, each kind of
them once, and what they consist of takes their places.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputSpec,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate, map_arg

from rnncc.errors import CompileError
from rnncc.frontends.torch.decompositions import beside_core
from rnncc.frontends.torch.graph_code import written_when_called
from rnncc.frontends.torch.graphs import copied, fake_mode, graphs_of
from rnncc.frontends.torch.lower import SIZES, translation_of
from rnncc.frontends.torch.own_operators.constant_op import write_constants
from rnncc.frontends.torch.trace import aten_graph, refused_by
from rnncc.frontends.torch.unrolled.view import parts_of, type_of, value_of
from rnncc.frontends.torch.watching.reading import watching

_SCAN = torch.ops.higher_order.scan
_DECIDED = torch.ops.higher_order.cond, torch.ops.higher_order.while_loop
_KEPT = {
    operator.getitem,
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_numel.default,
    *SIZES,
}


def copied_program(exported: ExportedProgram) -> tuple[ExportedProgram, GraphModule]:
    """The same program, and its graph, which may be changed, as may those within."""
    program: Any = copy.copy(exported)
    program._graph_module = module = _copied_graphs(exported.graph_module)
    module.graph.set_codegen(exported.graph._codegen)
    return program, module


def _copied_graphs(module: GraphModule) -> GraphModule:
    own = GraphModule(module, copied(module.graph))
    for node, old in zip(own.graph.nodes, module.graph.nodes, strict=True):
        node.name = old.name  # a copy has others for names of Python's, such as `input`
    own.meta.update(module.meta)
    for name, part in list(own.named_children()):
        if isinstance(part, GraphModule):
            setattr(own, name, _copied_graphs(part))
    return own


def decomposed(exported: ExportedProgram) -> ExportedProgram:
    """The same without changes in place; what has no translation falls apart, where it can.

    Each time PyTorch runs the whole graph: what it shows to be missing before, and all that this
    falls apart into, goes at once.
    """
    if (flat := _flat(exported)) is not None:
        return flat
    plain, table = write_constants(exported), dict[Any, Any]()
    if any(not op._schema.is_mutable for op in _untranslated(plain)):
        table = _decompositions()
    plain = _decompose(plain, table)
    if not table and _untranslated(plain):
        table = _decompositions()
    while further := {op: table.pop(op) for op in _untranslated(plain) if op in table}:
        plain = _decompose(plain, {**table, **further})
    return plain


def _flat(exported: ExportedProgram) -> ExportedProgram | None:
    """The same by a trace of its own, where there are branches or loops on tensors' values: PyTorch
    traces each of them several times, and what is within them each time as often.

    None where there are none, or others of PyTorch's operators that hold graphs, where sizes are
    open, or where that trace is no good.
    """
    nodes = (node for part in graphs_of(exported.graph_module) for node in part.graph.nodes)
    higher = {node.target for node in nodes if isinstance(node.target, HigherOrderOperator)}
    places = exported.graph.find_nodes(op="placeholder")
    if not higher or not higher.issubset(_DECIDED) or not all(map(_is_fixed, places)):
        return None
    program, module = copied_program(write_constants(exported))
    inputs = [place.meta["val"] for place in places]
    try:
        traced = aten_graph(module, inputs, fake_mode(inputs))
    except CompileError:  # PyTorch, which runs all, says it better
        return None
    return taken_apart(with_graph(program, places, traced))


def _is_fixed(place: Node) -> bool:
    """Whether a tensor's sizes are numbers."""
    value = value_of(place)
    return isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape)


def with_graph(
    exported: ExportedProgram, places: Sequence[Node], traced: GraphModule
) -> ExportedProgram:
    """A program with another graph, of the same outputs, and of these inputs of its own."""
    module, program = exported.graph_module, copy.copy(exported)
    traced.graph.set_codegen(module.graph._codegen)
    traced.meta.update(module.meta)
    for place, new in zip(places, traced.graph.find_nodes(op="placeholder"), strict=True):
        new.name = place.name
    own: Any = program
    own._graph_module = traced
    own._graph_signature = signature_of(traced.graph, exported.graph_signature)
    return program


def _decompositions() -> dict[Any, Any]:
    """How operators that have no translation fall apart; to make it takes a third of a second at
    first."""
    known = {**torch.export.default_decompositions(), **beside_core()}
    return {op: function for op, function in known.items() if translation_of(op) is None}


def _untranslated(exported: ExportedProgram) -> set[Any]:
    """The operators that have no translation."""
    nodes = (node for part in graphs_of(exported.graph_module) for node in part.graph.nodes)
    return {
        node.target
        for node in nodes
        if isinstance(node.target, torch._ops.OpOverload) and translation_of(node.target) is None
    }


def _decompose(exported: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram:
    with (
        watching(lambda: True),
        refused_by("", "PyTorch"),
        written_when_called(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own
        return exported.run_decompositions(table)


def taken_apart(exported: ExportedProgram) -> ExportedProgram | None:
    """What `decomposed` gives, without running all of the graph; None where that has to be."""
    plain = write_constants(exported)
    if plain is exported:
        plain, _ = copied_program(exported)
    if not _take_apart(plain.graph_module):
        return None
    own: Any = plain
    own._graph_signature = signature_of(plain.graph, plain.graph_signature)
    return plain


def signature_of(graph: Graph, before: ExportGraphSignature) -> ExportGraphSignature:
    """A program's inputs that are there still, and its outputs by the names of their nodes now."""

    def is_there(spec: InputSpec) -> bool:
        return spec.arg.name in places or not isinstance(spec.arg, TensorArgument)

    def renamed(spec: OutputSpec, result: Any) -> OutputSpec:
        is_tensor = isinstance(spec.arg, TensorArgument)
        return replace(spec, arg=TensorArgument(result.name)) if is_tensor else spec

    places = {node.name for node in graph.find_nodes(op="placeholder")}
    results: Any = graph.output_node().args[0]
    outputs = map(renamed, before.output_specs, results)
    return ExportGraphSignature(list(filter(is_there, before.input_specs)), list(outputs))


def _take_apart(module: GraphModule) -> bool:
    """Put what operators consist of in their places, in a graph and those within.

    Returns:
        Whether no more is to be done. Else the graph is as it was: something is changed in place,
        a mode is switched, or an operator does not fall apart on its own.
    """
    parts = graphs_of(module)
    nodes = [node for part in parts for node in part.graph.nodes]
    if not all(map(_is_plain, nodes)):
        return False
    missing, known_pieces = list(filter(_is_missing, nodes)), dict[Hashable, GraphModule]()
    pieces = dict[Node, GraphModule]()
    for node in missing:
        piece = known_pieces.get(key := _key(node)) or _piece(node)
        if piece is None:
            return False
        known_pieces[key] = pieces[node] = piece
    for node, piece in pieces.items():
        _insert(node, piece)
    for part in parts:
        part.graph.eliminate_dead_code()
    return True


def _is_plain(node: Node) -> bool:
    """Whether a node means what it computes, and is of a kind that is known here."""
    target: Any = node.target
    if node.op == "placeholder":
        return value_of(node) is not None or not node.users
    if node.op != "call_function":
        return node.op != "call_method"
    if isinstance(target, HigherOrderOperator):
        return target is _SCAN or target in _DECIDED
    if isinstance(target, OpOverload) and target._schema.is_mutable:
        return False
    return not _is_missing(node) or bool(type_of(value_of(node)))


def _is_missing(node: Node) -> bool:
    """Whether a node calls what has no translation."""
    target: Any = node.target
    if node.op != "call_function" or target in _KEPT or isinstance(target, HigherOrderOperator):
        return False
    own = isinstance(target, OpOverload) and target.namespace == "rnncc"
    return not own and translation_of(target) is None


def _key(node: Node) -> Hashable:
    """Equal for calls that fall apart in the same way."""

    def text(leaf: Any) -> str:
        value = value_of(leaf) if isinstance(leaf, Node) else leaf
        if isinstance(value, torch.Tensor):
            return f"{type_of(value)}{[str(step) for step in value.stride()]}{value.device}"
        return f"{type(value).__name__} {value}"

    return node.target, str(map_aggregate((node.args, node.kwargs), text))


def _piece(node: Node) -> GraphModule | None:
    """What a call consists of, as a graph of its operands in order; None where that cannot be."""
    graph, examples = Graph(), list[Any]()

    def place(operand: Node) -> Node:
        examples.append(value_of(operand))
        stand_in = graph.placeholder(f"operand_{len(examples)}")
        stand_in.meta["val"] = value_of(operand)
        return stand_in

    args, kwargs = map_arg((node.args, node.kwargs), place)  # pyright: ignore
    call = graph.call_function(node.target, args, kwargs)  # pyright: ignore
    call.meta = dict(node.meta)
    graph.output(call)
    try:
        piece = aten_graph(GraphModule({}, graph), examples, fake_mode(parts_of(value_of(node))))
    except CompileError:  # PyTorch, which runs all, says it better
        return None
    return piece if _fits(piece, node) else None


def _fits(piece: GraphModule, node: Node) -> bool:
    """Whether a graph gives what its call is known to give, and holds nothing of its own."""
    result: Any = map_arg(piece.graph.output_node().args[0], value_of)
    if piece.graph.find_nodes(op="get_attr") or type_of(result) != type_of(value_of(node)):
        return False
    return isinstance(result, torch.Tensor) or all(n.target is operator.getitem for n in node.users)


def _insert(node: Node, piece: GraphModule) -> None:
    """Let a graph's nodes take a call's place."""
    operands = list[Node]()
    map_arg((node.args, node.kwargs), operands.append)  # pyright: ignore
    copies = dict(zip(piece.graph.find_nodes(op="placeholder"), operands, strict=True))
    with node.graph.inserting_before(node):
        result: Any = node.graph.graph_copy(piece.graph, copies)
    for inner, own in copies.items():
        if inner.op != "placeholder":
            own.meta = {**node.meta, "val": value_of(inner)}
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
        node.graph.erase_node(node)
        return
    for user in list(node.users):  # several results, which are taken one by one
        user.replace_all_uses_with(result[user.args[1]])
        node.graph.erase_node(user)
    node.graph.erase_node(node)
