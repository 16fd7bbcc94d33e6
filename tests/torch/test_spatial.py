"""Convolutions and pooling over several axes: results and gradients equal PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import CLOSE, F, loop, lstm_states, nn, results, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
Operator = Callable[[Any, Any], Any]

OPERATORS: dict[str, Operator] = {
    "one axis": lambda x, w: F.conv1d(x[:, :, 0], w[:, :, 0], w[:, 0, 0, 0], 2, 1),
    "two axes": lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], (2, 1), (1, 0), (1, 2)),
    "one number for both": lambda x, w: F.conv2d(x, w, stride=2, padding=2, dilation=2),
    "the same size": lambda x, w: F.conv2d(x, w[..., :2], padding="same"),
    "without a batch": lambda x, w: F.conv2d(x[0], w, padding="valid"),
    "three axes": lambda x, w: F.conv3d(x[None], w[None, :2, :1], padding=1),
    "groups": lambda x, w: F.conv2d(x, w[:, :2], groups=2),
    "depthwise": lambda x, w: F.conv2d(x, w[:4, :1], groups=4, padding=1),
    "depthwise, apart": lambda x, w: F.conv2d(
        x, w[:4, :1], groups=4, padding=(2, 0), dilation=(2, 1)
    ),
    "depthwise, in wide pads": lambda x, w: F.conv2d(x, w[:4, :1], groups=4, padding=4),
    "depthwise, by two": lambda x, w: F.conv2d(x, w[:4, :1], groups=4, padding=1, stride=2),
    "transposed": lambda x, w: F.conv_transpose2d(x, w[:4], w[0, :, 0, 0], (2, 3), 1, (1, 0)),
    "transposed, one axis": lambda x, w: F.conv_transpose1d(
        x[:, :, 1], w[:4, :, 1], stride=2, dilation=2
    ),
    "transposed, groups": lambda x, w: F.conv_transpose2d(x, w[:4, :3], groups=2, padding=1),
    "many groups": lambda x, w: F.conv1d(
        x.reshape(1, 84, 4).repeat(1, 15, 1)[:, :1200],
        w[0, :2, 0, :2].expand(1200, 2, 2),
        groups=600,
    ),
    "transposed, many groups": lambda x, w: F.conv_transpose1d(
        x.reshape(1, 84, 4).repeat(1, 8, 1)[:, :600], w[0, :1, 0, :2].expand(600, 1, 2), groups=600
    ),
    "many groups of several channels": lambda x, w: F.conv1d(
        x.reshape(1, 84, 4).repeat(1, 31, 1)[:, :2600],
        w.flatten()[:30].view(2, 5, 3).repeat(520, 1, 1),
        groups=520,
    ),
    "transposed, many groups, apart": lambda x, w: F.conv_transpose1d(
        x.reshape(1, 84, 4).repeat(1, 8, 1)[:, :600],
        w.flatten()[:12].view(2, 2, 3).repeat(300, 1, 1),
        stride=2,
        dilation=2,
        groups=600,
    ),
    "transposed, many groups, far": lambda x, w: F.conv_transpose1d(
        x.reshape(1, 84, 4).repeat(1, 8, 1)[:, :600],
        w.flatten()[:24].view(2, 1, 12).repeat(300, 1, 1),
        stride=8,
        groups=600,
    ),
    "max pool": lambda x, w: F.max_pool2d(x, 2),
    "max pool that overlaps": lambda x, w: F.max_pool2d(x, (3, 2), (2, 1), (1, 1), 1),
    "max pool of dilated windows": lambda x, w: F.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True),
    "max pool of one axis": lambda x, w: F.max_pool1d(x[:, :, 0], 3, 2, ceil_mode=True),
    "max pool of equal elements": lambda x, w: F.max_pool2d(x - x.detach() + (x > 0), 3, 2, 1),
    "largest of parts of equal elements": lambda x, w: (
        F.adaptive_max_pool2d(x - x.detach() + (x > 0), (3, 2))
        + F.adaptive_max_pool1d((x - x.detach() + (x > 0))[:, :, 0], 2).sum()
    ),
    "places of the largest": lambda x, w: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "mean pool": lambda x, w: F.avg_pool2d(x, 2),
    "mean pool with pads": lambda x, w: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "mean pool without pads": lambda x, w: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "mean pool with a divisor": lambda x, w: F.avg_pool2d(x, 2, divisor_override=3),
    "mean pool of one axis": lambda x, w: F.avg_pool1d(x[:, :, 0], 3, 1, 1),
    "mean of all": lambda x, w: F.adaptive_avg_pool2d(x, 1),
    "means of parts": lambda x, w: F.adaptive_avg_pool2d(x, (3, 2)),
    "means of parts that overlap": lambda x, w: F.adaptive_avg_pool2d(x, (4, None)),
    "means of parts of one axis": lambda x, w: F.adaptive_avg_pool1d(x[:, :, 0], 4),
    "repeated": lambda x, w: F.interpolate(x, scale_factor=(2, 3)),
    "repeated along one axis": lambda x, w: nn.Upsample(scale_factor=4)(x[:, :, 0]),
    "nearest": lambda x, w: (
        F.interpolate(x, (9, 5)) + F.interpolate(x, (9, 5), mode="nearest-exact")
    ),
    "nearest of fewer": lambda x, w: F.interpolate(x, scale_factor=0.4),
    "nearest of 41": lambda x, w: F.interpolate(x[:1, 0], scale_factor=41.0),
    "between four": lambda x, w: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "from end to end": lambda x, w: F.interpolate(x, (9, 3), mode="bilinear", align_corners=True),
    "between sixteen": lambda x, w: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
    "between eight": lambda x, w: F.interpolate(x[None], (3, 9, 5), mode="trilinear"),
    "samples": lambda x, w: F.grid_sample(
        x, 2 * x.view(2, 14, 6, 2), "bilinear", "reflection", align_corners=False
    ),
    "nearest samples": lambda x, w: F.grid_sample(
        x, x.view(2, 14, 6, 2), "nearest", "border", align_corners=True
    ),
    "largest of parts": lambda x, w: F.adaptive_max_pool2d(x, (2, 4)),
    "largest of parts of one axis": lambda x, w: F.adaptive_max_pool1d(x[0, :, 0], 2),
}


class All(nn.Module):
    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: Any, w: Any) -> Any:
        return [OPERATORS[name](x, w) for name in self.names]


def outputs_and_gradients(run: Any) -> tuple[list[Any], list[Any]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 6, 7, generator=generator, requires_grad=True)
    w = torch.randn(6, 4, 3, 3, generator=generator, requires_grad=True)
    results, gradients = run(x, w), list[Any]()
    for result in results:
        found: Any = (None, None)
        if result.requires_grad:
            weights = torch.linspace(-1, 1, result.numel()).view(result.shape)
            found = torch.autograd.grad(result, (x, w), weights, True, allow_unused=True)
        pairs = zip(found, (x, w), strict=True)
        gradients.append([torch.zeros_like(of) if g is None else g for g, of in pairs])
    return results, gradients


def test_operators(one_in: Callable[[int], slice]) -> None:
    net = All([*OPERATORS][one_in(6)])
    compiled = rt.compile(net, (torch.ones(2, 4, 6, 7), torch.ones(6, 4, 3, 3)), train=True)
    ours, theirs = (outputs_and_gradients(one) for one in (compiled, net))
    for number, name in enumerate(net.names):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                one[number], other[number], rtol=1e-4, atol=3e-5, msg=lambda m, n=name: f"{n}: {m}"
            )


def test_pools_along_one_axis_in_cells() -> None:
    """With indices and without, of rows and of the state."""

    def cell(x: Any, h: Any) -> Any:
        y, places = F.max_pool1d(x, 3, 1, 1, return_indices=True)
        return torch.max_pool1d(y + h, 2) + places[..., ::2], F.max_pool1d(x - h, 3, 1, 1)

    x, h = torch.randn(3, 2, 6, requires_grad=True), torch.randn(2, 6, requires_grad=True)
    found = [run(cell, x, h) for run in (rt.scan, loop)]
    sources = [torch.autograd.grad(y.square().sum() + last.sum(), (x, h)) for y, last in found]
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*sources)


def test_open_sizes() -> None:
    """A batch and a height of any size, among them where a pool halves the height."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.back = nn.ConvTranspose2d(4, 2, 2, stride=2)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.conv(x))
            places = F.max_pool2d(y, (1, 2), return_indices=True)[1]
            return self.back(y), F.avg_pool2d(y, (1, 2)), F.adaptive_avg_pool2d(y, 1), places

    n, h = torch.export.Dim("n"), torch.export.Dim("h")
    net = Net()
    compiled = rt.compile(net, (torch.ones(2, 3, 5, 8),), dynamic_shapes={"x": {0: n, 2: h}})
    x = torch.randn(3, 3, 7, 8)
    for one, other in zip(compiled(x), net(x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=3e-5)


class ConvolutionalLstm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gates = nn.Conv2d(2 + channels, 4 * channels, 3, padding=1)
        self.start = tuple(torch.randn(2, channels, 5, 9) for _ in range(2))

    def forward(self, x: Any, state: Any) -> Any:
        h, c = lstm_states(self.gates(torch.cat([x, state[0]], 1)), state[1], 1)
        return h, (h, c)


@pytest.mark.parametrize("channels", [4, 16])
def test_convolutional_cells(channels: int) -> None:
    """States of few channels stay as they are; others are turned round, and gradients with them."""
    cell, xs = ConvolutionalLstm(channels), torch.randn(4, 2, 2, 5, 9)
    ours, theirs = (results(run, cell, xs, cell.start) for run in (rt.scan, loop))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


REFUSED: dict[str, Operator] = {
    "a transposed convolution with 1025 taps": lambda x, w: F.conv_transpose1d(
        x[:, :, 0, :1], x.new_zeros(4, 1, 1025)
    ),
    "a transposed convolution in 513 groups": lambda x, w: F.conv_transpose1d(
        x.reshape(1, 84, 4).repeat(1, 13, 1)[:, :1026], x.new_zeros(1026, 1, 2), groups=513
    ),
    "places of an adaptive pool": lambda x, w: F.adaptive_max_pool2d(x, 2, return_indices=True)[1],
    "pooling of i64": lambda x, w: F.max_pool2d(x.long(), 2),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    class One(nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return REFUSED[message](x, w)

    with pytest.raises(CompileError, match=rf"test_spatial.py:\d+: .*{message}"):
        rt.compile(One(), (torch.ones(2, 4, 6, 7), torch.ones(6, 4, 3, 3)))
