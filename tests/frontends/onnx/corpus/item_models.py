"""Recommenders, copied words and graphs by both exporters: `item_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Copied(nn.Module):
    """A pointer-generator's step: weights of words are added to the words that they are."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.encode = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.cell = nn.LSTM(8, 12, batch_first=True)
        self.attend, self.out, self.gate = nn.Linear(12, 12), nn.Linear(24, 20), nn.Linear(32, 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encode(self.embed(source))[0]
        embedded = self.embed(target)
        y = self.cell(embedded)[0]
        mask = (source == 0)[:, None]
        scores = (self.attend(y) @ memory.transpose(1, 2)).masked_fill(mask, -1e9)
        w = torch.softmax(scores, -1)
        context = w @ memory
        p = torch.sigmoid(self.gate(torch.cat([context, y, embedded], -1)))
        words = torch.softmax(self.out(torch.cat([y, context], -1)), -1) * p
        at = source[:, None].expand(-1, target.shape[1], -1)
        return torch.log(words.scatter_add(2, at, w * (1 - p)) + 1e-9)


class Sessions(nn.Module):
    """Items of a session as a graph, gated messages along it, the last item's view of all."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.into, self.out = nn.Linear(8, 8), nn.Linear(8, 8)
        self.cell = nn.GRUCell(16, 8)
        self.one, self.two, self.three = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, items: Tensor, edges: Tensor, places: Tensor, lengths: Tensor) -> Tensor:
        h = self.embed(items)
        size = items.shape[1]
        a, b = edges[:, :, :size], edges[:, :, size : 2 * size]
        messages = torch.cat([a @ self.into(h), b @ self.out(h)], 2)
        h = self.cell(messages.flatten(0, 1), h.flatten(0, 1)).view_as(h)
        y = torch.gather(h, 1, places[:, :, None].expand(-1, -1, 8))
        last = y[torch.arange(y.shape[0]), lengths - 1]
        alpha = self.three(torch.sigmoid(self.one(last)[:, None] + self.two(y)))
        mask = torch.arange(places.shape[1])[None] < lengths[:, None]
        session = (alpha * y * mask[:, :, None]).sum(1) + last
        return session @ self.embed.weight[1:].t()


class Interests(nn.Module):
    """A recommender: a recurrence over behaviours whose update gate is scaled by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.kinds = nn.Embedding(30, 6), nn.EmbeddingBag(10, 4, mode="mean")
        self.gru = nn.GRU(6, 8, batch_first=True)
        self.attend = nn.Linear(8, 6)
        self.w, self.u = nn.Linear(8, 24), nn.Linear(8, 24, bias=False)
        self.out = nn.Sequential(nn.Linear(18, 8), nn.PReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, seen: Tensor, target: Tensor, kinds: Tensor) -> Tensor:
        y = self.gru(self.items(seen))[0]
        item = self.items(target)
        scores = torch.softmax((self.attend(y) * item[:, None]).sum(2), 1)
        h = torch.zeros_like(y[:, 0])
        for t in range(6):
            r1, z1, n1 = self.w(y[:, t]).chunk(3, 1)
            r2, z2, n2 = self.u(h).chunk(3, 1)
            z = torch.sigmoid(z1 + z2) * scores[:, t, None]
            h = (1 - z) * h + z * torch.tanh(n1 + torch.sigmoid(r1 + r2) * n2)
        return self.out(torch.cat([h, item, self.kinds(kinds)], 1))


class Words(nn.Module):
    """Characters of the words that a mask says, packed together, put back among all words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 8)
        self.conv = nn.Conv1d(8, 10, 3, padding=1)
        self.norm = nn.LayerNorm(10)
        self.lstm = nn.LSTM(10, 8, batch_first=True, bidirectional=True)

    def forward(self, chars: Tensor) -> Tensor:
        mask = (chars != 0).any(2)
        words = self.embed(chars[mask])
        y = functional.relu(self.conv(words.transpose(1, 2))).max(2).values
        placed = torch.zeros(chars.shape[0], chars.shape[1], 10)
        placed[mask] = self.norm(y)
        return self.lstm(placed)[0]


class Nodes(nn.Module):
    """Messages added at the nodes that edges lead to, a recurrence over snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.gru = nn.Linear(6, 8), nn.GRU(8, 8)

    def forward(self, x: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.shape[1]).index_add(0, target, weights)
        norm = degree.clamp(min=1e-6).pow(-0.5)
        scale = (norm[source] * weights * norm[target])[None, :, None]
        messages = self.message(x)[:, source] * scale
        at = target[None, :, None].expand(x.shape[0], -1, 8)
        summed = torch.zeros(x.shape[0], x.shape[1], 8).scatter_add(1, at, messages)
        return self.gru(functional.relu(summed))[0]


def _tokens(most: int, *shape: int) -> Tensor:
    return torch.randint(0, most, shape)


MODELS: dict[str, Exported] = {
    "copied": Exported(
        Copied,
        {"source": _tokens(20, 2, 7), "target": _tokens(20, 2, 5)},
        {"source": {0: "N", 1: "S"}, "target": TN},
        {"source": (0, 19), "target": (0, 19)},
    ),
    "sessions": Exported(
        Sessions,
        {
            "items": _tokens(30, 2, 5),
            "edges": torch.randn(2, 5, 10),
            "places": _tokens(5, 2, 7),
            "lengths": torch.tensor([7, 4]),
        },
        {"items": {0: "N"}, "edges": {0: "N"}, "places": TN, "lengths": {0: "N"}},
        {"items": (0, 29), "places": (0, 4), "lengths": (1, "T")},
    ),
    "interests": Exported(
        Interests,
        {"seen": _tokens(30, 2, 6), "target": _tokens(30, 2), "kinds": _tokens(10, 2, 3)},
        {"seen": {0: "N"}, "target": {0: "N"}, "kinds": {0: "N", 1: "K"}},
        {"seen": (0, 29), "target": (0, 29), "kinds": (0, 9)},
    ),
    "words": Exported(
        Words, {"chars": _tokens(3, 2, 5, 6)}, {"chars": {**TN, 2: "C"}}, {"chars": (0, 2)}
    ),
    "nodes": Exported(
        Nodes,
        {"x": torch.randn(4, 6, 6), "edges": _tokens(6, 2, 11), "weights": torch.rand(11)},
        {"x": {0: "T", 1: "V"}, "edges": {1: "E"}, "weights": {0: "E"}},
        {"edges": (0, 5)},
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
