"""Modules that read Python's objects, and changes of what they read."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.torch.cells import nn, torch
from tests.torch.reads import Net, named

ones = torch.ones
LAYER: Any = torch.nn.modules.module


class Dispatching(Net):
    """Calls a method whose name is computed."""

    def __init__(self, kind: str) -> None:
        super().__init__(lambda net, x: getattr(net, f"{net.kind}")(x), kind=kind)

    def scaled(self, x: Any) -> Any:
        return x * GLOBAL.k


def or_one(net: Any) -> float:
    try:
        return net.k
    except AttributeError:
        return 1.0


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: float) -> None:
        self.k = k


class Config:
    """Gives a number by all kinds of methods that Python calls."""

    def __init__(self, k: Any) -> None:
        self.k = k

    def __getitem__(self, key: str) -> Any:
        return self.k

    def __rmul__(self, x: Any) -> Any:
        return x * self.k

    def __iter__(self) -> Any:
        return iter([self.k])

    def __enter__(self) -> Any:
        return self.k

    def __exit__(self, *_: Any) -> None:
        pass

    def get(self) -> Any:
        return self.k

    @functools.cached_property
    def double(self) -> Any:
        return 2 * self.k


class Dotted:
    def __init__(self) -> None:
        self.values = {"rate": 2.0}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["values"][name]


class Writing(nn.Module):
    """Writes an attribute of a name that others read."""

    def forward(self, x: Any) -> Any:
        self.k = x.detach()
        return x


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k, self.again = 2.0, False

    def forward(self, x: Any) -> Any:
        if self.again:
            self.k = 1.0
        return x * self.k


class Masked(nn.Module):
    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Any) -> Any:
        return x if self.mask is None else x * self.mask


class Parent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.k = nn.Linear(4, 4), 2.0

    @torch.no_grad()
    def aid(self, x: Any) -> Any:
        return x * self.k

    @functools.lru_cache  # noqa: B019
    def cached(self) -> float:
        return self.k

    def own(self, x: Any) -> Any:
        return x * self.cached()

    def forward(self, x: Any) -> Any:
        return self.own(self.layer(x) + self.aid(x))


class Child(Parent):
    pass


class Other(Parent):
    def own(self, x: Any) -> Any:
        return x * 3


DEFAULT = [2.0]


def with_default(net: Any, x: Any, k: Any = DEFAULT) -> Any:
    return x * k[0]


def with_another(net: Any, x: Any, k: Any = (2.0,)) -> Any:
    return x * k[0]


def with_attribute(net: Any, x: Any) -> Any:
    return x * with_attribute.k  # type: ignore[missing-attribute]


with_attribute.k = 2.0  # type: ignore[missing-attribute]


def in_with(net: Any, x: Any) -> Any:
    with net.held as k:
        return x * k


def over_all(net: Any, x: Any) -> Any:
    for k in net.held:
        x = x * k
    return x


def scaled(k: Any, x: Any) -> Any:
    return x * k.get()


def first(net: Any, x: Any) -> Any:
    return x * net.held[0]


def called(net: Any, x: Any) -> Any:
    return net.held[0](x)


def hooked(hook: Any) -> Net:
    net = Net(lambda net, x: x)
    net.layer.register_forward_hook(hook)
    return net


def in_list(parameter: Any) -> Net:
    return Net(first, [parameter], w=parameter)


def of_config(use: Any) -> tuple[Any, Any]:
    return lambda: Net(use, Config(2.0)), lambda net: setattr(net.held, "k", 3.0)


def tied() -> Net:
    x = ones(4)
    return Net(lambda net, y: y * net.a + net.b, a=x, b=x)


def with_parameter() -> Any:
    return nn.Parameter(torch.full((4,), 0.5))


GLOBAL = Config(2.0)
CELL = [2.0]
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a buffer that comes": (lambda: Masked(None), named("mask", ones(4) * 2)),
    "a buffer that goes": (lambda: Masked(ones(4) * 2), named("mask", None)),
    "tensors that are one no more": (tied, named("a", ones(4) * 3)),
    "a parameter in a list": (
        lambda: in_list(with_parameter()),
        lambda net: net.held.__setitem__(0, nn.Parameter(ones(4))),
    ),
    "a parameter that is in a list, too": (
        lambda: Net(lambda net, x: x * net.held[0] + net.w, [p := with_parameter()], w=p),
        named("w", nn.Parameter(ones(4))),
    ),
    "a weight of a module in a list": (
        lambda: Net(called, [nn.Linear(4, 4)]),
        named("held.0.weight", nn.Parameter(ones(4, 4))),
    ),
    "the mode of a module in a list": (
        lambda: Net(called, [nn.Dropout(1.0).eval()]),
        lambda net: net.held[0].train(),
    ),
    "a number of a module in a list": (
        lambda: Net(called, [nn.LeakyReLU(0.1)]),
        named("held.0.negative_slope", 0.9),
    ),
    "a set": (lambda: Net(lambda n, x: x * len(n.held), {2}), lambda net: net.held.add(1)),
    "a deque": (
        lambda: Net(first, collections.deque([2.0])),
        lambda net: net.held.appendleft(3.0),
    ),
    "a dict of a user's": (
        lambda: Net(first, collections.UserDict({0: 2.0})),
        lambda net: net.held.update({0: 3.0}),
    ),
    "an array": (
        lambda: Net(lambda net, x: x * float(net.held[0]), np.array([2.0])),
        lambda net: net.held.__setitem__(0, 3.0),
    ),
    "a slot": (lambda: Net(lambda n, x: x * n.held.k, Slotted(2.0)), named("held.k", 3.0)),
    "an item of an object": of_config(lambda net, x: x * net.held["k"]),
    "an operator of an object": of_config(lambda net, x: x * net.held),
    "an iterator": of_config(over_all),
    "a context": of_config(in_with),
    "a bound method": (lambda: Net(lambda n, x: x * n.held(), GLOBAL.get), lambda _: set_global()),
    "any name": (
        lambda: Net(lambda net, x: x * net.held.rate, Dotted()),
        lambda net: net.held.values.update(rate=3.0),
    ),
    "a computed name": (
        lambda: Net(lambda net, x: x * getattr(net, "k" + str(len(x))), k3=2.0),
        named("k3", 3.0),
    ),
    "a number among parameters": (
        lambda: Net(lambda net, x: x * net.all["k"], all=nn.ParameterDict({"k": 2.0})),
        lambda net: net.all.update({"k": 3.0}),
    ),
    "behind a decorator": (Parent, named("k", 3.0)),
    "behind a cache": (Child, lambda net: (named("k", 3.0)(net), Parent.cached.cache_clear())),
    "a partial function": (
        lambda: Net(lambda net, x: net.held(x), functools.partial(scaled, Config(2.0))),
        lambda net: setattr(net.held.args[0], "k", 3.0),
    ),
    "a default": (lambda: Net(with_default), lambda _: DEFAULT.insert(0, 3.0)),
    "other defaults": (
        lambda: Net(with_another),
        lambda _: setattr(with_another, "__defaults__", ([0.25],)),
    ),
    "a function's own": (lambda: Net(with_attribute), lambda _: setattr(with_attribute, "k", 3.0)),
    "what a hook closes over": (
        lambda: hooked(lambda module, args, y: y * CELL[0]),
        lambda _: CELL.insert(0, CELL[0] + 1),
    ),
    "an inherited method": (
        Child,
        lambda net: setattr(net, "own", lambda x: x * 5),
    ),
    "the class": (Child, named("__class__", Other)),
    "a setting of a convolution": (
        lambda: Net(lambda net, x: net.all(x[:, None]), all=nn.Conv1d(1, 1, 2, padding="same")),
        named("all.dilation", (2,)),
    ),
    "a name that others write": (
        lambda: nn.Sequential(Writing(), Reading()),
        named("1.k", 3.0),
    ),
    "a number of a tensor": (
        lambda: Net(lambda net, x: x * net.held.item(), torch.tensor(2.0)),
        lambda net: net.held.fill_(3.0),
    ),
    "numbers of a tensor": (
        lambda: Net(lambda net, x: x * net.held[0].tolist()[1], [torch.tensor([1.0, 2.0])]),
        lambda net: net.held[0].fill_(3.0),
    ),
    "an attribute that appears": (
        lambda: Net(lambda net, x: x * getattr(net, "k", 3.0)),
        named("k", 2.0),
    ),
    "an attribute asked for": (
        lambda: Net(lambda net, x: x * net.k if hasattr(net, "k") else x),
        named("k", 2.0),
    ),
    "an attribute that was missed": (
        lambda: Net(lambda net, x: x * or_one(net)),
        named("k", 2.0),
    ),
    "what a method by a computed name reads": (
        lambda: Dispatching("scaled"),
        lambda net: set_global(),
    ),
    "a negative zero": (
        lambda: Net(lambda n, x: torch.atan2(torch.full_like(x, n.k), -x * x) * x, k=0.0),
        named("k", -0.0),
    ),
}


def set_global() -> None:
    GLOBAL.k += 1
