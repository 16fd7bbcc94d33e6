"""Buffers that modules change, share, or are given."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rnncc_runtime

from rnncc import CompileError
from tests.torch.cells import loop, nn, torch
from tests.torch.compiled_modules import BUFFERS, Buffered, outputs_and_gradients

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
Dim = torch.export.Dim
leaves_of: Any = torch.utils._pytree.tree_leaves
T, N = Dim("T"), Dim("N")
CLOSE = {"rtol": 1e-4, "atol": 3e-5}


def test_buffers_that_change() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.parts = nn.ModuleList([nn.Module()])  # which names it again
            self.parts[0].register_buffer("same", self.total)

        def forward(self, x: Any) -> Any:
            self.total.add_(x.sum(0))
            return x * self.total

    module = Counting()
    compiled = rt.compile(module, (torch.ones(3, 2),), dynamic_shapes=({0: N},))
    compiled(torch.ones(4, 2))
    assert compiled(torch.ones(2, 2)).tolist() == [[6, 6], [6, 6]]
    assert module.total.tolist() == [6, 6]


@pytest.mark.parametrize("name", [*BUFFERS, None])
def test_buffers_in_training(name: str | None) -> None:
    nets: list[Any] = [Buffered(BUFFERS.get(name or "")) for _ in range(2)]
    run = rt.compile(nets[0], (torch.ones(3, 2),))
    for _ in range(2):
        x = torch.randn(3, 2)
        ours, theirs = (outputs_and_gradients(net, (x,)) for net in (run, nets[1]))
        torch.testing.assert_close(ours[:2], theirs[:2], **CLOSE)
        torch.testing.assert_close(nets[0].weight.grad, nets[1].weight.grad, **CLOSE)
        torch.testing.assert_close(nets[0].k, nets[1].k, **CLOSE)


def test_buffers_that_would_keep_gradients() -> None:
    net = Buffered(lambda m, x: setattr(m, "k", torch.tanh(m.k + (x * m.weight).sum(0))))
    compiled = rt.compile(net, (torch.ones(3, 2),))
    with pytest.raises(CompileError, match="Buffered: buffer k is given a value that has gradi"):
        compiled(torch.ones(3, 2))
    peer = copy.deepcopy(net)
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.ones(3, 2)), peer(torch.ones(3, 2)), **CLOSE)
        torch.testing.assert_close(net.k, peer.k, **CLOSE)


class Within(nn.Module):
    """Gives buffers of its own and of modules within it other tensors, and what was there."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.first, self.second = change, Buffered(None), Buffered(None)
        for name, buffer in {"none": None, "a": torch.ones(2), "b": torch.zeros(2)}.items():
            self.register_buffer(name, buffer)

    def forward(self, x: Any) -> Any:
        before = self.first.k, self.a
        self.change(self, x)
        return before, self.second(x) * self.first.k


def swap(m: Any, x: Any) -> None:
    m.first.k, m.second.k = m.second.k * 2, m.first.k
    m.a, m.b = m.b + x[0].detach(), m.a


def assign_twice(m: Any, x: Any) -> None:
    for row in x.detach():
        m.first.k = m.first.k * 0.5 + row
        m.a.copy_(m.first.k)


@pytest.mark.parametrize("change", [swap, assign_twice])
def test_buffers_of_parts_that_are_given_other_tensors(change: Any) -> None:
    nets: list[Any] = [Within(change) for _ in range(2)]
    run = rt.compile(nets[0], (torch.ones(3, 2),))
    for _ in range(2):
        x = torch.randn(3, 2)
        torch.testing.assert_close(run(x), nets[1](x), **CLOSE)
        torch.testing.assert_close(nets[0].state_dict(), nets[1].state_dict(), **CLOSE)
    assert [*nets[0]._buffers] == ["none", "a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, x: setattr(m, "a", m.a > 0), r"a: a buffer is float32 .2. before a .* and bool"),
        (
            lambda m, x: setattr(m.first, "k", x),
            r"first.k: a buffer is .* and float32 .3, 2. after",
        ),
        (lambda m, x: setattr(m, "b", None), r"b: a buffer is .* and None after it"),
        (
            lambda m, x: setattr(m.first, "weight", nn.Parameter(m.first.weight * 2)),
            r"first.weight: a parameter is given another tensor",
        ),
        (lambda m, x: setattr(m, "none", x[0] * 2), r"none: a buffer is None .* \(call the module"),
    ],
)
def test_buffers_of_other_types(change: Any, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        rt.compile(Within(change), (torch.ones(3, 2),))


def test_buffers_that_modules_share() -> None:
    net = Within(lambda m, x: setattr(m.first, "k", m.first.k * 2))
    net.second.k = net.first.k
    with pytest.raises(
        CompileError, match=r"first\.k: a buffer that another module has, too, is gi"
    ):
        rt.compile(net, (torch.ones(3, 2),))


def test_buffers_of_frozen_modules_and_libraries(tmp_path: Path) -> None:
    """Values that change are no constants of the code."""
    net = Buffered(BUFFERS["in place"])
    compiled, x = rt.compile(net, (torch.ones(3, 2),), frozen=True), torch.ones(3, 2)
    made = rt.build(net, (x,), out=tmp_path, name="counts")
    with torch.no_grad():
        assert [compiled(x)[0, 0].item() for _ in range(2)] == [4, 6]
    given = {"x": x.numpy(), "k": np.ones(2, np.float32)}
    outputs = rnncc_runtime.load(made.library).run(given)
    assert outputs["new_k"].tolist() == [2, 2]
    assert outputs["y"][0].tolist() == [4, 4]


def shared_states(x: Any, w: Any) -> Any:
    zeros = x.new_zeros(x.shape[1:])
    return x, (zeros, zeros), w


def views(x: Any, w: Any) -> Any:
    both = x.new_zeros(2, 8)
    return x, (both[:, :4], both[:, 4:]), w


def rows_and_states(x: Any, w: Any) -> Any:
    return x.transpose(1, 2).transpose(1, 2), (x[0], x[1]), w


def broadcast(x: Any, w: Any) -> Any:
    return x, (w[0].expand(2, 4), w[0].expand(2, 4)), w


def held_views(x: Any, w: Any) -> Any:
    return x, (x[0], w[:2]), w.t()


@pytest.mark.parametrize("make", [shared_states, views, rows_and_states, broadcast, held_views])
def test_operands_that_share_memory(make: Any) -> None:
    class Net(nn.Module):
        def __init__(self, scan: Any) -> None:
            super().__init__()
            self.w, self.scan = nn.Parameter(torch.eye(4) * 0.5), scan

        def forward(self, x: Any) -> Any:
            xs, state, held = make(x, self.w)

            def cell(row: Any, state: Any) -> Any:
                h = torch.tanh(row @ held + state[1] @ self.w + x[0])
                return h, (h, state[0] + h)

            return self.scan(cell, xs, state)[0]

    x = torch.randn(3, 2, 4).double()
    net, peer = Net(rt.scan).double(), Net(loop).double()
    ours = outputs_and_gradients(rt.compile(net, (x,)), (x,))[:2]
    torch.testing.assert_close(ours, outputs_and_gradients(peer, (x,))[:2], **CLOSE)
    torch.testing.assert_close(net.w.grad, peer.w.grad, **CLOSE)
