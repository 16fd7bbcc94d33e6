# pyright: basic, reportMissingImports=false
"""Nests of tuples, lists and dicts of tensors, read by TorchDynamo too."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_DICTS = (dict, OrderedDict)
_NESTS = (*_DICTS, list, tuple)
CHANGED = "a cell changes the nest of its state, and returns another one: return that one"


def in_order_of(before: Any, after: Any) -> Any:
    """A nest with the keys of its dicts in the order of another's; what is no such nest as it is.

    A cell may write the next state's dict in any order; tensors of nests are counted in order.
    """
    kind = type(before)
    if kind is not type(after) or kind not in _NESTS:
        return after
    if kind in _DICTS:
        if before.keys() != after.keys():
            return after
        return kind([(key, in_order_of(value, after[key])) for key, value in before.items()])
    if len(before) != len(after):
        return after
    return kind([in_order_of(*pair) for pair in zip(before, after, strict=True)])


def copied(nest: Any) -> Any:
    """A nest that can be changed while the other stays as it is; the tensors are the same."""
    kind = type(nest)
    if kind in _DICTS:
        return kind([(key, copied(value)) for key, value in nest.items()])
    return kind([copied(x) for x in nest]) if kind in (list, tuple) else nest


def is_as_before(nest: Any, before: Any) -> bool:
    """Whether a copied nest holds what it did."""
    kind = type(before)
    if kind not in _NESTS:
        return nest is before
    if type(nest) is not kind or len(nest) != len(before):
        return False
    known: Any = nest
    if kind in _DICTS and known.keys() != before.keys():
        return False
    for key in before if kind in _DICTS else range(len(before)):
        if not is_as_before(nest[key], before[key]):
            return False
    return True


def put_into(nest: Any, new: Any) -> None:
    """Let the dicts and lists of a nest hold what another one of its form holds."""
    is_fixed = type(nest) is tuple
    for key in nest if type(nest) in _DICTS else range(len(nest)):
        if type(nest[key]) in _NESTS:
            put_into(nest[key], new[key])
        elif not is_fixed:
            nest[key] = new[key]
