"""Cells of papers, forecasts, trees, readers: `sequence_models.py OUTDIR`.

By both exporters of PyTorch, loops in TorchScript where a cell is written out. Gates by ranks and
by the hour, trees, ordered neurons, correlations by Fourier transforms, sparse attention,
warped images.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class TreeCells(nn.Module):
    """Sums of children, node by node, each written into a tensor of all nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.iou, self.f = nn.Linear(6 + 8, 24), nn.Linear(6 + 8, 8)

    def forward(self, x: Tensor, children: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0] + 1, 8)
        c = torch.zeros(x.shape[0] + 1, 8)
        for i in range(x.shape[0]):
            below = children[i]
            hs, cs = h[below], c[below]
            here = x[i]
            i_, o, u = self.iou(torch.cat([here, hs.sum(0)])).chunk(3)
            f = torch.sigmoid(self.f(torch.cat([here.expand(below.shape[0], 6), hs], 1)))
            cell = torch.sigmoid(i_) * torch.tanh(u) + (f * cs).sum(0)
            c[i + 1] = cell
            h[i + 1] = torch.sigmoid(o) * torch.tanh(cell)
        return h[1:]


class Ordered(nn.Module):
    """Neurons in order: master gates that are running sums of a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(6 + 12, 4 * 12 + 6)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.shape[1], 12), torch.zeros(x.shape[1], 12)
        ys: list[Tensor] = []
        for t in range(x.shape[0]):
            y = self.w(torch.cat([x[t], h], 1))
            forget = torch.cumsum(torch.softmax(y[:, :3], 1), 1)
            keep = 1 - torch.cumsum(torch.softmax(y[:, 3:6], 1), 1)
            forget = forget.unsqueeze(2).expand(-1, -1, 4).reshape(-1, 12)
            keep = keep.unsqueeze(2).expand(-1, -1, 4).reshape(-1, 12)
            o, g, i, f = y[:, 6:].chunk(4, 1)
            both = forget * keep
            f = torch.sigmoid(f) * both + (forget - both)
            i = torch.sigmoid(i) * both + (keep - both)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            ys.append(h)
        return torch.stack(ys)


class Phased(nn.Module):
    """Gates that open by the hour, with times that are an input; clocks of several periods."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 8)
        self.period = nn.Parameter(torch.rand(8) * 3 + 1)
        self.shift = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        h, c = torch.zeros(x.shape[1], 8), torch.zeros(x.shape[1], 8)
        ys: list[Tensor] = []
        for t in range(x.shape[0]):
            phase = torch.remainder(times[t].unsqueeze(1) - self.shift, self.period) / self.period
            opened = torch.where(phase < 0.05, 2 * phase / 0.1, 2 - 2 * phase / 0.1)
            k = torch.where(phase < 0.1, opened, 0.001 * phase)
            h2, c2 = self.cell(x[t], (h, c))
            c = k * c2 + (1 - k) * c
            h = k * h2 + (1 - k) * h
            clock = torch.fmod(torch.full((8,), float(t)), torch.arange(1, 9).float()) == 0
            ys.append(torch.where(clock, h, torch.zeros_like(h)))
        return torch.stack(ys)


class Modules(nn.Module):
    """Independent modules of which those that attend most to the input are updated."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(6, 8), nn.Linear(10, 8)
        self.w = nn.Parameter(torch.randn(4, 16, 30) / 4)
        self.u = nn.Parameter(torch.randn(4, 10, 30) / 4)
        self.value = nn.Linear(6, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[1], 4, 10)
        ys: list[Tensor] = []
        for t in range(x.shape[0]):
            inputs = torch.stack([x[t], torch.zeros_like(x[t])], 1)
            scores = torch.matmul(self.query(h), self.key(inputs).transpose(1, 2)) / 2.8
            p = torch.softmax(scores, -1)
            top = torch.topk(p[:, :, 0], 2, 1).indices
            mask = torch.zeros(x.shape[1], 4).scatter(1, top, 1.0).unsqueeze(2)
            read = torch.matmul(p, self.value(inputs))
            a = torch.einsum("nmi,mio->nmo", read, self.w)
            b = torch.einsum("nmi,mio->nmo", h, self.u)
            r1, z1, n1 = a.chunk(3, 2)
            r2, z2, n2 = b.chunk(3, 2)
            z = torch.sigmoid(z1 + z2)
            new = (1 - z) * torch.tanh(n1 + torch.sigmoid(r1 + r2) * n2) + z * h
            h = mask * new + (1 - mask) * h
            ys.append(h.flatten(1))
        return torch.stack(ys, 1)


class Mogrified(nn.Module):
    """Input and state scale each other before a cell with normed gates."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.r = nn.Linear(8, 8), nn.Linear(8, 8)
        self.w, self.u = nn.Linear(8, 32, bias=False), nn.Linear(8, 32, bias=False)
        self.norm, self.out = nn.LayerNorm(32), nn.LayerNorm(8)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        h, c = torch.zeros(x.shape[0], 8), torch.zeros(x.shape[0], 8)
        ys: list[Tensor] = []
        for t in range(x.shape[1]):
            y = x[:, t]
            g = h
            for i in range(4):
                if i % 2 == 0:
                    y = 2 * torch.sigmoid(self.q(g)) * y
                else:
                    g = 2 * torch.sigmoid(self.r(y)) * g
            i_, f, z, o = self.norm(self.w(y) + self.u(g)).chunk(4, 1)
            c2 = torch.sigmoid(f + 1) * c + torch.sigmoid(i_) * torch.tanh(z)
            h2 = torch.sigmoid(o) * torch.tanh(self.out(c2))
            more = (t < lengths).unsqueeze(1)
            h, c = torch.where(more, h2, h), torch.where(more, c2, c)
            ys.append(torch.where(more, h2, torch.zeros_like(h2)))
        return torch.stack(ys, 1), h


class Correlated(nn.Module):
    """Autocorrelation in the place of attention: delays of the largest correlations, rolled."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        trend = functional.avg_pool1d(
            functional.pad(x.transpose(1, 2), (2, 2), mode="replicate"), 5, 1
        ).transpose(1, 2)
        y = x - trend
        q, k, v = self.q(y), self.k(y), self.v(y)
        length = x.shape[1]
        fq, fk = torch.fft.rfft(q, dim=1), torch.fft.rfft(k, dim=1)
        product = fq * torch.conj(fk)
        corr = torch.fft.irfft(product, n=16, dim=1)
        mean = corr.mean(2)
        weights, delays = torch.topk(mean, 3, 1)
        weights = torch.softmax(weights, 1)
        twice = torch.cat([v, v], 1)
        at = torch.arange(length)[None, :, None].expand(x.shape[0], -1, 8)
        made = torch.zeros_like(v)
        for i in range(3):
            rolled = torch.gather(twice, 1, at + delays[:, i, None, None])
            made = made + rolled * weights[:, i, None, None]
        return self.gru(made)[0] + trend


class Sparse(nn.Module):
    """Attention of the queries that matter most, by measured keys; the others get the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.conv = nn.Conv1d(8, 8, 3, padding=1, padding_mode="circular")
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(8)
        measure = scores.max(2).values - scores.mean(2)
        top = measure.topk(3, 1, sorted=False).indices
        rows = torch.arange(x.shape[0])[:, None]
        made = v.mean(1, keepdim=True).expand(-1, x.shape[1], -1).clone()
        made[rows, top] = torch.softmax(scores[rows, top], 2) @ v
        y = functional.elu(self.conv(made.transpose(1, 2)))
        y = functional.max_pool1d(y, 3, 2, 1).transpose(1, 2)
        return self.lstm(y)[0]


class Rectified(nn.Module):
    """Text lines: an image sampled on a grid that thin plates bend, a recurrence, attention."""

    basis: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.points = nn.Linear(4, 8)
        self.register_buffer("basis", torch.randn(16 * 40, 4) / 4)
        self.conv = nn.Conv2d(1, 8, 3, (2, 1), 1)
        self.lstm = nn.LSTM(8 * 8, 10, bidirectional=True, batch_first=True)
        self.score = nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        points = self.points(self.locate(x).flatten(1)).view(-1, 4, 2)
        grid = torch.tanh(self.basis @ points).view(-1, 16, 40, 2)
        y = functional.grid_sample(x, grid, padding_mode="border", align_corners=True)
        y = functional.relu(self.conv(y)).permute(0, 3, 1, 2).flatten(2)
        y = self.lstm(y)[0]
        w = torch.softmax(self.score(y), 1)
        return w.transpose(1, 2) @ y


class Lips(nn.Module):
    """Video: 3-D convolutions and pools, shifted channels, recurrences, words."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv3d(1, 6, (3, 5, 5), (1, 2, 2), (1, 2, 2))
        self.norm, self.pool = nn.BatchNorm3d(6), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))
        self.second = nn.Conv3d(6, 8, 3, padding=1)
        self.gru = nn.GRU(8 * 16, 10, batch_first=True, bidirectional=True)
        self.out = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(functional.relu(self.norm(self.first(x))))
        ahead = functional.pad(y[:, :2, 1:], (0, 0, 0, 0, 0, 1))
        behind = functional.pad(y[:, 2:4, :-1], (0, 0, 0, 0, 1, 0))
        y = torch.cat([ahead, behind, y[:, 4:]], 1)
        y = functional.relu(self.second(y)).transpose(1, 2).flatten(2)
        return self.out(self.gru(y)[0]).log_softmax(-1)


class Skeletons(nn.Module):
    """Joints by a graph's matrices, convolutions over time, a recurrence over what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.rand(3, 7, 7) / 7)
        self.conv = nn.Conv2d(3, 24, 1)
        self.time = nn.Conv2d(8, 8, (9, 1), (2, 1), (4, 0))
        self.norm = nn.BatchNorm1d(21)
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        n, c, t, v, m = x.shape
        y = x.permute(0, 4, 3, 1, 2).reshape(n * m, v * c, t)
        y = self.norm(y).view(n, m, v, c, t).permute(0, 1, 3, 4, 2).reshape(n * m, c, t, v)
        y = self.conv(y)
        y = torch.einsum("nkctv,kvw->nctw", y.view(n * m, 3, 8, t, v), self.a)
        y = functional.relu(self.time(functional.relu(y))).mean(3).transpose(1, 2)
        y = self.lstm(y)[0][:, -1]
        return y.view(n, m, -1).mean(1)


class Adaptive(nn.Module):
    """Hidden oscillators and unitary rotations: states in pairs, steps of an explicit solver."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u, self.v = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.angle, self.into = nn.Parameter(torch.rand(4)), nn.Linear(5, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, z = torch.zeros(x.shape[1], 8), torch.zeros(x.shape[1], 8)
        s = torch.zeros(x.shape[1], 4, 2)
        ys: list[Tensor] = []
        ss: list[Tensor] = []
        cos, sin = torch.cos(self.angle), torch.sin(self.angle)
        for t in range(x.shape[0]):
            z = z + 0.1 * (torch.tanh(self.u(y) + self.v(z) + self.w(x[t])) - 1.5 * y - 0.7 * z)
            y = y + 0.1 * z
            a = s[..., 0] * cos - s[..., 1] * sin
            b = s[..., 0] * sin + s[..., 1] * cos
            s = torch.stack([a, b], -1) + self.into(x[t]).view(-1, 4, 2)
            size = torch.sqrt(s[..., 0] ** 2 + s[..., 1] ** 2 + 1e-5).unsqueeze(-1)
            s = torch.relu(size - 0.1) * s / size
            ys.append(y)
            ss.append(s.flatten(1))
        return torch.stack(ys), torch.stack(ss)


class Strided(nn.Module):
    """States that skip: of one, two and four steps before, by a list of all so far."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u = nn.Linear(5, 8), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4, x.shape[1], 8)
        ys: list[Tensor] = []
        for t in range(x.shape[0]):
            new = torch.tanh(self.w(x[t]) + self.u(torch.cat([h[-1], h[-4]], 1)))
            h = torch.cat([h[1:], new.unsqueeze(0)])
            ys.append(new)
        return torch.stack(ys)


def _tokens(most: int, *shape: int) -> Tensor:
    return torch.randint(0, most, shape)


SEQUENCE = {0: "T", 1: "N"}
MODELS: dict[str, Exported] = {
    "tree_cells": Exported(
        TreeCells,
        {"x": torch.randn(5, 6), "children": _tokens(2, 5, 3)},
        {"x": {0: "V"}, "children": {0: "V"}},
        {"children": (0, 1)},
        script=True,
    ),
    "ordered": Exported(Ordered, {"x": torch.randn(5, 2, 6)}, {"x": SEQUENCE}, script=True),
    "phased": Exported(
        Phased,
        {"x": torch.randn(5, 2, 5), "times": torch.randn(5, 2)},
        {"x": SEQUENCE, "times": SEQUENCE},
        script=True,
    ),
    "modules": Exported(Modules, {"x": torch.randn(5, 2, 6)}, {"x": SEQUENCE}, script=True),
    "mogrified": Exported(
        Mogrified,
        {"x": torch.randn(2, 9, 8), "lengths": torch.tensor([9, 5])},
        {"x": TN, "lengths": {0: "N"}},
        {"lengths": (1, "T")},
        outputs=2,
        script=True,
    ),
    "correlated": Exported(Correlated, {"x": torch.randn(2, 16, 8)}, {"x": {0: "N"}}),
    "sparse": Exported(Sparse, {"x": torch.randn(2, 9, 8)}, {"x": TN}),
    "rectified": Exported(Rectified, {"x": torch.randn(2, 1, 16, 40)}, {"x": {0: "N"}}),
    "lips": Exported(Lips, {"x": torch.randn(2, 1, 6, 16, 16)}, {"x": {0: "N", 2: "T"}}),
    "skeletons": Exported(Skeletons, {"x": torch.randn(2, 3, 12, 7, 2)}, {"x": {0: "N", 2: "T"}}),
    "adaptive_pairs": Exported(
        Adaptive, {"x": torch.randn(5, 2, 5)}, {"x": SEQUENCE}, outputs=2, script=True
    ),
    "strided_states": Exported(Strided, {"x": torch.randn(5, 2, 5)}, {"x": SEQUENCE}, script=True),
}

if __name__ == "__main__":
    export_all(MODELS)
