"""Branches and loops on a tensor's value that change what was made before, and choose functions."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rnncc.torch  # noqa: E402
from rnncc.errors import CompileError  # noqa: E402
from tests.torch import changing_cells as cells  # noqa: E402
from tests.torch.unrolled import Step, check, check_module, loop, name_of, read  # noqa: E402


@pytest.mark.parametrize("cell", cells.TAKEN, ids=name_of)
def test_module(cell: Any) -> None:
    check_module(Step(cell), Step(cell))


@pytest.mark.parametrize("cell", cells.TAKEN, ids=name_of)
def test_cell(cell: Any) -> None:
    check(lambda xs, h: rnncc.torch.scan(cell, xs, h), lambda xs, h: loop(cell, xs, h))


@pytest.mark.parametrize("cell", cells.REFUSED, ids=name_of)
@pytest.mark.parametrize("way", ["scan", "module"])
def test_refused(cell: Any, way: str) -> None:
    with pytest.raises(CompileError, match=cells.REFUSED[cell]):
        read(cell, way)


def test_a_buffer_that_a_branch_changes() -> None:
    torch.manual_seed(0)
    xs, h = torch.randn(9, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    own, known = cells.Averages(), cells.Averages()
    torch.testing.assert_close(rnncc.torch.scan(own, xs, h), loop(known, xs, h))
    torch.testing.assert_close(own.average, known.average)


class _Lazy(ModuleType):
    """A module that imports another one when it is first asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


def test_modules_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(x: Any, h: Any) -> Any:
        return (h if x.sum() > 0 else x), h

    monkeypatch.setitem(sys.modules, "lazy", _Lazy("lazy"))
    read(cell, "module")
