"""What the code of a compiled module reads of Python's objects may change between calls."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
compiled_module: Any = pytest.importorskip("rnncc.torch.compiled_module")
pytestmark = pytest.mark.peers
SHIFT, MASK = 0.5, torch.tensor([1.0, 0.5, 0.0, 2.0])


class Config:
    rate = 0.9


class Temperature:
    def __init__(self) -> None:
        self.tau = 2.0


def shifted(module: Any, x: Any) -> Any:
    return x * module.gain * MASK + SHIFT


class Net(nn.Module):
    """Reads numbers from many places, and counts in none that it reads."""

    scale = 0.7

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.elu = nn.Linear(4, 4), nn.ELU()
        self.temperature, self.inner = Temperature(), SimpleNamespace(power=2)
        self.gain, self.function, self.flag = 2, torch.tanh, True
        self.supports: Any = {"a": [torch.eye(4)], "b": (0.5, "text")}
        self._own, self.epoch = 3.0, 0

    @property
    def own(self) -> float:
        return self._own

    def step(self, x: Any) -> Any:
        y = self.elu(self.layer(x)) @ self.supports["a"][0]
        return self.function(y) if self.flag else y

    def forward(self, x: Any) -> Any:
        y = shifted(self, self.step(x)) / self.temperature.tau
        return y**self.inner.power * self.scale * Config.rate + self.own * self.supports["b"][0]

    def end_of_epoch(self) -> None:
        self.epoch += 1


def in_globals(name: str, value: Any) -> Callable[[Any, pytest.MonkeyPatch], None]:
    return lambda net, patch: patch.setitem(shifted.__globals__, name, value)


def attribute(name: str, value: Any) -> Callable[[Any, Any], None]:
    """Sets what a path of names leads to."""

    def change(net: Any, _: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            net = getattr(net, part)
        setattr(net, last, value)

    return change


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    **{n: attribute(n, 3) for n in ("gain", "temperature.tau", "inner.power", "scale")},
    "behind a property": attribute("_own", 4.0),
    "function": attribute("function", torch.sin),
    "flag": attribute("flag", False),
    "a part's own": attribute("elu.alpha", 0.3),
    "a tensor in a list": lambda net, _: net.supports["a"].__setitem__(0, torch.ones(4, 4)),
    "a number in a tuple": lambda net, _: net.supports.update(b=(0.1, "text")),
    "a class's": lambda net, patch: patch.setattr(Config, "rate", 0.1),
    "its own class's": lambda net, patch: patch.setattr(Net, "scale", 0.1),
    "a method": lambda net, patch: patch.setattr(Net, "step", lambda self, x: self.layer(x)),
    "an object's forward": attribute("elu.forward", torch.sin),
    "a global": in_globals("SHIFT", 0.1),
    "a global tensor": in_globals("MASK", torch.ones(4)),
    "a hook": lambda net, _: net.layer.register_forward_hook(lambda module, x, y: 2 * y),
    "a hook before": lambda net, _: net.elu.register_forward_pre_hook(lambda module, x: 2 * x[0]),
    "a parameter that is gone": attribute("layer.bias", None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    module, x = Net(), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    before = net(x)
    torch.testing.assert_close(before, module(x))
    CHANGES[name](module, monkeypatch)
    assert not torch.allclose(module(x), before)
    torch.testing.assert_close(net(x), module(x))


def test_compiled_once_for_each_setting() -> None:
    module, x = Net(), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    forms = {id(net.form())}
    for flag in (False, True, False):
        module.flag = flag
        module.end_of_epoch()
        module.gain = int("2")
        module.supports = {**module.supports}
        torch.testing.assert_close(net(x), module(x))
        forms.add(id(net.form()))
    assert len(forms) == 2


def test_a_setting_that_always_changes_is_told() -> None:
    module, x = Net(), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    with pytest.warns(UserWarning, match="compiled for each value of gain"):
        for gain in range(compiled_module.MOST_FORMS + 1):
            module.gain = gain
            net.form()
    torch.testing.assert_close(net(x), module(x))


def test_copies_and_pickles_have_settings_of_their_own() -> None:
    module, x = Net(), torch.randn(3, 4)
    net = rt.compile(module, (x,))
    net(x)
    copied, loaded = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    forms = [id(one._forms[one._parts.modes()][0]) for one in (copied, loaded)]
    for one, form in zip((copied, loaded), forms, strict=True):
        torch.testing.assert_close(one(x), module(x))
        assert id(one.form()) == form
    module.gain = 5
    torch.testing.assert_close(copied(x), copied.module(x))
    copied.module.gain = 7
    torch.testing.assert_close(copied(x), copied.module(x))
    loaded.module.gain = 7
    with pytest.raises(Exception, match="compile the module again"):
        loaded(x)


SCALES = {"own": 2.0, "others": [0.5, 1]}


class Scaled(nn.Module):
    power = 2

    def forward(self, x: Any) -> Any:
        return x**self.power * SCALES["own"]


@pytest.mark.parametrize("owner, key, value", [(SCALES, "own", 3.0), (Scaled, "power", 3)])
def test_what_pickles_find_in_other_processes(owner: Any, key: str, value: Any) -> None:
    """Globals and attributes of classes there are those that the code was made for, or refused."""
    x = torch.randn(3, 4)
    stored = pickle.dumps(rt.compile(Scaled(), (x,)))
    torch.testing.assert_close(pickle.loads(stored)(x), Scaled()(x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(owner, key, value) if owner is SCALES else patch.setattr(owner, key, value)
        with pytest.raises(CompileError, match="compile the module again"):
            pickle.loads(stored)(x)


def test_what_is_frozen_stays_as_it_was() -> None:
    module, x = Net().requires_grad_(False), torch.randn(3, 4)
    net = rt.compile(module, (x,), frozen=True)
    before = net(x)
    module.gain = 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(net(x), before)


class Refusing:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_objects_that_answer_no_name() -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.odd: Any = Refusing()

        def forward(self, x: Any) -> Any:
            return x * 2 if self.odd is not None else x

    module, x = Holding(), torch.ones(3)
    net = rt.compile(module, (x,))
    assert torch.equal(net(x), 2 * x)
    module.odd = None
    assert torch.equal(net(x), x)


def test_globals_of_an_attributes_name_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a script's loop variables."""
    module, x = Net(), torch.randn(3, 4)
    monkeypatch.setitem(globals(), "gain", 1)
    net = rt.compile(module, (x,))
    form = net.form()
    for gain in (2, lambda: net):
        monkeypatch.setitem(globals(), "gain", gain)
        assert net.form() is form
