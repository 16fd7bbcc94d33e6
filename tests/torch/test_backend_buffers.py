"""Buffers that graphs of torch.compile change in place, in the back end."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

from tests.torch.cells import nn, torch
from tests.torch.compiled_modules import gradients

made: Any = pytest.importorskip("rnncc.torch.backend")
pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("layers_read_anew")]
CLOSE = {"rtol": 1e-4, "atol": 2e-5}


def averaged(net: Any, h: Any) -> Any:
    with torch.no_grad():
        net.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
    return h - net.mean


def counted(net: Any, h: Any) -> Any:
    net.count += 1
    net.mean.copy_((0.5 * net.mean + h.mean(0)).detach())
    return h + net.mean - net.count / 8


def in_ring(net: Any, h: Any) -> Any:
    net.ring[1] = h.detach().mean(0)
    return h + net.ring.sum(0)


def normalised(net: Any, h: Any) -> Any:
    return net.norm(h)


def each_normalised(net: Any, h: Any) -> Any:
    return net.each(h.unsqueeze(1)).squeeze(1)


class Keeping(nn.Module):
    """A loop that changes buffers in place."""

    def __init__(self, step: Any) -> None:
        super().__init__()
        self.layer, self.norm, self.step = nn.Linear(4, 4), nn.BatchNorm1d(4), step
        self.each = nn.InstanceNorm1d(1, affine=True, track_running_stats=True)
        for name, value in {"mean": torch.zeros(4), "ring": torch.ones(3, 4)}.items():
            self.register_buffer(name, value)
        self.register_buffer("count", torch.ones((), dtype=torch.int64))

    def forward(self, xs: Any) -> tuple[Any]:
        h, hs = torch.zeros_like(xs[0]), []
        for x in xs:
            h = torch.tanh(self.step(self, self.layer(x + h)))
            hs.append(h)
        return (torch.stack(hs),)


@pytest.mark.parametrize("step", [averaged, counted, in_ring, normalised, each_normalised])
def test_buffers_that_change_in_place(step: Any) -> None:
    torch.manual_seed(0)  # norms of four numbers may be of nearly equal ones
    net, xs = Keeping(step), torch.randn(6, 5, 4)
    peer, buffers = copy.deepcopy(net), dict(net.named_buffers())
    compiled = torch.compile(net, backend=made.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            torch.testing.assert_close(gradients(compiled, xs), gradients(peer, xs), **CLOSE)
    assert all(net.get_buffer(name) is buffer for name, buffer in buffers.items())
    torch.testing.assert_close(buffers, dict(peer.named_buffers()), **CLOSE)


def test_layers_in_front_of_batch_norm() -> None:
    """The statistics change where no loop is."""
    net = nn.Sequential(nn.GRU(3, 4), First(), nn.BatchNorm1d(4))
    peer, x = copy.deepcopy(net), torch.randn(6, 2, 3)
    compiled = torch.compile(net, backend=made.backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = gradients(compiled, x)
    torch.testing.assert_close(ours, gradients(peer, x), **CLOSE)
    torch.testing.assert_close(dict(net.named_buffers()), dict(peer.named_buffers()), **CLOSE)


class First(nn.Module):
    def forward(self, pair: Any) -> Any:
        return pair[0].flatten(0, 1)


def test_buffers_that_share_memory_stay_with_pytorch() -> None:
    """Neither sees in a copy what is put into the other."""

    def net(xs: Any, one: Any, other: Any) -> Any:
        for x in xs:
            one.add_(x)
            other.mul_(0.5)
        return one + other

    xs, ours, theirs = torch.randn(6, 4), torch.zeros(5), torch.zeros(5)
    compiled = torch.compile(net, backend=made.backend)
    compiled(xs, torch.zeros(4), torch.zeros(4))
    got = compiled(xs, ours[:4], ours[1:])
    torch.testing.assert_close(got, net(xs, theirs[:4], theirs[1:]))
    torch.testing.assert_close(ours, theirs)


def test_masks_that_are_read_stay_as_they_are() -> None:
    """`&` and `|` change nothing, though Python names them `and_` and `or_`."""
    layer, masks = nn.GRU(3, 4), [torch.tensor(x) for x in ([True, False], [False, True])]

    def net(x: Any, some: Any, others: Any) -> tuple[Any, Any]:
        y = layer(x)[0]
        kept = some & (y.sum((0, 2)) > 0) | others
        return y * kept[:, None], kept

    compiled, x = torch.compile(net, backend=made.backend), torch.randn(5, 2, 3)
    torch.testing.assert_close(compiled(x, *masks), net(x, *masks), **CLOSE)
    assert [mask._version for mask in masks] == [0, 0]
