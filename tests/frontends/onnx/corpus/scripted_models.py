"""Cells that TorchScript compiles, loops and all: `python scripted_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import Exported, export_all


class ScriptedLoop(nn.Module):
    """A Python loop over a cell, kept as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[1], 10)
        rows: list[Tensor] = []
        for t in range(x.shape[0]):
            h = self.cell(x[t], h)
            rows.append(h)
        return torch.stack(rows)


class ScriptedPeephole(nn.Module):
    """A peephole LSTM with layer norm of its own, its loop kept."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(6, 32)
        self.u = nn.Linear(8, 32, bias=False)
        self.p = nn.Parameter(torch.randn(3, 8) * 0.3)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[1]
        h, c = torch.zeros(n, 8), torch.zeros(n, 8)
        rows: list[Tensor] = []
        for t in range(x.shape[0]):
            i, f, g, o = (self.w(x[t]) + self.u(h)).chunk(4, 1)
            i, f = torch.sigmoid(i + self.p[0] * c), torch.sigmoid(f + self.p[1] * c)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o + self.p[2] * c) * torch.tanh(self.norm(c))
            rows.append(h)
        return torch.stack(rows), c


class ScriptedHalt(nn.Module):
    """A loop that ends by data: as many turns as the longest sequence has."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(6, 8)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        h = torch.zeros(x.shape[1], 8)
        for t in range(int(lengths.max())):
            keep = (t < lengths).unsqueeze(1).to(x.dtype)
            h = keep * self.cell(x[t], h) + (1 - keep) * h
        return h


_LENGTHS = torch.tensor([5, 3])

_UP_TO_T: dict[str, tuple[int, int | str]] = {"lengths": (1, "T")}


MODELS: dict[str, Exported] = {
    "scripted_loop": Exported(
        ScriptedLoop, {"x": torch.randn(5, 2, 6)}, {"x": {0: "T", 1: "N"}}, script=True
    ),
    "scripted_peephole": Exported(
        ScriptedPeephole,
        {"x": torch.randn(5, 2, 6)},
        {"x": {0: "T", 1: "N"}},
        outputs=2,
        script=True,
    ),
    "scripted_halt": Exported(
        ScriptedHalt,
        {"x": torch.randn(5, 2, 6), "lengths": _LENGTHS},
        {"x": {0: "T", 1: "N"}, "lengths": {0: "N"}},
        _UP_TO_T,
        script=True,
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
