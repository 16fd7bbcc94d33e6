# pyright: basic, reportMissingImports=false
"""Tensors that are filled with another number at each repeat, as sums with that number.

    torch.full((n,), 7)   ->   torch.full((n,), 0) + 7
    torch.where(m, 7, x)  ->   torch.where(m, torch.full((), 0) + 7, x)

Numbers may differ between the repeats of a loop in arithmetic alone (`roles.py`).
"""

from __future__ import annotations

from collections import defaultdict
from math import copysign
from typing import Any

import torch
from torch.fx import GraphModule, Node

from rnncc.frontends.torch.unrolled.editor import Editor, aten
from rnncc.frontends.torch.unrolled.view import is_call, is_number, name_of, type_of, value_of

_PLACES = {"full": 1, "full_like": 1, "new_full": 2, "tensor": 0, "scalar_tensor": 0}
"""What makes a tensor of one number, and which argument that is."""
_OPERANDS = {"where": (1, 2), "masked_fill": (2,), "lerp": (2,)}
"""What takes a tensor of rank 0 for a number, and which arguments these are."""
_OF_TENSORS = {
    "where": aten.where.self,
    "masked_fill": aten.masked_fill.Tensor,
    "lerp": aten.lerp.Tensor,
}


def add_numbers(module: GraphModule, plain: bool) -> None:
    """Let fills of one kind that have several numbers be sums.

    Args:
        module: nodes know their results as fakes; changed in place.
        plain: whether it is lowered as it is; else it is traced again.
    """
    kinds = defaultdict[str, list[tuple[Node, int | float]]](list)
    for node in module.graph.nodes:
        number = _number(node) if is_call(node) and name_of(node) in _PLACES else None
        if number is not None:
            kinds[f"{name_of(node)} {type_of(value_of(node))}"].append((node, number))
    several = [fills for fills in kinds.values() if len({number for _, number in fills}) > 1]
    editor = Editor(module, plain) if several else None
    for fills in several:
        for node, number in fills:
            assert editor is not None
            _add(node, number, editor)
    _add_operands(module, plain)


def _add_operands(module: GraphModule, plain: bool) -> None:
    """Let operands that are several numbers be such sums, of rank 0."""
    kinds = defaultdict[str, list[tuple[Node, int]]](list)
    for node in module.graph.nodes:
        for place in _OPERANDS.get(name_of(node), ()) if is_call(node) else ():
            if place < len(node.args) and _fits(node.args[place], value_of(node)):
                kinds[f"{name_of(node)} {place} {type_of(value_of(node))}"].append((node, place))
    several = [each for each in kinds.values() if len({str(node.args[i]) for node, i in each}) > 1]
    editor = Editor(module, plain) if several else None
    for node, place in (pair for each in several for pair in each):
        assert editor is not None
        editor.like, kind = node, value_of(node)
        with editor.graph.inserting_before(node):
            zero = editor.new(aten.full.default, [], 0, dtype=kind.dtype, device=kind.device)
            number = editor.new(aten.add.Tensor, zero, node.args[place])
        node.update_arg(place, number)
        if isinstance(node.target, torch._ops.OpOverload):
            node.target = _OF_TENSORS[name_of(node)]


def _number(node: Node) -> int | float | None:
    """What a node fills a tensor with, if a sum with zeros is the same."""
    filling, kind = _filling(node), value_of(node)
    value: Any = filling[0] if isinstance(filling, (list, tuple)) and len(filling) == 1 else filling
    is_filled = isinstance(kind, torch.Tensor) and not kind.requires_grad
    return value if is_filled and _fits(value, kind) else None


def _fits(value: Any, kind: Any) -> bool:
    """Whether a tensor of a number is the sum of one of zeros with it."""
    if not is_number(value) or not isinstance(kind, torch.Tensor):
        return False
    fits = kind.dtype.is_floating_point or (type(value) is int and kind.dtype != torch.bool)
    is_negative_zero = value == 0 and copysign(1, value) < 0
    return fits and not kind.dtype.is_complex and not is_negative_zero


def _filling(node: Node) -> Any:
    place = _PLACES[name_of(node)]
    return node.args[place] if place < len(node.args) else node.kwargs.get("fill_value")


def _add(node: Node, number: int | float, editor: Editor) -> None:
    filled = value_of(node)
    editor.like = node
    with editor.graph.inserting_before(node):
        if name_of(node) in ("tensor", "scalar_tensor"):  # a tracer would hold it as a constant
            options = {"dtype": filled.dtype, "device": filled.device}
            zeros = editor.new(aten.full.default, list(filled.shape), 0, **options)
        else:
            zeros = editor.graph.node_copy(node)
            _fill_with_zeros(zeros)
        sum_ = editor.call(aten.add.Tensor, (zeros, number), {}, filled)
    node.replace_all_uses_with(sum_)
    editor.graph.erase_node(node)


def _fill_with_zeros(node: Node) -> None:
    place, zero = _PLACES[name_of(node)], type(_filling(node))(0)
    if place < len(node.args):
        node.args = (*node.args[:place], zero, *node.args[place + 1 :])
    else:
        node.kwargs = {**node.kwargs, "fill_value": zero}
