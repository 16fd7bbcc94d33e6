"""Loops that end by a tensor's value, and what leaves them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rnncc_runtime  # noqa: E402

import rnncc.torch  # noqa: E402
from rnncc.errors import CompileError  # noqa: E402
from rnncc.frontends.torch import lower  # noqa: E402
from tests.torch import looping_cells as cells  # noqa: E402
from tests.torch.refused_loops import REFUSED  # noqa: E402
from tests.torch.unrolled import Step, check, check_module, loop, name_of, read, slopes  # noqa: E402


@pytest.mark.parametrize("cell", cells.CELLS, ids=name_of)
def test_cell(cell: Any) -> None:
    check(lambda xs, h: rnncc.torch.scan(cell, xs, h), lambda xs, h: loop(cell, xs, h))


@pytest.mark.parametrize("cell", cells.MODULES, ids=name_of)
def test_module(cell: Any) -> None:
    check_module(Step(cell), Step(cell))


@pytest.mark.parametrize("cell", REFUSED, ids=name_of)
@pytest.mark.parametrize("way", ["scan", "module"])
def test_refused(cell: Any, way: str) -> None:
    with pytest.raises(CompileError, match=REFUSED[cell]):
        read(cell, way)


def test_sequences_of_any_number() -> None:
    torch.manual_seed(0)
    cell = cells.Adaptive().double()
    for size in (3, 5):
        xs = torch.randn(4, size, 3, dtype=torch.float64, requires_grad=True)
        h = torch.randn(size, 4, dtype=torch.float64, requires_grad=True)
        own, known = rnncc.torch.scan(cell, xs, h), loop(cell, xs, h)
        torch.testing.assert_close(own, known)
        torch.testing.assert_close(
            slopes(own, *cell.parameters()), slopes(known, *cell.parameters())
        )


def test_a_loop_that_does_not_end() -> None:
    def cell(x: Any, h: Any) -> Any:
        while h.sum() < 1:
            h = h * 0.5
        return h, h

    with pytest.raises(rnncc_runtime.RunError, match="than its limit"):
        rnncc.torch.scan(cell, torch.zeros(2, 3), torch.zeros(3))


@pytest.mark.parametrize(
    ("cell", "bounds"),
    [
        (cells.fixed_point, [29]),
        (cells.goes_on, [10]),
        (cells.returns, [8]),
        (cells.within, [5, 4]),
        (cells.sums, [None]),
        (cells.by_quarters, [None]),
        (cells.counts_up, [39]),
    ],
)
def test_bounds(cell: Any, bounds: list[int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter bounds a loop; one that not every iteration moves does not."""
    asked, own = [], lower.most_iterations
    monkeypatch.setattr(lower, "most_iterations", lambda *of: asked.append(own(*of)) or asked[-1])
    rnncc.torch.scan(cell, torch.ones(2, 3), torch.ones(3))
    assert asked == bounds
