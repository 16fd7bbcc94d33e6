"""Branches and loops on a tensor's value that change what was made before, and choose functions."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from rnncc.errors import CompileError  # noqa: E402
from tests.torch import changing_cells as cells  # noqa: E402
from tests.torch.unrolled import Step, check_module, name_of, read  # noqa: E402


@pytest.mark.parametrize("cell", cells.TAKEN, ids=name_of)
def test_module(cell: Any) -> None:
    check_module(Step(cell), Step(cell))


@pytest.mark.parametrize("cell", cells.REFUSED, ids=name_of)
def test_refused(cell: Any) -> None:
    with pytest.raises(CompileError, match=cells.REFUSED[cell]):
        read(cell, "module")


@pytest.mark.parametrize("cell", [cells.adds, cells.of_a_loop], ids=name_of)
def test_refused_by_scan(cell: Any) -> None:
    with pytest.raises(CompileError, match="in place that it has not made"):
        read(cell, "scan")


class _Lazy(ModuleType):
    """A module that imports another one when it is first asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


def test_modules_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(x: Any, h: Any) -> Any:
        return (h if x.sum() > 0 else x), h

    monkeypatch.setitem(sys.modules, "lazy", _Lazy("lazy"))
    read(cell, "module")
