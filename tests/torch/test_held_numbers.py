"""Modules that hold numbers in buffers and parameters, and need their values as Python's."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rnncc_runtime

from rnncc import CompileError
from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class Holding(nn.Module):
    """A layer with batch norm, and what a function makes of it and of an integer."""

    count: Any

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer, self.norm = nn.GRU(4, 4, batch_first=True), nn.BatchNorm1d(4)
        self.register_buffer("count", torch.tensor(2))
        self.function = function

    def forward(self, x: Any) -> Any:
        y = self.norm(self.layer(x)[0].transpose(1, 2)).transpose(1, 2)
        return self.function(self, y)


def rows(net: Any, y: Any) -> Any:
    return y[:, : int(net.count)]


def padding(net: Any, y: Any) -> Any:
    """As codecs do: what is missing is computed of the integer."""
    missing = (torch.ceil(y.shape[1] / (net.count + 1)) * (net.count + 1) - y.shape[1]).to(
        torch.int64
    )
    return nn.functional.pad(y, (0, 0, net.count, missing)) * net.count


def in_a_cell(net: Any, y: Any) -> Any:
    """Which TorchDynamo reads."""

    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(h + x.repeat(1, width))
        return h, h

    width = net.count.item()
    return rt.scan(cell, y.transpose(0, 1), y.new_zeros(len(y), 4 * width))[0]


@pytest.mark.parametrize(
    ("function", "train"), [(rows, False), (padding, True), (in_a_cell, False)]
)
def test_other_values_are_compiled_anew(function: Any, train: bool) -> None:
    torch.manual_seed(0)
    net, x = Holding(function).train(train), torch.randn(2, 5, 4)
    compiled = rt.compile(net, (x,))

    @torch.no_grad()
    def check(compiled: Any) -> None:
        want = copy.deepcopy(compiled.module)
        torch.testing.assert_close(compiled(x), want(x), atol=1e-5, rtol=1e-5)
        assert int(compiled.module.norm.num_batches_tracked) == int(want.norm.num_batches_tracked)

    check(compiled)
    other, sent = copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))
    net.count.fill_(3)
    check(compiled)
    net.count = torch.tensor(1)
    check(compiled)
    check(other)
    other.module.count += 2
    check(other)
    check(sent)
    sent.module.count += 2
    with pytest.raises(CompileError, match="pickled"):
        sent(x)


def test_a_lambda_takes_one() -> None:
    """Its code is not written anew, so that taking the number fails at once."""
    net, x = Holding(lambda net, y: y[:, : int(net.count)]).eval(), torch.randn(2, 5, 4)
    compiled = rt.compile(net, (x,))
    for count in (2, 3):
        net.count.fill_(count)
        torch.testing.assert_close(compiled(x), net(x), atol=1e-5, rtol=1e-5)


def test_values_of_others_are_not_settings() -> None:
    """Batch norm counts its calls while it is trained; here it is not."""
    net, x = Holding(rows).eval(), torch.randn(2, 5, 4)
    compiled = rt.compile(net, (x,))
    net.norm.num_batches_tracked += 1
    form = compiled.form()
    net.norm.num_batches_tracked += 1
    assert compiled.form() is form
    net.count += 1
    assert compiled.form() is not form


def counting(net: Any, y: Any) -> Any:
    width = net.count.item()
    net.count += 1
    return y[:, :width]


@pytest.mark.parametrize("call", [rt.compile, rt.build, rt.export])
def test_one_that_a_call_changes_is_refused(call: Any, tmp_path: Path) -> None:
    """Its value would be that of the first call."""
    net, x = Holding(counting).eval(), torch.randn(2, 5, 4)
    options = {"out": tmp_path} if call is rt.build else {}
    if call is rt.export:
        assert any("item" in str(node.target) for node in call(net, (x,)).graph.nodes)
        return
    with pytest.raises(CompileError, match="_local_scalar_dense"):
        call(net, (x,), **options)


def test_a_library_has_the_value(tmp_path: Path) -> None:
    net, x = Holding(padding).eval(), torch.randn(2, 5, 4)
    rt.build(net, (x,), out=tmp_path, name="padded")
    got = rnncc_runtime.load(tmp_path / "libpadded.so").run({"x": x.numpy()})
    with torch.no_grad():
        want = net(x).numpy()
    assert abs(next(iter(got.values())) - want).max() < 1e-5


class Gates(nn.Module):
    """Takes floats out of what it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ends", torch.tensor([0.5, -0.7]))
        self.register_buffer("tau", torch.tensor(2.0))
        self.norm, self.gain = nn.BatchNorm1d(3), nn.Parameter(torch.ones(()))

    def forward(self, xs: Any) -> Any:
        (low, high), share = self.ends.tolist(), math.exp(-1 / (2 * self.tau).item())
        h = torch.zeros_like(xs[0])
        for x in xs:
            h = share * h + self.gain * (self.norm(x) - low) * high
        return h


@pytest.mark.parametrize("train", [True, False])
def test_floats(train: bool) -> None:
    torch.manual_seed(0)
    net, xs = Gates().train(train), torch.randn(4, 5, 3)
    compiled, want = rt.compile(net, (xs,)), copy.deepcopy(net)
    for tau in (2.0, 2.0, float("inf"), 0.5):
        for one in (net, want):
            one.tau.fill_(tau)
            one.ends[0] = 1 / tau
        results = compiled(xs), want(xs)
        torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(net.norm.running_mean, want.norm.running_mean)
        grads = [
            torch.autograd.grad(y.sum(), m.gain) for y, m in zip(results, (net, want), strict=True)
        ]
        torch.testing.assert_close(*grads, atol=1e-5, rtol=1e-5)
    if not train:
        form = compiled.form()
        net.norm.running_mean += 1  # which nothing takes a number of
        assert compiled.form() is form
        torch.testing.assert_close(compiled(xs), net(xs), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tau", [0.0, -1e-4])
def test_floats_that_python_computes_with_an_error(tau: float) -> None:
    """Division by 0, and a power that is too large: tensors would be infinite there."""

    class Powers(Gates):
        def forward(self, xs: Any) -> Any:
            return xs * math.exp(-(10 ** (-1 / self.tau.item())))

    net, xs = Powers(), torch.randn(4, 5, 3)
    compiled = rt.compile(net, (xs,))
    torch.testing.assert_close(compiled(xs), net(xs), atol=1e-6, rtol=1e-6)
    net.tau.fill_(tau)
    with pytest.raises(ArithmeticError):
        net(xs)
    with pytest.raises(CompileError, match=r"computed of tau, is -?inf"):
        compiled(xs)


def test_a_float_in_a_parameter_with_gradients() -> None:
    """Its value would be another one after each step of an optimiser."""
    net = Gates()
    net.tau = nn.Parameter(net._buffers.pop("tau"))
    with pytest.raises(CompileError, match=r"a number that was .*not math.exp"):
        rt.compile(net, (torch.randn(4, 5, 3),))


def test_a_list_in_a_parameter() -> None:
    class Sizes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sizes = nn.Parameter(torch.tensor([1, 3]), requires_grad=False)
            self.layer = nn.RNN(4, 4)

        def forward(self, x: Any) -> Any:
            first, last = self.sizes.tolist()
            return self.layer(x)[0][first:last]

    net, x = Sizes(), torch.randn(5, 2, 4)
    compiled = rt.compile(net, (x,))
    for sizes in ([1, 3], [0, 3], [0, 2]):
        net.sizes.data = torch.tensor(sizes)
        torch.testing.assert_close(compiled(x), net(x), atol=1e-5, rtol=1e-5)
