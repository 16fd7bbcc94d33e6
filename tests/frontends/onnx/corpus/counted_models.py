"""Rows whose number an input or the model decides, by both exporters: `counted_models.py OUTDIR`.

Outputs cut to the longest sequence, so many steps of an input, prefixes, segments and windows in
loops, frames that the model chooses, words that a mask chooses.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Trimmed(nn.Module):
    """Cut to the longest sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y = self.out(self.gru(x)[0])
        return y[:, : lengths.max()].softmax(-1)


class First(nn.Module):
    """As many steps as an input says, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.gru(x[:, : count[0]])
        return y, h


class Joined(nn.Module):
    """The first steps of one sequence before another one."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8)

    def forward(self, x: Tensor, count: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        y, h = self.gru(torch.cat([x[: count[0]], z]))
        return y, h


class Attended(nn.Module):
    """Attention over the first steps."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.query = nn.GRU(6, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        y = self.gru(x)[0].transpose(0, 1)
        memory = y[:, : count[0]]
        return torch.softmax(self.query(y) @ memory.transpose(1, 2), -1) @ memory


class Prefixes(nn.Module):
    """Each step attends to those up to it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        ys: list[Tensor] = []
        h = torch.zeros(x.shape[1], 6)
        for t in range(x.shape[0]):
            w = torch.softmax((x[: t + 1] * h).sum(-1), 0)
            h = torch.tanh(self.linear((w.unsqueeze(-1) * x[: t + 1]).sum(0)))
            ys.append(h)
        return torch.stack(ys)


class Around(nn.Module):
    """Rows from where each of some numbers says, fewer at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        ys: list[Tensor] = []
        for i in range(at.shape[0]):
            start = int(at[i])
            ys.append(torch.tanh(self.linear(x[start : start + 3])).amax(0))
        return torch.stack(ys)


class Segments(nn.Module):
    """Sums of segments, one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        ys: list[Tensor] = []
        start = 0
        for i in range(sizes.shape[0]):
            end = start + int(sizes[i])
            ys.append(x[:, start:end].sum(1))
            start = end
        return self.gru(torch.stack(ys, 1))[0]


class Chosen(nn.Module):
    """Frames that are likely enough, as a sequence of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 1)
        self.lstm = nn.LSTM(8, 4, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.gru(x)[0]
        likely = torch.sigmoid(self.out(y))[..., 0] > 0.45
        z, (h, _) = self.lstm(y[likely].unsqueeze(0))
        return z, h


class Spelled(nn.Module):
    """A recurrence over the characters of words that a mask chooses, put back among all words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gru = nn.Embedding(20, 6), nn.GRU(6, 5, batch_first=True)

    def forward(self, chars: Tensor) -> Tensor:
        mask = chars[:, :, 0] != 0
        placed = torch.zeros(chars.shape[0], chars.shape[1], 5)
        placed[mask] = self.gru(self.embed(chars[mask]))[1][0]
        return placed


class Bags(nn.Module):
    """Means of rows of a table, of parts of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(10, 4, mode="mean")

    def forward(self, items: Tensor) -> Tensor:
        return self.bags(items)


class Bagged(nn.Module):
    """Words as bags of three parts, packed by their lengths, and pooled within these."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(30, 8, mode="mean")
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        x = self.bags(words.reshape(-1, 3)).view(words.shape[0], words.shape[1], 8)
        order = torch.sort(lengths, descending=True)[1]
        packed = pack_padded_sequence(x[order], lengths[order], batch_first=True)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, padding_value=-9.0)
        return y[torch.sort(order)[1]].max(1)[0]


class SpeechSegments(nn.Module):
    """Where runs of frames with speech begin and end, without those of one frame."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        speech = self.out(self.lstm(x)[0])[0, :, 0] > 0
        before = nn.functional.pad(speech[:-1].float(), (1, 0))
        behind = nn.functional.pad(speech[1:].float(), (0, 1))
        first = torch.nonzero(speech & (before < 0.5)).squeeze(1)
        last = torch.nonzero(speech & (behind < 0.5)).squeeze(1)
        longer = last - first > 0
        return first[longer], last[longer]


class Stepwise(nn.Module):
    """A cell over the rows of a mask, then over the first rows, in loops that TorchScript keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)

    def forward(self, x: Tensor, mask: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        rows, h, c = x[mask], torch.zeros(1, 5), torch.zeros(1, 5)
        ys = torch.jit.annotate(list[Tensor], [])
        for i in range(rows.size(0)):
            h, c = self.cell(rows[i].unsqueeze(0), (h, c))
        for i in range(int(count)):
            h, c = self.cell(x[i].unsqueeze(0), (h, c))
            ys.append(h)
        return torch.cat(ys), c


class Turned(nn.Module):
    """A layer over the first rows, its outputs last first."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 4, bidirectional=True)

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        y = self.lstm(x[: count[0]])[0]
        return y.flip(0), torch.cat([y[-1], y[0]], 1)


NT = {0: "T", 1: "N"}
_COUNT = torch.tensor([5])
MODELS: dict[str, Exported] = {
    "trimmed": Exported(
        *(Trimmed, {"x": torch.randn(2, 9, 6), "lengths": torch.tensor([9, 5])}),
        *({"x": TN, "lengths": {0: "N"}}, {"lengths": (1, "T")}),
    ),
    "first": Exported(
        First,
        {"x": torch.randn(2, 9, 6), "count": _COUNT},
        {"x": TN},
        {"count": (1, "T")},
        outputs=2,
    ),
    "joined": Exported(
        *(Joined, {"x": torch.randn(9, 2, 6), "count": _COUNT, "z": torch.randn(3, 2, 6)}),
        *({"x": NT, "z": {0: "Z", 1: "N"}}, {"count": (1, "T")}),
        outputs=2,
    ),
    "attended": Exported(
        Attended, {"x": torch.randn(9, 2, 6), "count": _COUNT}, {"x": NT}, {"count": (1, "T")}
    ),
    "prefixes": Exported(Prefixes, {"x": torch.randn(9, 2, 6)}, {"x": NT}, script=True),
    "around": Exported(
        *(Around, {"x": torch.randn(9, 6), "at": torch.tensor([1, 4])}),
        *({"x": {0: "T"}, "at": {0: "K"}}, {"at": (0, 3)}),
        script=True,
    ),
    "segments": Exported(
        *(Segments, {"x": torch.randn(2, 9, 6), "sizes": torch.tensor([2, 3])}),
        *({"x": TN, "sizes": {0: "K"}}, {"sizes": (1, 2)}),
        script=True,
    ),
    "chosen": Exported(Chosen, {"x": torch.randn(2, 9, 6)}, {"x": TN}, outputs=2),
    "spelled": Exported(
        *(Spelled, {"chars": torch.randint(0, 3, (2, 5, 4))}),
        *({"chars": {**TN, 2: "C"}}, {"chars": (0, 2)}),
    ),
    "bags": Exported(
        Bags,
        {"items": torch.randint(0, 10, (3, 4))},
        {"items": {0: "N", 1: "K"}},
        {"items": (0, 9)},
    ),
    "bagged": Exported(
        *(Bagged, {"words": torch.randint(0, 30, (2, 5, 3)), "lengths": torch.tensor([3, 5])}),
        *({"words": TN, "lengths": {0: "N"}}, {"words": (0, 29), "lengths": (1, "T")}),
    ),
    "speech_segments": Exported(
        SpeechSegments, {"x": torch.randn(1, 9, 4)}, {"x": {1: "T"}}, outputs=2
    ),
    "stepwise": Exported(
        Stepwise,
        {"x": torch.randn(6, 4), "mask": torch.ones(6, dtype=torch.bool), "count": _COUNT[0]},
        {"x": {0: "T"}, "mask": {0: "T"}},
        {"count": (1, 4)},
        outputs=2,
        script=True,
    ),
    "turned": Exported(
        *(Turned, {"x": torch.randn(9, 2, 6), "count": _COUNT}, {"x": NT}, {"count": (1, "T")}),
        outputs=2,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
