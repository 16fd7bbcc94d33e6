# pyright: basic, reportMissingImports=false
"""Where a module's code finds what it reads of Python's objects.

These are all objects that the code of `forward` leads to, and the code of what it calls, and of
these the attributes that the same code names.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
import sysconfig
import threading
from collections.abc import Container, Iterator
from functools import cache, cached_property
from inspect import getattr_static
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ref

import torch
from torch.nn.modules import module as modules

from rnncc.frontends.torch.readings import is_users
from rnncc.torch.objects.places import attributes_of, leaves_of, package_of, value_at
from rnncc.torch.objects.runs import Ran, ran_by

_OWN = frozenset({"training", "_parameters", "_buffers", "_modules"}) | frozenset(
    {"_flat_weights", "_flat_weight_refs", "_flat_weights_names"}
)
"""Attributes of registered modules that are looked after elsewhere."""
_HOOKS = "_forward_pre_hooks", "_forward_hooks"
_HOLDERS = torch.nn.ParameterDict, torch.nn.ParameterList
"""Modules whose items are attributes."""
_OF_MODULES = frozenset(torch.nn.Module().__dict__)
_NOT_CALLED = frozenset(
    f"__{name}__"
    for name in (
        *("init", "new", "init_subclass", "class_getitem", "repr", "str", "del", "reduce"),
        *("reduce_ex", "getstate", "setstate", "copy", "deepcopy", "getnewargs", "sizeof", "dir"),
    )
)
"""Methods that Python calls, but not where a call of the module would compute."""
_KNOWN = frozenset(
    {
        *("builtins", "torch", "numpy", "collections", "functools", "rnncc", "_thread", "weakref"),
        *("re", "_abc", "_io", "inspect", "dataclasses", "warnings", "enum"),
    }
)
"""Packages whose objects have no attributes that a user sets and a module computes with."""
MOST_FUNCTIONS = 64
"""Of which all count, whether they run or not."""
_OF_FUNCTIONS = "__code__", "__defaults__", "__kwdefaults__"
_OF_AUTOGRAD = {"forward", "setup_context", "backward", "vjp"}
"""Methods that PyTorch calls where a Function is applied."""
_BY_NAME = "getattr", "vars", "__dict__", "attrgetter", "methodcaller"
"""By which code computes names of attributes."""
_BUILTINS = frozenset(dir(builtins))
_LOAD_GLOBALS = "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"
_SWITCHED = {"is_grad_enabled", "is_inference_mode_enabled"}
"""Functions of PyTorch that are others while some thread exports a module."""
_STDLIB = sysconfig.get_paths()["stdlib"]
_INSTALLED = tuple(
    {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class Walk:
    """The objects and functions that a module's code leads to, and the names that it loads.

    Args:
        ran: the functions that count, if not all do.

    Attributes:
        stored: the names that it stores, too.
        is_whole: whether nothing was left out: of a package of many functions a name leads to one
            that loads other names, and so on to nearly all of them.
    """

    def __init__(self, module: torch.nn.Module, ran: Container[Ran] | None = None) -> None:
        self._ran = ran
        self.loaded, self.stored = {"forward", "__call__"}, set[str]()
        self._missed, self._read_by_users = set[str](), set[str]()
        self.owners, self.functions = dict[int, Any](), dict[int, FunctionType]()
        self._installed: dict[int, ModuleType] = {id(builtins): builtins}
        self._by_name = False
        self._registered = {id(part) for part in module.modules()}
        self._packages = {package_of(type(part)) for part in module.modules()} - {"torch"}
        self._meet(module, "")
        for hooks in (modules._global_forward_hooks, modules._global_forward_pre_hooks):
            self._meet(dict(hooks), "")
        before = -1
        while self.is_whole and before != (before := self._met):
            for owner in list(self.owners.values()):
                for name in self.loaded & _names_of(owner):
                    self._meet(getattr_static(owner, name, None), name)
                for name in self._named_of(owner):
                    self._meet(attributes_of(owner)[name], name)
            for installed in list(self._installed.values()):
                for name in self._read_by_users & vars(installed).keys():
                    self._meet_installed(vars(installed)[name], name)

    @property
    def _met(self) -> int:
        return len(self.loaded) + len(self.owners) + len(self.functions)

    @property
    def is_whole(self) -> bool:
        return self._ran is not None or len(self.functions) <= MOST_FUNCTIONS

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Where the code finds what it names: an object and an attribute; a function and a global,
        the number of what it closes over, or an attribute of its own with a dot in front."""
        for owner in self.owners.values():
            yield from ((owner, name) for name in self._at(owner))
            if isinstance(owner, torch.nn.Module):
                yield from ((kind, "forward") for kind in type(owner).__mro__ if _has_forward(kind))
        for function in self.functions.values():
            if is_users(function.__code__.co_filename):
                own = self.loaded & function.__dict__.keys()
                yield from ((function, "." + name) for name in own)
                if self._has_run(function):
                    yield from ((function, key) for key in _read_by(function))
        for module in self._installed.values():
            known = (self._read_by_users & vars(module).keys()) - _SWITCHED
            yield from ((module, name) for name in known if name[:2] != "__")
        if not self.loaded.isdisjoint(("environ", "getenv")):
            yield os, "environ"

    def _at(self, owner: Any) -> Iterator[str]:
        """The attributes of an object that the code names, and what else decides what it does."""
        is_module, present = isinstance(owner, torch.nn.Module), _names_of(owner)
        known = ((self.loaded | self._missed) & present) - (_OWN if is_module else set())
        yield from known | self._named_of(owner)
        if isinstance(owner, type | ModuleType):
            return
        yield from self._missed - present
        if not is_module:
            yield "__class__"
            return
        yield "forward"
        if id(owner) not in self._registered:
            yield from (*_OWN, *_HOOKS)

    def is_registered(self, owner: Any) -> bool:
        """Whether an object is a part of the module that PyTorch knows."""
        return id(owner) in self._registered

    def _named_of(self, owner: Any) -> set[str]:
        """The attributes of an object that code may compute the names of."""
        by_name = self._by_name or isinstance(owner, _HOLDERS)
        if not by_name or isinstance(owner, ModuleType):
            return set()
        names = set(attributes_of(owner)) - _OF_MODULES - _OWN
        return {n for n in names if n[:2] != "__"} if isinstance(owner, type) else names

    def _own(self, owner: Any) -> None:
        if id(owner) in self.owners:
            return
        self.owners[id(owner)] = owner
        for kind in type(owner).__mro__:
            self._class(kind)

    def _class(self, kind: type) -> None:
        if id(kind) in self.owners or not is_users_class(kind):
            return
        self.owners[id(kind)] = kind
        for of_classes in type.mro(type(kind)):
            self._class(of_classes)
        if issubclass(kind, torch.autograd.Function):
            self.loaded |= _OF_AUTOGRAD
        for name, value in kind.__dict__.items():
            if isinstance(value, FunctionType) and name[:2] == "__" and name not in _NOT_CALLED:
                self.loaded.add(name)

    def _meet(self, value: Any, name: str) -> None:
        """Something that the code names."""
        for part in what_is_behind(value):
            self._meet(part, name)
        if isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, torch.nn.Module):
            self._module(value)
        else:
            self._meet_object(value, name)

    def _meet_object(self, value: Any, name: str) -> None:
        if (leaves := leaves_of(value)) != () and not isinstance(value, ModuleType):
            for leaf in leaves or ():
                if not isinstance(leaf, type):
                    self._meet(leaf, name)
        elif _is_own_module(value) or _is_users(value):
            self._own(value)
        elif isinstance(value, ModuleType) and value.__name__.partition(".")[0] != "rnncc":
            self._installed[id(value)] = value

    def _meet_installed(self, value: Any, name: str) -> None:
        """Something that a module holds that was installed: a user may have put it there."""
        own = isinstance(value, FunctionType) and _is_own(value.__code__.co_filename)
        if own or isinstance(value, ModuleType):
            self._meet(value, name)

    def _module(self, module: torch.nn.Module) -> None:
        for part in module.modules():
            self._own(part)
            for hooks in _HOOKS:
                self._meet(part.__dict__[hooks], hooks)

    def _function(self, function: FunctionType, name: str) -> None:
        of_module = getattr_static(torch.nn.Module, name, None) is function
        if id(function) in self.functions or of_module or not self._is_read(function, name):
            return
        self.functions[id(function)] = function
        if not self._has_run(function):
            return
        names = _names(function.__code__)
        self.loaded |= names.loaded
        self.stored |= names.stored
        if is_users(function.__code__.co_filename):
            self._missed |= names.missed
            self._read_by_users |= names.loaded
            self._by_name |= not names.loaded.isdisjoint(_BY_NAME)
            own = (*range(len(function.__closure__ or ())), *("." + n for n in _OF_FUNCTIONS))
            for key in (*names.of_globals, *own):
                self._meet(value_at(function, key), str(key))
            for imported in names.imported:
                self._meet(sys.modules.get(imported), imported)

    def _has_run(self, function: FunctionType) -> bool:
        return self._ran is None or ran_by(function.__code__) in self._ran

    def _is_read(self, function: FunctionType, name: str) -> bool:
        """Whether it is the user's, of the packages of the module's parts, or of PyTorch's
        modules."""
        own = function.__module__ or ""
        if package_of(function) == "torch":
            return name == "forward" or own.startswith("torch.nn.modules.")
        return package_of(function) in self._packages or _is_own(function.__code__.co_filename)


def _read_by(function: FunctionType) -> Iterator[Any]:
    """What a function reads: globals, what it closes over by number, and of its own."""
    names, known = _names(function.__code__), function.__globals__.keys()
    yield from names.of_globals & known
    yield from (names.missed & names.of_globals) - known - _BUILTINS
    yield from range(len(function.__closure__ or ()))
    yield from ("." + name for name in _OF_FUNCTIONS)


def what_is_behind(value: Any) -> Iterator[Any]:
    """What is called, or read, where something else is."""
    if isinstance(value, property):
        yield value.fget
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, staticmethod | classmethod):
        yield value.__func__
    elif isinstance(value, cached_property):
        yield value.func
    elif isinstance(value, ref):
        yield value()
    wrapped = getattr_static(value, "__wrapped__", None) if callable(value) else None
    if isinstance(wrapped, FunctionType):
        yield wrapped


def _is_own(file: str) -> bool:
    """Whether code is in a file that nobody installed."""
    return is_users(file) and not file.startswith(_INSTALLED)


def _is_own_module(value: Any) -> bool:
    """Whether it is a file of Python's that nobody installed."""
    return isinstance(value, ModuleType) and _is_own(getattr(value, "__file__", None) or _STDLIB)


def _names_of(owner: Any) -> set[str]:
    """Of attributes that an object or its class has."""
    names = set(attributes_of(owner))
    kinds = type(owner).__mro__
    for kind in (*owner.__mro__, *kinds) if isinstance(owner, type) else kinds:
        if kind not in (object, type, torch.nn.Module):
            names |= kind.__dict__.keys()
    return names


def _has_forward(kind: type) -> bool:
    """Whether a class is one of PyTorch's modules, with a `forward` of its own."""
    return package_of(kind) == "torch" and "forward" in kind.__dict__


def _is_users(value: Any) -> bool:
    """Whether an object has attributes that a user sets."""
    return is_users_class(type(value)) or isinstance(value, threading.local)


def is_users_class(kind: type) -> bool:
    """Whether objects of a class have attributes that a user sets."""
    return package_of(kind) not in _KNOWN


class _Names:
    """The names of globals and attributes that code loads, and which of them are of globals; those
    that it stores, and the modules that it imports; and the attributes that it may find or not, as
    it asks for them by a text or catches errors."""

    def __init__(self, code: CodeType) -> None:
        self.loaded, self.of_globals = set[str](), set[str]()
        self.stored, self.imported = set[str](), set[str]()
        for step in dis.get_instructions(code):
            if step.opname in ("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR"):
                self.stored.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                self.imported.add(step.argval)
            elif step.opcode in dis.hasname:
                self.loaded.add(step.argval)
                # A global of an attribute's name, such as a script's loop variable, is another.
                if step.opname in _LOAD_GLOBALS:
                    self.of_globals.add(step.argval)
        self.missed = set(self.loaded) if code.co_exceptiontable else set[str]()
        if not self.loaded.isdisjoint(("getattr", "hasattr")):
            texts = (text for text in code.co_consts if isinstance(text, str))
            self.missed |= {text for text in texts if text.isidentifier()}
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                inner = _names(constant)
                self.loaded |= inner.loaded
                self.of_globals |= inner.of_globals
                self.stored |= inner.stored
                self.imported |= inner.imported
                self.missed |= inner.missed


_names = cache(_Names)
