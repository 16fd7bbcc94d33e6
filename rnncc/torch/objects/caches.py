# pyright: basic, reportMissingImports=false
"""Tensors that a module's code keeps beside the attributes of its objects: in globals, in classes,
in dicts and lists that functions name or close over, and as results of `functools.lru_cache`.

While the code is exported these are stand-ins of tensors. Left there, a later call of the module,
or another export of it, would compute with them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from rnncc.frontends.torch.readings import is_users
from rnncc.torch.objects.kept import names_of, tensors_of
from rnncc.torch.objects.places import NOTHING, attributes_of, is_slot, package_of
from rnncc.torch.objects.remembered import REMEMBERING, forget, results_of
from rnncc.torch.objects.trees import leaves
from rnncc.torch.objects.walk import is_users_class, what_is_behind

_STAND_INS = FakeTensor, FunctionalTensor
_HOLDERS = dict, list, deque
_LEAD_NOWHERE = str, bytes, int, float, complex, type(None), torch.Tensor
_HOLD = frozenset({"collections", "weakref", "_thread"})
"""Packages whose objects hold what users put there: `UserDict`, `WeakKeyDictionary`, `local`."""
_MOST_ENTRIES = 1000
"""Of a dict or list whose entries may lead on."""
_MOST_MET = 10_000
"""Objects, functions and classes, of which code of large packages leads to many more."""
_DEEPEST = 4
"""How many objects lead to a stand-in that is looked for."""


def is_made_up(value: Any) -> bool:
    """Whether a nest holds what stands for a tensor while code is exported."""
    return any(isinstance(x, _STAND_INS) for x in tensors_of(value))


class Caches:
    """What a module's code keeps at such places, as it is now."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._met, self._functions = dict[int, Any](), list[Any]()
        self._objects = list[list[tuple[Any, Any]]]()
        self._holders = dict[int, tuple[Any, Any]]()
        self._places = list[tuple[Any, str, Any]]()
        self._classes = list[tuple[type, dict[str, Any]]]()
        self._registered = {id(part) for part in module.modules()}
        waiting = deque[Any](module.modules())
        while waiting and len(self._met) < _MOST_MET:  # what is nearest comes first
            x = waiting.popleft()
            if id(x) not in self._met and not isinstance(x, _LEAD_NOWHERE):
                self._met[id(x)] = x
                waiting += self._meet(x)

    def clear(self) -> None:
        """Take away the stand-ins that are there now, and put back what they replaced."""
        for function in self._functions:
            forget(function, _leads_to_made_up)
        self._clear_holders()
        for owner, name, before in self._places:
            now = _get(owner, name)
            if now is not before and _leads_to_made_up(now):
                _set(owner, name, before)
        for kind, before in self._classes:
            for key in _made_up(vars(kind), before):
                _set(kind, key, before.get(key, NOTHING))

    def _clear_holders(self) -> None:
        for held in self._objects:
            if any(_made_up(owner, before) for owner, before in held):
                for owner, before in held:  # such as the order of what one holds
                    _put_back(owner, before, is_own=True)
        for owner, before in self._holders.values():
            if _made_up(owner, before):
                _put_back(owner, before)

    def _meet(self, x: Any) -> Iterator[Any]:
        """Note what something keeps; what it leads to."""
        if isinstance(x, FunctionType):
            yield from self._of_function(x)
        elif isinstance(x, type):
            yield from self._of_class(x)
        elif isinstance(x, (*_HOLDERS, set)):
            self._keep(x)
            entries = x.values() if isinstance(x, dict) else x
            yield from list(entries) if len(x) <= _MOST_ENTRIES else ()
        elif isinstance(x, (tuple, frozenset)):
            yield from x if len(x) <= _MOST_ENTRIES else ()
        elif isinstance(x, partial):
            yield from (x.func, *x.args, *x.keywords.values())
        else:
            yield from self._of_object(x)

    def _keep(self, holder: Any) -> tuple[Any, Any]:
        return self._holders.setdefault(id(holder), (holder, _copy_of(holder)))

    def _of_class(self, kind: type) -> Iterator[Any]:
        if package_of(kind) != "torch" and is_users_class(kind):
            self._classes.append((kind, dict(vars(kind))))
            yield from (*vars(kind).values(), *kind.__mro__)

    def _of_object(self, x: Any) -> Iterator[Any]:
        if isinstance(x, ModuleType):  # functions name what they take out of it
            return
        if isinstance(x, REMEMBERING):
            self._functions.append(x)
            yield from results_of(x)
        yield from what_is_behind(x)
        if not _may_hold(x):
            return
        own = attributes_of(x)
        yield type(x)
        if id(x) in self._registered:  # what it holds itself is looked after elsewhere
            yield from (value for value in own.values() if not isinstance(value, _HOLDERS))
            return
        for name in _slots_of(type(x)):
            self._places.append((x, name, value := _get(x, name)))
            yield value
        held = (own, *(value for value in own.values() if isinstance(value, _HOLDERS)))
        self._objects.append([self._keep(each) for each in held])
        yield own

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        yield from what_is_behind(function)
        if not is_users(function.__code__.co_filename):
            return
        names, loaded = function.__globals__, names_of(function.__code__)
        self._keep(names)
        named = [names[name] for name in loaded if name in names]
        yield from (*named, function.__dict__)
        for module in named:
            if isinstance(module, ModuleType) and module.__name__.partition(".")[0] != "torch":
                self._keep(vars(module))
                yield from (vars(module)[name] for name in loaded & vars(module).keys())
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for cell in function.__closure__ or ():
            self._places.append((cell, "cell_contents", value := _get(cell, "cell_contents")))
            yield value


def _copy_of(holder: Any) -> Any:
    """A dict, a list or a set of what is in one."""
    kind = dict if isinstance(holder, dict) else set if isinstance(holder, set) else list
    return kind(holder)


def _may_hold(x: Any) -> bool:
    """Whether an object has attributes of its own that may be looked at."""
    return is_users_class(type(x)) or package_of(type(x)) in _HOLD


def _slots_of(kind: type) -> list[str]:
    return [name for each in kind.__mro__ for name in vars(each) if is_slot(each, name)]


def _get(owner: Any, name: str) -> Any:
    try:
        return object.__getattribute__(owner, name)
    except (AttributeError, ValueError):  # a cell, or a slot, with nothing there yet
        return NOTHING


def _set(owner: Any, name: str, value: Any) -> None:
    if value is NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _put_back(owner: Any, before: Any, is_own: bool = False) -> None:
    """Take the stand-ins away from a dict, list or set that is shared, and put back what is gone
    for their sake; of what is an object's own, all is as before."""
    if isinstance(owner, dict):
        for key in [key for key in owner if key not in before] if is_own else ():
            del owner[key]
        for key in _made_up(owner, before):
            if key in before:
                owner[key] = before[key]
            else:
                del owner[key]
        owner.update({key: before[key] for key in before if is_own or key not in owner})
    else:
        owner.clear()
        (owner.update if isinstance(owner, set) else owner.extend)(before)


def _made_up(now: Any, before: Any) -> list[Any]:
    """The keys of stand-ins that were not there before."""
    if isinstance(now, set):
        return [x for x in now if x not in before and _leads_to_made_up(x)]
    if not isinstance(now, Mapping):
        now, before = dict(enumerate(now)), dict(enumerate(before))
    new = [key for key, value in list(now.items()) if before.get(key, NOTHING) is not value]
    return [key for key in new if _leads_to_made_up(now[key])]


def _leads_to_made_up(value: Any, depth: int = _DEEPEST) -> bool:
    """Whether a nest, or an object in it, holds a stand-in."""
    for x in leaves(value):
        if isinstance(x, _STAND_INS):
            return True
        if depth and not isinstance(x, (*_LEAD_NOWHERE, type, ModuleType, FunctionType)):
            held = attributes_of(x).values() if _may_hold(x) else ()
            if any(_leads_to_made_up(each, depth - 1) for each in list(held)):
                return True
    return False
