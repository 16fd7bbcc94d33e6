"""Loops with choices inside, by TorchScript's exporter: `branch_models.py OUTDIR`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.pointer_models import Gated

BOUND = {"max_iterations": "T"}
"""Words of a sequence, of which the run decides how many there are."""


class TwoClocks(nn.Module):
    """A slow cell that runs at every fourth step, a fast one that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.fast, self.slow = Gated(4 + 6, 6), Gated(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        f, s = torch.zeros(x.size(1), 6), torch.zeros(x.size(1), 6)
        out = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(0)):
            if t % 4 == 0:
                s = self.slow(f, s)
            f = self.fast(torch.cat([x[t], s], 1), f)
            out.append(f)
        return torch.stack(out)


class Ring(nn.Module):
    """The last eight states in a ring, which attention reads."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.q = Gated(4 + 6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ring = torch.zeros(8, x.size(1), 6)
        h = torch.zeros(x.size(1), 6)
        out = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(0)):
            a = (ring * self.q(h)).sum(-1, keepdim=True).softmax(0)
            h = self.cell(torch.cat([x[t], (a * ring).sum(0)], 1), h)
            ring[t % 8] = h
            out.append(h)
        return torch.stack(out), ring


class Tree(nn.Module):
    """Nodes in order, each added to its parent: a child-sum cell."""

    def __init__(self) -> None:
        super().__init__()
        self.i, self.u = nn.Linear(5, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, parent: Tensor) -> tuple[Tensor, Tensor]:
        sums = torch.zeros(x.size(0) + 1, 6)
        states = torch.zeros(x.size(0), 6)
        for k in range(x.size(0)):
            j = x.size(0) - 1 - k
            h = torch.tanh(self.i(x[j]) + self.u(sums[j]))
            states[j] = h
            sums = sums.index_add(0, parent[j].view(1), h.unsqueeze(0))
        return states, sums[x.size(0)]


class Levenshtein(nn.Module):
    """Edit distance with a cost of substitution by embeddings, in a table."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(10, 4)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        n, m = a.size(0), b.size(0)
        x, y = self.e(a), self.e(b)
        d = torch.zeros(n + 1, m + 1)
        d[:, 0] = torch.arange(n + 1).float()
        d[0] = torch.arange(m + 1).float()
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                c = (x[i - 1] - y[j - 1]).abs().mean()
                d[i, j] = torch.minimum(
                    torch.minimum(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + c
                )
        return d


class Monotonic(nn.Module):
    """Hard monotonic attention: each output step moves on until a frame is chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.s = Gated(6, 6), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(1, 6)
        t = 0
        out = torch.jit.annotate(list[Tensor], [])
        for _ in range(5):
            go = True
            while go and t < x.size(0) - 1:
                p = self.s(torch.cat([h, x[t].unsqueeze(0)], 1))
                go = bool(p < 0)
                if go:
                    t += 1
            h = self.cell(x[t].unsqueeze(0), h)
            out.append(h)
        return torch.cat(out), torch.tensor(t)


class Stopped(nn.Module):
    """Layers until one is sure enough."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.ModuleList([nn.GRU(6, 6, batch_first=True) for _ in range(4)])
        self.c = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        done = torch.tensor(False)
        used = torch.tensor(0)
        for layer in self.l:
            if not bool(done):
                x = x + layer(x)[0]
                used = used + 1
                done = self.c(x.mean(1)).softmax(-1).amax(-1).min() > 0.45
        return self.c(x), used


class Covered(nn.Module):
    """A decoder with coverage that breaks at its end token."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.cell, self.o = nn.Embedding(9, 6), Gated(12, 8), nn.Linear(14, 9)
        self.k, self.w = nn.Linear(6, 8), nn.Linear(1, 8)

    def forward(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(1, 8)
        token = torch.ones(1, dtype=torch.long)
        coverage = torch.zeros(memory.size(0))
        tokens = torch.jit.annotate(list[Tensor], [])
        for _ in range(12):
            score = torch.tanh(self.k(memory) + self.w(coverage.unsqueeze(1)) + h).sum(1)
            a = score.softmax(0)
            coverage = coverage + a
            context = (a.unsqueeze(1) * memory).sum(0, keepdim=True)
            h = self.cell(torch.cat([self.e(token), context], 1), h)
            token = self.o(torch.cat([h, context], 1)).argmax(-1)
            tokens.append(token)
            if bool(token[0] == 0):
                break
        return torch.cat(tokens), coverage


class Sorted(nn.Module):
    """Sequences sorted by length, a loop over batches that shrink, and sorted back."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = Gated(4, 6)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        length, order = lengths.sort(descending=True)
        x = x[order]
        h = torch.zeros(x.size(0), 6)
        for t in range(x.size(1)):
            n = int((length > t).sum())
            new = self.cell(x[:n, t], h[:n])
            h = torch.cat([new, h[n:]])
        return h[torch.argsort(order)]


class Pooled(nn.Module):
    """Pieces of words summed into words, of which there are as many as the largest number says."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.l = nn.Embedding(20, 6), nn.GRU(6, 5, batch_first=True, bidirectional=True)

    def forward(self, pieces: Tensor, word: Tensor) -> Tensor:
        x = self.e(pieces)
        count = int(word.max()) + 1
        total = torch.zeros(x.size(0), count, 6)
        total = total.scatter_add(1, word.unsqueeze(-1).expand(-1, -1, 6), x)
        number = torch.zeros(x.size(0), count).scatter_add(1, word, torch.ones_like(x[..., 0]))
        return self.l(total / number.clamp(min=1).unsqueeze(-1))[0]


class Written(nn.Module):
    """Rows that a mask selects are read, changed and put back."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y = self.l(x)[0]
        mask = y[..., 0] > 0
        y[mask] = torch.tanh(self.o(y[mask]))
        y[~mask] *= 0.5
        return y


MODELS = {
    "two_clocks": Exported(
        TwoClocks, {"x": torch.randn(6, 2, 4)}, {"x": {0: "T", 1: "N"}}, script=True
    ),
    "ring": Exported(
        Ring, {"x": torch.randn(6, 2, 4)}, {"x": {0: "T", 1: "N"}}, outputs=2, script=True
    ),
    "tree": Exported(
        Tree,
        {"x": torch.randn(5, 5), "p": torch.tensor([5, 0, 0, 1, 1])},
        {"x": {0: "T"}, "p": {0: "T"}},
        {"p": (0, 5)},
        outputs=2,
        script=True,
    ),
    "levenshtein": Exported(
        Levenshtein,
        {"a": torch.randint(0, 10, (5,)), "b": torch.randint(0, 10, (4,))},
        {"a": {0: "A"}, "b": {0: "B"}},
        {"a": (0, 9), "b": (0, 9)},
        script=True,
    ),
    "monotonic": Exported(
        Monotonic, {"x": torch.randn(8, 6)}, {"x": {0: "T"}}, outputs=2, script=True
    ),
    "stopped": Exported(Stopped, {"x": torch.randn(2, 5, 6)}, {"x": TN}, outputs=2, script=True),
    "covered": Exported(Covered, {"m": torch.randn(6, 6)}, {"m": {0: "T"}}, outputs=2, script=True),
    "sorted": Exported(
        Sorted,
        {"x": torch.randn(3, 5, 4), "n": torch.tensor([3, 5, 2])},
        {"x": TN, "n": {0: "N"}},
        {"n": (1, "T")},
        script=True,
    ),
    "pooled": Exported(
        Pooled,
        {"p": torch.randint(0, 20, (2, 6)), "w": torch.tensor([[0, 0, 1, 1, 2, 3]] * 2)},
        {"p": TN, "w": TN},
        {"p": (0, 19), "w": (0, 3)},
        script=True,
    ),
    "written": Exported(Written, {"x": torch.randn(2, 5, 4)}, {"x": TN}),
}

if __name__ == "__main__":
    export_all(MODELS)
    for beside in Path(sys.argv[1]).glob("*_pooled.json"):
        beside.write_text(json.dumps(json.loads(beside.read_text()) | BOUND))
