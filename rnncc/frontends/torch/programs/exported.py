# pyright: basic, reportMissingImports=false
"""From a program of `torch.export` to a net."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Graph, GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.aliases import name_aliases
from rnncc.frontends.torch.checks import checks_of, without_checks
from rnncc.frontends.torch.graph_code import written_when_called
from rnncc.frontends.torch.graphs import copied, forget_tensors, graphs_of
from rnncc.frontends.torch.interface import Dtypes, given_out
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.own_operators.constant_op import content_of
from rnncc.frontends.torch.patches import ALONE
from rnncc.frontends.torch.programs.apart import copied_program, decomposed, taken_apart
from rnncc.frontends.torch.programs.guards import facts_of
from rnncc.frontends.torch.programs.memories import merged_buffers, settle_memories
from rnncc.frontends.torch.programs.modes import settle_modes
from rnncc.frontends.torch.programs.signature import ProgramSignature, held_tensor, new_value_of
from rnncc.frontends.torch.programs.transforms import settle_transforms
from rnncc.frontends.torch.programs.whole_layers import with_whole_layers
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.types import LARGEST_CONSTANT
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.rolling import roll_loops, unrolled
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.passes.gradients.activity import sources_of_outputs
from rnncc.records import record

MOST_REPEATS = 16
"""Repeats that are compiled one after another without a warning."""


@record
class Exported:
    """A net, and what its inputs and outputs are in PyTorch.

    Attributes:
        program: inputs are the tensors that the user gives, then those that the module holds, then
            the seed of random numbers, if there are any.
        dtypes: what inputs and outputs are in PyTorch.
        given: how many tensors the user gives.
        held: the names of the module's tensors, in the order of the inputs.
        changed: the names of buffers that the first outputs are written back to.
        sources: for each of them the names of inputs that its new value has gradients for.
        results: what is returned: the names of outputs, or other values.
        tensors: all tensors of the graph, as fakes.
    """

    program: Program
    dtypes: Dtypes
    given: int
    held: Sequence[str]
    changed: Sequence[str]
    sources: Sequence[frozenset[str]]
    results: Sequence[Any]
    tensors: Sequence[torch.Tensor]


def import_exported(
    exported: ExportedProgram,
    name: str = "net",
    names: Mapping[str, str] | None = None,
    packed: bool = False,
) -> Exported:
    """A net from an exported program.

    Args:
        names: what PyTorch's symbols of sizes are called.
        packed: whether the module's tensors become parameters of the net, with their values, and
            not inputs; buffers that it changes are inputs even so.

    Raises:
        CompileError: an operator or a dtype is not supported; it names the user's line.
    """
    with ALONE:
        exported = with_whole_layers(exported)
        exported = _with_constants(merged_buffers(settle_transforms(exported)))
        name_aliases(exported.graph_module)
        settle_memories(exported)
        settle_modes(exported)
        with written_when_called():  # the graphs from here on are copies
            exported = _without_checks(exported)
            imported = _copied_and_imported(exported, name, names, packed)
        forget_tensors(exported)  # met again where PyTorch takes operators apart
    return imported


def _copied_and_imported(
    exported: ExportedProgram, name: str, names: Mapping[str, str] | None, packed: bool
) -> Exported:
    early, has_loops = _without_changes(exported)
    if early is not None and has_loops:
        # What cannot be lowered as a loop may be supported step by step: the rest goes on without
        # it.
        with suppress(CompileError):
            plain = taken_apart(early) or decomposed(early)
            return _import(exported, plain, plain.graph_module, name, names, packed)
    plain = (early and not has_loops and taken_apart(early)) or decomposed(exported)
    rolled = GraphModule(plain.graph_module, copied(plain.graph))
    _share_constants(plain, rolled.graph)
    rolled_plain = roll_loops(rolled, plain=True)
    if rolled_plain.lengths:
        with suppress(CompileError):
            return _import(exported, plain, rolled, name, names, packed)
    if rolled_plain.unrolled is not None and rolled_plain.unrolled[1] >= MOST_REPEATS:
        warnings.warn(f"rnncc compiles an unrolled loop: {unrolled(rolled_plain)}", stacklevel=2)
    return _import(exported, plain, plain.graph_module, name, names, packed)


def _with_constants(exported: ExportedProgram) -> ExportedProgram:
    """A program in which each `torch.tensor([1.0])` is a constant, and not what is detached in
    place of one: what a step puts into it later has gradients."""
    if not any(map(_detached_constants, graphs_of(exported.graph_module))):
        return exported
    program, module = copied_program(exported)
    for part in graphs_of(module):
        for node in _detached_constants(part):
            node.replace_all_uses_with(node.args[0])  # pyright: ignore
            part.graph.erase_node(node)
        part.recompile()
    return program


def _detached_constants(part: GraphModule) -> list[Node]:
    aten = torch.ops.aten
    calls = part.graph.find_nodes(op="call_function", target=aten.detach_.default)
    return [node for node in calls if node.args[0].target is aten.lift_fresh_copy.default]  # pyright: ignore


def _without_checks(exported: ExportedProgram) -> ExportedProgram:
    """A program whose results show what its checks find."""
    if not checks_of(exported.graph_module):
        return exported
    specs = exported.graph_signature.output_specs
    program, module = copied_program(exported)
    results = [n for n, spec in enumerate(specs) if spec.kind == OutputKind.USER_OUTPUT]
    without_checks(module, results)
    return program


def _without_changes(exported: ExportedProgram) -> tuple[ExportedProgram | None, bool]:
    """A program that changes nothing in place, and whether loops were rolled in it: before PyTorch
    runs it, which takes time for each node.

    Only where both are plain to see.
    """
    program, module = copied_program(exported)
    with suppress(CompileError), refused_by("", "rolling"):
        _share_constants(exported, module.graph)
        if without_changes(module):
            return program, bool(roll_loops(module, plain=False).lengths)
    return None, False


def _share_constants(exported: ExportedProgram, graph: Graph) -> None:
    """Let equal constants be one: a step that writes one down has its own at each repeat."""
    places = {node.name: node for node in graph.find_nodes(op="placeholder")}
    known = dict[Any, tuple[Node, torch.Tensor]]()
    for spec in exported.graph_signature.input_specs:
        if spec.kind != InputKind.CONSTANT_TENSOR or spec.target is None:
            continue
        tensor, place = held_tensor(exported, spec.target), places[spec.arg.name]
        if tensor.numel() <= LARGEST_CONSTANT:
            key = tensor.device, content_of(tensor)
            place.replace_all_uses_with(known.setdefault(key, (place, tensor))[0])
    for place, tensor in known.values():
        if tensor.numel() == 1 and not (tensor.is_complex() or tensor.dtype == torch.bool):
            _write_number(place, tensor)


def _write_number(place: Node, tensor: torch.Tensor) -> None:
    """Let a constant of one number be a call that has the number, which may be one of a loop's."""
    aten = torch.ops.aten
    for node in list(place.users):
        if node.target in (aten.lift_fresh_copy.default, aten.clone.default):
            options = {"dtype": tensor.dtype, "device": tensor.device}
            node.target, node.args = aten.full.default, (list(tensor.shape), tensor.item())
            node.kwargs = options


def _import(
    exported: ExportedProgram,
    plain: ExportedProgram,
    module: GraphModule,
    name: str,
    names: Mapping[str, str] | None,
    packed: bool,
) -> Exported:
    """A net from a graph that computes what a program does, with all loops that it has."""
    b, sizes, signature = Builder.net(name), Sizes(names), ProgramSignature.of(plain, packed)
    values = signature.declare(b, sizes)
    inputs = [values.get(node.name) for node in plain.graph.find_nodes(op="placeholder")]
    for fact in facts_of(exported, plain, sizes):
        b.require(fact)
    outputs, results = signature.outputs(lower_graph(module, b, inputs, sizes, Random(b)))
    program = b.finish(given_out(b, outputs), signature.arrays(exported), name)
    known = sources_of_outputs(program)
    return Exported(
        program,
        signature.dtypes(outputs),
        given=len(signature.given),
        held=[target for target in signature.held.values() if target not in signature.params],
        changed=list(signature.changed),
        sources=[known[new_value_of(target)] for target in signature.changed],
        results=results,
        tensors=list(signature.tensors.values()),
    )
