# pyright: basic, reportMissingImports=false
"""Names what a call gives back of its arguments, of which its schema says nothing.

`y.type_as(x)` is y itself where the types are equal, and changing the one in place changes the
other. Functionalization knows aliases by schemas alone, and takes such a result for a new tensor.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.fx import GraphModule, Node

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.functional import changed_by
from rnncc.frontends.torch.unrolled.view import name_of, type_of, value_of

_aten = torch.ops.aten
_DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout"}
_DROPOUTS |= {"feature_alpha_dropout"}
_THEMSELVES = {"type_as", "atleast_1d", "atleast_2d", "atleast_3d", "sum_to_size", *_DROPOUTS}
_THEMSELVES |= {"conj_physical", "dequantize", "to_dense"}
"""Calls that may give their argument back, or a view of it."""
_VIEWS = {"einsum", "meshgrid", "chain_matmul"}
"""Others that may do so."""
_Memories = dict[int, int]
"""Of results that seem to have memory of their own, whose memory it is."""


def name_aliases(module: GraphModule) -> None:
    """Let results that are arguments be these, and views be views, in a graph and those within.

    Raises:
        CompileError: what another call gives a view of is changed in place.
    """
    for part in graphs_of(module):
        shared, named = _Memories(), False
        for node in list(part.graph.nodes):
            source = _source(node, shared)
            if source is not None:
                _name(node, source, shared)
                named = True
        _refuse_changed_views(part, shared)
        if named:
            part.recompile()


def _name(node: Node, source: Node, shared: _Memories) -> None:
    """Let what reads a result read the argument that it is, or a view of that."""
    same, mine, other = source, _memory(node, shared), _memory(source, shared)
    if _layout(node) != _layout(source):
        view = _aten.expand_as if node.target is operator.getitem else _aten.view_as
        with node.graph.inserting_after(node):
            same = node.graph.call_function(view.default, (source, node))
        same.meta = dict(node.meta)
    node.replace_all_uses_with(same, lambda user: user is not same)
    if mine is not None and other is not None and mine != other:
        shared[mine] = other


def _refuse_changed_views(part: GraphModule, shared: _Memories) -> None:
    viewed = dict[int | None, Node]()
    for node in part.graph.nodes:
        changed = changed_by(node)
        view = None if changed is None else viewed.get(_memory(changed, shared))
        if view is not None:
            what = f"{name_of(view)} gives a view of what is changed in place later"
            raise CompileError(location(view), what, "x.clone()")
        if name_of(node) in _VIEWS:
            value = value_of(node)
            results = value if isinstance(value, (tuple, list)) else [value]
            sources = {_memory(source, shared) for source in node.all_input_nodes} - {None}
            viewed |= dict.fromkeys(sources & {_memory_of(part, shared) for part in results}, node)


def _source(node: Node, shared: _Memories) -> Node | None:
    """The argument that a result shares its memory with; None of others."""
    if not node.users:
        return None
    if node.target is operator.getitem:
        call, number = node.args
        if not isinstance(call, Node) or name_of(call) != "broadcast_tensors":
            return None
        operands: Any = call.args[0] if isinstance(call.args[0], (tuple, list)) else call.args
        return operands[number] if _memory(node, shared) is not None else None
    if name_of(node) not in _THEMSELVES or not node.all_input_nodes:
        return None
    source, memory = node.all_input_nodes[0], _memory(node, shared)
    if name_of(node) in _DROPOUTS and _drops_nothing(node):
        return source
    return source if memory is not None and memory == _memory(source, shared) else None


def _drops_nothing(node: Node) -> bool:
    """Whether a dropout is none; where a module is exported, its result seems to have memory."""
    settings: Any = {"p": 0.5, "train": True, "training": True}
    settings |= dict(zip(("p", "training"), node.args[1:], strict=False)) | node.kwargs
    return settings["p"] == 0 or not (settings["train"] and settings["training"])


def _memory(node: Node, shared: _Memories) -> int | None:
    return _memory_of(value_of(node), shared)


def _memory_of(value: Any, shared: _Memories) -> int | None:
    if not isinstance(value, torch.Tensor) or is_functorch_wrapped_tensor(value):
        return None
    own = value.untyped_storage()._cdata
    return shared.get(own, own)


def _layout(node: Node) -> tuple[str, list[str]] | None:
    value = value_of(node)
    if not isinstance(value, torch.Tensor):
        return None  # as in graphs without fakes: a dropout's is that of its argument
    return type_of(value), [str(step) for step in value.stride()]
