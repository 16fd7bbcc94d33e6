"""Recurrent models of further tasks, by both exporters: `python task_models.py OUTDIR`.

Written chunks, detectors of anomalies, forecasts, graphs, policies, trackers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class WrittenChunks(nn.Module):
    """Chunks of eight steps, written where they belong."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros([1, x.size(0), 8])
        y = x.new_zeros([x.size(0), x.size(1), 8])
        for i in range(0, x.size(1), 8):
            part, h = self.rnn(x[:, i : i + 8], h)
            y[:, i : i + 8] = part
        return y


class CountedChunks(nn.Module):
    """How many chunks there were, and the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = x.new_zeros([1, x.size(0), 8])
        parts: list[Tensor] = []
        for i in range(0, x.size(1), 4):
            part, h = self.rnn(x[:, i : i + 4], h)
            parts.append(part)
        return torch.cat(parts, 1), parts[0].mean(1), h / float(len(parts))


class BrokenOff(nn.Module):
    """Chunks until one is loud."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros([1, x.size(0), 8])
        parts: list[Tensor] = []
        for i in range(0, x.size(1), 4):
            part, h = self.rnn(x[:, i : i + 4], h)
            parts.append(part)
            if bool(part.mean() > 0.05):
                break
        return torch.cat(parts, 1)


class Anomalies(nn.Module):
    """An autoencoder: the last state repeated, decoded backwards; each step's error."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(4, 8, 2, batch_first=True)
        self.decoder = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, (h, _) = self.encoder(x)
        code = h[-1].unsqueeze(1).repeat(1, x.size(1), 1)
        made = self.out(self.decoder(code)[0]).flip(1)
        error = (made - x).pow(2).mean(2)
        return error, (error > error.mean(1, keepdim=True) + 2 * error.std(1, keepdim=True)).any(1)


class DeepAr(nn.Module):
    """A forecast from its own outputs, scaled by the mean of what was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(4, 8), nn.LSTMCell(8, 8)])
        self.mean, self.spread = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, target: Tensor, beside: Tensor) -> tuple[Tensor, Tensor]:
        seen = target.size(1)
        scale = target.abs().mean(1, keepdim=True) + 1e-4
        h = [torch.zeros([target.size(0), 8]) for _ in range(2)]
        c = [torch.zeros([target.size(0), 8]) for _ in range(2)]
        means: list[Tensor] = []
        spreads: list[Tensor] = []
        last = torch.zeros([target.size(0), 1])
        for t in range(beside.size(1)):
            y = torch.cat([last / scale, beside[:, t]], 1)
            for k, cell in enumerate(self.cells):
                h[k], c[k] = cell(y, (h[k], c[k]))
                y = h[k]
            mean = self.mean(y) * scale
            means.append(mean)
            spreads.append(functional.softplus(self.spread(y)) * scale)
            last = target[:, t : t + 1] if t < seen else mean
        return torch.stack(means, 1), torch.stack(spreads, 1)


class GraphRnn(nn.Module):
    """A gated graph network: messages along edges of a weighted graph, some times over."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.cell, self.out = nn.Linear(8, 8), nn.GRUCell(8, 8), nn.Linear(16, 3)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        h = nodes
        degree = edges.sum(2, keepdim=True).clamp(min=1.0)
        for _ in range(4):
            messages = torch.bmm(edges, self.message(h)) / degree
            h = self.cell(messages.reshape(-1, 8), h.reshape(-1, 8)).view_as(h)
        return self.out(torch.cat([h, nodes], 2))


class ConvLstmBoth(nn.Module):
    """A convolutional LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead, self.back = (nn.Conv2d(2 + 4, 16, 3, padding=1) for _ in range(2))

    def one(self, x: Tensor, back: bool) -> Tensor:
        h = torch.zeros([x.size(0), 4, x.size(3), x.size(4)])
        c = torch.zeros_like(h)
        rows: list[Tensor] = []
        steps = x.size(1)
        for k in range(steps):
            t = steps - 1 - k if back else k
            both = torch.cat([x[:, t], h], 1)
            gates = self.back(both) if back else self.ahead(both)
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        y = torch.stack(rows, 1)
        return y.flip(1) if back else y

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x, False), self.one(x, True)], 2)


class PointTracker(nn.Module):
    """Points moved by a GRU that samples features around where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv2d(3, 8, 3, 2, 1)
        self.cell, self.move = nn.GRUCell(10, 12), nn.Linear(12, 2)

    def forward(self, frames: Tensor, points: Tensor) -> Tensor:
        h = torch.zeros([points.size(0), 12])
        rows: list[Tensor] = []
        for t in range(frames.size(0)):
            features = self.front(frames[t].unsqueeze(0))
            grid = points.view(1, -1, 1, 2)
            found = functional.grid_sample(features, grid, align_corners=True)
            found = found.squeeze(0).squeeze(2).t()
            h = self.cell(torch.cat([found, points], 1), h)
            points = torch.clamp(points + 0.1 * torch.tanh(self.move(h)), -1.0, 1.0)
            rows.append(points)
        return torch.stack(rows)


class Policy(nn.Module):
    """A policy with memory: images, the last action and reward, resets; values by dueling heads."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten())
        self.cell = nn.LSTMCell(4 * 16 + 4 + 1, 12)
        self.value, self.gain = nn.Linear(12, 1), nn.Linear(12, 4)

    def forward(
        self, images: Tensor, actions: Tensor, rewards: Tensor, done: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, n = images.size(0), images.size(1)
        seen = self.eye(images.reshape(steps * n, 1, 9, 9)).view(steps, n, -1)
        last = functional.one_hot(actions, 4).float()
        rows: list[Tensor] = []
        for t in range(steps):
            keep = (~done[t]).float().unsqueeze(1)
            y = torch.cat([seen[t], last[t], rewards[t].unsqueeze(1)], 1)
            h, c = self.cell(y, (h * keep, c * keep))
            gain = self.gain(h)
            rows.append(self.value(h) + gain - gain.mean(1, keepdim=True))
        return torch.stack(rows), h, c


class TcnGru(nn.Module):
    """Dilated gated convolutions with skips, then a GRU backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(6, 12, 3, dilation=2**i) for i in range(3))
        self.skips = nn.ModuleList(nn.Conv1d(6, 6, 1) for _ in range(3))
        self.gru = nn.GRU(6, 8, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        y, total = x, torch.zeros_like(x)
        for i, (conv, skip) in enumerate(zip(self.convs, self.skips, strict=True)):
            a, b = conv(functional.pad(y, (2 ** (i + 1), 0))).chunk(2, 1)
            z = torch.tanh(a) * torch.sigmoid(b)
            total = total + skip(z)
            y = y + z
        return self.gru(total.transpose(1, 2))[0].amax(1)


class GruD(nn.Module):
    """Missing values decay to the mean, states with the time that has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 10)
        self.decay, self.fade = nn.Linear(4, 4), nn.Linear(4, 10)
        self.register_buffer("mean", torch.randn(4))
        self.mean: Tensor

    def forward(self, x: Tensor, mask: Tensor, passed: Tensor) -> Tensor:
        h = torch.zeros([x.size(0), 10])
        last = torch.zeros([x.size(0), 4]) + self.mean
        since = torch.zeros([x.size(0), 4])
        for t in range(x.size(1)):
            there = mask[:, t]
            since = torch.where(there, torch.zeros_like(since), since) + passed[:, t : t + 1]
            last = torch.where(there, x[:, t], last)
            gamma = torch.exp(-torch.relu(self.decay(since)))
            value = torch.where(there, x[:, t], gamma * last + (1 - gamma) * self.mean)
            h = self.cell(
                torch.cat([value, there.float()], 1), h * torch.exp(-torch.relu(self.fade(since)))
            )
        return h


class Phased(nn.Module):
    """An LSTM whose units open in phases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 8)
        self.period, self.shift = nn.Parameter(torch.rand(8) * 3 + 1), nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        h, c = torch.zeros([x.size(0), 8]), torch.zeros([x.size(0), 8])
        for t in range(x.size(1)):
            phase = torch.remainder(times[:, t : t + 1] - self.shift, self.period) / self.period
            up, down = 2 * phase / 0.5, 2 - 2 * phase / 0.5
            k = torch.where(phase < 0.25, up, torch.where(phase < 0.5, down, 0.001 * phase))
            new_h, new_c = self.cell(x[:, t], (h, c))
            h, c = k * new_h + (1 - k) * h, k * new_c + (1 - k) * c
        return h


class Variational(nn.Module):
    """A recurrent variational model; the noise is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.prior, self.post = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(16, 8)
        self.code, self.made, self.cell = nn.Linear(4, 8), nn.Linear(16, 5), nn.GRUCell(16, 8)

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        h, total = torch.zeros([x.size(1), 8]), torch.zeros([x.size(1)])
        rows: list[Tensor] = []
        for t in range(x.size(0)):
            seen = torch.relu(self.seen(x[t]))
            mean, spread = self.post(torch.cat([seen, h], 1)).chunk(2, 1)
            expected, width = self.prior(h).chunk(2, 1)
            z = mean + noise[t] * torch.exp(0.5 * spread)
            code = torch.relu(self.code(z))
            rows.append(self.made(torch.cat([code, h], 1)))
            h = self.cell(torch.cat([seen, code], 1), h)
            apart = (spread.exp() + (mean - expected).pow(2)) / width.exp() - 1 + width - spread
            total = total + 0.5 * apart.sum(1)
        return torch.stack(rows), total


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 9, shape)


_N = {0: "N"}
_TIME = {0: "T", 1: "N"}
MODELS = {
    "written_chunks": Exported(WrittenChunks, {"x": _x(2, 20, 6)}, {"x": TN}, script=True),
    "counted_chunks": Exported(
        CountedChunks, {"x": _x(2, 20, 6)}, {"x": TN}, outputs=3, script=True
    ),
    "broken_off": Exported(BrokenOff, {"x": _x(2, 20, 6)}, {"x": TN}, script=True),
    "anomalies": Exported(Anomalies, {"x": _x(2, 9, 4)}, {"x": TN}, outputs=2),
    "deep_ar": Exported(
        DeepAr,
        {"target": _x(2, 6), "beside": _x(2, 10, 3)},
        {"target": TN, "beside": {0: "N", 1: "S"}},
        outputs=2,
        script=True,
    ),
    "graph_rnn": Exported(
        GraphRnn,
        {"nodes": _x(2, 5, 8), "edges": torch.rand(2, 5, 5)},
        {"nodes": TN, "edges": {0: "N", 1: "T", 2: "T"}},
    ),
    "conv_lstm_both": Exported(
        ConvLstmBoth, {"x": _x(2, 4, 2, 8, 9)}, {"x": {0: "N", 1: "T", 3: "H", 4: "W"}}, script=True
    ),
    "point_tracker": Exported(
        PointTracker,
        {"frames": _x(4, 3, 16, 20), "points": torch.rand(5, 2) - 0.5},
        {"frames": {0: "T", 2: "H", 3: "W"}, "points": {0: "P"}},
        script=True,
    ),
    "policy": Exported(
        Policy,
        {
            "images": _x(4, 2, 1, 9, 9),
            "actions": _words(4, 2) % 4,
            "rewards": _x(4, 2),
            "done": torch.rand(4, 2) > 0.7,
            "h": _x(2, 12),
            "c": _x(2, 12),
        },
        {"images": _TIME, "actions": _TIME, "rewards": _TIME, "done": _TIME, "h": _N, "c": _N},
        {"actions": (0, 3)},
        outputs=3,
        script=True,
    ),
    "tcn_gru": Exported(TcnGru, {"x": _x(2, 6, 20)}, {"x": {0: "N", 2: "T"}}),
    "gru_d": Exported(
        GruD,
        {"x": _x(2, 6, 4), "mask": torch.rand(2, 6, 4) > 0.5, "passed": torch.rand(2, 6)},
        {"x": TN, "mask": TN, "passed": TN},
        script=True,
    ),
    "phased": Exported(
        Phased, {"x": _x(2, 6, 4), "times": torch.rand(2, 6)}, {"x": TN, "times": TN}, script=True
    ),
    "variational": Exported(
        Variational,
        {"x": _x(5, 2, 5), "noise": _x(5, 2, 4)},
        {"x": _TIME, "noise": _TIME},
        outputs=2,
        script=True,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
