# pyright: basic, reportMissingImports=false
"""Tensors that a module's code keeps beside the attributes of its objects: in globals, in classes,
in dicts and lists that functions name or close over, and as results of `functools.lru_cache`.

While the code is exported these are stand-ins of tensors. Left there, a later call of the module,
or another export of it, would compute with them.
"""

from __future__ import annotations

import dis
import gc
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from functools import lru_cache, partial
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from rnncc.frontends.torch.readings import is_users
from rnncc.torch.objects.kept import tensors_of
from rnncc.torch.objects.places import NOTHING, package_of
from rnncc.torch.objects.walk import is_users_class, what_is_behind

_CACHED: Any = type(lru_cache(lambda: None))
_HOLDERS = dict, list, deque
_LEAD_NOWHERE = str, bytes, int, float, complex, type(None), torch.Tensor
_MOST_ENTRIES = 1000
"""Of a dict or list whose entries may lead on."""
_MOST_MET = 10_000
"""Objects, functions and classes, of which code of large packages leads to many more."""


def is_made_up(value: Any) -> bool:
    """Whether a nest holds what stands for a tensor while code is exported."""
    return any(isinstance(x, (FakeTensor, FunctionalTensor)) for x in tensors_of(value))


class Caches:
    """What a module's code keeps at such places, as it is now."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._met, self._functions = dict[int, Any](), list[Any]()
        self._dicts = list[tuple[MutableMapping[Any, Any], dict[Any, Any]]]()
        self._lists = list[tuple[Any, list[Any]]]()
        self._classes = list[tuple[type, dict[str, Any]]]()
        waiting = deque[Any](module.modules())
        while waiting and len(self._met) < _MOST_MET:  # what is nearest comes first
            x = waiting.popleft()
            if id(x) not in self._met and not isinstance(x, _LEAD_NOWHERE):
                self._met[id(x)] = x
                waiting += self._meet(x)

    def clear(self) -> None:
        """Take away the stand-ins that are there now, and put back what they replaced."""
        for function in self._functions:
            if any(map(is_made_up, gc.get_referents(function))):
                function.cache_clear()
        for owner, before in self._dicts:
            for key in _made_up(owner, before):
                if key in before:
                    owner[key] = before[key]
                else:
                    del owner[key]
        for owner, before in self._lists:
            if _made_up(dict(enumerate(owner)), dict(enumerate(before))):
                owner.clear()
                owner.extend(before)
        for kind, before in self._classes:
            for key in _made_up(vars(kind), before):
                _set(kind, key, before.get(key, NOTHING))

    def _meet(self, x: Any) -> Iterator[Any]:
        """Note what something keeps; what it leads to."""
        if isinstance(x, FunctionType):
            yield from self._of_function(x) if is_users(x.__code__.co_filename) else ()
        elif isinstance(x, type):
            yield from self._of_class(x)
        elif isinstance(x, dict):
            self._dicts.append((x, dict(x)))
            yield from x.values() if len(x) <= _MOST_ENTRIES else ()
        elif isinstance(x, (list, deque)):
            self._lists.append((x, list(x)))
            yield from x if len(x) <= _MOST_ENTRIES else ()
        elif isinstance(x, partial):
            yield from (x.func, *x.args, *x.keywords.values())
        else:
            yield from self._of_object(x)

    def _of_class(self, kind: type) -> Iterator[Any]:
        if package_of(kind) != "torch" and is_users_class(kind):
            self._classes.append((kind, dict(vars(kind))))
            yield from (*vars(kind).values(), *kind.__mro__)

    def _of_object(self, x: Any) -> Iterator[Any]:
        if isinstance(x, ModuleType):  # functions name what they take out of it
            return
        if isinstance(x, _CACHED):
            self._functions.append(x)
        yield from what_is_behind(x)
        own = getattr(x, "__dict__", None)
        if isinstance(own, dict) and is_users_class(type(x)):
            yield type(x)
            if isinstance(x, torch.nn.Module):  # what it holds itself is looked after elsewhere
                yield from (value for value in own.values() if not isinstance(value, _HOLDERS))
            else:
                yield own

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        names, code = function.__globals__, function.__code__
        if dis.opmap["STORE_GLOBAL"] in code.co_code[::2]:
            self._dicts.append((names, dict(names)))
        loaded = _names(code)
        named = [names[name] for name in loaded if name in names]
        yield from named
        for module in named:
            if isinstance(module, ModuleType) and module.__name__.partition(".")[0] != "torch":
                yield from (vars(module)[name] for name in loaded & vars(module).keys())
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not there yet
                continue


def _set(kind: type, name: str, value: Any) -> None:
    if value is NOTHING:
        delattr(kind, name)
    else:
        setattr(kind, name, value)


def _made_up(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> list[Any]:
    """The keys of stand-ins that were not there before."""
    new = [key for key, value in now.items() if before.get(key, NOTHING) is not value]
    return [key for key in new if is_made_up(now[key])]


def _names(code: Any) -> set[str]:
    inner = (const for const in code.co_consts if hasattr(const, "co_names"))
    return set(code.co_names).union(*map(_names, inner))
