# pyright: basic, reportMissingImports=false
"""Reads of tensors that were changed part by part: what was put there is read itself.

    a1 = put(a0, 4, row)           a1 = put(a0, 4, row)
    x = a1[4]                 ->   x = row
    y = a1[5]                      y = a0[5]

So a loop that reads the rows of earlier steps (`out[t] = f(out[t - 1])`) carries them. Where steps
read and replace the same part (`state[layer] = f(x, state[layer])`), the first of them reads what
the tensor was made of, before the loop: else it alone would have a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.frontends.torch.unrolled.editor import Editor
from rnncc.frontends.torch.unrolled.places import AxisPart, TensorPart, read_of, write_of
from rnncc.frontends.torch.unrolled.view import is_call, type_of, value_of

_Writes = dict[Node, tuple[TensorPart, Any]]
_Part = tuple[Node, tuple[AxisPart, ...]]
"""Of a tensor as it was before all writes."""


def forward_parts(module: GraphModule, plain: bool) -> None:
    """Let reads look through changes of other parts, in a graph without changes in place.

    Args:
        module: nodes know their results as fakes; changed in place.
        plain: whether it is lowered as it is; else it is traced again, and views made of what is
            read have to stay possible.
    """
    writes, editor = _Writes(), Editor(module, plain)
    calls = [node for node in module.graph.nodes if is_call(node)]
    writing = {node for node in calls if write_of(node) is not None}
    first, replaced = list[tuple[_Part, Node]](), set[_Part]()
    for node in calls if writing else ():
        if node in writing and (write := write_of(node)) is not None:  # by now of other tensors
            writes[node] = _over(node, *write, writes)
        elif (place := read_of(node)) is not None:
            part = _first_of(place, writes), tuple(place.parts)
            if place.base in writes and _forward(node, place, writes, editor):
                replaced.add(part)
            else:
                first.append((part, node))
    # of these each step has a part of its own
    swept = {part[0] for part, _ in first if part not in replaced}
    for (base, _), node in first:
        if base not in swept and node.args[0] is base:
            _read_early(node, base)


def _first_of(place: TensorPart, writes: _Writes) -> Node:
    """The tensor before all writes."""
    base = place.base
    while base in writes:
        base = writes[base][0].base
    return base


def _read_early(node: Node, base: Node) -> None:
    """Move a read to where the tensor was made."""
    while base.next.op in ("placeholder", "get_attr"):
        base = base.next
    base.append(node)


def _over(node: Node, place: TensorPart, value: Any, writes: _Writes) -> tuple[TensorPart, Any]:
    """A write, which takes up the tensor before the last one where that wrote the same part."""
    last = place.base
    if last not in writes or node.args[0] is not last or writes[last][0].parts != place.parts:
        return place, value
    base = writes[last][0].base
    node.args = (base, *node.args[1:])
    if not last.users:
        del writes[last]
        last.graph.erase_node(last)
    return replace(place, base=base), value


def _forward(node: Node, place: TensorPart, writes: _Writes, editor: Editor) -> bool:
    """Read what a read finds; whether that is what was written."""
    base = place.base
    while (write := writes.get(base)) is not None:
        written, value = write
        if written.parts == place.parts:
            if not _is_as(value, node):
                break
            if not editor.plain and not value_of(value).is_contiguous():
                editor.like = node
                with editor.graph.inserting_before(node):
                    value = editor.apart(value)
            node.replace_all_uses_with(value)
            editor.graph.erase_node(node)
            return True
        if not _apart(written.parts, place.parts):
            break
        base = written.base
    if base is not place.base and node.args[0] is place.base:  # no result of a split
        node.args = (base, *node.args[1:])
    return False


def _is_as(value: Any, node: Node) -> bool:
    """Whether what was put somewhere has the type of what is read there."""
    tensor = value_of(value) if isinstance(value, Node) else None
    return isinstance(tensor, torch.Tensor) and type_of(tensor) == type_of(value_of(node))


def _apart(one: Sequence[AxisPart], other: Sequence[AxisPart]) -> bool:
    """Whether two parts of a tensor have no element in common."""
    return any(
        a.size is not None
        and b.size is not None
        and (a.start + a.size <= b.start or b.start + b.size <= a.start)
        for a, b in zip(one, other, strict=True)
    )
