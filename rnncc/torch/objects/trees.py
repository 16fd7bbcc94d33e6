# pyright: basic
"""Nests of tuples, lists and dicts, taken apart in less time than PyTorch's trees take: a call of
`scan` looks at its arguments a dozen times. Whatever else a nest is of is left to PyTorch, to which
users' dataclasses are made known.

TorchDynamo reads `leaves` and `mapped`, too. Where it reads PyTorch's, each call compares all two
hundred entries of a table of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rnncc.frontends.torch.trace import refused_by
from rnncc.torch.objects.nests import DICTS

_PLAIN = (tuple, list)
_ENDS = (torch.Tensor, torch.nn.Parameter, type(None), bool, int, float)
"""Types, not their subclasses, that are leaves."""


def leaves(tree: Any) -> list[Any]:
    """As `tree_leaves`."""
    kind = type(tree)
    if kind in _ENDS:
        return [tree]
    if kind in _PLAIN:
        return [leaf for part in tree for leaf in leaves(part)]
    if kind in DICTS:
        return [leaf for part in tree.values() for leaf in leaves(part)]
    return pytree.tree_leaves(tree)


def has_gaps(tree: Any) -> bool:
    """Whether None stands anywhere; PyTorch leaves out the fields of dataclasses that are None."""
    kind = type(tree)
    if kind in _ENDS:
        return tree is None
    if kind in _PLAIN:
        return any(map(has_gaps, tree))
    if is_dataclass(kind):
        return any(has_gaps(getattr(tree, field.name)) for field in fields(tree))
    parts = pytree.tree_leaves(tree, is_leaf=lambda x: is_dataclass(type(x)))
    return any(x is None or (is_dataclass(type(x)) and has_gaps(x)) for x in parts)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """As `tree_map`."""
    kind = type(tree)
    if kind in _ENDS:
        return function(tree)
    if kind in _PLAIN:
        return kind([mapped(function, part) for part in tree])
    if kind in DICTS:
        return kind([(key, mapped(function, part)) for key, part in tree.items()])
    return pytree.tree_map(function, tree)


def with_tensors(tree: Any, tensors: Iterable[torch.Tensor]) -> Any:
    """A tree with other tensors in the place of its own, in their order."""
    left = iter(tensors)
    return mapped(lambda x: next(left) if isinstance(x, torch.Tensor) else x, tree)


def alike(one: Any, other: Any, leaf: Callable[[Any, Any], bool]) -> bool:
    """Whether two nests are the same but for their leaves, and these are alike."""
    kind = type(one)
    if kind in _PLAIN and type(other) is kind and len(one) == len(other):
        return all(alike(a, b, leaf) for a, b in zip(one, other, strict=True))
    if kind in _ENDS and type(other) in _ENDS:
        return leaf(one, other)
    (ends, spec), (other_ends, other_spec) = map(pytree.tree_flatten, (one, other))
    return spec == other_spec and all(map(leaf, ends, other_ends))


def make_known(tree: Any) -> Any:
    """The tree, in which dataclasses are nests of their fields to PyTorch from now on."""
    for leaf in leaves(tree):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            with refused_by(type(leaf).__name__, "torch.export.register_dataclass"):
                torch.export.register_dataclass(type(leaf))
            return make_known(tree)  # of several instances each is a nest now
    return tree
