# pyright: basic, reportMissingImports=false
"""The back end `rnncc` of torch.compile: graphs with recurrent layers or cells are compiled.

Everything else stays with PyTorch, which is said once for each reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch.fx import GraphModule
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.aliases import name_aliases
from rnncc.frontends.torch.graphs import GRAD, copy_of, fake_mode, has_operators_of_others
from rnncc.frontends.torch.interface import Dtypes, declared, given_out
from rnncc.frontends.torch.lower import lower_graph
from rnncc.frontends.torch.own_operators.constant_op import share_constants
from rnncc.frontends.torch.own_operators.recurrent_op import CELLS, keep_whole_where, recurrent_kind
from rnncc.frontends.torch.randomness import Random
from rnncc.frontends.torch.repeating.loops import read_few_steps
from rnncc.frontends.torch.sizes import Sizes
from rnncc.frontends.torch.switches import without_switches
from rnncc.frontends.torch.trace import aten_graph
from rnncc.frontends.torch.unrolled.fills import add_numbers
from rnncc.frontends.torch.unrolled.functional import without_changes
from rnncc.frontends.torch.unrolled.rolling import Rolled, may_roll, roll_loops, unrolled
from rnncc.frontends.torch.watching.deques import keep_to_lengths
from rnncc.frontends.torch.watching.dynamo import read_class_attributes, read_layers
from rnncc.frontends.torch.watching.gaps import take_variables
from rnncc.frontends.torch.watching.properties import run_setters
from rnncc.ir.builder import Builder
from rnncc.nn.complex_numbers import Complex
from rnncc.torch.applications import trace_once
from rnncc.torch.autograd import apply
from rnncc.torch.changing_floats import with_tensors_of_floats
from rnncc.torch.devices import check_tensor
from rnncc.torch.fixing import with_fixed_sizes
from rnncc.torch.leaves import is_for, is_read_for, keep_marks, without_marks
from rnncc.torch.nets import TorchNet
from rnncc.torch.objects.attributes import put_quickly
from rnncc.torch.opening import opened
from rnncc.torch.versions import leave_packing, quiet
from rnncc.torch.written import with_copies, writing

MOST_CELLS = 16
"""Calls of cells in one graph; more are a loop that was unrolled, for which `scan` is the way."""
RECURRENT = torch.ops.rnncc.recurrent.default
LOOPS = torch.ops.higher_order.scan, torch.ops.higher_order.while_loop

_said: set[str] = set()


def backend(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    """A graph's compiled form, or the graph itself where it is left to PyTorch."""
    try:
        with quiet():
            return _compiled(module)
    except CompileError as error:
        if not isinstance(error, _Unneeded) and (run := _at_fixed_sizes(module)) is not None:
            return run
        return _left(module, str(error))


keep_marks(backend)
trace_once(backend)
put_quickly(backend)
read_class_attributes(lambda tx: is_for(backend, tx.output))
read_layers(lambda tx: is_for(backend, tx.output))
keep_to_lengths(lambda tx: is_for(backend, tx.output))
take_variables(lambda tx: is_for(backend, tx.output))
run_setters(lambda tx: is_for(backend, tx.output))
read_few_steps(lambda tx: is_for(backend, tx.output))
keep_whole_where(lambda: is_read_for(backend))
leave_packing()


class _Unneeded(CompileError):
    """A graph has no recurrent parts, or is an unrolled loop, whatever its sizes."""


def _at_fixed_sizes(module: GraphModule) -> Callable[..., Any] | None:
    with quiet(), suppress(CompileError):
        if (fixed := with_fixed_sizes(module)) is not None:
            run = _compiled(fixed.module)
            fixed.guard()
            return run
    return None


def _left(module: GraphModule, reason: str) -> Callable[..., Any]:
    if reason not in _said:
        _said.add(reason)
        warnings.warn(f"rnncc leaves it to PyTorch: {reason}", stacklevel=2)
    return module.forward


def _compiled(module: GraphModule) -> Callable[..., Any]:
    if module.graph.find_nodes(op="call_function", target=GRAD):
        # one step of a loop would show no gradients by way of earlier ones
        raise CompileError("", "a graph calls torch.autograd.grad")
    own, written = with_copies(module)
    run = _computed(own)
    return run if written is None else writing(run, written, module.forward)


def _computed(module: GraphModule) -> Callable[..., Any]:
    """A graph with its loops; few cells are compiled one after another where that fails."""
    module = with_tensors_of_floats(module)
    inputs = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
    graph, rolled, plain = _rolled(module, inputs)
    _check_worth(graph, rolled)
    for fake in inputs:
        if isinstance(fake, torch.Tensor):
            check_tensor(fake)
    try:
        return _lowered(graph, inputs, {}) if plain else _looped(graph, inputs)
    except CompileError:
        if rolled.lengths:
            with suppress(CompileError):
                _check_worth(module, Rolled())
                return _lowered(aten_graph(_copy(module), inputs, fake_mode(inputs)), inputs, {})
        raise


def _looped(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """How often loops run is left open, if it can be."""
    if (stand_ins := opened(graph)) is not None:
        with suppress(CompileError):
            traced = aten_graph(graph, stand_ins.inputs, stand_ins.mode)
            compiled = _lowered(traced, stand_ins.inputs, stand_ins.names)
            stand_ins.guard()
            return compiled
    return _lowered(aten_graph(graph, inputs, fake_mode(inputs)), inputs, {})


def _rolled(module: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, Rolled, bool]:
    """The graph with its loops, what they are, and whether it consists of aten operators.

    It does where changes in place had to be traced, or operators of others that no loop calls:
    a whole loop may be within one.
    """
    own, others = _copy(module), has_operators_of_others(module)
    if without_changes(own):
        rolled = roll_loops(own, plain=False)
        if rolled.lengths or not others:
            _trace_bodies(own)
            if has_operators_of_others(own):
                graph, within = _rolled_within(own, inputs)
                if within.lengths:
                    return graph, within, True
            return own, rolled, False
    own = _copy(module)
    if not others and not may_roll(own):
        return own, Rolled(), False
    add_numbers(own, plain=False)  # tracing makes constants of them
    return *_rolled_within(own, inputs), True


def _rolled_within(module: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, Rolled]:
    """The graph of aten operators of a graph, with its loops."""
    graph = aten_graph(module, inputs, fake_mode(inputs))
    share_constants(graph)
    return graph, roll_loops(graph, plain=True)


def _trace_bodies(module: GraphModule) -> None:
    """Take operators of others in loops apart, of which PyTorch's loops would show no gradients."""
    for name, body in list(module.named_children()):
        if isinstance(body, GraphModule) and has_operators_of_others(body):
            places = body.graph.find_nodes(op="placeholder")
            fakes = [node.meta["example_value"] for node in places]
            setattr(module, name, aten_graph(body, fakes, fake_mode(fakes)))


def _copy(module: GraphModule) -> GraphModule:
    """A graph without what makes no difference to its values; PyTorch may yet run the own one."""
    copy = copy_of(module)
    without_marks(copy)
    without_switches(copy, known=True)
    name_aliases(copy)
    return copy


def _check_worth(graph: GraphModule, rolled: Rolled) -> None:
    """Refuse a graph that has no recurrent parts, and one that is an unrolled loop."""
    targets = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    layers = any(t is RECURRENT or t in LOOPS or recurrent_kind(t) is not None for t in targets)
    cells = sum(t in CELLS or t in CELLS.values() for t in targets)
    repeats = 0 if rolled.unrolled is None else rolled.unrolled[1]
    is_loop = repeats >= MOST_CELLS and cells > MOST_CELLS
    if is_loop or (repeats and not (layers or cells or rolled.lengths)):
        error = unrolled(rolled)
        raise _Unneeded(error.location, error.what, error.hint)
    if not (layers or cells or rolled.lengths):
        raise _Unneeded("", "a graph holds no recurrent layer, cell or loop")
    if cells > MOST_CELLS:
        raise _Unneeded("", f"a graph holds {cells} calls of cells: rnncc.torch.scan is a loop")


def _lowered(graph: GraphModule, fakes: Sequence[Any], names: dict[str, str]) -> Callable[..., Any]:
    """A graph of aten operators, compiled; names are those of symbols of sizes."""
    b, sizes = Builder.net("graph"), Sizes(names)

    def value_of(number: int, fake: Any) -> Any:
        if not isinstance(fake, torch.Tensor):
            return sizes(fake)
        return declared(b, b.input, f"x{number}", fake, [sizes(size) for size in fake.shape])

    values = [value_of(number, fake) for number, fake in enumerate(fakes)]
    lowered = lower_graph(graph, b, values, sizes, Random(b))
    if not all(isinstance(value, (SSAValue, Complex)) for value in lowered):
        raise CompileError("", "a graph gives what is no tensor")
    outputs = {f"y{i}": value for i, value in enumerate(lowered)}
    results: Any = graph.graph.output_node().args[0]
    tensors = [x for x in fakes if isinstance(x, torch.Tensor)]
    dtypes = Dtypes.of(tensors, outputs, results)
    net = TorchNet.of(b.finish(given_out(b, outputs)), dtypes)

    def run(*arguments: Any) -> list[torch.Tensor]:
        return apply(net, [x for x in arguments if isinstance(x, torch.Tensor)])

    return run
