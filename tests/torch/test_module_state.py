"""What modules keep from call to call: numbers, tensors, dropout's draws."""

from __future__ import annotations

import itertools
import random
import re
import warnings
from collections import deque
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from rnncc import CompileError
from tests.torch.cells import nn, torch
from tests.torch.compiled_modules import Counting, OfPairs

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
Dim = torch.export.Dim
T, N = Dim("T"), Dim("N")
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


def test_dropout() -> None:
    """Follows PyTorch's seed, keeps the mean, and backward drops what forward dropped."""
    module = nn.Sequential(nn.Dropout(0.25), nn.Identity())
    compiled = rt.compile(module, (torch.ones(4, 4),), dynamic_shapes=({0: N},))
    x = torch.ones(1000, 4, requires_grad=True)
    torch.manual_seed(3)
    y = compiled(x)
    y.sum().backward()
    assert y.unique().tolist() == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(x.grad, y)
    other = compiled(x)
    assert not torch.equal(other, y)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), y)
    still = rt.compile(module.eval(), (torch.ones(4, 4),))
    assert torch.equal(still(torch.ones(4, 4)), torch.ones(4, 4))


def test_dropout_between_layers() -> None:
    layer = nn.LSTM(3, 4, 2, dropout=0.5)
    compiled = rt.compile(layer, (torch.ones(3, 2, 3),))
    first, second = (compiled(torch.ones(3, 2, 3))[0] for _ in range(2))
    assert not torch.equal(first, second)


def test_sparse_tensors() -> None:
    class Reservoir(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weights", torch.eye(3).to_sparse())

        def forward(self, x: Any) -> Any:
            return torch.sparse.mm(self.weights, x)

    with pytest.raises(CompileError, match=r"test_module_state.py:\d+: .*sparse_coo.*to_dense"):
        rt.compile(Reservoir(), (torch.ones(3, 2),))


class Remembering(nn.Module):
    """Puts what it computed somewhere, and may read there what an earlier call has put."""

    def __init__(self, keep: Any, reads: bool) -> None:
        super().__init__()
        self.linear, self.keep, self.reads = nn.Linear(2, 2), keep, reads
        self.kept: dict[str, Any] = {"h": None}
        self.last = deque([torch.zeros(3, 2)], maxlen=1)
        self.h: Any = None

    def forward(self, x: Any) -> Any:
        last = self.h if self.kept["h"] is None else self.kept["h"]
        y = self.linear(x)
        if self.reads:
            y = y + self.last[0] + (0 if last is None else last)
        self.keep(self, y)
        return y


KEEPING: dict[str, Any] = {
    "Remembering.h": lambda m, y: setattr(m, "h", y),
    "['h']": lambda m, y: m.kept.update(h=(y * 2).detach()),
    "[0]": lambda m, y: m.last.append(y.detach()),
}


@pytest.mark.parametrize("place", KEEPING)
def test_tensors_that_a_module_keeps(place: str) -> None:
    """Compiled code keeps none: refused where the next call would read it."""
    x = torch.randn(3, 2)
    net = Remembering(KEEPING[place], reads=True)
    with pytest.raises(CompileError, match=f"Remembering: the next call may .*{re.escape(place)}"):
        rt.compile(net, (x,))
    net.reads = False
    with pytest.warns(UserWarning, match=f"compiled code leaves {re.escape(place)} as it was"):
        compiled = rt.compile(net, (x,))
    torch.testing.assert_close(compiled(x), net(x))
    net.h = net.kept["h"] = None
    compiled(x)
    assert (net.h, net.kept) == (None, {"h": None})


class Looking(nn.Module):
    """Computes what it needs not, in its first call or in later ones, such as to look for changes;
    a change of what it was given is needed."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.linear, self.change = nn.Linear(2, 2), change
        self.register_buffer("total", torch.zeros(2))
        self.seen: list[Any] = [None]

    def forward(self, x: Any) -> Any:
        if self.seen[0] is self.linear.weight:
            self.change(self.total, self.linear.weight.exp().sum(0))
        self.seen[0] = self.linear.weight
        return self.linear(x)


def test_what_only_some_calls_compute() -> None:
    x = torch.randn(3, 2)
    net = Looking(lambda total, x: total + x)
    torch.testing.assert_close(rt.compile(net, (x,))(x), net(x), **CLOSE)
    with pytest.raises(CompileError, match="the next call may compute with what it"):
        rt.compile(Looking(lambda total, x: total.view(1, 2).add_(x.detach())), (x,))


@pytest.mark.filterwarnings("ignore:.*_flat_weights as it was")
def test_layers_with_weights_that_are_made_at_each_call() -> None:
    layer, x = (
        nn.utils.parametrizations.weight_norm(nn.GRU(3, 4), "weight_hh_l0"),
        torch.randn(5, 2, 3),
    )
    with warnings.catch_warnings(action="error"):
        compiled = rt.compile(layer, (x,))
    for _ in range(2):
        ours, theirs = (
            torch.autograd.grad(net(x)[0].square().sum(), [*layer.parameters()])
            for net in (compiled, layer)
        )
        torch.testing.assert_close(ours, theirs, **CLOSE)
        with torch.no_grad():
            layer.parametrizations.weight_hh_l0.original0.mul_(2)


@pytest.mark.parametrize(
    "use", [lambda m: 0.9**m.calls, lambda m: 1 if m.counts[0] > 1 else m.linear.bias]
)
def test_calls_that_a_module_counts(use: Any) -> None:
    """Each call would compute as the first."""
    with pytest.raises(CompileError, match=r"compute with Counting.calls, \[0\], which"):
        rt.compile(Counting(use), (torch.ones(3, 2),))
    net = Counting(lambda m: 2)
    with pytest.warns(UserWarning, match=r"leaves Counting.calls, \[0\] as it was"):
        rt.compile(net, (torch.ones(3, 2),))
    assert (net.calls, net.counts) == (0, [0])


class CountingWays(Counting):
    """Counts in functions that both ways of a branch call, as solvers count evaluations."""

    def counted(self, x: Any) -> Any:
        self.calls += 1
        return torch.tanh(self.linear(x))

    def forward(self, x: Any) -> Any:
        if not x.isfinite().all():
            raise ValueError("not finite")
        return self.counted(x) + 1 if x.sum() > 0 else self.counted(self.use(self, x))


def test_calls_that_both_ways_of_a_branch_count() -> None:
    net = CountingWays(lambda m, x: -x)
    compiled = rt.compile(net, (torch.ones(3, 2),))
    for x in (torch.rand(3, 2), -torch.rand(3, 2)):
        torch.testing.assert_close(compiled(x), net(x), **CLOSE)
    with pytest.raises(CompileError, match=r"changes CountingWays\.calls"):
        rt.compile(CountingWays(CountingWays.counted), (torch.ones(3, 2),))


class Elsewhere(nn.Module):
    """Keeps numbers where no attribute shows that they change."""

    calls = 0

    def __init__(self, number: Any) -> None:
        super().__init__()
        self.number, self.numbers, self.array = number, itertools.count(1), np.zeros(1)

    def count(self) -> int:
        type(self).calls += 1
        return type(self).calls

    def add(self) -> float:
        self.array += 1
        return float(self.array[0])

    def forward(self, x: Any) -> Any:
        return torch.tanh(x * self.number(self))


@pytest.mark.parametrize(
    "number",
    [Elsewhere.count, Elsewhere.add, lambda m: next(m.numbers), lambda m: torch.tensor(m.count())],
)
def test_what_no_attribute_shows(number: Any) -> None:
    with pytest.raises(CompileError, match="Elsewhere: the next call may compute with what it kee"):
        rt.compile(Elsewhere(number), (torch.ones(3, 2),))


@pytest.mark.parametrize("draw", [random.random, lambda: float(np.random.rand())])
def test_random_numbers_of_python(draw: Any) -> None:
    """As of teacher forcing: one drawn while exporting would be that of all calls."""

    class Forced(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if draw() < 0.5 else x.tanh()

    with pytest.raises(CompileError, match="Forced: random numbers of Python and NumPy would be"):
        rt.compile(Forced(), (torch.ones(3, 2),))


def test_tables_that_a_module_makes_once() -> None:
    """What no argument decides is the same at each call; layers' lists of weights are no state."""

    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.lstm = None, nn.LSTM(2, 3)

        def forward(self, x: Any) -> Any:
            if self.table is None:
                self.table = torch.arange(2.0)
            return self.lstm(x + self.table)[0]

    net, x = Placed(), torch.randn(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = rt.compile(net, (x,))
    assert net.table is None
    torch.testing.assert_close(compiled(x), net(x), **CLOSE)


def test_arguments_that_a_call_changes_are_refused() -> None:
    """Whoever hands in the same list again would get what the first call left there."""

    class Caching(nn.Module):
        def forward(self, x: Any, cache: list[Any]) -> Any:
            cache[0] = cache[0] + x
            return cache[0]

    with pytest.raises(CompileError, match="changes a list or dict among its arguments"):
        rt.compile(Caching(), (torch.ones(2), [torch.ones(2)]))


def test_loops_of_pytorch_run_as_ever_after_an_export() -> None:
    x = torch.ones(3, 2)
    rt.compile(OfPairs(), (x,))
    scan = import_module("torch._higher_order_ops.scan").scan
    last, ys = scan(lambda h, x: (h + x, h * x), torch.zeros(2), x)
    assert (last.tolist(), ys.tolist()) == ([3, 3], [[0, 0], [1, 1], [2, 2]])


def test_nan_is_the_same_number_in_each_call() -> None:
    """Where values are missing; nothing is kept from call to call."""

    class Filled(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.masked_fill(x > 0, float("nan")).nanmean(0)

    net, x = Filled(), torch.linspace(-1, 1, 10).view(5, 2)
    torch.testing.assert_close(rt.compile(net, (x,))(x), net(x), **CLOSE)
