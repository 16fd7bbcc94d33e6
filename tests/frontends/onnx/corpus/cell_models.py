"""Cells, filters and recurrences over other things than words: `python cell_models.py OUTDIR`.

By both exporters of PyTorch: memories that are addressed, solvers of equations, convolutions by
Fourier transforms, dynamic programming, messages along edges, branches by the length of a sequence.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all

N = {0: "N"}
D = 8


class Addressed(nn.Module):
    """A step of a differentiable computer: usage is sorted, what is free is allocated."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.keys = nn.LSTMCell(4 + D, D), nn.Linear(D, 3 * D + 2)

    def forward(self, x: Tensor, memory: Tensor, usage: Tensor, h: Tensor, c: Tensor):
        read = (torch.softmax(usage, 1).unsqueeze(1) @ memory).squeeze(1)
        h, c = self.cell(torch.cat([x, read], 1), (h, c))
        key, value, erase, gates = self.keys(h).split([D, D, D, 2], 1)
        similar = functional.cosine_similarity(memory, key.unsqueeze(1), dim=2)
        ordered, places = torch.sort(usage, dim=1)
        logs = torch.cumsum(torch.log(ordered.abs() + 1e-6), 1)
        before = torch.exp(torch.cat([torch.zeros_like(logs[:, :1]), logs[:, :-1]], 1))
        free = torch.zeros_like(usage).scatter(1, places, (1 - ordered) * before)
        gate, new = torch.sigmoid(gates).chunk(2, 1)
        weights = gate * (new * free + (1 - new) * torch.softmax(10 * similar, 1))
        kept = 1 - weights.unsqueeze(2) * torch.sigmoid(erase).unsqueeze(1)
        memory = memory * kept + weights.unsqueeze(2) * value.unsqueeze(1)
        return memory, usage + weights - usage * weights, h, c


class Solved(nn.Module):
    """Hidden states that a differential equation moves between observations, by Runge and Kutta."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.cell = nn.Linear(D, 16), nn.Linear(16, D), nn.GRUCell(3, D)

    def slope(self, h: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(h)))

    def forward(self, x: Tensor, times: Tensor, h: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            dt = times[:, t].unsqueeze(1)
            a = self.slope(h)
            b = self.slope(h + dt / 2 * a)
            c = self.slope(h + dt / 2 * b)
            h = h + dt / 6 * (a + 2 * b + 2 * c + self.slope(h + dt * c))
            h = self.cell(x[:, t], h)
            rows.append(h)
        return torch.stack(rows, 1)


class Closed(nn.Module):
    """A liquid cell in closed form over irregular times."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3 + D, 16)
        self.one, self.two, self.a, self.b = (nn.Linear(16, D) for _ in range(4))

    def forward(self, x: Tensor, spans: Tensor, h: Tensor):
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            y = 1.7159 * torch.tanh(0.666 * self.body(torch.cat([x[:, t], h], 1)))
            gate = torch.sigmoid(self.a(y) * spans[:, t : t + 1] + self.b(y))
            h = torch.tanh(self.one(y)) * (1 - gate) + gate * torch.tanh(self.two(y))
            rows.append(h)
        return torch.stack(rows, 1), h


class Legendre(nn.Module):
    """A memory of polynomials, whose matrices are fixed, beside a plain state."""

    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.randn(6, 6) * 0.3)
        self.register_buffer("b", torch.randn(6, 1))
        self.seen, self.new = nn.Linear(3 + D + 6, 1), nn.Linear(3 + D + 6, D)

    def forward(self, x: Tensor) -> Tensor:
        h, m = torch.zeros(x.size(0), 8), torch.zeros(x.size(0), 6)
        for t in range(x.size(1)):
            u = self.seen(torch.cat([x[:, t], h, m], 1))
            m = functional.linear(m, self.a) + functional.linear(u, self.b)
            h = torch.tanh(self.new(torch.cat([x[:, t], h, m], 1)))
        return h


class InLogarithms(nn.Module):
    """A minimal GRU as a scan in logarithms, which no loop is left of."""

    def __init__(self) -> None:
        super().__init__()
        self.z, self.h = nn.Linear(4, D), nn.Linear(4, D)

    def forward(self, x: Tensor) -> Tensor:
        k = self.z(x)
        keep, take = -functional.softplus(k), -functional.softplus(-k)
        y = self.h(x)
        value = torch.where(y >= 0, torch.log(functional.relu(y) + 0.5), -functional.softplus(-y))
        total = torch.cumsum(keep, 1)
        return torch.exp(total + torch.logcumsumexp(take + value - total, 1))


class BySpectrum(nn.Module):
    """A long convolution by Fourier transforms, then a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.out = nn.Parameter(torch.randn(D, 16)), nn.Linear(D, 2 * D)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x.transpose(1, 2), n=32) * torch.fft.rfft(self.kernel, n=32)
        y = torch.fft.irfft(spectrum, n=32)[..., :16].transpose(1, 2)
        return functional.glu(self.out(functional.gelu(y)), -1)


class Delayed(nn.Module):
    """Series rolled by the lags at which they resemble themselves most."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(4, D) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).transpose(1, 2) for layer in (self.q, self.k, self.v))
        both = torch.fft.rfft(q) * torch.conj(torch.fft.rfft(k))
        likeness = torch.fft.irfft(both, n=16).mean(1)
        weights, lags = torch.topk(likeness, 3, dim=1)
        steps = torch.arange(16)[None, None] + lags[:, :, None]
        twice = torch.cat([v, v], 2).unsqueeze(1).expand(-1, 3, -1, -1)
        rolled = twice.gather(3, steps.unsqueeze(2).expand(-1, -1, D, -1))
        return (rolled * torch.softmax(weights, 1)[:, :, None, None]).sum(1).transpose(1, 2)


class Aligned(nn.Module):
    """The cost of the best alignment of two sequences, as a loop over anti-diagonals' rows."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        cost = torch.cdist(a, b)
        row = torch.cumsum(cost[:, 0], 1)
        for i in range(1, cost.size(1)):
            cells: list[Tensor] = [row[:, 0] + cost[:, i, 0]]
            for j in range(1, cost.size(2)):
                best = torch.minimum(torch.minimum(row[:, j], row[:, j - 1]), cells[j - 1])
                cells.append(best + cost[:, i, j])
            row = torch.stack(cells, 1)
        return row[:, -1]


class Likely(nn.Module):
    """How likely labels are among frames, blanks between them: the forward pass of CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, D, batch_first=True), nn.Linear(D, 6)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        scores = torch.log_softmax(self.out(self.rnn(x)[0]), 2)
        blanks = torch.zeros_like(labels)
        path = torch.stack([blanks, labels], 2).flatten(1)
        path = torch.cat([path, blanks[:, :1]], 1)
        skips = torch.cat([path[:, :2] < 0, (path[:, 2:] != path[:, :-2]) & (path[:, 2:] > 0)], 1)
        first = torch.arange(path.size(1))[None] < 2
        at = scores.gather(2, path.unsqueeze(1).expand(-1, x.size(1), -1))
        alpha = torch.where(first, at[:, 0], torch.full_like(at[:, 0], -1e9))
        low = torch.full_like(alpha[:, :2], -1e9)
        for t in range(1, x.size(1)):
            one = torch.cat([low[:, :1], alpha[:, :-1]], 1)
            two = torch.cat([low, alpha[:, :-2]], 1)
            two = torch.where(skips, two, torch.full_like(two, -1e9))
            alpha = torch.logsumexp(torch.stack([alpha, one, two]), 0) + at[:, t]
        return -torch.logsumexp(alpha[:, -2:], 1)


class Messages(nn.Module):
    """Rounds of messages along edges that the call gives, added up where they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.cell = nn.Linear(2 * D, D), nn.GRUCell(D, D)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        for _ in range(3):
            both = torch.cat([x[edges[0]], x[edges[1]]], 1)
            sent = torch.relu(self.message(both))
            total = torch.zeros_like(x).index_add(0, edges[1], sent)
            x = self.cell(total, x)
        return x


class Resampled(nn.Module):
    """Particles that are drawn anew by their weights: places in running sums."""

    def __init__(self) -> None:
        super().__init__()
        self.move, self.weigh = nn.GRUCell(3, D), nn.Linear(D, 1)

    def forward(self, x: Tensor, particles: Tensor) -> Tensor:
        k = particles.size(0)
        h = self.move(x.expand(k, 3), particles)
        ends = torch.cumsum(torch.softmax(self.weigh(h)[:, 0], 0), 0)
        at = (torch.arange(k) + 0.5) / k
        return h[(ends[None] < at[:, None]).sum(1).clamp(max=k - 1)]


class Filled(nn.Module):
    """Waves that are padded up to a number of samples, or cut, as a script decides."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.rnn = nn.Conv1d(1, D, 8, stride=4), nn.GRU(D, D, batch_first=True)

    def forward(self, wave: Tensor) -> Tensor:
        if wave.size(1) < 64:
            wave = functional.pad(wave, [0, 64 - wave.size(1)])
        rest = wave.size(1) % 16
        if rest > 0:
            wave = functional.pad(wave, [0, 16 - rest])
        return self.rnn(self.conv(wave.unsqueeze(1)).transpose(1, 2))[0]


class OfLengths(nn.Module):
    """Layers behind a mask that is as long as the longest sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, D, batch_first=True)
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, longest = self.rnn(x)[0], cast(int, lengths.max())
        beyond = torch.arange(0, longest)[None] >= lengths[:, None]
        scores = self.q(y) @ self.k(y).transpose(1, 2) / math.sqrt(D)
        weights = scores.masked_fill(beyond[:, None], -1e9).softmax(-1)
        return (weights @ self.v(y)).masked_fill(beyond[:, :, None], 0.0)


class Predicted(nn.Module):
    """A step of a spatiotemporal LSTM, whose second memory goes from layer to layer."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.h = nn.Conv2d(2, 7 * 4, 3, padding=1), nn.Conv2d(4, 4 * 4, 3, padding=1)
        self.m, self.both = nn.Conv2d(4, 3 * 4, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor, h: Tensor, c: Tensor, m: Tensor):
        i, f, g, i2, f2, g2, o = self.x(x).chunk(7, 1)
        ih, fh, gh, oh = self.h(h).chunk(4, 1)
        im, fm, gm = self.m(m).chunk(3, 1)
        c = torch.sigmoid(f + fh + 1) * c + torch.sigmoid(i + ih) * torch.tanh(g + gh)
        m = torch.sigmoid(f2 + fm + 1) * m + torch.sigmoid(i2 + im) * torch.tanh(g2 + gm)
        both = torch.cat([c, m], 1)
        return torch.sigmoid(o + oh + self.both(both)) * torch.tanh(self.last(both)), c, m


class Shifted(nn.Module):
    """Frames of a video whose channels are shifted in time, then a GRU over their means."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, D, 3, stride=2), nn.Conv2d(D, D, 3, stride=2)
        self.rnn = nn.GRU(D, D, batch_first=True)

    def forward(self, clip: Tensor) -> Tensor:
        n, t = clip.shape[:2]
        y = torch.relu(self.one(clip.flatten(0, 1))).unflatten(0, (n, t))
        back = functional.pad(y[:, 1:, :2], [0, 0, 0, 0, 0, 0, 0, 1])
        forth = functional.pad(y[:, :-1, 2:4], [0, 0, 0, 0, 0, 0, 1, 0])
        y = torch.cat([back, forth, y[:, :, 4:]], 2)
        y = torch.relu(self.two(y.flatten(0, 1))).mean([2, 3]).unflatten(0, (n, t))
        return self.rnn(y)[0]


class Halved(nn.Module):
    """Even and odd steps that predict each other, twice, put together again."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(1, 2)
        even, odd = y[:, :, ::2], y[:, :, 1::2]
        odd = odd * torch.exp(torch.tanh(self.layers[0](even)))
        even = even * torch.exp(torch.tanh(self.layers[1](odd)))
        odd, even = odd - self.layers[2](even), even + self.layers[3](odd)
        return torch.stack([even, odd], 3).flatten(2).transpose(1, 2)


_STATE = {"h": torch.randn(2, D), "c": torch.randn(2, D)}
_IMAGE = {"h": torch.randn(2, 4, 8, 8), "c": torch.randn(2, 4, 8, 8), "m": torch.randn(2, 4, 8, 8)}

MODELS: dict[str, Exported] = {
    "addressed": Exported(
        Addressed,
        {
            "x": torch.randn(2, 4),
            "memory": torch.randn(2, 10, D),
            "usage": torch.rand(2, 10),
            **_STATE,
        },
        dict.fromkeys(("x", "memory", "usage", "h", "c"), N),
        outputs=4,
    ),
    "solved": Exported(
        Solved,
        {"x": torch.randn(2, 5, 3), "times": torch.randn(2, 5), "h": torch.randn(2, D)},
        {"x": TN, "times": TN, "h": N},
        script=True,
    ),
    "closed": Exported(
        Closed,
        {"x": torch.randn(2, 5, 3), "spans": torch.randn(2, 5), "h": torch.randn(2, D)},
        {"x": TN, "spans": TN, "h": N},
        outputs=2,
        script=True,
    ),
    "legendre": Exported(Legendre, {"x": torch.randn(2, 5, 3)}, {"x": TN}, script=True),
    "in_logarithms": Exported(InLogarithms, {"x": torch.randn(2, 6, 4)}, {"x": TN}),
    "by_spectrum": Exported(BySpectrum, {"x": torch.randn(2, 16, D)}, {"x": N}),
    "delayed": Exported(Delayed, {"x": torch.randn(2, 16, 4)}, {"x": N}),
    "aligned": Exported(
        Aligned,
        {"a": torch.randn(2, 4, 3), "b": torch.randn(2, 5, 3)},
        {"a": TN, "b": {0: "N", 1: "U"}},
        script=True,
    ),
    "likely": Exported(
        Likely,
        {"x": torch.randn(2, 7, 4), "labels": torch.randint(1, 5, (2, 3))},
        {"x": TN, "labels": {0: "N", 1: "U"}},
        {"labels": (1, 5)},
        script=True,
    ),
    "messages": Exported(
        Messages,
        {"x": torch.randn(6, D), "edges": torch.randint(0, 6, (2, 9))},
        {"x": {0: "V"}, "edges": {1: "E"}},
        {"edges": (0, 5)},
    ),
    "resampled": Exported(
        Resampled, {"x": torch.randn(1, 3), "particles": torch.randn(7, D)}, {"particles": {0: "K"}}
    ),
    "filled": Exported(
        Filled, {"wave": torch.randn(2, 70)}, {"wave": {0: "N", 1: "S"}}, script=True
    ),
    "of_lengths": Exported(
        OfLengths,
        {"x": torch.randn(2, 6, 4), "lengths": torch.tensor([6, 4])},
        {"x": TN, "lengths": N},
        {"lengths": ("T", "T")},
    ),
    "predicted": Exported(
        Predicted,
        {"x": torch.randn(2, 2, 8, 8), **_IMAGE},
        {name: {0: "N", 2: "H", 3: "W"} for name in ("x", "h", "c", "m")},
        outputs=3,
    ),
    "shifted": Exported(Shifted, {"clip": torch.randn(2, 4, 3, 12, 12)}, {"clip": TN}),
    "halved": Exported(Halved, {"x": torch.randn(2, 8, 4)}, {"x": N}),
}

if __name__ == "__main__":
    export_all(MODELS)
