"""Models that go through chunks of their sequences: `python chunk_models.py OUTDIR`.

The last chunk has the steps that are left.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class InChunks(nn.Module):
    """Chunks of 16 steps through a GRU, with the state before."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros([1, x.size(0), 8])
        parts: list[Tensor] = []
        for i in range(0, x.size(1), 16):
            y, h = self.rnn(x[:, i : i + 16], h)
            parts.append(y)
        return torch.cat(parts, 1), h


class Appended(nn.Module):
    """The same, put together in a tensor that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros([1, x.size(0), 8])
        y = x.new_zeros([x.size(0), 0, 8])
        for i in range(0, x.size(1), 16):
            part, h = self.rnn(x[:, i : i + 16], h)
            y = torch.cat([y, part], 1)
        return y, h


class Pooled(nn.Module):
    """Means of five steps, counted by the loop itself."""

    def forward(self, x: Tensor) -> Tensor:
        means: list[Tensor] = []
        i = 0
        while i < x.size(1):
            means.append(x[:, i : i + 5].mean(1))
            i = i + 5
        return torch.stack(means, 1)


class Within(nn.Module):
    """Attention within chunks of eight steps, and the steps added."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        parts: list[Tensor] = []
        for i in range(0, x.size(1), 8):
            part = x[:, i : min(i + 8, x.size(1))]
            weights = torch.softmax(self.query(part) @ part.transpose(1, 2), -1)
            parts.append(self.norm(part + weights @ part))
        return torch.cat(parts, 1) + x


class Split(nn.Module):
    """The last state of each of the parts that a sequence is split into."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        last: list[Tensor] = []
        for part in x.split(8, 1):
            _, h = self.rnn(part)
            last.append(h[0])
        return torch.stack(last, 1)


class UntilLoud(InChunks):
    """The same until the state is large: `break`."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x.new_zeros([1, x.size(0), 8])
        parts: list[Tensor] = []
        for i in range(0, x.size(1), 16):
            y, h = self.rnn(x[:, i : i + 16], h)
            parts.append(y)
            if bool(h.mean() > 0.12):
                break
        return torch.cat(parts, 1), h


class EveryOther(nn.Module):
    """Every other step of the first five of each six is written."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        for i in range(0, x.size(1), 6):
            y[:, i : i + 5 : 2] = torch.tanh(x[:, i : i + 5 : 2]) * 2
        return y


def _x() -> dict[str, Tensor]:
    return {"x": torch.randn(2, 20, 6)}


MODELS = {
    "in_chunks": Exported(InChunks, _x(), {"x": TN}, outputs=2, script=True),
    "appended": Exported(Appended, _x(), {"x": TN}, outputs=2, script=True),
    "pooled": Exported(Pooled, _x(), {"x": TN}, script=True),
    "within": Exported(Within, _x(), {"x": TN}, script=True),
    "split": Exported(Split, _x(), {"x": TN}, script=True),
    "until_loud": Exported(UntilLoud, _x(), {"x": TN}, outputs=2, script=True),
    "every_other": Exported(EveryOther, _x(), {"x": TN}, script=True),
}

if __name__ == "__main__":
    export_all(MODELS)
