"""Recurrent models of text by both of PyTorch's exporters: `text_models.py OUTDIR`.

Translation with attention, reading, matching, and cells that are written out in loops.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Translator(nn.Module):
    """Additive attention, a decoder that reads its own last word for a known number of turns."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(30, 10), nn.Embedding(25, 10)
        self.encoder = nn.GRU(10, 12, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(24, 12)
        self.cell = nn.GRUCell(34, 12)
        self.w, self.u, self.v = nn.Linear(12, 8), nn.Linear(24, 8), nn.Linear(8, 1)
        self.out = nn.Linear(36, 25)

    def forward(self, tokens: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        keys, h = self.encoder(self.source(tokens))
        state = torch.tanh(self.bridge(torch.cat((h[-2], h[-1]), 1)))
        word = torch.ones(tokens.size(0), dtype=torch.long)
        logits: list[Tensor] = []
        words: list[Tensor] = []
        projected = self.u(keys)
        for _ in range(steps.size(0)):
            energy = self.v(torch.tanh(self.w(state).unsqueeze(1) + projected)).squeeze(2)
            energy = energy.masked_fill(tokens == 0, -1e10)
            context = torch.bmm(functional.softmax(energy, 1).unsqueeze(1), keys).squeeze(1)
            state = self.cell(torch.cat((self.target(word), context), 1), state)
            scores = self.out(torch.cat((state, context), 1))
            word = scores.argmax(1)
            logits.append(scores)
            words.append(word)
        return torch.stack(logits, 1), torch.stack(words, 1)


class UntilAllEnd(nn.Module):
    """Words until all sequences have ended, in a buffer of known length."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.cell = nn.GRU(6, 10, batch_first=True), nn.GRUCell(8, 10)
        self.embed, self.out = nn.Embedding(12, 8), nn.Linear(10, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, h = self.encoder(x)
        state = h[0]
        word = torch.zeros(x.size(0), dtype=torch.long)
        done = torch.zeros(x.size(0), dtype=torch.bool)
        made = torch.zeros(x.size(0), 10, dtype=torch.long)
        t = 0
        while t < 10 and not bool(done.all()):
            state = self.cell(self.embed(word), state)
            word = torch.where(done, torch.zeros_like(word), self.out(state).argmax(-1))
            made[:, t] = word
            done = done | (word == 1)
            t = t + 1
        return made, state


class InputFeeding(nn.Module):
    """Attention by products, the attentional vector fed to the next step; targets are given."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.embed = nn.LSTM(6, 10, batch_first=True), nn.Embedding(20, 8)
        self.cell, self.second = nn.LSTMCell(18, 10), nn.LSTMCell(10, 10)
        self.w, self.c = nn.Linear(10, 10, bias=False), nn.Linear(20, 10, bias=False)

    def forward(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        keys, (h0, c0) = self.encoder(x)
        h, c = h0[0], c0[0]
        h2, c2 = torch.zeros_like(h), torch.zeros_like(c)
        fed = torch.zeros(x.size(0), 10)
        rows: list[Tensor] = []
        for t in range(target.size(1)):
            h, c = self.cell(torch.cat([self.embed(target[:, t]), fed], 1), (h, c))
            h2, c2 = self.second(h, (h2, c2))
            weight = torch.softmax(torch.bmm(keys, self.w(h2).unsqueeze(2)).squeeze(2), -1)
            context = torch.bmm(weight.unsqueeze(1), keys).squeeze(1)
            fed = torch.tanh(self.c(torch.cat([context, h2], 1)))
            rows.append(fed)
        return torch.stack(rows, 1), h2


class Pointer(nn.Module):
    """Places of the input one after another, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.cell = nn.LSTM(2, 10, batch_first=True), nn.LSTMCell(2, 10)
        self.w1, self.w2, self.v = nn.Linear(10, 8), nn.Linear(10, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        keys, (h0, c0) = self.encoder(x)
        h, c = h0[0], c0[0]
        seen = torch.zeros(x.size(0), x.size(1), dtype=torch.bool)
        given = torch.zeros(x.size(0), 2)
        every: list[Tensor] = []
        places: list[Tensor] = []
        for _ in range(x.size(1)):
            h, c = self.cell(given, (h, c))
            score = self.v(torch.tanh(self.w1(keys) + self.w2(h).unsqueeze(1))).squeeze(2)
            chances = torch.log_softmax(score.masked_fill(seen, -1e4), -1)
            place = chances.argmax(-1)
            seen = seen | functional.one_hot(place, x.size(1)).to(torch.bool)
            given = x.gather(1, place.view(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)
            every.append(chances)
            places.append(place)
        return torch.stack(every, 1), torch.stack(places, 1)


class PackedPooling(nn.Module):
    """Packed sequences in both directions, largest and mean of valid steps."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 10, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(40, 3)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.embed(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        valid = torch.arange(y.size(1)).unsqueeze(0) < lengths.unsqueeze(1)
        largest = y.masked_fill(~valid.unsqueeze(-1), -1e9).max(1)[0]
        mean = (y * valid.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1).to(y.dtype)
        return self.out(torch.cat([largest, mean], 1))


class PackedGru(nn.Module):
    """Packed sorted sequences of time first, the last states alone."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(6, 9, bidirectional=True), nn.Linear(18, 4)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        _, h = self.gru(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return self.out(torch.cat([h[0], h[1]], -1))


class Inference(nn.Module):
    """Two sentences that attend to each other, composed again."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.first = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.project = nn.Linear(64, 8)
        self.second = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.out = nn.Sequential(nn.BatchNorm1d(64), nn.Linear(64, 8), nn.ELU(), nn.Linear(8, 3))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one, two = self.first(self.embed(a))[0], self.first(self.embed(b))[0]
        product = one @ two.transpose(1, 2)
        left = product.masked_fill((b == 0)[:, None], -1e9).softmax(-1) @ two
        right = product.transpose(1, 2).masked_fill((a == 0)[:, None], -1e9).softmax(-1) @ one
        parts: list[Tensor] = []
        for x, other in ((one, left), (two, right)):
            y = torch.cat([x, other, x - other, x * other], -1)
            y = self.second(functional.relu(self.project(y)))[0].transpose(1, 2)
            parts += [
                functional.avg_pool1d(y, y.size(2)).squeeze(-1),
                functional.adaptive_max_pool1d(y, 1).squeeze(-1),
            ]
        return self.out(torch.cat(parts, -1))


class Documents(nn.Module):
    """Words to sentences and sentences to documents by GRUs and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.words = nn.GRU(8, 6, batch_first=True, bidirectional=True)
        self.sentences = nn.GRU(12, 6, batch_first=True, bidirectional=True)
        self.w1, self.w2 = nn.Linear(12, 10), nn.Linear(12, 10)
        self.c1, self.c2 = nn.Linear(10, 1, bias=False), nn.Linear(10, 1, bias=False)
        self.out = nn.Linear(12, 5)

    def forward(self, docs: Tensor) -> tuple[Tensor, Tensor]:
        n, s, w = docs.size()
        y = self.words(self.embed(docs.view(n * s, w)))[0]
        weight = torch.softmax(self.c1(torch.tanh(self.w1(y))), 1)
        y = (weight * y).sum(1).view(n, s, -1)
        y = self.sentences(y)[0]
        weight = torch.softmax(self.c2(torch.tanh(self.w2(y))), 1)
        return self.out((weight * y).sum(1)), weight.squeeze(-1)


class Similar(nn.Module):
    """e to the minus distance of the last states of two texts."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(40, 8), nn.LSTM(8, 10, batch_first=True)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        h1, h2 = self.lstm(self.embed(a))[1][0][-1], self.lstm(self.embed(b))[1][0][-1]
        return torch.exp(-torch.norm(h1 - h2, p=1, dim=1)) + functional.cosine_similarity(h1, h2)


class SimpleUnits(nn.Module):
    """A simple recurrent unit: its products in front of a loop without any."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(10, 40, bias=False)
        self.v, self.b = nn.Parameter(torch.randn(2, 10)), nn.Parameter(torch.zeros(2, 10))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        u, f, r, skip = self.w(x).chunk(4, -1)
        c = torch.zeros_like(x[0])
        rows: list[Tensor] = []
        for t in range(x.size(0)):
            forget = torch.sigmoid(f[t] + self.v[0] * c + self.b[0])
            reset = torch.sigmoid(r[t] + self.v[1] * c + self.b[1])
            c = forget * c + (1 - forget) * u[t]
            rows.append(reset * torch.tanh(c) + (1 - reset) * skip[t])
        return torch.stack(rows), c


class QuasiRecurrent(nn.Module):
    """Gates by convolution in time, pooling by a loop, backwards too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 24, 2)

    def forward(self, x: Tensor) -> Tensor:
        z, f, o = (
            self.conv(functional.pad(x.permute(1, 2, 0), (1, 0)))
            .permute(2, 0, 1)[..., :24]
            .chunk(3, -1)
        )
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        h, back = torch.zeros_like(z[0]), torch.zeros_like(z[0])
        rows: list[Tensor] = []
        others: list[Tensor] = []
        for t in range(x.size(0)):
            h = f[t] * h + (1 - f[t]) * z[t]
            rows.append(o[t] * h)
        for t in range(x.size(0) - 1, -1, -1):
            back = f[t] * back + (1 - f[t]) * z[t]
            others.append(back)
        return torch.cat([torch.stack(rows), torch.stack(others).flip(0)], -1)


class Adaptive(nn.Module):
    """A cell that decides how often it runs for each step, at most four times."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.halt = nn.GRUCell(7, 10), nn.Linear(10, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(x.size(1), 10)
        rows: list[Tensor] = []
        ponders: list[Tensor] = []
        for t in range(x.size(0)):
            total, mixed = torch.zeros(x.size(1), 1), torch.zeros(x.size(1), 10)
            count = torch.zeros(x.size(1), 1)
            for k in range(4):
                flag = torch.full((x.size(1), 1), 1.0 if k == 0 else 0.0)
                h = self.cell(torch.cat([x[t], flag], 1), h)
                p = torch.sigmoid(self.halt(h))
                p = torch.where(total + p > 0.9, 1 - total, p) if k < 3 else 1 - total
                mixed, total = mixed + p * h, total + p
                count = count + (total < 1).to(x.dtype)
            h = mixed
            rows.append(h)
            ponders.append(count)
        return torch.stack(rows), torch.stack(ponders).sum(0)


class Reader(nn.Module):
    """Attention of a passage and a question in both ways, start and end of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.context = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.similar = nn.Linear(36, 1)
        self.modelling = nn.LSTM(48, 6, 2, bidirectional=True, batch_first=True)
        self.start, self.end = nn.Linear(60, 1), nn.Linear(60, 1)

    def forward(self, passage: Tensor, question: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, u = self.context(self.embed(passage))[0], self.context(self.embed(question))[0]
        t, j = h.size(1), u.size(1)
        hs, us = h.unsqueeze(2).expand(-1, -1, j, -1), u.unsqueeze(1).expand(-1, t, -1, -1)
        s = self.similar(torch.cat([hs, us, hs * us], -1)).squeeze(-1)
        c2q = torch.bmm(functional.softmax(s, -1), u)
        q2c = torch.bmm(functional.softmax(s.max(2)[0], 1).unsqueeze(1), h).repeat(1, t, 1)
        g = torch.cat([h, c2q, h * c2q, h * q2c], -1)
        m = torch.cat([g, self.modelling(g)[0]], -1)
        start, end = self.start(m).squeeze(-1), self.end(m).squeeze(-1)
        joint = functional.softmax(start, -1).unsqueeze(2) * functional.softmax(end, -1).unsqueeze(
            1
        )
        best = torch.triu(joint).flatten(1).argmax(1)
        return start, end, torch.stack([best // t, best % t], 1)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape)


_LENGTHS = torch.tensor([5, 3])
_TIME_FIRST: dict[int, str] = {0: "T", 1: "N"}
_TWO_TEXTS = {"a": {0: "N", 1: "T"}, "b": {0: "N", 1: "U"}}

MODELS: dict[str, Exported] = {
    "translator": Exported(
        Translator,
        {"tokens": _words(2, 5), "steps": torch.zeros(4)},
        {"tokens": TN, "steps": {0: "S"}},
        {"tokens": (0, 29)},
        outputs=2,
        script=True,
    ),
    "until_all_end": Exported(
        UntilAllEnd, {"x": torch.randn(2, 5, 6)}, {"x": TN}, outputs=2, script=True
    ),
    "input_feeding": Exported(
        InputFeeding,
        {"x": torch.randn(2, 5, 6), "target": _words(2, 4)},
        {"x": TN, "target": {0: "N", 1: "U"}},
        {"target": (0, 19)},
        outputs=2,
        script=True,
    ),
    "pointer": Exported(Pointer, {"x": torch.randn(2, 5, 2)}, {"x": TN}, outputs=2, script=True),
    "packed_pooling": Exported(
        PackedPooling,
        {"tokens": _words(2, 5), "lengths": _LENGTHS},
        {"tokens": TN, "lengths": {0: "N"}},
        {"tokens": (0, 29), "lengths": (1, "T")},
    ),
    "packed_gru": Exported(
        PackedGru,
        {"x": torch.randn(5, 2, 6), "lengths": _LENGTHS},
        {"x": _TIME_FIRST, "lengths": {0: "N"}},
        {"lengths": (1, "T")},
    ),
    "inference": Exported(
        Inference, {"a": _words(2, 5), "b": _words(2, 4)}, _TWO_TEXTS, {"a": (1, 39), "b": (1, 39)}
    ),
    "documents": Exported(
        Documents,
        {"docs": _words(2, 3, 5)},
        {"docs": {0: "N", 1: "S", 2: "W"}},
        {"docs": (0, 49)},
        outputs=2,
    ),
    "similar": Exported(
        Similar, {"a": _words(2, 5), "b": _words(2, 4)}, _TWO_TEXTS, {"a": (0, 39), "b": (0, 39)}
    ),
    "simple_units": Exported(
        SimpleUnits, {"x": torch.randn(5, 2, 10)}, {"x": _TIME_FIRST}, outputs=2, script=True
    ),
    "quasi_recurrent": Exported(
        QuasiRecurrent, {"x": torch.randn(5, 2, 6)}, {"x": _TIME_FIRST}, script=True
    ),
    "adaptive": Exported(
        Adaptive, {"x": torch.randn(5, 2, 6)}, {"x": _TIME_FIRST}, outputs=2, script=True
    ),
    "reader": Exported(
        Reader,
        {"passage": _words(2, 7), "question": _words(2, 4)},
        {"passage": TN, "question": {0: "N", 1: "J"}},
        {"passage": (0, 49), "question": (0, 49)},
        outputs=3,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
