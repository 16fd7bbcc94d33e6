# pyright: basic, reportMissingImports=false
"""Graphs without changes in place: what is changed becomes a new tensor.

Only where that is plain to see: the tensor was made within the graph, and no view of it is read
after a change. All else is left to PyTorch's tracing.
"""

from __future__ import annotations

import inspect
import operator
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch.amp.autocast_mode import _enter_autocast
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.unrolled.editor import Editor
from rnncc.frontends.torch.unrolled.places import put, read_of, write_of
from rnncc.frontends.torch.unrolled.view import known, name_of, parts_of, type_of, value_of

_FUNCTIONS: dict[Any, Any] = {
    getattr(operator, f"i{name}"): getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
} | {getattr(operator, f"i{name}"): getattr(operator, f"{name}_") for name in ("and", "or")}
_FUNCTIONS |= {
    getattr(operator, f"i{x}"): getattr(operator, x) for x in ("xor", "lshift", "rshift")
}
_FILLS = ("copy_", "fill_", "zero_")


def without_changes(module: GraphModule) -> bool:
    """Take changes in place out of a graph; whether none is left. If so, the graph was changed.

    Where autocast is switched, calls change what they compute in, and tensors within transforms of
    torch.func have no known memory: such graphs stay as they are. So do those with a
    graph inside, such as a region without gradients, that changes what it is given.
    """
    if any(node.target is _enter_autocast or _is_wrapped(node) for node in module.graph.nodes):
        return False
    if any(part is not module and _changes_inputs(part) for part in graphs_of(module)):
        return False
    _settle_sizes(module)
    _name_places(module)
    changes = {
        node: target for node in module.graph.nodes if (target := changed_by(node)) is not None
    }
    if not changes:
        return True
    memories = _Memories(module, changes)
    if not all(memories.is_plain(node) for node in changes):
        return False
    editor = Editor(module, plain=False)
    if not all(_replace(editor, memories, node) for node in list(module.graph.nodes)):
        return False
    for node in reversed(changes):
        module.graph.erase_node(node)
    return True


def _settle_sizes(module: GraphModule) -> None:
    """Let what was computed of sizes be numbers, where TorchDynamo settled the sizes."""

    def number(leaf: Node) -> Any:
        size = value_of(leaf)
        settled = known(size) if isinstance(size, torch.SymInt) else None
        return leaf if settled is None else settled

    for node in module.graph.nodes:
        if node.op != "output":
            node.args = map_arg(node.args, number)
            node.kwargs = map_arg(node.kwargs, number)


def _name_places(module: GraphModule) -> None:
    """Let what aten copies over part of a tensor be `x[i] = y`, as it was in Python."""
    copies = module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    for node in copies:
        part: Any = node.args[0]
        place = _place_on_axis(part)
        if place is None or node.users or set(part.users) != {node}:
            continue
        base, axis = part.args[:2]
        index = (*[slice(None)] * (axis % value_of(base).dim()), place)
        with module.graph.inserting_before(node):
            write = module.graph.call_function(operator.setitem, (base, index, node.args[1]))
        write.meta = {key: x for key, x in node.meta.items() if key == "stack_trace"}
        module.graph.erase_node(node)
        module.graph.erase_node(part)


def _place_on_axis(part: Node) -> int | slice | None:
    """Which part of an axis aten takes, if its bounds are numbers."""
    numbers: list[Any] = list(part.args[2:])
    if part.kwargs or not all(isinstance(x, int) for x in numbers):
        return None
    if part.target is torch.ops.aten.select.int:
        return numbers[0]
    whole = part.target is torch.ops.aten.slice.Tensor and len(numbers) == 2
    return slice(*numbers) if whole else None


def _is_wrapped(node: Node) -> bool:
    parts = parts_of(value_of(node))
    return any(isinstance(x, torch.Tensor) and is_functorch_wrapped_tensor(x) for x in parts)


def changed_by(node: Node) -> Node | None:
    """The tensor that a node changes; the node itself, if it is not known."""
    target: Any = node.target
    first: Any = node.args[0] if node.args else None
    if node.op not in ("call_function", "call_method"):
        return None
    if isinstance(target, torch._ops.OpOverload):
        changes = target._schema.is_mutable
    else:
        name, of_python = name_of(node), getattr(target, "__module__", "") == "_operator"
        # `and_`, `or_` and `not_` are Python's names for what changes nothing.
        in_place = name.endswith("_") and not name.endswith("__") and not of_python
        changes = target is operator.setitem or target in _FUNCTIONS or in_place
        changes = changes or _is_in_place(node)
        if "out" in node.kwargs:
            changes, first = True, node.kwargs["out"]
    if not changes or (isinstance(first, Node) and not type_of(value_of(first))):
        return None  # a list of Python's, or a size
    return first if isinstance(first, Node) else node


def _changes_inputs(module: GraphModule) -> bool:
    """Whether a graph may change what it is given: something is changed beside that."""
    places = module.graph.find_nodes(op="placeholder")
    memories = {key for place in places for key in memories_of(value_of(place))}
    changing = (node for node in module.graph.nodes if changed_by(node) is not None)
    used = (value_of(x) for node in changing for x in node.all_input_nodes)
    return any(not memories.isdisjoint(memories_of(value)) for value in used)


def _is_in_place(node: Node) -> bool:
    bound = _bound(node)
    return bound is not None and bool(bound.arguments["inplace"])


def _bound(node: Node) -> inspect.BoundArguments | None:
    """The arguments of a function of PyTorch that may work in place."""
    target: Any = node.target
    if not getattr(target, "__module__", "").startswith("torch.nn.functional"):
        return None
    if "inplace" not in inspect.signature(target).parameters:
        return None
    bound = inspect.signature(target).bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return bound


class _Memories:
    """Which nodes share memory.

    Args:
        module: the graph.
        changes: the nodes that change a tensor, and which.
    """

    def __init__(self, module: GraphModule, changes: dict[Node, Node]) -> None:
        self.changes = changes
        self.at = {node: i for i, node in enumerate(module.graph.nodes)}
        self.sharing = defaultdict[int, list[Node]](list)
        for node in module.graph.nodes:
            for key in memories_of(value_of(node)):
                self.sharing[key].append(node)
        self._plain, self._whole = dict[int, bool](), dict[Node, bool]()
        self.newest = dict[int, Node]()
        """The tensor that a memory holds by now."""
        self.added = {node for node in changes if self._is_written_back(node)}
        """Changes of a row that is written back by the next node."""

    def key(self, node: Node) -> int:
        """The memory of a tensor."""
        return memories_of(value_of(node))[0]

    def is_plain(self, node: Node) -> bool:
        """Whether a change is one of a tensor as a whole, whose views were read before."""
        target = self.changes[node]
        if node in self.added:
            return True
        if not isinstance(value_of(target), torch.Tensor) or target is node:
            return False
        key = self.key(target)
        if not self._is_whole(target):
            return False
        if key not in self._plain:
            self._plain[key] = self._changes_are_plain(key)
        return self._plain[key]

    def _changes_are_plain(self, key: int) -> bool:
        """Whether all changes of a memory that a call has made are of whole tensors."""
        nodes = self.sharing[key]
        if nodes[0].op not in ("call_function", "call_method"):
            return False
        when = [self.at[n] for n in nodes if n in self.changes and n not in self.added]
        among = set(nodes)
        when += [self.at[n] for n, t in self.changes.items() if t in among and n not in self.added]
        return all(self._is_whole(n) or self._is_over(n, when) for n in nodes)

    def _is_whole(self, node: Node) -> bool:
        first, chain = self.sharing[self.key(node)][0], list[Node]()
        while node is not first and node in self.changes and node not in self._whole:
            chain.append(node)
            node = self.changes[node]
        is_whole = self._whole.get(node, node is first)
        self._whole |= dict.fromkeys(chain, is_whole)
        return is_whole

    def _is_over(self, view: Node, changes: Iterable[int]) -> bool:
        """Whether a view is read before the next change alone."""
        last = max((self.at[user] for user in view.users), default=0)
        return not any(self.at[view] < change < last for change in changes)

    def _is_written_back(self, node: Node) -> bool:
        """`x[i] += y`: a row is read, changed, and written back."""
        row, after = self.changes[node], node.next
        if node.target not in _FUNCTIONS or after.target is not operator.setitem:
            return False
        read, written = read_of(row), write_of(after)
        return (
            written is not None
            and written == (read, node)
            and set(row.users) == {node}
            and set(node.users) == {after}
            and row.next is node
        )


def memories_of(value: Any) -> list[int]:
    """What tells the memory of tensors apart."""
    return [
        unwrapped(x).untyped_storage()._cdata
        for x in parts_of(value)
        if isinstance(x, torch.Tensor)
    ]


def unwrapped(x: torch.Tensor) -> torch.Tensor:
    """A tensor without what transforms of torch.func put around it: that of all instances."""
    while is_functorch_wrapped_tensor(x):
        x = get_unwrapped(x)
    return x


def _replace(editor: Editor, memories: _Memories, node: Node) -> bool:
    """Let a node read the newest tensors, and make one if it changes a tensor."""

    def newest(read: Node) -> Node:
        keys = memories_of(value_of(read))
        known = len(keys) == 1 and read in memories.at and memories._is_whole(read)
        return memories.newest.get(keys[0], read) if known else read

    node.args, node.kwargs = map_arg(node.args, newest), map_arg(node.kwargs, newest)
    if node not in memories.changes:
        return True
    with editor.graph.inserting_before(node):
        editor.like = node
        changed = _made(editor, node)
    if changed is None:
        return False
    if node in memories.added:
        node.replace_all_uses_with(changed)
    else:
        memories.newest[memories.key(memories.changes[node])] = changed
    return True


def _made(editor: Editor, node: Node) -> Node | None:
    """What a node would make instead of a change."""
    target: Any = node.target
    args: Any = node.args
    if target is operator.setitem:
        changed = editor.new(put, *args)
    elif target in _FUNCTIONS:
        changed = editor.new(_FUNCTIONS[target], *args, **node.kwargs)
    elif node.op == "call_method" and target in _FILLS:
        changed = editor.new(put, args[0], ..., *(args[1:2] or (0,)))
    elif (bound := _bound(node)) is not None:
        bound.arguments["inplace"] = False
        changed = editor.new(target, *bound.args, **bound.kwargs)
    elif (same := _without_change(node.target)) is not None:
        changed = editor.new(same, *args, **node.kwargs)
    elif node.op == "call_method" and (target == "detach_" or _is_pointwise(target)):
        changed = editor.new(getattr(torch.Tensor, target[:-1]), *args, **node.kwargs)
    else:
        return None
    return changed if type_of(value_of(changed)) == type_of(value_of(args[0])) else None


def _without_change(operator: Any) -> Any:
    """The operator of aten that makes what another one puts into its first argument."""
    if not isinstance(operator, torch._ops.OpOverload):
        return None
    name = operator._schema.name.partition("::")[2]
    packet = getattr(torch.ops.aten, name[:-1], None)
    if packet is None or not (_is_pointwise(name) or name in _FILLS):
        return None
    overloads = (getattr(packet, each) for each in packet.overloads())
    return next((x for x in overloads if _arguments(x) == _arguments(operator)), None)


def _arguments(operator: Any) -> list[tuple[str, str]]:
    return [(x.name, str(x.type)) for x in operator._schema.arguments]


def _is_pointwise(name: str) -> bool:
    """Whether a method computes the same as the one that does it in place."""
    packet = getattr(torch.ops.aten, name, None)
    overloads = () if packet is None else packet.overloads()
    tags = {tag for overload in overloads for tag in getattr(packet, overload).tags}
    known = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    return hasattr(torch.Tensor, name[:-1]) and (known or name == "masked_fill_")
