"""A module that keeps its last rows in a deque, for tests of the back end."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

from tests.torch.cells import nn, torch


class Rows(nn.Module):
    """Adds up what the deque holds."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.layer, self.rows = nn.Linear(3, 3), deque[Any](maxlen=length)

    def forward(self, xs: Any) -> Any:
        ys = list[Any]()
        for x in xs:
            self.rows.append(torch.tanh(self.layer(x) + sum(self.rows)))
            ys.append(x + sum(self.rows))
        return torch.stack(ys)


def check_rows(length: int) -> None:
    """Compare two calls of the compiled module, which go on with the same deque, with PyTorch's."""
    module = Rows(length)
    compiled = torch.compile(copy.deepcopy(module), backend="rnncc")
    for _ in range(2):
        xs = torch.randn(6, 2, 3)
        with torch.no_grad():
            torch.testing.assert_close(compiled(xs), module(xs), rtol=1e-4, atol=1e-5)
        assert len(compiled.rows) == length
