"""Graphs of torch.compile that read what changes from call to call: floats, and deques."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.deque_rows import check_rows

pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def fresh() -> Generator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is left to PyTorch says so
        yield


class Leaky(nn.Module):
    def __init__(self, step: Callable[[Any, Any, float], Any]) -> None:
        super().__init__()
        self.layer, self.step, self.share = nn.Linear(3, 3), step, 0.5

    def forward(self, xs: Any) -> Any:
        h, hs = torch.zeros(2, 3), []
        for x in xs:
            h = self.step(h, self.layer(x), self.share)
            hs.append(h)
        return torch.stack(hs)


STEPS: dict[str, Callable[[Any, Any, float], Any]] = {
    "a factor": lambda h, x, share: h * share + (1 - share) * x,
    "of a function": lambda h, x, share: h * math.sqrt(share) + x * share**2,
    "bounds": lambda h, x, share: (h + x).clamp(-share, share),
    "a power": lambda h, x, share: h + (x * x + 1) ** share,
}


@pytest.mark.parametrize("name", STEPS)
def test_floats_that_change(name: str) -> None:
    """The second one makes a graph for all of them, in which it is a tensor."""
    module, xs = Leaky(STEPS[name]), torch.randn(6, 2, 3)
    compiled = torch.compile(module, backend="rnncc")
    for share in (0.5, 0.25, 0.75):
        module.share = share
        found = list[Any]()
        for run in (compiled, module):
            module.zero_grad()
            ys = run(xs)
            ys.square().sum().backward()
            found.append((ys, module.layer.weight.grad))
        torch.testing.assert_close(*found, **CLOSE)


def test_what_takes_no_tensor_for_a_float_stays_with_pytorch() -> None:
    module = Leaky(lambda h, x, share: h + nn.functional.leaky_relu(x, share))
    compiled, xs = torch.compile(module, backend="rnncc"), torch.randn(6, 2, 3)
    torch.testing.assert_close(compiled(xs), module(xs), **CLOSE)
    module.share = 0.25
    with pytest.warns(UserWarning, match="leaves it to PyTorch"):
        torch.testing.assert_close(compiled(xs), module(xs), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_number_taken_out_of_a_tensor_has_no_gradient(dtype: Any) -> None:
    share = torch.tensor(0.5, dtype=dtype, requires_grad=True)
    start = torch.randn(2, 3, requires_grad=True)

    def run(xs: Any, h: Any) -> Any:
        for x in xs:
            h = torch.tanh(x + h * share.item())
        return h

    xs = torch.randn(6, 2, 3)
    left = pytest.warns(UserWarning, match="leaves it to PyTorch")
    with torch._dynamo.config.patch(capture_scalar_outputs=True), left:
        h = torch.compile(run, backend="rnncc")(xs, start)
    torch.testing.assert_close(h, run(xs, start), **CLOSE)
    h.sum().backward()
    assert share.grad is None


@pytest.mark.parametrize("length", [0, 2])
def test_deques_keep_to_their_length(length: int) -> None:
    """TorchDynamo reads one from outside as if it could grow; one of no entries grows anyway."""
    check_rows(length)


BEFORE = """
import torch

torch.compile(lambda xs: xs[0] + 1, backend="eager")([torch.zeros(2)])

from tests.torch.deque_rows import check_rows

check_rows(2)
"""


def test_deques_where_dynamo_has_read_code_before() -> None:
    """Tables of TorchDynamo hold the methods that it had when it was first used."""
    run = subprocess.run(
        [sys.executable, "-c", BEFORE], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_variables_of_old_code() -> None:
    """`Variable(x)` is x.detach(), in the same graph as the loop."""
    variable, layer = torch.autograd.Variable, nn.Linear(3, 3)

    def net(xs: Any) -> Any:
        h, hs = variable(torch.zeros(2, 3)), []
        for x in xs:
            h = torch.tanh(layer(x) + h * variable(h))
            hs.append(h)
        return torch.stack(hs)

    xs = torch.randn(6, 2, 3)
    found = list[Any]()
    for run in (torch.compile(net, backend="rnncc"), net):
        ys = run(xs)
        found.append([ys, *torch.autograd.grad(ys.square().sum(), layer.parameters())])
    torch.testing.assert_close(*found, **CLOSE)
