"""Tensors whose elements are not aligned in memory, as views of files' bytes are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.cells import torch

rt: Any = pytest.importorskip("rnncc.torch")
pytestmark = pytest.mark.peers


def misaligned(x: Any) -> Any:
    """A copy that lies a byte behind a multiple of its elements' size."""
    block = bytearray(x.numel() * 4 + 64)
    start = 1 + -torch.frombuffer(block, dtype=torch.uint8).data_ptr() % 16
    copy = torch.frombuffer(block, dtype=x.dtype, count=x.numel(), offset=start).view(x.shape)
    assert copy.data_ptr() % 4 == 1
    return copy.copy_(x)


def test_misaligned_inputs_and_gradients() -> None:
    torch.manual_seed(0)
    weight, xs, h = torch.randn(3, 3), torch.randn(5, 2, 3), torch.randn(2, 3)

    def cell(x: Any, h: Any) -> Any:
        new = torch.tanh(x + h @ weight)
        return new * 2, new

    results: list[Any] = []
    for place in torch.clone, misaligned:
        inputs = [place(x).requires_grad_() for x in (xs, h)]
        ys, _ = rt.scan(cell, *inputs)
        ys.backward(place(torch.ones_like(ys) * xs))
        with torch.no_grad():
            results.append([ys, *(x.grad for x in inputs), rt.scan(cell, *map(place, (xs, h)))[0]])
    for aligned, other in zip(*results, strict=True):
        assert torch.equal(aligned, other)
