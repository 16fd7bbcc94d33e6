"""Of code that leads to many functions, those count that run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
settings: Any = pytest.importorskip("rnncc.torch.settings")
walk: Any = pytest.importorskip("rnncc.torch.walk")
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
    own = walk.ran_by(sorted_sum.__code__)
    with settings.running() as ran:
        sorted_sum([2, 1])
    assert own in ran
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        with settings.running() as traced:
            sorted_sum([2, 1])
    finally:
        sys.setprofile(before)
    assert own in traced


def sorted_sum(numbers: list[int]) -> int:
    return sum(sorted(numbers))


def test_rest_of_a_net(library: Any) -> None:
    """What leads there from another module counts, too."""
    net = nn.Sequential(library.Part(), nn.Tanh())
    assert not walk.Walk(net).is_whole
