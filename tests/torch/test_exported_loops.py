"""Loops that are rolled in what is exported or traced."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.torch import loops
from tests.torch.cells import nn, torch

pytest.importorskip("rnncc.torch")
import rnncc.torch
import rnncc.torch.backend as back
from tests.torch.rolled_loops import Function, gradients

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("read_anew")]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


X = torch.linspace(-1, 1, 2 * 9 * 4).view(2, 9, 4)


@pytest.mark.parametrize("seed", [3, 11])
def test_exported_loops_have_gradients(seed: int) -> None:
    module, x = loops.Loop(seed), torch.randn(2, 9, loops.WIDTH)
    net = rnncc.torch.compile(module, (x,))
    made, known = gradients(net, module, x), gradients(module, module, x)
    torch.testing.assert_close(made, known, **CLOSE)


def falling(layer: Any, x: Any) -> Any:
    """A step that writes a constant down, changes a tensor in place, and writes a row."""
    h, out = x[:, 0] * 0, x.new_zeros(2, 9, 4)
    for t in range(9):
        h = 0.9**t * torch.tanh(layer(h) + x[:, t]) + torch.tensor([0.0, 0.5, -1.0, 2.0])
        out[:, t] = h + (x[:, t] * 1.0).pow_(2)
    return out


@pytest.mark.usefixtures("not_run_again")
def test_exported_loops_are_rolled_where_they_are() -> None:
    module = Function(falling, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    torch.testing.assert_close(gradients(net, module, X), gradients(module, module, X), **CLOSE)
    assert "rnn.scan" in str(net.form().net.program.module)


@pytest.mark.usefixtures("not_run_again")
def test_exported_checks_of_types_are_no_part_of_a_loop() -> None:
    """`torch.export` puts a check beside each change of a dtype."""

    def function(layer: Any, x: Any) -> Any:
        v = x[:, 0] * 0
        for t in range(9):
            v = 0.9 * v + layer(x[:, t]) * (v > 0.5).float()
        return v

    module = Function(function, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    assert "rnn.scan" in str(net.form().net.program.module)
    torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_checks_of_matrices_are_no_part_of_a_loop() -> None:
    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(5, 2, 4), x[:, 0] * 0
        for t in range(5):
            h = layer(x[:, t]) + h @ torch.linalg.inv(torch.eye(4) + 0.1 * h.T @ h)
            out[t].copy_(h)
        return out

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_numbers_of_steps_as_constants() -> None:
    """Tensors of one number, which `torch.export` and tracing hold as constants."""

    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(9, 2, 4), x[:, 0]
        for t in range(9):
            h = torch.tanh(layer(h) * torch.sin(torch.tensor(0.3 * t)) + x[:, t])
            out.index_copy_(0, torch.tensor([8 - t]), h[None])
        return out

    module = Function(function, nn.Linear(4, 4))
    net = rnncc.torch.compile(module, (X,))
    assert "rnn.scan" in str(net.form().net.program.module)
    torch.testing.assert_close(net(X), module(X), **CLOSE)
    with warnings.catch_warnings(action="error"):
        found = torch.compile(module, backend="rnncc")(X)
    torch.testing.assert_close(found, module(X), **CLOSE)


def test_results_that_are_none_are_part_of_a_loop() -> None:
    """Attention gives no weights where nobody asks for them."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            h = x[:, 0]
            for t in range(9):
                h = h + self.heads(h[:, None], x, x, need_weights=False)[0][:, 0] * x[:, t]
            return h

    module = Attending()
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_shapes_that_nobody_reads_are_no_part_of_a_loop() -> None:
    """`torch.distributions` compare shapes, and drop what they find."""

    def function(layer: Any, x: Any) -> Any:
        covariance, h, found = torch.eye(4), x[:, 0], x.new_zeros(2)
        for t in range(9):
            noise = torch.distributions.MultivariateNormal(h, covariance, validate_args=False)
            found = found + noise.log_prob(x[:, t])
            h = torch.tanh(layer(h))
        return found

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings(action="error"):
        torch.testing.assert_close(net(X), module(X), **CLOSE)


def test_changes_that_are_traced() -> None:
    """A row is changed by way of a view, which only PyTorch's tracing takes apart."""

    def function(layer: Any, x: Any) -> Any:
        out, h = torch.zeros(9, 2, 4), x[:, 0] * 0
        for t in range(9):
            h = torch.tanh(layer(h) + x[:, t])
            out[t].copy_(h)
        return out

    module = Function(function, nn.Linear(4, 4))
    net = torch.compile(module, backend="rnncc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gradients(net, module, X)
    torch.testing.assert_close(made, gradients(module, module, X), **CLOSE)


def test_buffers_that_a_region_without_gradients_changes() -> None:
    """Spectral norm steps its vectors in place, in a graph within each repeat."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), eps=1e-3)

        def forward(self, x: Any) -> Any:
            h = torch.zeros_like(x[0])
            for row in x.unbind(0):
                h = torch.tanh(self.layer(h) + row)
            return h

    module, x = Normed(), torch.randn(6, 2, 3)
    for vector in module.buffers():
        vector.copy_(torch.tensor([1.0, 0.0, 0.0]))
    vectors = {name: value.clone() for name, value in module.named_buffers()}
    y, known = module(x), dict(module.named_buffers())
    known = {name: value.clone() for name, value in known.items()}
    module.load_state_dict(vectors, strict=False)
    torch.testing.assert_close(rnncc.torch.compile(module, (x,))(x), y, **CLOSE)
    torch.testing.assert_close(dict(module.named_buffers()), known, **CLOSE)
    assert any((known[name] - vectors[name]).abs().max() > 1e-4 for name in known)


def test_numbers_put_into_what_is_traced() -> None:
    """Tracing writes each one down, at each step as a constant of its own."""

    def forward(layer: Any, x: Any) -> Any:
        h, places = x[:, 0], torch.tensor([0, 2, 2, 1])
        for t in range(9):
            h = torch.zeros_like(h).index_add_(1, places, torch.tanh(layer(h) + x[:, t]))
            h[:, 3] = 0.5
        return h

    net = Function(forward, nn.Linear(4, 4))
    compiled = torch.compile(net, backend=back.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = gradients(compiled, net, X)
    torch.testing.assert_close(made, gradients(net, net, X), **CLOSE)


def test_a_loop_in_python_fixes_its_number_of_steps() -> None:
    def forward(layer: Any, x: Any) -> Any:
        h = torch.zeros(2, 4)
        for row in x:
            h = torch.tanh(layer(h) + row)
        return h

    steps = torch.export.Dim("T")
    with pytest.raises(rnncc.CompileError, match="T cannot be open: a loop in Python"):
        net, x = Function(forward, nn.Linear(4, 4)), X.transpose(0, 1)
        rnncc.torch.compile(net, (x,), dynamic_shapes=(({0: steps},),), train=False)
