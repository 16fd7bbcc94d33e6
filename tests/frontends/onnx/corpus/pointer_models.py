"""Loops over computed places by TorchScript's exporter: `pointer_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Gated(nn.Module):
    """A minimal gated cell; of `nn.GRUCell` TorchScript's exporter makes nothing."""

    def __init__(self, size: int, units: int) -> None:
        super().__init__()
        self.z, self.c = nn.Linear(size + units, units), nn.Linear(size + units, units)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        both = torch.cat([x, h], 1)
        z = torch.sigmoid(self.z(both))
        return (1 - z) * h + z * torch.tanh(self.c(both))


class Transducer(nn.Module):
    """Greedy: a pointer into the frames moves on at blanks, tokens are appended otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.cell, self.o = nn.Embedding(7, 6), nn.LSTMCell(6, 6), nn.Linear(6, 7)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(1, 6), torch.zeros(1, 6)
        y = torch.zeros(0, dtype=torch.long)
        token = torch.zeros(1, dtype=torch.long)
        h, c = self.cell(self.e(token), (h, c))
        t = torch.tensor(0)
        emitted = torch.tensor(0)
        while bool(t < x.size(0)):
            token = self.o(torch.tanh(h + x[t])).argmax(-1)
            if bool((token[0] == 0) | (emitted >= 2)):
                t = t + 1
                emitted = torch.zeros_like(emitted)
            else:
                y = torch.cat([y, token])
                h, c = self.cell(self.e(token), (h, c))
                emitted = emitted + 1
        return y


class Chunks(nn.Module):
    """An LSTM over chunks of sixteen steps, the last of which may be shorter."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.c = nn.LSTM(4, 6, batch_first=True), nn.Conv1d(6, 6, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(1, x.size(0), 6), torch.zeros(1, x.size(0), 6)
        out = torch.zeros(x.size(0), 0, 6)
        for i in range(0, x.size(1), 16):
            y, (h, c) = self.l(x[:, i : i + 16], (h, c))
            out = torch.cat([out, y], 1)
        return self.c(out.transpose(1, 2))


class Overlapped(nn.Module):
    """Frames added up where they overlap, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = nn.GRU(5, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        f = self.o(self.l(x)[0])
        out = torch.zeros(x.size(0), 4 * x.size(1) + 4)
        for t in range(f.size(1)):
            out[:, 4 * t : 4 * t + 8] += f[:, t]
        return out[:, 4:-4]


class Lately(nn.Module):
    """The mean of up to five steps before each."""

    def __init__(self) -> None:
        super().__init__()
        self.l = Gated(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(1), 4)
        out = []
        for t in range(x.size(0)):
            first = max(0, t - 4)
            near = x[first : t + 1]
            h = self.l(torch.cat([near.mean(0), near.amax(0)], 1), h)
            out.append(h)
        return torch.stack(out)


class Ponder(nn.Module):
    """Adaptive computation time: each step is thought about until it halts."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.p = Gated(5, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.zeros(x.size(0), 8)
        out = []
        cost = torch.zeros(x.size(0))
        for t in range(x.size(1)):
            left = torch.ones(x.size(0))
            mean = torch.zeros(x.size(0), 8)
            n = 0
            while n < 6 and bool((left > 0.01).any()):
                flag = torch.full((x.size(0), 1), 1.0 if n == 0 else 0.0)
                s = self.cell(torch.cat([x[:, t], flag], 1), s)
                p = torch.minimum(torch.sigmoid(self.p(s)).squeeze(1), left)
                p = torch.where(left - p < 0.01, left, p)
                mean = mean + p.unsqueeze(1) * s
                left = left - p
                cost = cost + (p > 0).float()
                n += 1
            s = mean
            out.append(s)
        return torch.stack(out, 1), cost


class Segments(nn.Module):
    """Means of the frames between boundaries that the model finds."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = nn.LSTM(5, 6), Gated(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.l(x.unsqueeze(1))[0].squeeze(1)
        change = (y[1:, 0] > 0) != (y[:-1, 0] > 0)
        ends = torch.nonzero(change).squeeze(1) + 1
        bounds = torch.cat([torch.zeros(1, dtype=torch.long), ends, torch.tensor([y.size(0)])])
        h = torch.zeros(1, 4)
        out = torch.jit.annotate(list[Tensor], [])
        for i in range(bounds.size(0) - 1):
            h = self.o(y[bounds[i] : bounds[i + 1]].mean(0, keepdim=True), h)
            out.append(h)
        return torch.cat(out)


class Nucleus(nn.Module):
    """Sorted probabilities up to a mass, and the most probable token of what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.l, self.o = nn.GRU(6, 12, batch_first=True), nn.Linear(12, 20)

    def forward(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        p = self.o(self.l(x)[0])[:, -1].softmax(-1)
        q, at = torch.sort(p, descending=True)
        mass = q.cumsum(-1)
        q = q.masked_fill(mass - q > 0.6, 0.0)
        q = q / q.sum(-1, keepdim=True)
        place = (q.cumsum(-1) < u.unsqueeze(1)).long().sum(-1, keepdim=True)
        return at.gather(1, place).squeeze(1), q


class EachByLength(nn.Module):
    """Sequences of a batch one by one, each as long as it is, padded together again."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.GRU(4, 6, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        out = torch.jit.annotate(list[Tensor], [])
        for i in range(x.size(0)):
            y, _ = self.l(x[i : i + 1, : lengths[i]])
            y = functional.pad(y, (0, 0, 0, x.size(1) - y.size(1)))
            out.append(y)
        return torch.cat(out)


class ShiftReduce(nn.Module):
    """A parser over a stack in a tensor, with a pointer to its top."""

    def __init__(self) -> None:
        super().__init__()
        self.c, self.a = nn.Linear(12, 6), nn.Linear(18, 2)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        n = words.size(0)
        stack = torch.zeros(n + 2, 6)
        top = torch.tensor(1)
        front = torch.tensor(0)
        actions = torch.jit.annotate(list[Tensor], [])
        padded = torch.cat([words, torch.zeros(1, 6)])
        for _ in range(2 * n - 1):
            state = torch.cat([stack[top], stack[top - 1], padded[front]])
            score = self.a(state)
            reduce = ((score[1] > score[0]) | (front >= n)) & (top > 2)
            shift = ~reduce & (front < n)
            joined = torch.tanh(self.c(torch.cat([stack[top], stack[top - 1]])))
            pushed = padded[front]
            at = torch.where(reduce, top - 1, torch.where(shift, top + 1, top))
            new = torch.where(reduce, joined, torch.where(shift, pushed, stack[top]))
            stack = stack.index_put([at], new)
            top = at
            front = front + shift.long()
            actions.append(reduce)
        return stack[top], torch.stack(actions)


LENGTHS = torch.tensor([5, 3])

MODELS = {
    "pointed": Exported(Transducer, {"x": torch.randn(6, 6)}, {"x": {0: "T"}}, script=True),
    "chunks": Exported(Chunks, {"x": torch.randn(2, 40, 4)}, {"x": TN}, script=True),
    "overlapped": Exported(Overlapped, {"x": torch.randn(2, 6, 5)}, {"x": TN}, script=True),
    "lately": Exported(Lately, {"x": torch.randn(7, 2, 4)}, {"x": {0: "T", 1: "N"}}, script=True),
    "ponder": Exported(Ponder, {"x": torch.randn(2, 4, 4)}, {"x": TN}, outputs=2, script=True),
    "segments": Exported(Segments, {"x": torch.randn(9, 5)}, {"x": {0: "T"}}, script=True),
    "nucleus": Exported(
        Nucleus,
        {"x": torch.randn(2, 5, 6), "u": torch.rand(2)},
        {"x": TN, "u": {0: "N"}},
        outputs=2,
    ),
    "each_by_length": Exported(
        EachByLength,
        {"x": torch.randn(2, 5, 4), "n": LENGTHS},
        {"x": TN, "n": {0: "N"}},
        {"n": (1, "T")},
        script=True,
    ),
    "shift_reduce": Exported(
        ShiftReduce, {"w": torch.randn(5, 6)}, {"w": {0: "T"}}, outputs=2, script=True
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
