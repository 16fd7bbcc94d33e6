"""Code that branches on a tensor's value: both ways are read, and the run takes one."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rnncc.torch  # noqa: E402
from rnncc.errors import CompileError  # noqa: E402
from tests.torch import branching_cells as cells  # noqa: E402
from tests.torch import refused_branches as refused  # noqa: E402
from tests.torch.unrolled import Loop, Scan, check, check_module, loop, name_of, read  # noqa: E402

ALL = [*cells.CELLS, cells.Method(), cells.closure()]
MODULES = [
    cells.nested,
    cells.returns_within,
    cells.goes_on,
    cells.of_flags,
    cells.changed_in_place,
    cells.computes_with_a_number,
    cells.reads_what_a_loop_made,
    cells.Method(),
]
SCANS = [cells.item, cells.of_inner_functions]


@pytest.mark.parametrize("cell", ALL, ids=name_of)
def test_cell(cell: Any) -> None:
    if isinstance(cell, torch.nn.Module):
        cell = copy.deepcopy(cell).double()
    check(lambda xs, h: rnncc.torch.scan(cell, xs, h), lambda xs, h: loop(cell, xs, h))


def test_attributes() -> None:
    torch.manual_seed(0)
    xs, h = torch.randn(9, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    own, known = cells.Attributes(), cells.Attributes()
    torch.testing.assert_close(rnncc.torch.scan(own, xs, h), loop(known, xs, h))
    torch.testing.assert_close(own.held, known.held)


@pytest.mark.parametrize("kind", [Loop, Scan])
@pytest.mark.parametrize("cell", [*MODULES, cells.Method()], ids=name_of)
def test_module(cell: Any, kind: Any) -> None:
    module = kind(copy.deepcopy(cell)).double()
    check_module(module, Loop(module.cell))


def test_views_of_one_tensor() -> None:
    given = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    module = Loop(lambda x, h: cells.of_views(x, h))
    own = rnncc.torch.compile(module, given)
    xs = torch.tensor([[1.0, 0, 0], [-1.0, 0, 0]], dtype=torch.float64), torch.ones(3).double()
    torch.testing.assert_close(own(*xs), module(*xs))


class Projecting(torch.nn.Module):
    """What operators give as it is, in a loop and in a way of a branch, is read behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3) * 0.3)

    def forward(self, x: Any) -> Any:
        z, n = torch.zeros_like(x), 0
        while (x - z).norm() > 0.1 and n < 4:
            z, n = torch.tanh(z @ self.weight.flatten(1) + x), n + 1
        same = torch.nn.functional.dropout(self.weight.contiguous().float(), 0.5, False)
        y = x @ same if x.sum() > 0 else z @ self.weight
        return y + x @ self.weight


def test_operators_that_give_the_same_tensor() -> None:
    torch.manual_seed(0)
    module, xs = Projecting(), torch.randn(4, 2, 3)
    own = rnncc.torch.compile(module, (xs[0],), dynamic_shapes=({0: torch.export.Dim("N")},))
    for x in (*xs, -xs[0]):
        results = own(x), module(x)
        torch.testing.assert_close(*results)
        grads = [torch.autograd.grad(y.sin().sum(), module.weight)[0] for y in results]
        torch.testing.assert_close(*grads)


def test_a_cell_that_an_exported_scan_reads_first() -> None:
    def cell(x: Any, h: Any) -> Any:
        if x.sum() > 0:
            h = h * 0.5
        return h, torch.tanh(h + x)

    check_module(Scan(cell), Loop(cell))


@pytest.mark.parametrize("cell", refused.REFUSED, ids=name_of)
@pytest.mark.parametrize("way", ["scan", "module"])
def test_refused(cell: Any, way: str) -> None:
    with pytest.raises(CompileError, match=refused.REFUSED[cell]):
        read(cell, way)


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0]
        if grad.norm() > 0.5:
            grad = grad / grad.norm()
        return grad


def test_backward_of_a_function() -> None:
    def cell(x: Any, h: Any) -> Any:
        h = torch.tanh(Clipped.apply(x + h))
        return h, h

    check(lambda xs, h: rnncc.torch.scan(cell, xs, h), lambda xs, h: loop(cell, xs, h))


def test_sequences_of_any_number() -> None:
    module = Loop(cells.two_sided)
    batch = torch.export.Dim("batch")
    shapes = {"xs": {1: batch}, "h": {0: batch}}
    given = torch.randn(9, 4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    compiled = rnncc.torch.compile(module, given, dynamic_shapes=shapes)
    for size in (2, 5):
        check(compiled, module, (size, 3))


def test_second_derivatives() -> None:
    xs = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    h = torch.randn(3, dtype=torch.float64, requires_grad=True)

    def run(xs: Any, h: Any) -> Any:
        return rnncc.torch.scan(cells.two_sided, xs, h)

    assert torch.autograd.gradcheck(run, (xs, h))
    assert torch.autograd.gradgradcheck(run, (xs, h))


def test_instances_take_different_ways() -> None:
    xs = torch.randn(6, 5, 3, dtype=torch.float64)
    h = torch.randn(6, 3, dtype=torch.float64)
    own = torch.func.vmap(lambda xs, h: rnncc.torch.scan(cells.nested, xs, h))(xs, h)
    for number, (x, start) in enumerate(zip(xs, h, strict=True)):
        known = loop(cells.nested, x, start)
        torch.testing.assert_close([part[number] for part in own], list(known))


def test_functions_do_what_they_did() -> None:
    """A function that was written anew is the same elsewhere, to its last error."""
    text = inspect.getsource(refused.unbound)
    for way in (rnncc.torch.scan, lambda cell, xs, h: rnncc.torch.compile(Loop(cell), (xs, h))):
        with pytest.raises(CompileError):
            way(refused.unbound, torch.ones(5, 3), torch.ones(3))
    assert inspect.getsource(refused.unbound) == text
    assert refused.unbound(torch.ones(3), torch.ones(3))[0].sum() == 3
    with pytest.raises(UnboundLocalError, match="'y'"):
        refused.unbound(-torch.ones(3), torch.ones(3))


def test_what_is_not_taken_has_no_gradients() -> None:
    """The logarithm of a negative number would make them NaN."""
    xs = torch.full((4, 3), -1.0, requires_grad=True)
    ys, last = rnncc.torch.scan(cells.infinite_apart, xs, torch.zeros(3))
    (ys.sum() + last.sum()).backward()
    assert xs.grad is not None and xs.grad.isfinite().all()
