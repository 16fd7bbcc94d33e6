# pyright: basic, reportMissingImports=false
"""From a program of `torch.export` to a net."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.aliases import name_aliases
from rnncc.frontends.torch.apart import copied_program, decomposed, taken_apart
from rnncc.frontends.torch.checks import checks_of, without_checks
from rnncc.frontends.torch.constant_op import content_of
from rnncc.frontends.torch.exported_transforms import settle_transforms
from rnncc.frontends.torch.graph_code import written_when_called
from rnncc.frontends.torch.graphs import forget_tensors, graphs_of
from rnncc.frontends.torch.guards import facts_of
from rnncc.frontends.torch.interface import Dtypes, declared, given_out
from rnncc.frontends.torch.loops import Tensor
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.memories import merged_buffers, settle_memories
from rnncc.frontends.torch.modes import settle_modes
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.types import LARGEST_CONSTANT, as_computed, type_name
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.rolling import copied, roll_loops, unrolled
from rnncc.frontends.torch.whole_layers import with_whole_layers
from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.passes.activity import sources_of_outputs
from rnncc.records import record

MOST_REPEATS = 16
"""Repeats that are compiled one after another without a warning."""
_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


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
    exported = with_whole_layers(exported)
    exported = _with_constants(merged_buffers(settle_transforms(exported)))
    name_aliases(exported.graph_module)
    settle_memories(exported)
    settle_modes(exported)
    exported = _without_checks(exported)
    with written_when_called():
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
    signature, sizes = plain.graph_signature, Sizes(names)
    b = Builder.net(name)
    vals = {node.name: node.meta.get("val") for node in plain.graph.nodes}
    tensors = {key: val for key, val in vals.items() if isinstance(val, torch.Tensor)}

    def declare(add: Callable[..., SSAValue], key: str, tensor: torch.Tensor) -> Tensor:
        return declared(b, add, key, tensor, [sizes(size) for size in tensor.shape], key)

    user_inputs = [
        spec.arg.name for spec in signature.input_specs if spec.kind == InputKind.USER_INPUT
    ]
    _check_fixed(signature.input_specs)
    values = {key: declare(b.input, key, tensors[key]) for key in user_inputs if key in tensors}
    count = len(values)
    held = {s.arg.name: str(s.target) for s in signature.input_specs if s.kind in _HELD}
    specs = [s for s in signature.output_specs if not _keeps_buffer(s, held)]
    changed = {str(s.target): s.arg.name for s in specs if s.kind == OutputKind.BUFFER_MUTATION}
    fixed = set(held.values()) - changed.keys() if packed else set[str]()
    for key, target in held.items():
        if target in fixed:
            values[key] = declare(b.param, target, tensors[key])
        else:
            values[key] = declare(b.input, b.free_name(target), tensors[key])
        if target in changed:
            _check_type(target, tensors[key], tensors[changed[target]])
    places = plain.graph.find_nodes(op="placeholder")
    inputs: list[Any] = [values.get(node.name) for node in places]
    for fact in facts_of(exported, plain, sizes):
        b.require(fact)
    lowered = lower_graph(module, b, inputs, sizes, Random(b))
    outputs, results = _outputs(signature.output_specs, lowered, held)
    leaving = given_out(b, outputs)
    arrays = {t: _array(exported, t, tensors[key]) for key, t in held.items() if t in fixed}
    program = b.finish(leaving, arrays, name)
    kept = [target for target in held.values() if target not in fixed]
    known = sources_of_outputs(program)
    sources = [known[f"new_{target}"] for target in changed]
    leaves = (s.arg.name for s in specs if isinstance(s.arg, TensorArgument))
    made_as = {name: tensors[leaf].dtype for name, leaf in zip(outputs, leaves, strict=True)}
    input_dtypes = [tensors[key].dtype for key in values if held.get(key) not in fixed]
    found_tensors = list(tensors.values())
    dtypes = Dtypes(input_dtypes, made_as)
    return Exported(program, dtypes, count, kept, list(changed), sources, results, found_tensors)


def _check_fixed(specs: Iterable[Any]) -> None:
    """Refuse arguments that are numbers of Python, other ones at each call."""
    for spec in specs:
        if isinstance(spec.arg, SymIntArgument | SymFloatArgument | SymBoolArgument):
            what = "is a number of Python that may change, which is not supported"
            raise CompileError(spec.arg.name, what, "give it as a tensor, or keep it fixed")


def held_tensor(exported: ExportedProgram, target: str) -> torch.Tensor:
    """A parameter, buffer or constant by its name."""
    known: Mapping[str, Any] = {**exported.constants, **exported.state_dict}
    return known[target]


def _array(exported: ExportedProgram, target: str, expected: torch.Tensor) -> np.ndarray[Any, Any]:
    """Its values now; a file may hold a tensor of another kind than the graph reads."""
    held = held_tensor(exported, target)
    if held.dtype != expected.dtype or held.shape != expected.shape:
        kinds = (f"{type_name(x.dtype)} {list(x.shape)}" for x in (held, expected))
        raise CompileError(target, "is {}, and the graph reads {}".format(*kinds))
    tensor = as_computed(held.detach().cpu())
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.numpy().copy()


def _keeps_buffer(spec: Any, held: Mapping[str, str]) -> bool:
    """Whether a buffer is given its own value, as in `self.k = self.k.to(x.device)`."""
    return spec.kind == OutputKind.BUFFER_MUTATION and held.get(spec.arg.name) == spec.target


def _check_type(target: str, old: torch.Tensor, new: torch.Tensor) -> None:
    if old.dtype != new.dtype or old.shape != new.shape:
        texts = (f"{type_name(x.dtype)} {list(x.shape)}" for x in (old, new))
        raise CompileError(target, "a buffer is {} before a call and {} after it".format(*texts))


def _outputs(
    specs: Sequence[Any], values: Sequence[Any], held: Mapping[str, str]
) -> tuple[dict[str, Tensor], list[Any]]:
    """The net's outputs, new values of buffers first, and what is returned."""
    outputs, results = dict[str, Tensor](), list[Any]()
    returned = [spec for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    for spec, value in zip(specs, values, strict=True):
        if _keeps_buffer(spec, held):
            continue
        if spec.kind == OutputKind.BUFFER_MUTATION:
            outputs[f"new_{spec.target}"] = value
        elif spec.kind != OutputKind.USER_OUTPUT:
            raise CompileError("", f"what is given from outside is changed in place: {spec.target}")
        elif isinstance(spec.arg, TensorArgument):
            number = len(results)
            name = "y" if len(returned) == 1 else f"y{number}"
            outputs[name] = value
            results.append(name)
        else:
            results.append(value)
    return outputs, results
