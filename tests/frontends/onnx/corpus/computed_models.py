"""Sizes that a caller or the run decides, by TorchScript: `computed_models.py OUTDIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.pointer_models import Gated

BOUND = {"max_iterations": "T + 24"}
BEAMS = {"max_iterations": 8}


class BestFrames(nn.Module):
    """The k best frames by a score, gathered and averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.score, self.out = nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        y = self.gru(x)[0]
        best, places = self.score(y).squeeze(-1).topk(int(k), 1)
        rows = y.gather(1, places.unsqueeze(-1).expand(-1, -1, 16))
        return self.out((rows * best.unsqueeze(-1).sigmoid()).mean(1)), places


class SparseAttention(nn.Module):
    """Attention to half as many frames as the longest sequence has."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.q = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y = self.lstm(x)[0]
        scores = torch.matmul(self.q(y), y.transpose(1, 2))
        best, places = scores.topk(int(lengths.max()) // 2 + 1, -1)
        kept = torch.full_like(scores, -1e9).scatter(-1, places, best)
        return torch.matmul(kept.softmax(-1), y)


class TwoSegments(nn.Module):
    """The first n frames through one layer, the others through another."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.GRU(6, 8, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        first, rest = torch.split(x, [int(n), x.size(1) - int(n)], 1)
        y, h = self.one(first)
        z, h = self.other(rest, h)
        return torch.cat([y, z], 1), h


class ToTheLongest(nn.Module):
    """Padded up to the longest of the lengths, or to the next eight of it."""

    def __init__(self, step: int = 1) -> None:
        super().__init__()
        self.gru, self.out, self.step = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 2), step

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        most = (int(lengths.max()) + self.step - 1) // self.step * self.step
        y = self.gru(functional.pad(x, [0, 0, 0, most - x.size(1)]))[0]
        mask = torch.arange(most).unsqueeze(0) < lengths.unsqueeze(1)
        return self.out((y * mask.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1))


class SilenceBefore(nn.Module):
    """So many frames of silence before the speech, and one behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.windows, self.lstm = nn.Conv1d(6, 8, 3), nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.pad(x.transpose(1, 2), [int(n), 1])
        y, (h, _) = self.lstm(self.windows(y).relu().transpose(1, 2))
        return y, h


class Nucleus(nn.Module):
    """The fewest next words that have a probability of p together."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.gru = nn.Embedding(20, 6), nn.GRU(6, 8, batch_first=True)
        self.out = nn.Linear(8, 20)

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        p = self.out(self.gru(self.words(w))[0][:, -1]).softmax(-1)[0]
        most = p.sort(descending=True)[0].cumsum(0)
        best, words = p.topk(int((most < 0.7).sum()) + 1)
        return best / best.sum(), words


class Beams(nn.Module):
    """Some steps of a beam search whose width the caller gives."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cell, self.out = nn.Embedding(20, 6), Gated(6, 8), nn.Linear(8, 20)

    def forward(self, h: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        width = int(k)
        score, word = self.out(h).log_softmax(-1)[0].topk(width)
        h = h.expand(width, 8)
        for _ in range(4):
            h = self.cell(self.words(word), h)
            total = self.out(h).log_softmax(-1) + score.unsqueeze(1)
            score, place = total.view(-1).topk(width)
            h, word = h[place // 20], place % 20
        return score, word


class ToFrames(nn.Module):
    """States stretched to as many frames as the caller wants."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.gru, self.out, self.mode = nn.GRU(6, 8, batch_first=True), nn.Conv1d(8, 4, 1), mode

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        y = self.gru(x)[0].transpose(1, 2)
        return self.out(functional.interpolate(y, size=[int(n)], mode=self.mode))


X, T = torch.randn(2, 7, 6), {"n": (1, "T")}
N = {"x": X, "n": torch.tensor(3)}
LENGTHS = {"x": X, "lengths": torch.tensor([7, 3])}
BY_LENGTH = {"x": TN, "lengths": {0: "N"}}
MODELS: dict[str, Exported] = {
    "best_frames": Exported(
        BestFrames, {"x": X, "k": N["n"]}, {"x": TN}, {"k": (1, "T")}, outputs=2, script=True
    ),
    "sparse_attention": Exported(
        SparseAttention, LENGTHS, BY_LENGTH, {"lengths": (1, "T")}, script=True
    ),
    "two_segments": Exported(TwoSegments, N, {"x": TN}, {"n": (2, 5)}, outputs=2, script=True),
    "to_the_longest": Exported(ToTheLongest, LENGTHS, BY_LENGTH, {"lengths": (1, 20)}, script=True),
    "to_the_next_eight": Exported(
        lambda: ToTheLongest(8), LENGTHS, BY_LENGTH, {"lengths": (1, 20)}, script=True
    ),
    "silence_before": Exported(SilenceBefore, N, {"x": TN}, T, outputs=2, script=True),
    "nucleus": Exported(
        Nucleus, {"w": torch.ones(1, 7).long()}, {"w": {1: "T"}}, {"w": (0, 19)}, 2, True
    ),
    "beams": Exported(
        Beams, {"h": torch.randn(1, 8), "k": N["n"]}, {}, {"k": (1, 6)}, outputs=2, script=True
    ),
    **{
        f"to_frames_{mode}": Exported(
            lambda mode=mode: ToFrames(mode), N, {"x": TN}, {"n": (1, 20)}, script=True
        )
        for mode in ("nearest", "linear")
    },
}
BOUNDS = {"beams": BEAMS, **dict.fromkeys(("silence_before", "to_the_longest"), BOUND)}
BOUNDS |= dict.fromkeys(("to_the_next_eight", "to_frames_nearest", "to_frames_linear"), BOUND)

if __name__ == "__main__":
    export_all(MODELS)
    for name, bound in BOUNDS.items():
        for beside in Path(sys.argv[1]).glob(f"*_{name}.json"):
            beside.write_text(json.dumps(json.loads(beside.read_text()) | bound))
