# pyright: basic, reportMissingImports=false
"""Tensors from outside that a graph of TorchDynamo changes in place, such as running statistics.

    n.add_(1)             copy = n.clone()
    return y        ->    copy.add_(1)
                          return y, copy

What a call finds in the copy, it puts into the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn.functional import batch_norm, instance_norm

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import copy_of
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.trace import refused_by
from rnncc.frontends.torch.unrolled.editor import Editor
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import type_of, value_of
from rnncc.records import record

_ATEN: Any = torch.ops.aten
_ARGUMENTS = "input running_mean running_var weight bias {} momentum eps"
_NORMS: dict[Any, tuple[str, bool]] = {
    batch_norm: ("training", False),
    instance_norm: ("use_input_stats", True),
}
"""What says whether statistics change, and what it is where it is left out."""


@record
class Written:
    """What a graph changes.

    Attributes:
        inputs: the numbers of inputs.
        results: of results that are such inputs: result -> input.
    """

    inputs: Sequence[int]
    results: Mapping[int, int]


def with_copies(module: GraphModule) -> tuple[GraphModule, Written | None]:
    """The graph that changes copies, which it also gives, and what it changed before; the graph
    itself if that is nothing.

    Raises:
        CompileError: it changes what has gradients, or gives part of what it changes.
    """
    has_norms = any(node.target in _NORMS for node in module.graph.nodes)
    if not has_norms and not _changed(module)[0]:
        return module, None
    own = copy_of(module)
    editor = Editor(own, plain=False)
    with refused_by("", "batch norm"):
        for norm in _NORMS:
            for node in own.graph.find_nodes(op="call_function", target=norm):
                _name_statistics(editor, node)
    changed, writers = _changed(own)
    if not changed:
        return module, None
    places = own.graph.find_nodes(op="placeholder")
    output = own.graph.output_node()
    results: Any = output.args[0]
    same = {
        i: number for i, x in enumerate(results) for number in changed if _is_in(x, places[number])
    }
    for i, number in same.items():
        if type_of(value_of(results[i])) != type_of(value_of(places[number])):
            what = "part of a tensor that is changed in place is a result"
            raise CompileError(location(results[i]), what)
    copies = [_copy_of(editor, places[i], places[-1], writers) for i in changed]
    output.args = ((*output.args[0], *copies),)  # pyright: ignore
    own.recompile()
    return own, Written(changed, same)


def _changed(module: GraphModule) -> tuple[list[int], dict[int | None, Node]]:
    """The numbers of the inputs that a graph changes in place, and what changes each memory."""
    nodes = module.graph.nodes
    writers = {_memory(x): node for node in nodes if (x := changed_by(node)) is not None}
    places = module.graph.find_nodes(op="placeholder") if writers else ()
    return [i for i, place in enumerate(places) if _memory(place) in writers], writers


def _is_in(value: Any, place: Node) -> bool:
    return isinstance(value, Node) and _memory(value) == _memory(place)


def _memory(node: Node) -> int | None:
    """Which memory a tensor has; None for what is no tensor."""
    value = value_of(node)
    return memories_of(value)[0] if isinstance(value, torch.Tensor) else None


def _copy_of(editor: Editor, place: Node, last: Node, changes: dict[Any, Node]) -> Node:
    """A copy that stands for an input from here on, with its fake; the input has another."""
    value = value_of(place)
    if value.requires_grad:
        what = "a tensor from outside that has gradients is changed in place"
        raise CompileError(location(changes[_memory(place)]), what)
    with editor.graph.inserting_after(last):
        copy = editor.graph.call_method("clone", (place,))
    copy.meta = dict(place.meta)
    place.replace_all_uses_with(copy, lambda user: user is not copy)
    place.meta = {**place.meta, editor.key: editor.fake(torch.clone, value)}
    return copy


def _name_statistics(editor: Editor, node: Node) -> None:
    """Let the changes that a norm makes to what it is given be calls of their own."""
    training, by_default = _NORMS[node.target]
    names = _ARGUMENTS.format(training).split()
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    mean, var = arguments.get("running_mean"), arguments.get("running_var")
    if (
        not isinstance(mean, Node)
        or not isinstance(var, Node)
        or arguments.get(training, by_default) is not True
    ):
        return
    numbers = arguments.get("momentum", 0.1), arguments.get("eps", 1e-5)
    if not all(type(x) in (int, float) for x in numbers):
        return
    editor.like = node
    operands = (
        arguments["input"],
        arguments.get("weight"),
        arguments.get("bias"),
        mean,
        var,
        *numbers,
    )
    with editor.graph.inserting_before(node):
        result, *new = (_of_batch if node.target is batch_norm else _of_instances)(
            editor, *operands
        )
        for old, value in zip((mean, var), new, strict=True):
            change = editor.graph.call_method("copy_", (old, value))
            change.meta = dict(old.meta)
    node.replace_all_uses_with(result)
    editor.graph.erase_node(node)


def _of_batch(
    editor: Editor, x: Any, weight: Any, bias: Any, mean: Node, var: Node, *numbers: Any
) -> list[Node]:
    """What batch norm gives, and the next statistics."""
    function = _ATEN._native_batch_norm_legit_functional.default
    normalised = editor.new(function, x, weight, bias, mean, var, True, *numbers)
    return [editor.taken(normalised, i) for i in (0, 3, 4)]


def _of_instances(
    editor: Editor, x: Any, weight: Any, bias: Any, mean: Node, var: Node, *numbers: Any
) -> list[Node]:
    """The same of instance norm: its statistics are averages over the batch."""
    result = editor.new(instance_norm, x, None, None, weight, bias, True, *numbers)
    detached = editor.new(torch.detach, x)
    axes = list(range(2, value_of(x).dim()))
    own = editor.new(torch.mean, detached, axes), editor.new(torch.var, detached, axes)
    averages = [editor.new(torch.mean, part, [0]) for part in own]
    pairs = zip((mean, var), averages, strict=True)
    return [result, *(editor.new(torch.lerp, old, new, numbers[0]) for old, new in pairs)]


def writing(
    run: Callable[..., Any], written: Written, original: Callable[..., Any]
) -> Callable[..., Any]:
    """A run whose last results are put into the arguments that it changes.

    Args:
        run: gives the results, then the new values.
        original: computes the same where arguments share memory.
    """

    def write(*arguments: Any) -> list[torch.Tensor]:
        own = [arguments[i] for i in written.inputs]
        if _overlap(own, arguments):
            return original(*arguments)
        copies = list(arguments)
        if torch.is_grad_enabled():  # backward reads what was there before
            for i in written.inputs:
                copies[i] = copies[i].clone()
        results = list(run(*copies))
        for tensor, new in zip(own, results[len(results) - len(own) :], strict=True):
            tensor.copy_(new)
        for i, number in written.results.items():
            results[i] = arguments[number]
        return results[: len(results) - len(own)]

    return write


def _overlap(own: Sequence[torch.Tensor], arguments: Sequence[Any]) -> bool:
    """Whether another argument has memory of the changed ones."""
    places = [x.untyped_storage().data_ptr() for x in arguments if isinstance(x, torch.Tensor)]
    return any(places.count(x.untyped_storage().data_ptr()) > 1 for x in own if x.numel())
