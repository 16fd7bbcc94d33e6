# pyright: basic, reportMissingImports=false
"""What a module's code reads of Python's objects: numbers, texts, functions, lists of tensors.

An exported graph has them as they were. Here is kept what they were, and where they stand: in
attributes of modules, of their classes and of other objects that the code leads to, in globals, in
what functions close over and in their defaults; numbers that code takes out of tensors, and what it
asks of gradients. What the module writes while it is exported is left out: that is its own to keep.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from operator import is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch.overrides import TorchFunctionMode

from rnncc.frontends.torch.answers import Asked, is_as_asked
from rnncc.torch.objects.kept import Holdings, at_end_of
from rnncc.torch.objects.places import (
    CONTAINERS,
    MOST_LEAVES,
    NOTHING,
    attributes_of,
    is_equal,
    is_plain,
    is_slot,
    leaves_of,
    name_of,
    owner_of,
    value_at,
)
from rnncc.torch.objects.runs import running
from rnncc.torch.objects.walk import Walk

_AS_NUMBERS = frozenset(
    getattr(torch.Tensor, name)
    for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")
)


class Settings:
    """What a module's code reads besides its parameters, buffers and parts, at some moment."""

    def __init__(self, module: torch.nn.Module, asked: list[Asked]) -> None:
        """Of a module that is to be exported, which fills `asked`."""
        walk = Walk(module)
        self._is_whole = walk.is_whole
        if self._is_whole:
            self._look(walk)
        self._asked = asked
        self._numbers = list[tuple[torch.Tensor, str]]()
        self._held = list[tuple[torch.nn.Module, str, str]]()
        self._quick: _Quick | None = None

    def _look(self, walk: Walk) -> None:
        """Keep what is there now."""
        named = [
            (owner, key, value, leaves)
            for owner, key in walk.places()
            if (leaves := leaves_of(value := value_at(owner, key))) is not None
        ]
        is_own = [isinstance(x, torch.Tensor) and walk.is_registered(o) for o, _, x, _ in named]
        self._places = [place for place, own in zip(named, is_own, strict=True) if not own]
        self._tensors = [place for place, own in zip(named, is_own, strict=True) if own]
        self._stored = walk.stored

    def __deepcopy__(self, memo: dict[int, Any]) -> Settings:
        """For a copy of the module; objects that are none of its own are those of both."""
        places = [copy.deepcopy(p, memo) if id(p[0]) in memo else p for p in self._places]
        asked = [(x if x is None else copied(x, memo), answer) for x, answer in self._asked]
        numbers = [(copied(x, memo), text) for x, text in self._numbers]
        held = [(memo.get(id(o), o), name, text) for o, name, text in self._held]
        return _with(places, numbers, held, asked)

    def __reduce__(self) -> Any:
        """Another process has globals and attributes of classes of its own: they go by name."""
        places, named = list[Any](), list[Any]()
        for place in self._places:
            if isinstance(place[0], threading.local):
                continue  # which another process has none of
            if not _is_common(place):
                places.append(place)
            elif all(map(_is_stored, place[3] or place[2:3])) and (name := name_of(place[0])):
                named.append((name, *place[1:]))
        return _with, (places, self._numbers, self._held, self._asked, named)

    def keep(self, places: Iterable[tuple[torch.nn.Module, str]]) -> None:
        """Keep the numbers in tensors that modules have under these names, whichever these are."""
        self._held = [(owner, name, _text_at(owner, name)) for owner, name in places]

    @contextmanager
    def exporting(self, module: torch.nn.Module) -> Generator[None]:
        """While it lasts, `module` is exported: what it writes is no setting, and numbers that it
        takes out of tensors are."""
        leaving_out = at_end_of(module, self._leave_out)
        with leaving_out if self._is_whole else self._of_what_runs(module), _Numbers(self._numbers):
            yield
        taken = {id(x) for x, _ in self._numbers}
        self._places = [  # functions that branch on tensors' values were written anew
            (o, k, value_at(o, k), leaves) if k == ".__code__" else (o, k, value, leaves)
            for o, k, value, leaves in self._places
        ] + [place for place in self._tensors if id(place[2]) in taken]
        self._tensors.clear()

    @contextmanager
    def _of_what_runs(self, module: torch.nn.Module) -> Generator[None]:
        """Of many functions those count that run meanwhile. What they read is known afterwards, so
        what the module itself holds is compared at the end with what it held before."""
        before, written = Holdings(module), set[tuple[int, Any]]()

        def look() -> None:
            written.update((id(place.owner), place.key) for place in before.places())

        with at_end_of(module, look), running() as ran:
            yield
        self._look(Walk(module, ran))
        self._places = [
            place
            for place in self._places
            if place[1] not in self._stored or (id(place[0]), place[1]) not in written
        ]

    def _leave_out(self) -> None:
        self._places = [
            place
            for place in self._places
            if place[1] not in self._stored or is_equal(value_at(*place[:2]), *place[2:])
        ]

    def changed(self) -> str | None:
        """The name of something that is another one now."""
        if not all(repr(x.tolist()) == text for x, text in self._numbers):
            return "a tensor"
        for owner, name, text in self._held:
            if _text_at(owner, name) != text:
                return name
        if not is_as_asked(self._asked):
            return "requires_grad"
        quick = self._quick = self._quick or _Quick(self._places)
        if quick.is_same():
            return None
        for owner, key, value, leaves in self._places:
            if not is_equal(value_at(owner, key), value, leaves):
                return str(key)
        values = [(o, k, value_at(o, k), leaves) for o, k, _, leaves in self._places]
        self._places, self._quick = values, None  # equal ones, which are other objects
        return None


def _with(
    places: list[Any],
    numbers: list[Any],
    held: list[Any],
    asked: list[Asked],
    named: Iterable[Any] = (),
) -> Settings:
    settings = Settings.__new__(Settings)
    settings._places = [*places, *((owner_of(name), *place) for name, *place in named)]
    settings._numbers, settings._held, settings._asked = numbers, held, asked
    settings._stored, settings._tensors, settings._quick = set(), [], None
    return settings


def _text_at(owner: torch.nn.Module, name: str) -> str:
    """The numbers in a tensor of a module, as a text: NaN is equal to itself then."""
    return repr(getattr(owner, name).tolist())


def _is_common(place: tuple[Any, ...]) -> bool:
    """Whether a place is none of the module's own."""
    return isinstance(place[0], FunctionType | type | ModuleType)


def _is_stored(value: Any) -> bool:
    """Whether pickle writes a value, and reads it as one that is alike."""
    return is_plain(value) or value is NOTHING or any(value is kind for kind in CONTAINERS)


def copied(x: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
    """A tensor's copy where one was made, with its memory; else the tensor, which copies share."""
    memories: Any = memo.get("torch", {})  # pyright: ignore
    own = id(x) in memo or x.untyped_storage()._cdata in memories
    return copy.deepcopy(x, memo) if own else x


class _Numbers(TorchFunctionMode):
    """Keeps the tensors whose values code takes for numbers, and these."""

    def __init__(self, read: list[tuple[torch.Tensor, str]]) -> None:
        super().__init__()
        self._read = read

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function."""
        result = func(*args, **(kwargs or {}))
        if func in _AS_NUMBERS and type(args[0]) is torch.Tensor:
            asks = sys._getframe(1).f_globals.get("__name__")
            if asks != fake_tensor.__name__:  # which notes the number for a stand-in (2.14)
                self._keep(args[0])
        return result

    def _keep(self, x: torch.Tensor) -> None:
        known = any(x is tensor for tensor, _ in self._read)
        if not known and x.numel() <= MOST_LEAVES and x.device.type != "meta":
            self._read.append((x, repr(x.tolist())))  # NaN is equal to itself then


class _Quick:
    """Compares the values of all places with the same objects, as calls do each time."""

    def __init__(self, places: Iterable[Any]) -> None:
        groups, self._others = dict[int, tuple[Any, dict[Any, Any]]](), list[Any]()
        for owner, key, value, leaves in places:
            if leaves or _is_apart(owner, key):
                self._others.append((owner, key, value, leaves))
            else:
                is_function = isinstance(owner, FunctionType)
                held = owner.__globals__ if is_function else attributes_of(owner)
                groups.setdefault(id(held), (held, {}))[1][key] = value
        self._absent = list[tuple[Any, frozenset[str]]]()
        self._present = list[tuple[Any, Any, tuple[Any, ...]]]()
        for held, values in groups.values():
            absent = frozenset(key for key, value in values.items() if value is NOTHING)
            known = {key: value for key, value in values.items() if value is not NOTHING}
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
                and all(
                    is_equal(value_at(o, k), value, leaves) for o, k, value, leaves in self._others
                )
            )
        except KeyError:
            return False


def _is_apart(owner: Any, key: Any) -> bool:
    """Whether a place is in no dict."""
    if isinstance(owner, FunctionType):
        return isinstance(key, int) or key.startswith(".")
    if key == "__class__" or isinstance(owner, threading.local):  # a dict for each thread
        return True
    return not isinstance(owner, type) and is_slot(type(owner), key)
