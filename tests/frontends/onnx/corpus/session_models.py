"""Sessions, students, trees, pairs of texts by both exporters: `session_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Sessions(nn.Module):
    """GRU4Rec: states are reset where a session begins; scores of items by their embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.cell = nn.Embedding(30, 8), nn.GRUCell(8, 8)

    def forward(self, items: Tensor, begins: Tensor) -> Tensor:
        h = torch.zeros([items.size(0), 8])
        for t in range(items.size(1)):
            h = h.masked_fill(begins[:, t : t + 1], 0.0)
            h = self.cell(self.items(items[:, t]), h)
        return (h @ self.items.weight.t()).topk(5, 1)[1]


class SasRec(nn.Module):
    """Causal attention over items, padded in front, and a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(30, 8, padding_idx=0), nn.Embedding(64, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.gru = nn.LayerNorm(8), nn.GRU(8, 8, batch_first=True)

    def forward(self, items: Tensor) -> Tensor:
        steps = items.shape[1]
        y = self.items(items) * 8**0.5 + self.places(torch.arange(steps))
        y = y * (items != 0).unsqueeze(-1)
        mask = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        q = self.norm(y)
        y = q + self.attention(q, y, y, attn_mask=mask, need_weights=False)[0]
        return self.gru(y)[0][:, -1] @ self.items.weight.t()


class Students(nn.Module):
    """Deep knowledge tracing: what the next exercise's skill is worth."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(20, 12, batch_first=True), nn.Linear(12, 10)

    def forward(self, skills: Tensor, right: Tensor, following: Tensor) -> Tensor:
        pairs = functional.one_hot(skills + 10 * right, 20).float()
        worth = torch.sigmoid(self.out(self.lstm(pairs)[0]))
        return (worth * functional.one_hot(following, 10)).sum(2)


class TreeLstm(nn.Module):
    """Nodes in order, each after its two children; no child is a node of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.left, self.right = (nn.Linear(n, 40) for n in (6, 8, 8))

    def forward(self, x: Tensor, left: Tensor, right: Tensor) -> Tensor:
        h, c = torch.zeros([x.size(0) + 1, 8]), torch.zeros([x.size(0) + 1, 8])
        for node in range(x.size(0)):
            a, b = left[node], right[node]
            gates = self.x(x[node]) + self.left(h[a]) + self.right(h[b])
            i, f, g, o, u = gates.chunk(5)
            state = torch.sigmoid(i) * torch.tanh(u)
            state = state + torch.sigmoid(f) * c[a] + torch.sigmoid(g) * c[b]
            c[node + 1] = state
            h[node + 1] = torch.sigmoid(o) * torch.tanh(state)
        return h[1:]


class Siamese(nn.Module):
    """Two sentences by one LSTM, and how far they are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)

    def one(self, tokens: Tensor) -> Tensor:
        y = self.lstm(self.words(tokens))[0]
        there = (tokens != 0).unsqueeze(2)
        return y.masked_fill(~there, -1e4).amax(1)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.one(a), self.one(b)
        return torch.exp(-(a - b).abs().sum(1)), functional.cosine_similarity(a, b)


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 9, shape)


MODELS = {
    "sessions": Exported(
        Sessions,
        {"items": _words(2, 6), "begins": torch.rand(2, 6) > 0.7},
        {"items": TN, "begins": TN},
        {"items": (0, 29)},
        script=True,
    ),
    "sas_rec": Exported(SasRec, {"items": _words(2, 6)}, {"items": TN}, {"items": (0, 29)}),
    "students": Exported(
        Students,
        {"skills": _words(2, 6), "right": _words(2, 6) % 2, "following": _words(2, 6)},
        {"skills": TN, "right": TN, "following": TN},
        {"skills": (0, 9), "right": (0, 1), "following": (0, 9)},
    ),
    "tree_lstm": Exported(
        TreeLstm,
        {
            "x": _x(5, 6),
            "left": torch.tensor([0, 0, 1, 0, 3]),
            "right": torch.tensor([0, 0, 2, 0, 4]),
        },
        {"x": {0: "T"}, "left": {0: "T"}, "right": {0: "T"}},
        {"left": (0, 5), "right": (0, 5)},
        script=True,
    ),
    "siamese": Exported(
        Siamese,
        {"a": _words(2, 6), "b": _words(2, 5)},
        {"a": TN, "b": {0: "N", 1: "S"}},
        {"a": (0, 29), "b": (0, 29)},
        outputs=2,
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
