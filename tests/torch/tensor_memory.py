"""What a loop's memory has to be, on the CPU and on an emulated GPU alike."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.torch.cells import MinimalGated, make_cell, sequence, torch

rt: Any = pytest.importorskip("rnncc.torch")


def nothing_is_copied(seen: list[int]) -> None:
    """Code reads and writes the tensors' own memory, forward and backward.

    Args:
        seen: gets the addresses that code is called with.
    """
    cell, xs = make_cell(MinimalGated), sequence(4).requires_grad_()
    ys, last = rt.scan(cell, xs, cell.start)
    weights = torch.ones_like(ys)
    grads = torch.autograd.grad(ys, [xs, *cell.parameters()], weights)
    for tensor in (xs, cell.start, *cell.parameters(), ys, last, weights, *grads):
        assert tensor.data_ptr() in seen


def tapes_go_with_the_graph(code: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a collection of garbage.

    Args:
        code: the class whose method `forward` gives a tape.
    """
    tapes, real = list[Any](), code.forward

    def spy(self: Any, *groups: Any) -> Any:
        tape = real(self, *groups)
        tapes.append(weakref.ref(tape))
        return tape

    monkeypatch.setattr(code, "forward", spy)
    cell = make_cell(MinimalGated)
    gc.collect()
    gc.disable()
    try:
        ys, last = rt.scan(cell, sequence(4), cell.start)
        assert tapes[0]() is not None
        del ys, last
        assert tapes[0]() is None
        rt.scan(cell, sequence(4), cell.start)[0].sum().backward()
        assert tapes[1]() is None
    finally:
        gc.enable()
