"""Loops and choices as operators of PyTorch, which its second exporter alone writes:
`higher_order_models.py OUTDIR`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Plain(nn.Module):
    """A state that goes through a layer, the input's layer before the loop; the batch in front."""

    def __init__(self) -> None:
        super().__init__()
        self.of_input, self.of_state = nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(row + self.of_state(h))
            return h, h.clone()

        rows: Any = self.of_input(x).transpose(0, 1)
        h, y = scan(step, x.new_zeros(x.shape[0], 8), rows, dim=0)
        return y.transpose(0, 1), h


class Cell(nn.Module):
    """An LSTM's cell with a layer behind it in the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTMCell(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def step(state: Any, row: Tensor) -> tuple[Any, Tensor]:
            h, c = self.cell(row, state)
            return (h.clone(), c.clone()), self.out(h)

        start = x.new_zeros(x.shape[0], 8)
        (h, c), y = scan(step, (start, start.clone()), x.transpose(0, 1), dim=0)
        return y, h, c


class Backwards(Plain):
    """From the last step to the first, along the second axis."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.relu(self.of_input(row) + self.of_state(h))
            return h, h * 2

        h, y = scan(step, x.new_zeros(x.shape[0], 8), x, dim=1, reverse=True)
        return y, h


class Chosen(nn.Module):
    """One of two branches, by a sum of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.layer = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.gru(x)[0]
        other: Any = torch.cond(
            x.sum() > 0, lambda y: self.layer(y), lambda y: torch.tanh(self.layer(y)) * 2, (y,)
        )
        return other + y


def of_steps(module: type[nn.Module], outputs: int) -> Exported:
    """A module over a batch of sequences."""
    return Exported(module, {"x": torch.randn(3, 5, 6)}, {"x": TN}, outputs=outputs)


MODELS = {
    "scan_plain": of_steps(Plain, 2),
    "scan_cell": of_steps(Cell, 3),
    "scan_backwards": of_steps(Backwards, 2),
    "cond": of_steps(Chosen, 1),
}

if __name__ == "__main__":
    export_all(MODELS)
