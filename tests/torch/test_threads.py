"""Calls that take several of PyTorch's threads: the bits are those of one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.torch.cells import MinimalGated, MultiplicativeLstm, torch

rt: Any = pytest.importorskip("rnncc.torch")
threads: Any = pytest.importorskip("rnncc.torch.threads")
pytestmark = pytest.mark.peers
STEPS, BATCH, UNITS = 6, 64, 96


@pytest.fixture(params=["openmp", "pool"])
def taken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads each call took, of PyTorch's own or, where it has none, of a pool."""
    before, found = torch.get_num_threads(), list[int]()
    if request.param == "pool":
        monkeypatch.setattr(threads, "_openmp", None)
    elif threads._openmp is None:
        pytest.skip("this PyTorch has no OpenMP of GNU's interface")
    for kind in (threads._OpenMP, threads.Pool):

        def run(self: Any, function: Any, count: int, run: Any = kind.run) -> int:
            found.append(count)
            return run(self, function, count)

        monkeypatch.setattr(kind, "run", run)
    yield found
    torch.set_num_threads(before)


def results(cell: Any) -> list[Any]:
    """Outputs, with gradients and without; gradients."""
    xs = torch.randn(STEPS, BATCH, UNITS, generator=torch.Generator().manual_seed(1))
    xs.requires_grad_()
    cell.zero_grad()
    ys, _ = rt.scan(cell, xs, cell.start)
    ys.square().sum().backward()
    with torch.no_grad():
        alone, _ = rt.scan(cell, xs, cell.start)
    return [ys, alone, xs.grad, *(p.grad for p in cell.parameters())]


def test_the_number_changes_before_backward(taken: list[int]) -> None:
    torch.manual_seed(0)
    cell, xs = MinimalGated(UNITS, UNITS, BATCH), torch.randn(STEPS, BATCH, UNITS)
    parameters, found = list(cell.parameters()), list[Any]()
    for before, after in ((1, 3), (3, 1), (1, 3)):
        torch.set_num_threads(before)
        ys, _ = rt.scan(cell, xs, cell.start)
        torch.set_num_threads(after)
        found.append(torch.autograd.grad(ys.sum(), parameters))
    assert all(
        torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True)
    )
    assert taken


@pytest.mark.parametrize("kind", [MultiplicativeLstm, MinimalGated])
def test_bits_are_those_of_one_thread(kind: Any, taken: list[int]) -> None:
    torch.manual_seed(0)
    cell = kind(UNITS, UNITS, BATCH)
    torch.set_num_threads(1)
    want = results(cell)
    assert not taken
    for count in (2, 3, 2):
        torch.set_num_threads(count)
        for got, one in zip(results(cell), want, strict=True):
            assert torch.equal(got, one)
        assert taken == [count] * 3
        taken.clear()


def test_small_calls_take_one_thread(taken: list[int]) -> None:
    torch.set_num_threads(2)
    cell = MinimalGated(4, 4, 2)
    rt.scan(cell, torch.zeros(3, 2, 4), cell.start)[0].sum().backward()
    assert not taken


class Tagging(torch.nn.Module):
    """Layers of its own width, with a branch on a tensor's value, which is written anew."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.out = torch.nn.GRU(width, 5), torch.nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        y = self.out(self.layer(x)[0])
        if y.sum() > 0:
            y = y * 2
        return y


def in_threads(call: Callable[[int], Any], count: int = 3) -> list[Any]:
    """What the calls with 0, 1, ... return, which begin at once and change places often."""
    barrier, before = Barrier(count), sys.getswitchinterval()

    def begin(number: int) -> Any:
        barrier.wait()
        return call(number)

    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(begin, range(count)))
    finally:
        sys.setswitchinterval(before)


def test_several_threads_compile_at_once() -> None:
    torch.manual_seed(0)
    modules = [Tagging(4 + n) for n in range(3)]
    inputs = [torch.randn(3, 2, 4 + n) for n in range(3)]

    def compiled(number: int) -> Any:
        return rt.compile(modules[number], (inputs[number],), train=False)

    for module, x, run in zip(modules, inputs, in_threads(compiled), strict=True):
        with torch.no_grad():
            assert torch.allclose(run(x), module(x), atol=1e-6)


def test_several_threads_read_one_cell_at_once() -> None:
    def clipped(x: Any, h: Any) -> Any:
        h = 0.9 * h + x
        if h.norm() > 1:
            h = h / h.norm()
        return h, h

    xs = [torch.randn(5, 3 + n) for n in range(3)]

    def scanned(number: int) -> Any:
        with torch.no_grad():
            return rt.scan(clipped, xs[number], torch.zeros(3 + number))[1]

    for x, last in zip(xs, in_threads(scanned), strict=True):
        h = torch.zeros(len(x[0]))
        for row in x:
            _, h = clipped(row, h)
        assert torch.allclose(last, h, atol=1e-6)


@pytest.mark.slow
def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    """Slow, as PyTorch is loaded once more; that the pool has is shown in runtime/test_pool.py."""
    script = tmp_path / "script.py"
    script.write_text(FORK)
    command = [sys.executable, script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("equal\n", 0), done.stderr


FORK = """
import os, numpy, torch, rnncc.torch

torch.set_num_threads(2)
w = torch.randn(128, 128) / 12
xs, start = torch.randn(20, 64, 128), torch.zeros(64, 128)


def run():
    with torch.no_grad():
        return rnncc.torch.scan(lambda x, h: (h, torch.tanh(x + h @ w)), xs, start)[0].numpy()


want = run()
child = os.fork()
if not child:  # PyTorch's own operators may hang here
    os._exit(not numpy.array_equal(run(), want))
print("equal" if os.waitpid(child, 0)[1] == 0 else "not equal")
"""
