# pyright: basic, reportMissingImports=false
"""What stands at a place of Python's objects, and whether it is still the same."""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import partial, partialmethod
from types import FunctionType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np
import torch

from rnncc.torch.objects.remembered import REMEMBERING, results_of

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
MOST_LEAVES = 100
"""Of a container, to be looked at in each call."""
_DICTS = dict, UserDict, MappingProxyType, ChainMap
_LISTS = list, tuple, deque, UserList, bytearray, array
_SETS = set, frozenset
_CALLS = partial, partialmethod
CONTAINERS = dict, UserDict, ChainMap, *_LISTS, *_SETS
"""Those that pickle knows."""
_Environment = type(os.environ)
_METHODS = staticmethod, classmethod
_OPENED = (*_DICTS, *_LISTS, *_SETS, *_CALLS, np.ndarray, ContextVar, _Environment, REMEMBERING)


class NOTHING:
    """Stands where nothing is; copies of a class are the class."""


def attributes_of(owner: Any) -> Mapping[str, Any]:
    """Those that an object has itself; some objects answer any name with something else."""
    if isinstance(owner, type | threading.local):  # of the latter, this thread's
        return owner.__dict__
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = None
    return own if isinstance(own, dict) else {}


def package_of(x: Any) -> str:
    """That of a class or function, `None` for one that no module has made."""
    return str(x.__module__).partition(".")[0]


def value_at(owner: Any, key: Any) -> Any:
    """What stands at a place: a global or what a function closes over, by its number, or an
    attribute of the function's own, with a dot in front; else an attribute, or the class."""
    if key == "__class__":
        return type(owner)
    if not isinstance(owner, FunctionType):
        own = attributes_of(owner)
        return own[key] if key in own else _in_slot(owner, key)
    if isinstance(key, str):
        is_own = key.startswith(".")
        return getattr(owner, key[1:], NOTHING) if is_own else owner.__globals__.get(key, NOTHING)
    try:
        return owner.__closure__[key].cell_contents  # pyright: ignore
    except ValueError:  # not there yet
        return NOTHING


def _in_slot(owner: Any, key: str) -> Any:
    if not isinstance(owner, type) and is_slot(type(owner), key):
        try:
            return object.__getattribute__(owner, key)
        except AttributeError:
            pass
    return NOTHING


def is_slot(kind: type, key: str) -> bool:
    """Whether objects of a class have an attribute outside of their dict."""
    member = next((k.__dict__[key] for k in kind.__mro__ if key in k.__dict__), None)
    return isinstance(member, MemberDescriptorType)


def leaves_of(value: Any) -> tuple[Any, ...] | None:
    """What a container holds, with its form; nothing of other values, None of modules and of large
    containers."""
    if isinstance(value, torch.nn.Module | ModuleType):
        return None
    if isinstance(value, _METHODS):
        value = value.__func__
    if not isinstance(value, _OPENED):
        return ()
    leaves = list[Any]()
    for leaf in _flat(value):
        if len(leaves) == MOST_LEAVES:
            return None
        leaves.append(leaf)
    return tuple(leaves)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, _DICTS):
        yield type(value)
        for key, part in value.items():
            yield key
            yield from _flat(part)
    elif isinstance(value, (*_LISTS, *_SETS)):
        yield type(value)
        yield len(value)
        for part in value:
            yield from _flat(part)
    elif isinstance(value, np.ndarray):
        yield from (value.dtype.str, *value.shape)
        yield from value.flat
    elif isinstance(value, _CALLS):
        yield from (type(value), value.func)
        yield from _flat(value.args)
        yield from _flat(value.keywords)
    elif isinstance(value, REMEMBERING):
        yield REMEMBERING
        yield from _flat([x for x in results_of(value) if not is_plain(x)])  # which never change
    elif isinstance(value, ContextVar):
        yield ContextVar
        yield from _flat(value.get(NOTHING))
    else:
        yield str(dict(value)) if isinstance(value, _Environment) else value


def is_equal(now: Any, value: Any, leaves: tuple[Any, ...]) -> bool:
    """Whether what stands somewhere is what stood there, with its leaves."""
    if not leaves:
        return is_alike(now, value)
    others = leaves_of(now)
    return others is not None and len(others) == len(leaves) and all(map(is_alike, others, leaves))


def is_alike(one: Any, other: Any) -> bool:
    """Whether two are the same, or the same number or text: 0.0 and -0.0 are not."""
    if one is other:
        return True
    return is_plain(one) and type(one) is type(other) and repr(one) == repr(other)


def is_plain(value: Any) -> bool:
    """Whether it is a number, a text or the like."""
    return isinstance(value, (*_PLAIN, np.generic))


def name_of(owner: Any) -> tuple[str, str] | None:
    """What another process finds a function, a class or a module by."""
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    name = "" if isinstance(owner, ModuleType) else owner.__qualname__
    return (module, name) if owner_of((module, name)) is owner else None


def owner_of(name: tuple[str, str]) -> Any:
    """What has this name in this process, nothing if there is none."""
    owner: Any = sys.modules.get(name[0], NOTHING)
    for part in filter(None, name[1].split(".")):
        owner = vars(owner).get(part, NOTHING) if hasattr(owner, "__dict__") else NOTHING
    return owner
