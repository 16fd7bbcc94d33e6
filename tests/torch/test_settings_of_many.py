"""Of code that leads to many functions, those count that run."""

from __future__ import annotations

import cProfile
import importlib.util
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
runs: Any = pytest.importorskip("rnncc.torch.objects.runs")
walk: Any = pytest.importorskip("rnncc.torch.objects.walk")
pytestmark = pytest.mark.peers
MANY = walk.MOST_FUNCTIONS + 1

LIBRARY = '''
import torch
RATE, UNREAD = 0.5, 1.0

class Tools:
    """Whose methods a name leads to, and each of them to the next."""
{methods}

def scaled(x, part):
    return x * RATE + part.shift

def unused(part):
    return UNREAD * part.tools.method0()

class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.tools = torch.nn.Linear(3, 3), Tools()
        self.shift, self.flag, self.calls, self.unread = 1.0, False, 0, 2.0

    def forward(self, x):
        self.calls += 1
        if self.flag:
            return unused(self)
        return scaled(self.layer(x), self)
'''
METHOD = "    def method{}(self):\n        return self.method{}() + UNREAD + self.unread\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of Python's whose code leads to many functions, of which two run."""
    methods = "".join(METHOD.format(n, n + 1) for n in range(MANY))
    (tmp_path / "library_of_many.py").write_text(LIBRARY.format(methods=methods))
    spec: Any = importlib.util.spec_from_file_location(
        "library_of_many", tmp_path / "library_of_many.py"
    )
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def forms(net: Any) -> int:
    return sum(map(len, net._forms.values()))


@pytest.mark.filterwarnings("ignore:.*compiled code leaves")
def test_what_runs_is_guarded(library: Any) -> None:
    """A change of what it reads is seen, one of what the other functions read compiles nothing."""
    part, x = library.Part(), torch.randn(2, 3)
    assert not walk.Walk(part).is_whole
    net = rt.compile(part, (x,))
    named = {key for owner, key, *_ in next(iter(net._forms.values()))[0].settings._places}
    assert {"RATE", "shift", "flag"} <= named
    assert named.isdisjoint({"UNREAD", "unread", "calls"})
    for owner, name, value, count in (
        (library, "RATE", 0.25, 2),
        (part, "shift", 3.0, 3),
        (library, "UNREAD", 5.0, 3),
        (part, "unread", 5.0, 3),
        (part, "calls", 100, 3),
    ):
        setattr(owner, name, value)
        torch.testing.assert_close(net(x), part(x))
        assert forms(net) == count, name


def test_functions_that_run() -> None:
    """Whichever of Python's hooks is free; without one all of them."""
    own, other = runs.ran_by(sorted_sum.__code__), runs.ran_by(forms.__code__)
    with runs.running() as ran:
        sorted_sum([2, 1])
    assert own in ran
    assert other not in ran
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        with runs.running() as traced:
            sorted_sum([2, 1])
    finally:
        sys.setprofile(before)
    assert own in traced


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="hooks of Python's profiler are others")
def test_no_function_calls_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a hook in Python, which took a seventh of the time of a first call."""
    called = list[Any]()
    monkeypatch.setattr(runs.RanCode, "note", lambda *event: called.append(event))
    with runs.running() as ran:
        hook = sys.getprofile()
        sorted_sum([2, 1])
        assert sys.getprofile() is hook
    assert sys.getprofile() is None
    assert runs.ran_by(sorted_sum.__code__) in ran
    assert not called


def no_hook(*_: Any) -> None:
    pass


@pytest.mark.parametrize("hook", [no_hook, None])
def test_a_hook_that_code_leaves(hook: Any) -> None:
    """It stays, and what ran behind it may be anything."""
    before, profiler = sys.getprofile(), cProfile.Profile()
    try:
        with runs.running() as ran:
            sys.setprofile(hook) if hook else profiler.enable()
            sorted_sum([2, 1])
        left = sys.getprofile()
    finally:
        profiler.disable()
        sys.setprofile(before)
    assert left is (no_hook if hook else profiler)
    assert runs.ran_by(no_hook.__code__) in ran


def sorted_sum(numbers: list[int]) -> int:
    return sum(sorted(numbers))


def test_rest_of_a_net(library: Any) -> None:
    """What leads there from another module counts, too."""
    net = nn.Sequential(library.Part(), nn.Tanh())
    assert not walk.Walk(net).is_whole


rates, pool = SimpleNamespace(rate=0.5), ThreadPoolExecutor(1)


def slowed(x: Any, h: Any) -> Any:
    """A cell's step."""
    h = torch.tanh(x + slower(h))
    return h, h


def slower(h: Any) -> Any:
    return h * rates.rate


def in_loop(x: Any) -> Any:
    return rt.scan(slowed, x, x[0])[0]


def in_branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, slower, lambda x: x - slower(x), (x,))


def in_thread(x: Any) -> Any:
    thread = threading.Thread(target=lambda: found.append(slower(1.0)))
    found: list[float] = []
    thread.start()
    thread.join()
    return x * found[0]


def in_pool(x: Any) -> Any:
    return x * pool.submit(slower, 1.0).result()


def without_hook(x: Any) -> Any:
    sys.setprofile(None)
    return slower(x)


def with_other_hook(x: Any) -> Any:
    hook = sys.getprofile()
    sys.setprofile(None)
    y = slower(x)
    sys.setprofile(hook)
    return y


@pytest.mark.parametrize(
    "function", [in_loop, in_branches, in_thread, in_pool, without_hook, with_other_hook]
)
def test_what_no_hook_sees(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and branches that TorchDynamo reads, once for all; and what other threads run."""
    monkeypatch.setattr(walk, "MOST_FUNCTIONS", -1)
    monkeypatch.setattr(rates, "rate", 0.5)
    x = torch.randn(3, 2)
    pool.submit(int).result()  # its thread is there

    class Calling(nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    nets = [rt.compile(Calling(), (x,)) for _ in range(2)]
    rates.rate = 0.25
    for net in nets:
        (form,) = next(iter(net._forms.values()))
        assert form.settings.changed() == "rate"


def test_the_level_of_a_log() -> None:
    """An attribute of an object of Python's own that a user sets."""
    log = logging.Logger("of a test", logging.DEBUG)

    class Logged(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.clamp(max=0.0) if log.level < logging.INFO else x

    net, x = rt.compile(Logged(), (torch.randn(2, 2),)), torch.ones(2, 2)
    log.setLevel(logging.INFO)
    torch.testing.assert_close(net(x), x)
