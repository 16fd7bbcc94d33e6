"""Taggers and parsers of texts by both exporters: `tagger_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class CrfTagger(nn.Module):
    """Emissions by a bidirectional LSTM, the best path by a loop forth and a loop back."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 12)
        self.lstm = nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        self.out = nn.Linear(16, 5)
        self.start, self.end = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(5))
        self.moves = nn.Parameter(torch.randn(5, 5))

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        emissions = self.out(self.lstm(self.embed(tokens))[0])
        score = self.start + emissions[:, 0]
        history: list[Tensor] = []
        for t in range(1, tokens.size(1)):
            each = score.unsqueeze(2) + self.moves + emissions[:, t].unsqueeze(1)
            best, index = each.max(dim=1)
            score = torch.where(mask[:, t].unsqueeze(1), best, score)
            history.append(index)
        best, last = (score + self.end).max(dim=1)
        tags: list[Tensor] = [last]
        for t in range(len(history)):
            pointers = history[len(history) - 1 - t]
            earlier = torch.gather(pointers, 1, last.unsqueeze(1)).squeeze(1)
            last = torch.where(mask[:, len(history) - t], earlier, last)
            tags.append(last)
        return torch.stack(tags, 1).flip([1]), best


class CrfScore(nn.Module):
    """The logarithm of the partition function of a CRF."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)
        self.moves = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        emissions = self.out(self.lstm(x)[0])
        alpha = emissions[:, 0]
        for t in range(1, x.size(1)):
            inner = alpha.unsqueeze(2) + self.moves.unsqueeze(0) + emissions[:, t].unsqueeze(1)
            alpha = torch.where((t < lengths).unsqueeze(1), torch.logsumexp(inner, dim=1), alpha)
        return torch.logsumexp(alpha, dim=1)


class Highway(nn.Module):
    """Convolutions over characters, highways, and a projected LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, 6, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(6, 8, k) for k in (1, 2, 3))
        self.gates = nn.ModuleList(nn.Linear(24, 48) for _ in range(2))
        self.project = nn.Linear(24, 10)
        self.lstm = nn.LSTM(10, 16, 2, batch_first=True, bidirectional=True, proj_size=10)
        self.mix = nn.Parameter(torch.zeros(2))
        self.gamma = nn.Parameter(torch.ones(1))

    def forward(self, chars: Tensor) -> Tensor:
        n, t, c = chars.shape
        y = self.embed(chars.view(-1, c)).transpose(1, 2)
        y = torch.cat(
            [functional.relu(torch.max(conv(y), dim=-1)[0]) for conv in self.convs], dim=-1
        )
        for layer in self.gates:
            plain, gate = layer(y).chunk(2, dim=-1)
            gate = torch.sigmoid(gate)
            y = gate * y + (1 - gate) * functional.relu(plain)
        y = self.project(y).view(n, t, -1)
        z = self.lstm(y)[0]
        weights = functional.softmax(self.mix, 0)
        return self.gamma * (weights[0] * torch.cat([y, y], -1) + weights[1] * z)


class WordOffsets(nn.Module):
    """A language model of characters, its states where words end."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(60, 8), nn.LSTM(8, 14)
        self.out = nn.Linear(14, 4)

    def forward(self, chars: Tensor, ends: Tensor) -> Tensor:
        y, _ = self.lstm(self.embed(chars.transpose(0, 1)))
        y = y.transpose(0, 1)
        rows = torch.arange(y.size(0)).unsqueeze(1).expand_as(ends)
        return self.out(y[rows, ends])


class Biaffine(nn.Module):
    """Heads of words by products of two views of each."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.tags = nn.Embedding(50, 10), nn.Embedding(10, 6)
        self.lstm = nn.LSTM(16, 10, 2, batch_first=True, bidirectional=True)
        self.head, self.dep = nn.Linear(20, 8), nn.Linear(20, 8)
        self.arcs = nn.Parameter(torch.randn(9, 8) * 0.3)
        self.labels = nn.Parameter(torch.randn(4, 9, 9) * 0.3)

    def forward(self, words: Tensor, tags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.lstm(torch.cat([self.words(words), self.tags(tags)], -1))[0]
        head, dep = (
            functional.leaky_relu(self.head(y), 0.1),
            functional.leaky_relu(self.dep(y), 0.1),
        )
        head1 = torch.cat((head, torch.ones_like(head[..., :1])), -1)
        dep1 = torch.cat((dep, torch.ones_like(dep[..., :1])), -1)
        arcs = torch.einsum("bxi,ij,byj->bxy", dep1, self.arcs, head)
        labels = torch.einsum("bxi,oij,byj->boxy", dep1, self.labels, head1)
        pad = words.eq(0)
        arcs = arcs.masked_fill(pad.unsqueeze(1), float("-inf")).softmax(-1)
        return arcs, labels.permute(0, 2, 3, 1), arcs.argmax(-1)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape)


_LENGTHS = torch.tensor([5, 3])


MODELS: dict[str, Exported] = {
    "crf_tagger": Exported(
        CrfTagger,
        {"tokens": _words(2, 5), "mask": torch.ones(2, 5, dtype=torch.bool)},
        {"tokens": TN, "mask": TN},
        {"tokens": (0, 39)},
        outputs=2,
        script=True,
    ),
    "crf_score": Exported(
        CrfScore,
        {"x": torch.randn(2, 5, 8), "lengths": _LENGTHS},
        {"x": TN, "lengths": {0: "N"}},
        {"lengths": (1, "T")},
        script=True,
    ),
    "highway": Exported(
        Highway, {"chars": _words(2, 5, 6)}, {"chars": {**TN, 2: "C"}}, {"chars": (0, 59)}
    ),
    "word_offsets": Exported(
        WordOffsets,
        {"chars": _words(2, 9), "ends": torch.tensor([[2, 4, 8], [1, 5, 6]])},
        {"chars": TN, "ends": {0: "N", 1: "W"}},
        {"chars": (0, 59), "ends": (0, 5)},
    ),
    "biaffine": Exported(
        Biaffine,
        {"words": _words(2, 5), "tags": torch.randint(0, 9, (2, 5))},
        {"words": TN, "tags": TN},
        {"words": (1, 49), "tags": (0, 9)},
        outputs=3,
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
