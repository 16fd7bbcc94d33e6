"""What code reads by other ways than attributes and globals is what is there at each call."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import importlib
import json
import operator
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.reads import Net, check_change, named

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
VARIABLE = contextvars.ContextVar("VARIABLE", default=2.0)
NAME = "RNNCC_TEST_RATE"
SLOPES = [2.0]
if TYPE_CHECKING:
    LATE = 2.0


def first(rates: Any, x: Any) -> Any:
    return x * rates[0]


def twice(x: Any) -> Any:
    return x * 2


def thrice(x: Any) -> Any:
    return x * 3


def with_code(x: Any) -> Any:
    return x * 2


def with_own(x: Any) -> Any:
    return x


with_own.k = 2.0  # type: ignore[missing-attribute]


def by_name(net: Any, x: Any) -> Any:
    try:
        return x * LATE
    except NameError:
        return x * 2


LOCAL = threading.local()
LOCAL.rate = 2.0
json.rnncc_test_rate = 2.0  # type: ignore[missing-attribute]


class Counted(type):
    """What its classes have an attribute of."""

    _rate = 2.0

    @property
    def rate(cls) -> float:
        return cls._rate


class OfCounted(metaclass=Counted):
    pass


class Rated:
    rate = 2.0

    def scaled(self, x: Any) -> Any:
        return x * self.rate

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * 2

    def __getitem__(self, key: int) -> float:
        return 2.0


RATED = Rated()


class Faster(Rated):
    rate = 3.0

    def scaled(self, x: Any) -> Any:
        return super().scaled(x)


class Partly(Net):
    def scaled(self, by: float, x: Any) -> Any:
        return x * by * self.k

    part = functools.partialmethod(scaled, 1.0)


def slope(x: Any) -> Any:
    return x * SLOPES[0]


class Helped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x + 0 * SLOPES[0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return slope(grad)


class Sized(nn.Module):
    """Reads of its tensors what they are like alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("table", torch.ones(2))
        self.kept = torch.ones(2)

    def forward(self, x: Any) -> Any:
        wide = 2.0 if self.kept.dtype == torch.float32 else 3.0
        return self.layer(x) * self.table.shape[0] * self.kept.numel() * wide


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a variable of a context": (
        lambda: Net(lambda net, x: x * VARIABLE.get()),
        lambda net: VARIABLE.set(3.0),
    ),
    "what each thread has": (
        lambda: Net(lambda net, x: x * LOCAL.rate),
        lambda net: setattr(LOCAL, "rate", 3.0),
    ),
    "what the class of a class has": (
        lambda: Net(lambda net, x: x * OfCounted.rate),
        lambda net: setattr(Counted, "_rate", 3.0),
    ),
    "what a module of Python's was given": (
        lambda: Net(lambda net, x: x * json.rnncc_test_rate),  # type: ignore[missing-attribute]
        lambda net: setattr(json, "rnncc_test_rate", 3.0),
    ),
    "the environment": (
        lambda: Net(lambda net, x: x * float(os.getenv(NAME, "2"))),
        lambda net: os.environ.update({NAME: "3"}),
    ),
    "a chain of dicts": (
        lambda: Net(lambda net, x: x * net.held["k"], collections.ChainMap({}, {"k": 2.0})),
        lambda net: net.held.update(k=3.0),
    ),
    "numbers in an array": (
        lambda: Net(lambda net, x: x * net.held[0], array.array("d", [2.0])),
        lambda net: net.held.insert(0, 3.0),
    ),
    "bytes": (
        lambda: Net(lambda net, x: x * net.held[0], bytearray([2])),
        lambda net: net.held.insert(0, 3),
    ),
    "a list in a partial function": (
        lambda: Net(lambda net, x: net.held(x), functools.partial(first, [2.0])),
        lambda net: net.held.args[0].insert(0, 3.0),
    ),
    "a partial method": (
        lambda: Partly(lambda net, x: net.part(x), k=2.0),
        named("k", 3.0),
    ),
    "what is referred to weakly": (
        lambda: Net(lambda net, x: net.held().scaled(x), weakref.ref(RATED)),
        lambda net: setattr(RATED, "rate", 3.0),
    ),
    "the class of an object": (
        lambda: Net(lambda net, x: net.held.scaled(x), Rated()),
        named("held.__class__", Faster),
    ),
    "the code of a function": (
        lambda: Net(lambda net, x: with_code(x)),
        lambda net: setattr(with_code, "__code__", thrice.__code__),
    ),
    "another function's own": (
        lambda: Net(lambda net, x: x * with_own.k),  # type: ignore[missing-attribute]
        lambda net: setattr(with_own, "k", 3.0),
    ),
    "a global that was missed": (
        lambda: Net(by_name),
        lambda net: by_name.__globals__.update(LATE=3.0),
    ),
    "an attribute that goes": (
        lambda: Net(lambda net, x: x * 2 if hasattr(net, "k") else x, k=1),
        lambda net: delattr(net, "k"),
    ),
    "a name that a function computes": (
        lambda: Net(lambda net, x: x * operator.attrgetter("k" + "s")(net), ks=2.0),
        named("ks", 3.0),
    ),
    "another tensor of which the number is taken": (
        lambda: Net(lambda net, x: x * [0, 1, 2, 3][int(net.k)], k=torch.tensor(2)),
        named("k", torch.tensor(3)),
    ),
    "the size of a buffer": (Sized, named("table", torch.ones(3))),
    "the size of a tensor": (Sized, named("kept", torch.ones(3))),
    "the type of a tensor": (Sized, named("kept", torch.ones(2).double())),
}


@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "2")
    check_change(*CASES[name])


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [(torch, "tanh", torch.sin), (nn.Linear, "forward", lambda self, x: x @ self.weight)],
)
def test_what_pytorch_is_given_instead(owner: Any, name: str, value: Any) -> None:
    module, x = Net(lambda net, x: torch.tanh(x)), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    before = net(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        torch.testing.assert_close(net(x), module(x))
        assert not torch.equal(net(x), before)
    assert torch.equal(net(x), before)


def test_each_thread_has_its_own() -> None:
    module, x = Net(lambda net, x: x * LOCAL.rate), torch.randn(3, 4)
    LOCAL.rate = 2.0
    net = rt.compile(module, (x,))
    results = [net(x)]

    def elsewhere() -> None:
        LOCAL.rate = 5.0
        results.append(net(x))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    torch.testing.assert_close(results[1], results[0] * 2.5)
    torch.testing.assert_close(net(x), module(x))


def test_what_backward_calls() -> None:
    module, x = Net(lambda net, x: Helped.apply(x)), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    slopes = list[Any]()
    for number in (2.0, 3.0):
        SLOPES[0] = number
        slopes += [torch.autograd.grad(f(x).sum(), module.layer.weight)[0] for f in (net, module)]
    torch.testing.assert_close(slopes[0::2], slopes[1::2])


def test_functions_that_branch_are_compiled_once() -> None:
    """Their code is written anew when they are first read."""
    module, x = Net(lambda net, x: branching(x)), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    assert net.form() is net.form()
    torch.testing.assert_close(net(x), module(x))


def branching(x: Any) -> Any:
    if x.sum() > 0:
        x = x * 2
    return x


def of_environment(x: Any, h: Any) -> Any:
    return h, h + x * float(os.getenv(NAME, "2"))


def of_object(x: Any, h: Any) -> Any:
    return h, h + Rated.of_class(x) + Faster().scaled(x) + x * Rated()[0]


LAYER = nn.Linear(2, 2)


def of_layer(x: Any, h: Any) -> Any:
    return h, h + LAYER(x)


class Cell(nn.Module):
    def aid(self, x: Any) -> Any:
        return x * 2

    def forward(self, x: Any, h: Any) -> Any:
        return h, h + self.aid(x)


@pytest.mark.parametrize(
    ("cell", "owner", "name", "value"),
    [
        (Cell(), Cell, "aid", lambda self, x: x * 3),
        (Cell(), Cell, "forward", lambda self, x, h: (h, h + x)),
        (of_object, Rated, "of_class", classmethod(lambda cls, x: x * 3)),
        (of_object, Rated, "scaled", lambda self, x: x * 7),
        (of_object, Faster, "scaled", lambda self, x: x * 7),
        (of_object, Rated, "__getitem__", lambda self, key: 7.0),
        (of_environment, None, NAME, "3"),
        (of_layer, nn.Linear, "forward", lambda self, x: x),
    ],
)
def test_cells_see_other_methods(cell: Any, owner: Any, name: str, value: Any) -> None:
    xs, h = torch.ones(3, 2), torch.zeros(2)

    def both() -> list[Any]:
        state = h
        for x in xs:
            _, state = cell(x, state)
        got = rt.scan(cell, xs, h)[1]
        torch.testing.assert_close(got, state)
        return got.tolist()

    before = both()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value) if owner is None else patch.setattr(owner, name, value)
        assert both() != before
    assert both() == before


def test_methods_are_compared_once_a_call() -> None:
    """However many functions a cell calls, each of which asks for a guard."""
    watching: Any = importlib.import_module("rnncc.frontends.torch.watching.methods")
    added = list[Any]()
    root = types.SimpleNamespace(add_lambda_guard=lambda *guard: added.append(guard))
    methods, guard = watching._Found(), types.SimpleNamespace(user_stack=None)
    builders = [types.SimpleNamespace(guard_manager=types.SimpleNamespace(root=root)) for _ in "ab"]
    for builder in builders:
        methods.create(builder, guard)
        methods.create(builder, guard)
    assert len(added) == len(builders)
