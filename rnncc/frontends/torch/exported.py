# pyright: basic, reportMissingImports=false
"""From a program of `torch.export` to a net."""

from __future__ import annotations

import copy
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
from rnncc.frontends.torch.checks import checks_of, without_checks
from rnncc.frontends.torch.constant_op import content_of, write_constants
from rnncc.frontends.torch.decompositions import beside_core
from rnncc.frontends.torch.exported_transforms import settle_transforms
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.guards import facts_of
from rnncc.frontends.torch.interface import Dtypes, declared, given_out
from rnncc.frontends.torch.loops import Tensor
from rnncc.frontends.torch.lower import lower_graph, translation_of
from rnncc.frontends.torch.memories import settle_memories
from rnncc.frontends.torch.modes import settle_modes
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.types import LARGEST_CONSTANT, as_computed, type_name
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.rolling import copied, roll_loops, unrolled
from rnncc.frontends.torch.watch import watching
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
    exported = settle_transforms(exported)
    name_aliases(exported.graph_module)
    settle_memories(exported)
    settle_modes(exported)
    exported = _without_checks(exported)
    with suppress(CompileError):
        if (early := _rolled(exported)) is not None:
            plain = _decomposed(early)
            return _import(exported, plain, plain.graph_module, name, names, packed)
    plain = _decomposed(exported)
    rolled = GraphModule(plain.graph_module, copied(plain.graph))
    _share_constants(plain, rolled.graph)
    found = roll_loops(rolled, plain=True)
    if found.lengths:
        with suppress(CompileError):
            return _import(exported, plain, rolled, name, names, packed)
    if found.unrolled is not None and found.unrolled[1] >= MOST_REPEATS:
        warnings.warn(f"rnncc compiles an unrolled loop: {unrolled(found)}", stacklevel=2)
    return _import(exported, plain, plain.graph_module, name, names, packed)


def _without_checks(exported: ExportedProgram) -> ExportedProgram:
    """A program whose results show what its checks find."""
    if not checks_of(exported.graph_module):
        return exported
    specs = exported.graph_signature.output_specs
    program, module = _copy(exported)
    results = [n for n, spec in enumerate(specs) if spec.kind == OutputKind.USER_OUTPUT]
    without_checks(module, results)
    return program


def _copy(exported: ExportedProgram) -> tuple[ExportedProgram, GraphModule]:
    """The same program, and its graph, which may be changed."""
    module = GraphModule(exported.graph_module, copied(exported.graph))
    module.graph.set_codegen(exported.graph._codegen)
    module.meta.update(exported.graph_module.meta)
    program: Any = copy.copy(exported)
    program._graph_module = module
    return program, module


def _rolled(exported: ExportedProgram) -> ExportedProgram | None:
    """A program with its loops rolled before PyTorch runs it, which takes time for each node.

    Only where loops are plain to see, and nothing is changed in place in other ways than those.
    """
    program, module = _copy(exported)
    _share_constants(exported, module.graph)
    with refused_by("", "rolling"):
        if not without_changes(module) or not roll_loops(module, plain=False).lengths:
            return None
    return program


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
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.detach_.default):
        if node.args[0].target is torch.ops.aten.lift_fresh_copy.default:  # a constant anyway
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
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
    found = {node.name: node.meta.get("val") for node in plain.graph.nodes}
    tensors = {key: val for key, val in found.items() if isinstance(val, torch.Tensor)}

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
    program = b.finish(leaving, {target: _array(exported, target) for target in fixed}, name)
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


def _array(exported: ExportedProgram, target: str) -> np.ndarray[Any, Any]:
    """Its values now."""
    tensor = as_computed(held_tensor(exported, target).detach().cpu())
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return real.numpy().copy()


def _decomposed(exported: ExportedProgram) -> ExportedProgram:
    """The same without changes in place; what has no translation falls apart, where it can.

    Each time PyTorch runs the whole graph: what it shows to be missing before, and all that this
    falls apart into, goes at once.
    """
    plain, table = write_constants(exported), dict[Any, Any]()
    if any(not op._schema.is_mutable for op in _untranslated(plain)):
        table = _decompositions()
    plain = _decompose(plain, table)
    if not table and _untranslated(plain):
        table = _decompositions()
    while further := {op: table.pop(op) for op in _untranslated(plain) if op in table}:
        plain = _decompose(plain, {**table, **further})
    return plain


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
    with watching(lambda: True), refused_by("", "PyTorch"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's own
        return exported.run_decompositions(table)


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
