# pyright: basic, reportMissingImports=false
"""States that a step changes in place, as `h += x` does: a loop changes copies of them.

After the loop the first state's own tensors hold the last values, as after a loop in Python.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of, unwrapped
from rnncc.frontends.torch.unrolled.view import name_of, results_of, value_of


def change_copies(
    module: GraphModule, states: Sequence[int | None], own: int, ys: int
) -> frozenset[int]:
    """Let a graph change copies of the states that it changes; their numbers.

    Args:
        module: gives rows of ys, then the next states; changed in place.
        states: the numbers of the inputs that are states.
        own: how many of them are the caller's. Of the others, which the cell keeps, the graph
            makes copies itself.
        ys: how many rows it gives.

    Raises:
        CompileError: a result shares its memory with such a state, or is another tensor.
    """
    writers = {_memory(x): node for node in module.graph.nodes if (x := changed_by(node))}
    inputs, results = module.graph.find_nodes(op="placeholder"), results_of(module)
    unread = {ys + number for number, at in enumerate(states) if at is None}
    changed = set[int]()
    for number, at in enumerate(states):
        if at is None:
            continue
        begun = inputs[at] if number < own else _copy_of(inputs[at])
        writer = None if begun is None else writers.get(_memory(begun))
        if writer is None:
            continue
        after = results[ys + number]
        others = [x for i, x in enumerate(results) if i not in unread | {ys + number}]
        if any(_memory(other) == _memory(after) for other in others):
            what = "a tensor that the next step changes in place is given twice, as a state and"
            raise CompileError(location(writer), f"{what} otherwise", "h.clone() beside the state")
        if number < own:
            if _whole(after) != _whole(begun):
                what = "a step changes a state in place, and gives another tensor as the next one"
                raise CompileError(location(writer), what, "h = h + x, not h += x")
            if _is_detached(after):
                what = "a step changes a state in place, and detaches it"
                raise CompileError(location(writer), what, "h = h.detach() + x, not h += x")
            changed.add(number)
    for number in changed:
        at: Any = states[number]
        with module.graph.inserting_after(inputs[-1]):
            copy = module.graph.call_method("clone", (inputs[at],))
        copy.meta = dict(inputs[at].meta)
        inputs[at].replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)
    module.recompile()
    return frozenset(changed)


def check_apart(
    numbers: Collection[int], states: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> None:
    """Refuse states that are changed in place where something else may be in their memory."""
    if not numbers:
        return
    spans = [_span(x) for x in (*states, *others)]
    for number in numbers:
        first, last = spans[number]
        if any(i != number and a < last and first < b for i, (a, b) in enumerate(spans)):
            what = f"state {number} is changed in place, and shares its memory with something else"
            raise CompileError("", what, "h.clone() as the first state")


def counted_together(numbers: Collection[int], states: Sequence[torch.Tensor]) -> list[int]:
    """The states that count as changed in place, to autograd, where some are: with a view, what
    is in the same storage counts as changed."""
    places = [unwrapped(x).untyped_storage().data_ptr() for x in states] if numbers else []
    changed = {places[number] for number in numbers}
    return [number for number, place in enumerate(places) if place in changed]


def _span(x: torch.Tensor) -> tuple[Any, Any]:
    """Where a tensor's memory begins and ends."""
    plain = unwrapped(x)
    first = plain.untyped_storage().data_ptr() + plain.storage_offset() * plain.element_size()
    if plain.numel() == 0:
        return first, first
    steps = sum((size - 1) * step for size, step in zip(plain.shape, plain.stride(), strict=True))
    return first, first + (steps + 1) * plain.element_size()


def _copy_of(place: Node) -> Node | None:
    return next((user for user in place.users if user.target == "clone"), None)


def _is_detached(node: Any) -> bool:
    """Whether a tensor is another one's memory with a history of its own."""
    memory = _memory(node)
    while isinstance(node, Node) and node.op != "placeholder":
        if name_of(node) == "detach":
            return True
        node = next((x for x in node.all_input_nodes if _memory(x) == memory), None)
    return False


def _memory(node: Any) -> int | None:
    """Which memory a tensor has; None for what is no tensor."""
    value = value_of(node) if isinstance(node, Node) else None
    return memories_of(value)[0] if isinstance(value, torch.Tensor) else None


def _whole(node: Any) -> tuple[Any, ...]:
    """What tells a tensor from its views."""
    x: Any = value_of(node)
    return _memory(node), str(x.shape), str(x.stride()), str(x.storage_offset()), x.dtype
