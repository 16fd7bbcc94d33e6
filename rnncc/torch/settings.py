# pyright: basic, reportMissingImports=false
"""What a module's code reads of Python's objects: numbers, texts, functions, lists of tensors.

An exported graph has them as they were. Here is kept what they were, and where they stand: in
attributes of modules, of their classes and of other objects that the code leads to, in globals and
in what functions close over, by all names that the code of `forward` loads, and the code of what it
calls. A name that the same code stores is left out: that is the module's own to keep.
"""

from __future__ import annotations

import copy
import dis
from collections.abc import Iterable, Iterator
from functools import cache
from inspect import getattr_static
from operator import is_, itemgetter
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from rnncc.frontends.torch.readings import is_users

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_MOST_LEAVES = 100
"""Of a container, to be looked at in each call."""
_CALLED = frozenset({"forward", "__call__"})
_OWN = frozenset({"training", "_parameters", "_buffers", "_modules"})
"""Attributes of modules that are looked after elsewhere."""


class _NOTHING:
    """Stands where nothing is; copies of a class are the class."""


class Settings:
    """What a module's code reads besides its parameters, buffers and parts, at some moment."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._places = [
            (owner, key, value, leaves)
            for owner, key in _Walk(module).places()
            if (leaves := _leaves(value := _value(owner, key))) is not None
            and not (isinstance(value, torch.Tensor) and isinstance(owner, torch.nn.Module))
        ]
        self._quick: _Quick | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        own = copy.deepcopy([place for place in self._places if not _is_common(place)], memo)
        return self._with(own + [place for place in self._places if _is_common(place)])

    def __reduce__(self) -> Any:
        """Without globals and attributes of classes, which another process has of its own."""
        return _unpickled, ([place for place in self._places if not _is_common(place)],)

    @classmethod
    def _with(cls, places: list[Any]) -> Settings:
        made = cls.__new__(cls)
        made._places, made._quick = places, None
        return made

    def changed(self) -> str | None:
        """The name of something that is another one now."""
        quick = self._quick = self._quick or _Quick(self._places)
        if quick.is_same():
            return None
        for owner, key, value, leaves in self._places:
            if not _equal(_value(owner, key), value, leaves):
                return str(key)
        values = [(o, k, _value(o, k), leaves) for o, k, _, leaves in self._places]
        self._places, self._quick = values, None  # equal ones, which are other objects
        return None


_unpickled = Settings._with


def _is_common(place: tuple[Any, ...]) -> bool:
    """Whether a place is none of the module's own."""
    return isinstance(place[0], FunctionType | type)


class _Quick:
    """Compares the values of all places with the same objects, as calls do each time."""

    def __init__(self, places: Iterable[Any]) -> None:
        groups, self._others = dict[int, tuple[Any, dict[Any, Any]]](), list[Any]()
        for owner, key, value, leaves in places:
            if leaves or isinstance(key, int):
                self._others.append((owner, key, value, leaves))
            else:
                held = owner.__globals__ if isinstance(owner, FunctionType) else owner.__dict__
                groups.setdefault(id(held), (held, {}))[1][key] = value
        self._absent = list[tuple[Any, frozenset[str]]]()
        self._present = list[tuple[Any, Any, tuple[Any, ...]]]()
        for held, values in groups.values():
            absent = frozenset(key for key, value in values.items() if value is _NOTHING)
            known = {key: value for key, value in values.items() if value is not _NOTHING}
            if absent:
                self._absent.append((held.keys(), absent))
            if known:
                reads = itemgetter(*known, next(iter(known)))  # of one key alone gives no tuple
                self._present.append((held, reads, (*known.values(), next(iter(known.values())))))

    def is_same(self) -> bool:
        """Whether no place has another object, nor a container other ones."""
        try:
            return (
                all(keys.isdisjoint(names) for keys, names in self._absent)
                and all(all(map(is_, reads(held), kept)) for held, reads, kept in self._present)
                and all(_equal(_value(o, k), value, leaves) for o, k, value, leaves in self._others)
            )
        except KeyError:
            return False


def _value(owner: Any, key: Any) -> Any:
    """A global or what a function closes over, by its number; else an attribute."""
    if not isinstance(owner, FunctionType):
        return owner.__dict__.get(key, _NOTHING)
    if isinstance(key, str):
        return owner.__globals__.get(key, _NOTHING)
    try:
        return owner.__closure__[key].cell_contents  # pyright: ignore
    except ValueError:  # not there yet
        return _NOTHING


def _leaves(value: Any) -> tuple[Any, ...] | None:
    """What a container holds, with its form; nothing of other values, None of modules, of large
    containers and of such as hold parameters, which may be replaced."""
    if isinstance(value, torch.nn.Module | ModuleType):
        return None
    if not isinstance(value, (list, tuple, dict)):
        return ()
    found = list[Any]()
    for leaf in _flat(value):
        if isinstance(leaf, torch.nn.Parameter) or len(found) == _MOST_LEAVES:
            return None
        found.append(leaf)
    return tuple(found)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield dict
        for key, part in value.items():
            yield key
            yield from _flat(part)
    elif isinstance(value, (list, tuple)):
        yield type(value)
        yield len(value)
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _equal(now: Any, value: Any, leaves: tuple[Any, ...]) -> bool:
    if not leaves:
        return _alike(now, value)
    found = _leaves(now)
    return found is not None and len(found) == len(leaves) and all(map(_alike, found, leaves))


def _alike(one: Any, other: Any) -> bool:
    plain = isinstance(one, _PLAIN) and type(one) is type(other)
    return one is other or (plain and one == other)


class _Walk:
    """The objects and functions that a module's code leads to, and the names that it loads."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.loaded, self.stored = set[str](_CALLED), set[str]()
        self.owners, self.functions = dict[int, Any](), dict[int, FunctionType]()
        for part in module.modules():
            self._own(part)
        self._packages = {_package(type(part)) for part in self.owners.values()} - {"torch"}
        before = -1
        while before != (before := len(self.loaded) + len(self.owners) + len(self.functions)):
            for owner in list(self.owners.values()):
                for name in self.loaded & _names_of(owner):
                    self._meet(getattr_static(owner, name, None), name)

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Where the code finds what it names."""
        names = self.loaded - self.stored - _OWN
        for owner in self.owners.values():
            for name in names & _names_of(owner):
                if name in owner.__dict__ or not _is_code(getattr_static(owner, name)):
                    yield owner, name  # an attribute of its own may come before its class's
            if isinstance(owner, torch.nn.Module):
                yield owner, "forward"
        for function in self.functions.values():
            if is_users(function.__code__.co_filename):
                loaded, _ = _names(function.__code__)
                known = function.__globals__
                yield from ((function, name) for name in loaded & names if name in known)
                yield from ((function, n) for n in range(len(function.__closure__ or ())))

    def _own(self, owner: Any) -> None:
        if id(owner) in self.owners or not _has_dict(owner):
            return
        self.owners[id(owner)] = owner
        for kind in type(owner).__mro__:
            if kind is not torch.nn.Module and kind is not object:
                self._class(kind)

    def _class(self, kind: type) -> None:
        if id(kind) not in self.owners and is_users_class(kind):
            self.owners[id(kind)] = kind

    def _meet(self, value: Any, name: str) -> None:
        """Something that the code names."""
        if isinstance(value, property):
            value = value.fget
        if isinstance(value, MethodType | staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, (list, tuple, dict)):
            for leaf in _leaves(value) or ():
                if not isinstance(leaf, type):
                    self._meet(leaf, name)
        elif is_users_class(type(value)):
            self._own(value)

    def _function(self, function: FunctionType, name: str) -> None:
        of_module = getattr_static(torch.nn.Module, name, None) is function
        if id(function) in self.functions or of_module or not self._is_read(function, name):
            return
        self.functions[id(function)] = function
        loaded, stored = _names(function.__code__)
        self.loaded |= loaded
        self.stored |= stored
        if is_users(function.__code__.co_filename):
            for key in (*loaded, *range(len(function.__closure__ or ()))):
                self._meet(_value(function, key), str(key))

    def _is_read(self, function: FunctionType, name: str) -> bool:
        """Whether it is of the packages of the module's parts, or of PyTorch's a `forward`."""
        package = _package(function)
        return package in self._packages or (package == "torch" and name == "forward")


def _has_dict(x: Any) -> bool:
    """Whether an object has attributes of its own; some answer any name with something else."""
    try:
        return isinstance(object.__getattribute__(x, "__dict__"), dict)
    except AttributeError:
        return False


def _names_of(owner: Any) -> set[str]:
    """Of attributes that an object or its class has."""
    names = set(owner.__dict__)
    kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    for kind in kinds:
        if kind is not object and kind is not torch.nn.Module:
            names |= kind.__dict__.keys()
    return names


def _is_code(value: Any) -> bool:
    return isinstance(value, FunctionType | MethodType | property | staticmethod | classmethod)


def _package(x: Any) -> str:
    return str(x.__module__).partition(".")[0]


def is_users_class(kind: type) -> bool:
    """Whether objects of a class have attributes that a user sets."""
    known = ("builtins", "torch", "numpy", "collections", "functools", "rnncc", "_thread")
    return _package(kind) not in known


@cache
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names of globals and attributes that code loads, and those that it stores."""
    loaded, stored = set[str](), set[str]()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME"):
            loaded.add(step.argval)
        elif step.opname in ("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR"):
            stored.add(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more, other = _names(inner)
            loaded |= more
            stored |= other
    return frozenset(loaded), frozenset(stored)
