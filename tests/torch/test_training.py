"""Parameters that training scripts give other memory, between calls: each call reads what is there
now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.cells import nn, torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers
FREES = hasattr(torch._dynamo.config, "invalidate_compile_context_weakrefs")
"""Whether TorchDynamo frees what it read a graph of, as it does from PyTorch 2.13 on."""


class Net(nn.Module):
    """A loop over a cell, in Python or compiled."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.states, self.loop = nn.Linear(3, 4), nn.Linear(4, 4), loop

    def cell(self, x: Any, h: Any) -> tuple[Any, Any]:
        h = torch.tanh(self.rows(x) + self.states(h))
        return h, h

    def forward(self, xs: Any) -> Any:
        return self.loop(self.cell, xs, xs.new_zeros(xs.shape[1], 4))[0]


def steps(cell: Callable[..., Any], xs: Any, h: Any) -> tuple[Any, Any]:
    ys = list[Any]()
    for x in xs:
        y, h = cell(x, h)
        ys.append(y)
    return torch.stack(ys), h


def scanned() -> tuple[Net, Callable[..., Any]]:
    net = Net(rt.scan)
    return net, net


def compiled() -> tuple[Net, Callable[..., Any]]:
    net = Net(rt.scan)
    return net, rt.compile(net, (torch.zeros(5, 2, 3),))


def of_the_back_end() -> tuple[Net, Callable[..., Any]]:
    net = Net(steps)
    return net, torch.compile(net, backend="rnncc")


def swapped(net: Net, new: dict[str, Any]) -> None:
    for name, parameter in [*net.named_parameters()]:
        torch.utils.swap_tensors(parameter, nn.Parameter(new[name]))


def loaded(net: Net, new: dict[str, Any]) -> None:
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        net.load_state_dict(new)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def given(net: Net, new: dict[str, Any]) -> None:
    for name, parameter in net.named_parameters():
        parameter.data = new[name].t().contiguous().t()


def put(net: Net, new: dict[str, Any]) -> None:
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.set_(new[name])


@pytest.mark.parametrize("way", [scanned, compiled, of_the_back_end])
@pytest.mark.parametrize("change", [swapped, loaded, given, put])
def test_parameters_get_other_memory(way: Any, change: Any) -> None:
    if change in (swapped, loaded) and way is not compiled and not FREES:
        pytest.skip("TorchDynamo keeps weak references to tensors, which cannot be swapped then")
    torch._dynamo.reset()
    net, run = way()
    known, xs = Net(steps), torch.randn(5, 2, 3)
    for _ in range(2):
        results = list[Any]()
        for owner, called in ((net, run), (known, known)):
            with torch.no_grad():
                results.append([called(xs)])
            loss = called(xs).square().sum()
            results[-1] += torch.autograd.grad(loss, [*owner.parameters()])
            del loss  # tensors in a graph cannot be swapped
        torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)
        new = {name: torch.randn(x.shape) / 2 for name, x in known.named_parameters()}
        for owner in (net, known):
            change(owner, {name: x.clone() for name, x in new.items()})


def test_parameters_of_operators_that_are_taken_apart_can_be_swapped() -> None:
    net, x = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval(), torch.randn(2, 3)
    run = rt.compile(net, (x,))
    torch.utils.swap_tensors(net[1].weight, nn.Parameter(torch.tensor([1.0, 2, 3, 4])))
    torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)


def test_parameters_can_be_swapped_after_a_loop_was_read_twice() -> None:
    """The first reading fails, and shows what is to be rewritten."""

    class Settling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            while x.norm() > 1:
                x = 0.5 * torch.tanh(self.layer(x))
            return x

    net, x = Settling(), torch.randn(2, 3)
    run = rt.compile(net, (x,))
    torch.utils.swap_tensors(net.layer.weight, nn.Parameter(torch.randn(3, 3)))
    torch.testing.assert_close(run(x), net(x), rtol=1e-4, atol=1e-5)
