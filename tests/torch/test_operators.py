"""Operators, one line each, all in one module: results and gradients equal PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rnncc import CompileError
from tests.torch.cells import nn, torch
from tests.torch.operator_lines import OPERATORS, Operator

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


class All(nn.Module):
    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, x: Any, y: Any, n: Any) -> Any:
        return [OPERATORS[name](x, y, n) for name in self.names]


def taken(name: str, dtype: Any) -> bool:
    """Whether PyTorch itself takes tensors of a type beside the other ones of an operator."""
    examples = (torch.ones(4, 6, dtype=dtype), torch.ones(4, 6, dtype=dtype), torch.arange(6))
    try:
        OPERATORS[name](*examples)
    except RuntimeError:
        return False
    return True


def outputs_and_gradients(run: Any, dtype: Any) -> tuple[list[Any], list[Any]]:
    generator = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(4, 6, generator=generator, dtype=dtype, requires_grad=True) for _ in range(2)
    )
    results = run(x, y, torch.tensor([2, 0, 5, 1, 3, 4]))
    gradients: list[Any] = []
    for result in results:
        found: Any = (None, None)
        if result.requires_grad:
            weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)
            found = torch.autograd.grad(result, (x, y), weights, True, allow_unused=True)
        gradients.append([torch.zeros(4, 6, dtype=dtype) if g is None else g for g in found])
    return results, gradients


NEAR = {torch.float32: (1e-4, 3e-5), torch.float64: (1e-11, 1e-11)}


@pytest.mark.parametrize("dtype", NEAR, ids=["float32", "float64"])
def test_operators(dtype: Any, one_in: Callable[[int], slice]) -> None:
    """All of them; of doubles every sixth; with `--draw` one in twelve."""
    examples = (torch.ones(4, 6, dtype=dtype), torch.ones(4, 6, dtype=dtype), torch.arange(6))
    names = [name for name in OPERATORS if taken(name, dtype)]
    assert len(names) > 0.9 * len(OPERATORS)
    names = names[one_in(12)] if dtype == torch.float32 else names[1::6][one_in(2)]
    compiled = rt.compile(All(names), examples, train=True)
    ours, theirs = (outputs_and_gradients(net, dtype) for net in (compiled, All(names)))
    for number, name in enumerate(names):
        rtol, atol = NEAR.get(theirs[0][number].dtype, (0, 0))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(
                one[number], other[number], rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
            )


def at_ends(x: Any) -> Any:
    """Functions whose slopes are infinite, each of a row of its own."""
    signs = x - x.detach() + x.sign()
    functions = (torch.asin, torch.acos, torch.atanh, lambda row: torch.logit((row + 1) / 2))
    return torch.stack([f(row) for f, row in zip(functions, signs, strict=True)])


def test_hardswish_at_infinity() -> None:
    """x · relu6(x + 3) / 6 is NaN at -∞, which must not become a 0."""
    x = torch.tensor([-torch.inf, -7.0, -3.0, torch.inf, torch.nan])
    compiled = rt.compile(nn.Hardswish(), (x,))
    torch.testing.assert_close(compiled(x), nn.functional.hardswish(x), equal_nan=True)


def test_slopes_at_the_ends_of_ranges() -> None:
    class Ends(nn.Module):
        def forward(self, x: Any) -> Any:
            return at_ends(x)

    x = torch.tensor([[1.0, -2.0, 0.0]] * 4, requires_grad=True)
    ours, theirs = rt.compile(Ends(), (x,), train=True)(x), at_ends(x)
    torch.testing.assert_close(ours, theirs)
    found, expected = (torch.autograd.grad(y, x, torch.ones_like(y))[0] for y in (ours, theirs))
    assert expected.isinf().sum() == 8
    torch.testing.assert_close(found, expected)


def test_powers_of_negative_numbers_have_no_slope_by_the_exponent() -> None:
    """Whole powers are numbers; their slopes would be those of logarithms of negative numbers."""
    bases = torch.tensor([[-2.0, -1.0, 0.0, 2.0, -2.0, 3.0]], requires_grad=True)
    rates = torch.tensor([[3.0, 2.0, 2.0, 3.0, 0.5, -1.5]], requires_grad=True)
    start = torch.zeros(6)

    def cell(rows: Any, h: Any) -> Any:
        x, rate = rows
        return x**rate, h

    def eager(x: Any, rate: Any) -> Any:
        return x**rate

    def ours(x: Any, rate: Any) -> Any:
        return rt.scan(cell, (x, rate), start)[0]

    slopes = [torch.autograd.grad(f(bases, rates).sum(), (bases, rates)) for f in (ours, eager)]
    assert slopes[1][1].isnan().tolist() == [[True, True, False, False, True, False]]
    torch.testing.assert_close(slopes[0][1], slopes[1][1], equal_nan=True)
    numbers = ~eager(bases, rates).isnan()
    torch.testing.assert_close(slopes[0][0][numbers], slopes[1][0][numbers])
    exact = [t.detach()[:, 3:4].double().requires_grad_() for t in (bases, rates)]
    start = start[:1].double()
    assert torch.autograd.gradgradcheck(ours, exact)
    tangents = [torch.func.jvp(f, tuple(exact), tuple(exact))[1] for f in (ours, eager)]
    torch.testing.assert_close(*tangents)


REFUSED: dict[str, Operator] = {
    "scatter_reduce of i64 to a mean, or": lambda x, y, n: n.scatter_reduce(0, n, n, "mean"),
    "aten.as_strided.default": lambda x, y, n: x[1:].as_strided((2, 2), (2, 1)),
    "as_strided.default: operator": lambda x, y, n: (x + 1).as_strided((2, 2), (2, 1), 1),
    "norm of order 0.5 is not supported": lambda x, y, n: x.norm(0.5),
    "ranking 6 elements of i1": lambda x, y, n: (x > 0).sort()[0],
    "a complete q": lambda x, y, n: torch.linalg.qr(x.T, mode="complete")[0],
    "aten._histogramdd_bin_edges": lambda x, y, n: sum(
        torch.histogramdd(x[:, :2], [3, 3]).bin_edges
    ),
    "indexing with a mask": lambda x, y, n: x[torch.tensor([True, False, True, True])],
    "a table of 5000 numbers": lambda x, y, n: torch.arange(0, 1250, 0.25) + x[0, 0],
    "its factors are not supported": lambda x, y, n: torch.ops.aten._linalg_det(x[:, :4])[1],
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    class One(nn.Module):
        def forward(self, x: Any, y: Any, n: Any) -> Any:
            return REFUSED[message](x, y, n)

    with pytest.raises(CompileError, match=rf"test_operators.py:\d+: .*{message}"):
        rt.compile(One(), (torch.ones(4, 6), torch.ones(4, 6), torch.arange(6)))
