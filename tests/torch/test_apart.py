"""Operators of exported programs that fall apart where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from rnncc_runtime import ArrayError

import rnncc
import rnncc.torch as rt
from tests.torch.cells import CLOSE, nn, torch

SPREAD: dict[str, Callable[..., Any]] = {
    "one result": lambda x, y: torch.lerp(x, y, 0.3).to(torch.float64),
    "several": lambda x, y: sum(torch.unsafe_chunk(x, 2)) + y.unsafe_chunk(2)[1],
    "a result that is the operand": lambda x, y: torch.maximum(x.to(torch.float32), y.mT.mT),
    "twice, with other numbers": lambda x, y: torch.std(x, 1) + torch.std(y, 0)[:1],
    "in a loop": lambda x, y: torch.stack([x[i % 2] * y[0].lerp(y[1], 0.5) for i in range(6)]),
}


class Net(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.randn(4))

    def forward(self, input: Any, other: Any) -> Any:
        return self.function(input * self.weight, other)


@pytest.mark.usefixtures("not_run_again")
@pytest.mark.parametrize("function", SPREAD.values(), ids=SPREAD)
def test_operators_that_fall_apart(function: Callable[..., Any]) -> None:
    net, x, y = Net(function), torch.randn(2, 4), torch.randn(2, 4)
    compiled = rt.compile(net, (x, y))
    found = list[Any]()
    for run in (compiled, net):
        net.zero_grad()
        result = run(x, y)
        result.sum().backward()
        found.append([result.detach(), net.weight.grad])
        net.weight.grad = None
    torch.testing.assert_close(*found, **CLOSE)


F = torch.nn.functional
OPEN: dict[str, Callable[..., Any]] = {
    "larger": lambda x: F.interpolate(x[:, None], scale_factor=2, mode="bilinear").flatten(1),
    "to known sizes by sizes less one": lambda x: F.interpolate(
        x[:, None], (3, x.shape[1]), mode="bilinear", align_corners=True
    ),
    "smaller": lambda x: F.interpolate(
        x.repeat(1, 2, 1).mT, scale_factor=0.5, mode="linear", align_corners=True
    ),
    "roots of sizes": lambda x: x / x.shape[1] ** 0.5 + torch.full((3,), x.shape[1] / 4),
    "powers of sizes": lambda x: (
        torch.floor(x.double() * 0 + (x.shape[1] - 1) ** 0.5 * (x.shape[1] - 1) ** 0.5)
        + (x.shape[1] - 1.0) ** 0
    ),
    "by numbers below 0": lambda x: x * (x.shape[1] // -3) * (x.shape[1] % -3) * (-x.shape[1] / 4),
    "largest of neighbours": lambda x: F.max_pool1d(x.mT, 3, 2, (1,)),
    "rows by flags": lambda x: F.one_hot((x > 0).long(), 3)[..., 1:] * x[..., None],
    "neighbours": lambda x: x.roll(1, 1) - x.roll((-1, 0), (0, 2)) + x.roll(2),
    "grids": lambda x: torch.meshgrid(x[0, :, 0], x[:, 0, 0], indexing="ij")[1],
    "bags": lambda x: F.embedding_bag((x > 0).long()[..., 0], x[0].tile(2, 1)),
}


@pytest.mark.parametrize("function", OPEN.values(), ids=OPEN)
def test_open_sizes_stay_open(function: Callable[..., Any]) -> None:
    """PyTorch's kernel for all of the operator's parts asks for its operand's sizes as numbers."""
    axes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    net, y = Net(lambda x, _: function(x)), torch.randn(1, 3)
    net.weight = nn.Parameter(torch.randn(3))
    compiled = rt.compile(net, (torch.randn(5, 4, 3), y), dynamic_shapes=(axes, None))
    for shape in ((3, 6, 3), (2, 1, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x, y), net(x, y), **CLOSE)


def test_windows_longer_than_their_axis() -> None:
    net, x = Net(lambda x, _: x.unfold(0, 2, 3).sum(2)), torch.randn(7, 4)
    compiled = rt.compile(net, (x, x[0]), dynamic_shapes=({0: torch.export.Dim.AUTO}, None))
    assert compiled(x[:2], x[0]).shape == (1, 4)
    with pytest.raises(ArrayError, match="would be -1"):
        compiled(x[:1], x[0])


def test_rows_by_flags_of_known_sizes() -> None:
    """PyTorch's function in Python for `one_hot` checks the values as no graph can."""
    net, x = Net(lambda x, _: F.one_hot((x > 0).long(), 2) * x[..., None]), torch.randn(2, 4)
    compiled = rt.compile(net, (x, x))
    torch.testing.assert_close(compiled(x, x), net(x, x), **CLOSE)


def test_numbers_of_open_sizes_where_none_is_taken() -> None:
    axes = {0: torch.export.Dim.AUTO}
    net, x = Net(lambda x, _: F.leaky_relu(x, x.shape[0] / 9)), torch.randn(5, 4)
    with pytest.raises(rnncc.CompileError, match="computed of open sizes"):
        rt.compile(net, (x, x[:1]), dynamic_shapes=(axes, None))


def test_a_program_with_a_loop_stays_as_it_was() -> None:
    """Also the graph within it, in which an operator falls apart."""

    class Loop(nn.Module):
        def forward(self, xs: Any, h: Any) -> Any:
            return rt.scan(lambda x, h: (h.lerp(x, 0.5),) * 2, xs, h)[0]

    example = torch.randn(5, 2, 4), torch.zeros(2, 4)
    program = rt.export(Loop(), example)
    before = [str(part.graph) for part in program.graph_module.modules() if hasattr(part, "graph")]
    model = rnncc.compile(program)
    after = [str(part.graph) for part in program.graph_module.modules() if hasattr(part, "graph")]
    assert before == after and len(before) > 1
    found = model.run({"xs": example[0].numpy(), "h": example[1].numpy()})
    np.testing.assert_allclose(found["y"], Loop()(*example).numpy(), rtol=1e-6, atol=1e-6)


def test_exported_programs_have_their_code() -> None:
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    net = Net(SPREAD["several"])
    program = rt.export(net, (x, y))
    assert "unsafe_chunk" in program.graph_module.code
    torch.testing.assert_close(program.module()(x, y), net(x, y))


def test_arguments_by_name() -> None:
    """PyTorch's names of arguments, where other functions take the place of its own."""

    def named(x: Any, _: Any) -> Any:
        flags = F.one_hot((x > 0).long(), num_classes=3).sum(-1)
        normed = F.rms_norm(input=x, normalized_shape=(4,)) + torch.cov(input=x).sum()
        loss = F.gaussian_nll_loss(input=x, target=2 * x, var=x * x + 1)
        return normed * flags + loss + F.max_pool1d(input=x, kernel_size=4)

    x, net = torch.randn(2, 4), Net(named)
    torch.testing.assert_close(rt.compile(net, (x, x))(x, x), net(x, x), **CLOSE)
    ys, _ = rt.scan(lambda x, h: (named(x, h), h), x[None], torch.zeros(1))
    torch.testing.assert_close(ys[0], named(x, None), **CLOSE)
