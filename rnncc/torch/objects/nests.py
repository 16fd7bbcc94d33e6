# pyright: basic, reportMissingImports=false
"""Nests of tuples, lists, dicts and dataclasses of tensors, read by TorchDynamo too."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

DICTS = (dict, OrderedDict)
_NESTS = (*DICTS, list, tuple)
CHANGED = "a cell changes the nest of its state, and returns another one: return that one"
TWICE = "a cell changes its state, in which one dict, list or dataclass stands twice: copy it"


def _fields(kind: Any) -> tuple[str, ...]:
    """Those of a dataclass that is made of all of them, in order; none of anything else."""
    names = getattr(kind, "__match_args__", ())
    return names if len(names) == len(tuple(getattr(kind, "__dataclass_fields__", ()))) else ()


def in_order_of(before: Any, after: Any) -> Any:
    """A nest with the keys of its dicts in the order of another's; what is no such nest as it is.

    A cell may write the next state's dict in any order; tensors of nests are counted in order.
    """
    kind = type(before)
    if kind is not type(after) or kind not in _NESTS:
        return after
    if kind in DICTS:
        if before.keys() != after.keys():
            return after
        return kind([(key, in_order_of(value, after[key])) for key, value in before.items()])
    if len(before) != len(after):
        return after
    return kind([in_order_of(*pair) for pair in zip(before, after, strict=True)])


def copied(nest: Any) -> Any:
    """A nest that can be changed while the other stays as it is; the tensors are the same."""
    kind = type(nest)
    if kind in DICTS:
        return kind([(key, copied(value)) for key, value in nest.items()])
    if names := _fields(kind):
        return kind(**{name: copied(getattr(nest, name)) for name in names})
    return kind([copied(x) for x in nest]) if kind in (list, tuple) else nest


def is_as_before(nest: Any, before: Any) -> bool:
    """Whether a copied nest holds what it did."""
    kind = type(before)
    if type(nest) is kind and (names := _fields(kind)):
        return all(is_as_before(getattr(nest, name), getattr(before, name)) for name in names)
    if kind not in _NESTS:
        return nest is before
    if type(nest) is not kind or len(nest) != len(before):
        return False
    known: Any = nest
    if kind in DICTS and known.keys() != before.keys():
        return False
    for key in before if kind in DICTS else range(len(before)):
        if not is_as_before(nest[key], before[key]):
            return False
    return True


def is_changeable(x: Any) -> bool:
    """Whether it is a nest that a cell may change."""
    return isinstance(x, (dict, list)) or bool(_fields(type(x)))


def stands_twice(nest: Any, met: list[Any]) -> bool:
    """Whether a nest that a cell may change stands in another at two places, or is one of those
    `met`: what changes one would change both, where steps are given a copy of each."""
    if is_changeable(nest):
        if any(nest is other for other in met):
            return True
        met.append(nest)
    kind = type(nest)
    parts = [getattr(nest, name) for name in _fields(kind)]
    if kind in _NESTS:
        parts = list(nest.values()) if kind in DICTS else list(nest)
    return any(stands_twice(part, met) for part in parts)


def is_any(same: Any) -> bool:
    """Whether `same_ones` tells of one."""
    return any(map(is_any, same)) if isinstance(same, tuple) else same


def same_ones(new: Any, copies: Any, before: Any) -> Any:
    """Which dicts, lists and dataclasses of a state the next one has, too, changed or not: whether
    it is such a one itself; of other tuples, the same of their entries.

    Args:
        copies: the state that the cell was given.
        before: what it was then.

    Raises:
        TypeError: another one has been changed.
    """
    same = _same_ones(new, copies, before)
    if is_any(same) and stands_twice(new, []):
        raise TypeError(TWICE)
    return same


def _same_ones(new: Any, copies: Any, before: Any) -> Any:
    if is_changeable(copies) and new is copies:
        return True
    if type(copies) is type(new) is tuple and len(copies) == len(new):
        return tuple([_same_ones(*x) for x in zip(new, copies, before, strict=True)])
    if not is_as_before(copies, before):
        raise TypeError(CHANGED)
    return False


def put_into_same(nest: Any, new: Any, same: Any) -> Any:
    """A next state, in which those that `same_ones` tells of are a first state's own."""
    if isinstance(same, tuple):
        return tuple(map(put_into_same, nest, new, same))
    return put_into(nest, new) if same else new


def put_into(nest: Any, new: Any) -> Any:
    """A nest that holds what another one of its form holds: dicts, lists and dataclasses are the
    same ones, changed; tuples, and dataclasses that cannot be changed, are others."""
    kind = type(nest)
    if names := _fields(kind):
        values = {name: put_into(getattr(nest, name), getattr(new, name)) for name in names}
        if kind.__dataclass_params__.frozen:
            return kind(**values)
        for name, value in values.items():
            setattr(nest, name, value)
    elif kind is tuple:
        return tuple(map(put_into, nest, new))
    elif kind in _NESTS:
        for key in nest if kind in DICTS else range(len(nest)):
            nest[key] = put_into(nest[key], new[key])
    else:
        return new
    return nest
