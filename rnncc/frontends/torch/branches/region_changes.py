# pyright: basic, reportMissingImports=false
"""What a way of a branch, or the body of a loop, changes in place that it has not made.

A graph that PyTorch may leave out or run again changes nothing of others. So such a part changes a
copy of its own and gives that, too, and behind the call the tensor becomes what was given.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by, memories_of
from rnncc.frontends.torch.unrolled.view import is_call, value_of, with_value

_HINT = "x = x + 1, not x += 1"


def reads_of(part: Sequence[Node]) -> list[Node]:
    """What a part reads of others."""
    inside = set(part)
    return [x for node in part for x in node.all_input_nodes if x not in inside]


def memories_read(part: Sequence[Node]) -> set[int]:
    """The memories of what a part reads of others."""
    return {key for node in reads_of(part) for key in memories_of(value_of(node))}


def share(node: Node, memories: Collection[int]) -> bool:
    """Whether a tensor is in one of them."""
    return any(key in memories for key in memories_of(value_of(node)))


def name_changed(part: Sequence[Node]) -> None:
    """Let others, which read what a change in place gives, read the tensor that was changed."""
    inside = set(part)
    for node in part:
        changed = _whole(node)
        while changed in inside and _whole(changed) is not None:
            changed = _whole(changed)
        if changed is not None and changed not in inside:
            for user in [user for user in node.users if user not in inside]:
                user.replace_input_with(node, changed)


def name_given(part: Sequence[Node]) -> None:
    """Let others read what a part was given where an operator of it gives the very same tensor,
    as `contiguous` does of a contiguous one: from then on a trace calls that by the result."""
    inside = set(part)
    for node in part:
        origin = node
        while origin in inside and (source := _same_tensor(origin)) is not None:
            origin = source
        if origin is not node:
            for user in [user for user in node.users if user not in inside]:
                user.replace_input_with(node, origin)


def _same_tensor(node: Node) -> Node | None:
    """The operand that an operator gives as it is."""
    source: Any = node.args[0] if node.args else None
    # In graphs of Dynamo's the target may be a method's name, too.
    of_python = getattr(node.target, "__module__", "") == "_operator"
    if not is_call(node) or of_python or changed_by(node) is not None:
        return None
    if not isinstance(source, Node) or _layout_of(source) is None:
        return None
    if _layout_of(node) != _layout_of(source):
        return None
    args, kwargs = map_arg((node.args, node.kwargs), value_of)  # pyright: ignore
    call: Any = node.target
    if node.op == "call_method":
        call, args = getattr(args[0], call), args[1:]
    return source if call(*args, **kwargs) is value_of(source) else None


def _layout_of(node: Node) -> list[str] | None:
    """How a tensor lies in which memory, in words: to compare open sizes would fix them."""
    x = value_of(node)
    if not isinstance(x, torch.Tensor):
        return None
    return [*map(str, (x.dtype, x.shape, x.stride(), x.storage_offset(), memories_of(x)))]


def _whole(node: Node) -> Node | None:
    """The tensor that a node changes and gives."""
    changed = changed_by(node)
    if changed is None or changed is node or not isinstance(value_of(node), torch.Tensor):
        return None
    return changed if memories_of(value_of(node)) == memories_of(value_of(changed)) else None


def changed_in(part: Sequence[Node], name: str) -> dict[Node, Node]:
    """The tensors of others that a part changes in place, and what does so first.

    Raises:
        CompileError: it reads another one that shares memory with such a one, or it cannot be told
            what is changed.
    """
    read, newest = dict.fromkeys(reads_of(part)), dict[Node, Node]()
    for node in part:
        changed = changed_by(node)
        if changed is None:
            continue
        keys = memories_of(value_of(changed))
        sources = [x for x in read if share(x, keys)]
        if changed is node or len(sources) > 1:
            refuse_change(node, name, "reads it by several names")
        newest = dict.fromkeys(sources, node) | newest
    return newest


def refuse_change(node: Node, name: str, reason: str) -> NoReturn:
    """Refuse a change in place of what a part has not made."""
    what = f"a {name} on a tensor's value changes a tensor in place that it has not made, and"
    raise CompileError(location(node), f"{what} {reason}", _HINT)


def check_apart(changed: Mapping[Node, Node], read: Sequence[Node], name: str) -> None:
    """Refuse changed tensors, each with what changes it, of which more than one is read that share
    memory."""
    for source, node in changed.items():
        keys = memories_of(value_of(source))
        if sum(share(other, keys) for other in read) > 1:
            refuse_change(node, name, "reads it by several names")


def copied_within(graph: Graph, place: Node) -> Node:
    """A copy that a part makes of what it is given, with the memory that its changes name."""
    own = graph.call_function(torch.ops.aten.clone.default, (place,))
    own.meta = dict(place.meta)
    place.meta = with_value(place.meta, elsewhere(place))
    return own


def put_behind(call: Node, taken: Sequence[tuple[Node, Node]]) -> None:
    """Let tensors be what a call gives of them: pairs of both."""
    graph: Any = call.graph
    after = call
    for value, changed in taken:
        with graph.inserting_after(after if value < after else value):
            after = graph.call_function(torch.ops.aten.copy_.default, (changed, value))
        after.meta = with_value(call.meta, value_of(changed))


def elsewhere(node: Node) -> torch.Tensor:
    """The same kind of tensor as a node's, in memory of its own."""
    with torch.no_grad():
        return value_of(node).clone()
