"""Tensors that code keeps in globals, classes and functions: no stand-in stays there."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, UserDict
from functools import cache, cached_property, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from rnncc.errors import CompileError
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
_masks: dict[int, Any] = {}
_last: Any = None


def mask_of(size: int) -> Any:
    return torch.ones(size, size).tril()


def in_a_global_dict(size: int) -> Any:
    if size not in _masks:
        _masks[size] = mask_of(size)
    return _masks[size]


def in_a_global(size: int) -> Any:
    global _last
    if _last is None or len(_last) != size:
        _last = mask_of(size)
    return _last


def in_a_default(size: int, known: dict[int, Any] = {}) -> Any:  # noqa: B006
    return known.setdefault(size, mask_of(size))


def closed_over() -> Any:
    known: list[Any] = []

    def found(size: int) -> Any:
        if not known or len(known[-1]) != size:
            known.append(mask_of(size))
        return known[-1]

    return found


class Masks:
    """Keeps them in the class, or in the object."""

    known: dict[int, Any] = {}  # noqa: RUF012
    last: Any = None

    def __init__(self) -> None:
        self.own: dict[int, Any] = {}

    @classmethod
    def of_class(cls, size: int) -> Any:
        if size not in cls.known:
            cls.known[size] = mask_of(size)
        return cls.known[size]

    @classmethod
    def last_of_class(cls, size: int) -> Any:
        if cls.last is None or len(cls.last) != size:
            cls.last = mask_of(size)
        return cls.last

    def of_object(self, size: int) -> Any:
        if size not in self.own:
            self.own[size] = mask_of(size)
        return self.own[size]


def rebound() -> Any:
    last: Any = None

    def found(size: int) -> Any:
        nonlocal last
        if last is None or len(last) != size:
            last = mask_of(size)
        return last

    return found


def in_its_own_attribute(size: int) -> Any:
    own: Any = in_its_own_attribute
    if len(getattr(own, "last", ())) != size:
        own.last = mask_of(size)
    return own.last


class Slots:
    """Keeps them outside of a dict."""

    __slots__ = "known", "last"

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def of_dict(self, size: int) -> Any:
        return self.known.setdefault(size, mask_of(size))

    def of_slot(self, size: int) -> Any:
        if len(getattr(self, "last", ())) != size:
            self.last = mask_of(size)
        return self.last


class Helper(nn.Module):
    """A module that is no part of the one that is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Any] = {}

    def forward(self, size: int) -> Any:
        return self.known.setdefault(size, mask_of(size))


class Newest:
    """Keeps what was asked for last, of which it knows the order apart."""

    def __init__(self) -> None:
        self.known, self.order = dict[int, Any](), OrderedDict[int, None]()
        self.room = 2

    def __call__(self, size: int) -> Any:
        if size not in self.known:
            if self.room == 0:
                del self.known[self.order.popitem(last=False)[0]]
                self.room += 1
            self.known[size], self.order[size] = mask_of(size), None
            self.room -= 1
        return self.known[size]


class Mask:
    def __init__(self, size: int) -> None:
        self.size = size

    @cached_property
    def values(self) -> Any:
        return mask_of(self.size)


_objects: dict[int, Mask] = {}
_set: set[Any] = set()
_user, _weak, _local = UserDict[int, Any](), WeakKeyDictionary[Any, Any](), threading.local()
_module: Any = sys.modules[__name__]
_inner: Any = None


def in_a_new_object(size: int) -> Any:
    return _objects.setdefault(size, Mask(size)).values


def in_a_set(size: int) -> Any:
    known = [mask for mask in _set if len(mask) == size] or [mask_of(size)]
    _set.add(known[0])
    return known[0]


def in_a_users_dict(size: int) -> Any:
    if size not in _user:
        _user[size] = mask_of(size)
    return _user[size]


def in_a_weak_dict(size: int) -> Any:
    if len(_weak.get(MASKS, ())) != size:
        _weak[MASKS] = mask_of(size)
    return _weak[MASKS]


def of_the_thread(size: int) -> Any:
    if len(getattr(_local, "last", ())) != size:
        _local.last = mask_of(size)
    return _local.last


def in_an_attribute_of_the_file(size: int) -> Any:
    if len(getattr(_module, "kept", ())) != size:
        _module.kept = mask_of(size)
    return _module.kept


def in_a_global_of_an_inner_function(size: int) -> Any:
    def fill() -> None:
        global _inner
        _inner = mask_of(size)

    if _inner is None or len(_inner) != size:
        fill()
    return _inner


MASKS = Masks()
FUNCTIONS = {
    "a variable that is bound anew": rebound(),
    "an attribute of a function": in_its_own_attribute,
    "a dict in a slot": Slots().of_dict,
    "a slot": Slots().of_slot,
    "a module apart": Helper(),
    "a function of PyTorch's around one": torch.no_grad()(closed_over()),
    "an object of two dicts": Newest(),
    "a new object": in_a_new_object,
    "a set": in_a_set,
    "UserDict": in_a_users_dict,
    "WeakKeyDictionary": in_a_weak_dict,
    "threading.local": of_the_thread,
    "an attribute of the file": in_an_attribute_of_the_file,
    "a global of an inner function": in_a_global_of_an_inner_function,
    "a global dict": in_a_global_dict,
    "a global": in_a_global,
    "a default": in_a_default,
    "what a function closes over": closed_over(),
    "a class's dict": Masks.of_class,
    "a class": Masks.last_of_class,
    "an object": MASKS.of_object,
    "cache": cache(mask_of),
    "lru_cache": lru_cache(maxsize=8)(mask_of),
}


class Masking(nn.Module):
    masks: Any

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 3, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(self.masks(x.shape[1]) @ x)[0]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_no_stand_in_stays(kind: str) -> None:
    """Neither the module itself nor another export of it meets one."""
    net = type(kind, (Masking,), {"masks": staticmethod(FUNCTIONS[kind])})()
    for steps in (4, 6, 4):
        x = torch.randn(2, steps, 3)
        found = rt.compile(net, (x,))(x)
        torch.testing.assert_close(found, net(x), atol=1e-5, rtol=1e-5)
        known = net.masks(steps)
        assert type(known) is torch.Tensor and known.equal(mask_of(steps))


@pytest.mark.parametrize("most", [None, 2, 8])
def test_earlier_results_stay(most: int | None) -> None:
    """Those of other sizes are the same tensors as before, and there is room for as many."""
    masks = lru_cache(maxsize=most)(mask_of)
    net = type("Earlier", (Masking,), {"masks": staticmethod(masks)})()
    earlier = masks(6)
    for _ in range(3):
        rt.compile(net, (torch.randn(2, 4, 3),))
        assert masks(6) is earlier and masks.cache_info().currsize == 1
    for size in (3, 4, 5, 3, 4, 5, 5):
        found = masks(size)
        assert type(found) is torch.Tensor and found.equal(mask_of(size))


@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("is_known", [False, True])
def test_changed_results_count(is_known: bool, most: int | None) -> None:
    """Where a tensor that `lru_cache` keeps is changed in place, or made anew, so is what is
    computed."""
    masks = lru_cache(maxsize=most)(mask_of)
    net = type("Changed", (Masking,), {"masks": staticmethod(masks)})()
    if is_known:
        masks(4).mul_(5)
    x = torch.randn(2, 4, 3)
    compiled = rt.compile(net, (x,))
    for change in (lambda: None, lambda: masks(4).mul_(3), masks.cache_clear, lambda: masks(4)):
        change()
        torch.testing.assert_close(compiled(x), net(x), atol=1e-5, rtol=1e-5)


def test_objects_of_lru_cache_are_settings() -> None:
    """As where a program asks for its settings by a function."""

    @cache
    def settings() -> dict[str, float]:
        return {"scale": 2.0}

    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * settings()["scale"]

    net, x = Scaled(), torch.randn(3)
    compiled = rt.compile(net, (x,))
    for scale in (2.0, 5.0, 7.0):
        settings()["scale"] = scale
        torch.testing.assert_close(compiled(x), net(x))


def test_random_numbers_that_stay_are_refused() -> None:
    """Compiled code would draw others at each call."""
    noise = cache(lambda size: torch.randn(size, size))
    net, x = type("Noise", (Masking,), {"masks": staticmethod(noise)})(), torch.randn(2, 4, 3)
    with pytest.raises(CompileError, match="the next call may compute with"):
        rt.compile(net, (x,))
    noise(4)
    torch.testing.assert_close(rt.compile(net, (x,))(x), net(x), atol=1e-5, rtol=1e-5)
