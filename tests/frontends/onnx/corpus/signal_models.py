"""Signals, filters, stacks and rates by both exporters: `signal_models.py OUTDIR`.

Cepstra in the graph, running norms, learned gains of filters, recurrences and encoders at several
rates.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Cepstra(nn.Module):
    """Samples to cepstra with slopes, normed by their statistics, then residual convolutions."""

    window: Tensor
    mel: Tensor
    dct: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("mel", torch.rand(12, 17))
        k, n = torch.arange(8.0)[:, None], torch.arange(12.0)[None]
        self.register_buffer("dct", torch.cos(math.pi / 12 * (n + 0.5) * k) * math.sqrt(2 / 12))
        self.first, self.short = nn.Conv1d(24, 16, 9, 2, 4), nn.Conv1d(16, 24, 1, 2)
        self.a, self.b = nn.Conv1d(16, 24, 9, 2, 4), nn.Conv1d(24, 24, 9, 1, 4)
        self.rnn = nn.GRU(24, 10, batch_first=True)

    def slope(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, (2, 2), mode="replicate")
        weight = torch.arange(-2.0, 3.0).view(1, 1, 5).expand(x.shape[1], 1, 5) / 10
        return functional.conv1d(padded, weight, groups=x.shape[1])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
        spectrum = torch.stft(
            x, 32, 16, window=self.window, center=True, pad_mode="reflect", return_complex=False
        )
        power = spectrum.pow(2).sum(3)
        decibels = 10 * torch.log10((self.mel @ power).clamp_min(1e-10))
        decibels = torch.maximum(decibels, decibels.amax((1, 2), keepdim=True) - 80)
        y = self.dct @ decibels
        y = torch.cat([y, self.slope(y), self.slope(self.slope(y))], 1)
        y = (y - y.mean(2, keepdim=True)) / (y.std(2, keepdim=True) + 1e-5)
        y = torch.relu(self.first(y))
        y = torch.relu(self.short(y) + self.b(torch.relu(self.a(y))))
        return self.rnn(y.transpose(1, 2))[0][:, -1]


class Cumulative(nn.Module):
    """A causal separator: norms over all so far, dilated depthwise convolutions, skips."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 16, 8, 4, bias=False)
        self.bottleneck, self.masks = nn.Conv1d(16, 12, 1), nn.Conv1d(12, 32, 1)
        self.into = nn.ModuleList(nn.Conv1d(12, 20, 1) for _ in range(3))
        self.depth = nn.ModuleList(
            nn.Conv1d(20, 20, 3, dilation=2**i, padding=2 * 2**i, groups=20) for i in range(3)
        )
        self.residual = nn.ModuleList(nn.Conv1d(20, 12, 1) for _ in range(3))
        self.skip = nn.ModuleList(nn.Conv1d(20, 12, 1) for _ in range(3))
        self.active, self.decode = nn.PReLU(), nn.ConvTranspose1d(16, 1, 8, 4, bias=False)

    @staticmethod
    def normed(x: Tensor) -> Tensor:
        count = torch.arange(1, x.shape[2] + 1).to(x.dtype) * x.shape[1]
        total, squares = x.sum(1).cumsum(1), x.pow(2).sum(1).cumsum(1)
        mean = total / count
        var = squares / count - mean.pow(2)
        return (x - mean[:, None]) / (var.clamp_min(0) + 1e-8).sqrt()[:, None]

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.relu(self.encode(x[:, None]))
        y = self.bottleneck(self.normed(wave))
        total = torch.zeros_like(y)
        layers = zip(self.into, self.depth, self.residual, self.skip, strict=True)
        for i, (into, depth, residual, skip) in enumerate(layers):
            z = self.normed(self.active(into(y)))
            z = self.normed(self.active(depth(z)[:, :, : -2 * 2**i]))
            y, total = y + residual(z), total + skip(z)
        masks = torch.sigmoid(self.masks(total)).view(x.shape[0], 2, 16, -1)
        y = (masks * wave[:, None]).flatten(0, 1)
        return self.decode(y).view(x.shape[0], 2, -1)


class LearnedGain(nn.Module):
    """A Kalman filter whose gain is a recurrent net's of normalised differences."""

    def __init__(self) -> None:
        super().__init__()
        self.f, self.h = nn.Parameter(torch.eye(3) * 0.9), nn.Parameter(torch.randn(2, 3))
        self.q, self.s, self.gain = nn.GRUCell(3, 6), nn.GRUCell(2 + 6, 6), nn.Linear(12, 6)

    def forward(self, y: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        n = y.size(0)
        x, before = start, start
        hq, hs = torch.zeros([n, 6]), torch.zeros([n, 6])
        made: list[Tensor] = []
        gains: list[Tensor] = []
        for t in range(y.size(1)):
            prior = x @ self.f.t()
            innovation = y[:, t] - prior @ self.h.t()
            hq = self.q(functional.normalize(x - before, p=2.0, dim=1, eps=1e-12), hq)
            seen = functional.normalize(innovation, p=2.0, dim=1, eps=1e-12)
            hs = self.s(torch.cat([seen, hq], 1), hs)
            gain = self.gain(torch.cat([hq, hs], 1)).view(n, 3, 2)
            before = x
            x = prior + torch.bmm(gain, innovation[:, :, None])[:, :, 0]
            made.append(x)
            gains.append(torch.linalg.matrix_norm(gain))
        return torch.stack(made, 1), torch.stack(gains, 1)


class Basecalls(nn.Module):
    """Squiggles to bases: recurrences in alternating directions, a forward pass over k-mers."""

    moves: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            *(nn.Conv1d(1, 4, 5, 1, 2), nn.SiLU(), nn.Conv1d(4, 8, 5, 1, 2), nn.SiLU()),
            *(nn.Conv1d(8, 16, 9, 3, 4), nn.SiLU()),
        )
        self.layers = nn.ModuleList(nn.LSTM(16, 16, batch_first=True) for _ in range(3))
        self.out = nn.Linear(16, 16 * 4)
        index = torch.arange(16)
        moves = index.repeat_interleave(4).view(4, -1).t().reshape(16, 4)
        self.register_buffer("moves", torch.cat([index[:, None], moves], 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.convs(x[:, None]).transpose(1, 2)
        for i, layer in enumerate(self.layers):
            y = y.flip(1) if i % 2 == 0 else y
            y = layer(y)[0]
            y = y.flip(1) if i % 2 == 0 else y
        scores = (torch.tanh(self.out(y)) * 5).unflatten(2, (16, 4))
        blank = scores[..., :1] * 0 + 2.0
        scores = torch.cat([blank, scores], 3)
        alpha = x.new_zeros(x.shape[0], 16)
        paths = list[Tensor]()
        for t in range(4):
            reached = alpha[:, self.moves] + scores[:, t]
            paths.append(reached.argmax(2))
            alpha = torch.logsumexp(reached, 2)
        place = alpha.argmax(1)
        found = list[Tensor]()
        for path in paths[::-1]:
            move = path.gather(1, place[:, None])[:, 0]
            found.append(torch.where(move == 0, 0, place % 4 + 1))
            place = self.moves[place, move]
        return torch.stack(found[::-1], 1), alpha


class Stacked(nn.Module):
    """A parser: each instruction pushes a word or merges the two on top of a stack of states."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.tracker = nn.Embedding(20, 6), nn.LSTMCell(18, 5)
        self.merge = nn.Linear(12 + 5, 18)

    def forward(self, words: Tensor, instructions: Tensor) -> Tensor:
        n, count = words.size(0), words.size(1)
        y = self.embed(words)
        stack = torch.zeros([n, count + 2, 6])
        top = torch.full([n], 2, dtype=torch.int64)
        front = torch.zeros([n], dtype=torch.int64)
        h, c = torch.zeros([n, 5]), torch.zeros([n, 5])
        rows = torch.arange(n)
        for t in range(instructions.size(1)):
            one, two = stack[rows, top - 1], stack[rows, top - 2]
            word = y[rows, front.clamp(max=count - 1)]
            h, c = self.tracker(torch.cat([word, one, two], 1), (h, c))
            left, right, mix = self.merge(torch.cat([one, two, h], 1)).chunk(3, 1)
            both = torch.sigmoid(left) * one + torch.sigmoid(right) * two + torch.tanh(mix)
            push = (instructions[:, t] == 0) & (front < count)
            push = push | (top < 4)
            push = push & (front < count)
            merge = ~push & (top >= 4)
            place = torch.where(push, top, (top - 2).clamp(min=2))
            value = torch.where(
                push[:, None], word, torch.where(merge[:, None], both, stack[rows, place])
            )
            stack = stack.scatter(1, place[:, None, None].expand(n, 1, 6), value[:, None])
            top = torch.where(push, top + 1, torch.where(merge, top - 1, top))
            front = front + push.long()
        return stack[rows, top - 1]


class Sleep(nn.Module):
    """Epochs of a night: each through convolutions at two scales, then a recurrence over epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Conv1d(1, 6, 8, 2), nn.Conv1d(1, 6, 32, 8)
        self.pool_small, self.pool_large = nn.MaxPool1d(8, 8), nn.MaxPool1d(2, 2)
        self.small2, self.large2 = nn.Conv1d(6, 8, 3, padding=1), nn.Conv1d(6, 8, 3, padding=1)
        self.rnn = nn.LSTM(8 * 9, 10, batch_first=True, bidirectional=True)
        self.short, self.out = nn.Linear(8 * 9, 20), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        n, epochs = x.shape[:2]
        flat = x.reshape(n * epochs, 1, -1)
        a = torch.relu(self.small2(self.pool_small(torch.relu(self.small(flat)))))
        b = torch.relu(self.large2(self.pool_large(torch.relu(self.large(flat)))))
        y = torch.cat([a, b], 2)
        y = functional.adaptive_avg_pool1d(y, 9).reshape(n, epochs, -1)
        return self.out(self.rnn(y)[0] + self.short(y)).softmax(2)


class TwoRates(nn.Module):
    """A fast cell in each window, a slow one over windows, whose state the fast one begins with."""

    def __init__(self) -> None:
        super().__init__()
        self.fast, self.slow = nn.GRU(4, 6, batch_first=True), nn.GRUCell(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        windows = x.unfold(1, 4, 2)
        h = torch.zeros([x.size(0), 6])
        made: list[Tensor] = []
        for w in range(windows.size(1)):
            y, last = self.fast(windows[:, w].transpose(1, 2), h[None])
            h = self.slow(last[0], h)
            made.append(y.amax(1) + h)
        return torch.stack(made, 1)


class Rated(nn.Module):
    """An encoder at a rate of its own: frames averaged, attention by relative places that two
    layers share, convolutions, frames repeated and cut, mixed with what came in."""

    def __init__(self, rate: int) -> None:
        super().__init__()
        self.rate = rate
        self.weights, self.mix = nn.Parameter(torch.randn(rate)), nn.Parameter(torch.rand(16))
        self.qk, self.places = nn.Linear(16, 2 * 16 + 8), nn.Linear(12, 8, bias=False)
        self.values, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
        self.into, self.behind = nn.Linear(16, 32), nn.Linear(16, 16)
        self.depth = nn.Conv1d(16, 16, 5, padding=2, groups=16)
        self.feed = nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 16))
        self.norm, self.scale = nn.Parameter(torch.zeros(16)), nn.Parameter(torch.zeros(()))

    def attention(self, x: Tensor, mask: Tensor) -> Tensor:
        steps, n, _ = x.shape
        q, k, p = self.qk(x).split([16, 16, 8], 2)
        q = q.reshape(steps, n, 2, 8).permute(2, 1, 0, 3)
        k = k.reshape(steps, n, 2, 8).permute(2, 1, 3, 0)
        p = p.reshape(steps, n, 2, 4).permute(2, 1, 0, 3)
        t = torch.arange(-(steps - 1), steps).to(x.dtype)[:, None]
        t = torch.atan(t.sign() * torch.log1p(t.abs()))
        freqs = torch.arange(1, 7).to(x.dtype)
        places = self.places(torch.cat([(t * freqs).cos(), (t * freqs).sin()], 1))
        shifted = p @ places.reshape(1, -1, 2, 4).permute(2, 0, 3, 1)
        rows = torch.arange(steps - 1, -1, -1)[:, None] + torch.arange(steps)[None]
        rows = rows.expand(2, n, steps, steps)
        scores = q @ k + shifted.gather(3, rows)
        scores = scores.masked_fill(mask[None, :, None], -1000)
        return scores.softmax(3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        start, (steps, n, _) = x, x.shape
        if self.rate > 1:
            count = (steps + self.rate - 1) // self.rate
            more = x[-1:].expand(count * self.rate - steps, n, 16)
            x = torch.cat([x, more]).reshape(count, self.rate, n, 16)
            x = (x * self.weights.softmax(0)[:, None, None]).sum(1)
            mask = mask[:, :: self.rate]
        weights = self.attention(x, mask)
        for _ in range(2):
            v = self.values(x).reshape(x.shape[0], n, 2, 8).permute(2, 1, 0, 3)
            x = x + self.out((weights @ v).permute(2, 1, 0, 3).reshape(x.shape[0], n, 16))
            a, gate = self.into(x).chunk(2, 2)
            y = (a * gate.sigmoid()).permute(1, 2, 0).masked_fill(mask[:, None], 0.0)
            x = x + self.behind(functional.silu(self.depth(y).permute(2, 0, 1)))
            x = x + self.feed(x)
            x = x * ((x - self.norm).pow(2).mean(2, keepdim=True) ** -0.5) * self.scale.exp()
        if self.rate > 1:
            x = x[:, None].expand(-1, self.rate, -1, -1).reshape(-1, n, 16)[:steps]
        return start + (x - start) * self.mix


class Zipped(nn.Module):
    """Encoders at several rates one behind the other, over a strided stem."""

    def __init__(self, rates: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=(0, 1)), nn.SiLU(), nn.Conv2d(4, 8, 3, 2), nn.SiLU()),
            *(nn.Conv2d(8, 8, 3, (1, 2)), nn.SiLU()),
        )
        self.into, self.encoders = nn.Linear(8 * 4, 16), nn.ModuleList(map(Rated, rates))
        self.out = nn.Linear(16, 11)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        y = self.stem(x[:, None])
        y = self.into(y.permute(2, 0, 1, 3).flatten(2))
        lengths = (lengths - 7) // 2
        mask = torch.arange(y.shape[0])[None] >= lengths[:, None]
        for encoder in self.encoders:
            y = encoder(y, mask)
        y = y.permute(1, 0, 2)
        half = y[:, : y.shape[1] // 2 * 2].reshape(y.shape[0], -1, 2, 16).mean(2)
        return self.out(half).log_softmax(2), (lengths + 1) // 2


class Expected(nn.Module):
    """Attention that moves forwards: products of what was not chosen, running sums of quotients."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.query = nn.Linear(6, 5, bias=False), nn.Linear(8, 5)
        self.v, self.r = nn.Linear(5, 1, bias=False), nn.Parameter(torch.tensor(-1.0))
        self.cell, self.out = nn.GRUCell(6 + 3, 8), nn.Linear(14, 3)

    def forward(self, memory: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        n, count = memory.size(0), memory.size(1)
        h, y = torch.zeros([n, 8]), torch.zeros([n, 3])
        alpha = functional.one_hot(torch.zeros([n], dtype=torch.int64), count).to(memory.dtype)
        keys = self.memory(memory)
        made: list[Tensor] = []
        aligned: list[Tensor] = []
        for t in range(noise.size(1)):
            scores = self.v(torch.tanh(keys + self.query(h)[:, None]))[:, :, 0] + self.r
            p = torch.sigmoid(scores + noise[:, t, None])
            log = torch.log((1 - p).clamp(1e-6, 1.0))
            before = torch.exp(functional.pad(log.cumsum(1), [1, -1]))
            alpha = p * before * torch.cumsum(alpha / before.clamp(1e-6, 1.0), 1)
            context = torch.bmm(alpha[:, None], memory)[:, 0]
            h = self.cell(torch.cat([context, y], 1), h)
            y = self.out(torch.cat([h, context], 1))
            made.append(y)
            aligned.append(alpha)
        return torch.stack(made, 1), torch.stack(aligned, 1)


MODELS = {
    "cepstra": Exported(Cepstra, {"x": torch.randn(2, 400)}, {"x": {0: "N"}}),
    "cepstra_open": Exported(Cepstra, {"x": torch.randn(2, 400)}, {"x": {0: "N", 1: "S"}}),
    "cumulative": Exported(Cumulative, {"x": torch.randn(2, 80)}, {"x": {0: "N", 1: "S"}}),
    "learned_gain": Exported(
        LearnedGain,
        {"y": torch.randn(2, 5, 2), "start": torch.randn(2, 3)},
        {"y": TN, "start": {0: "N"}},
        outputs=2,
        script=True,
    ),
    "basecalls": Exported(Basecalls, {"x": torch.randn(2, 24)}, {"x": {0: "N", 1: "S"}}, outputs=2),
    "stacked": Exported(
        Stacked,
        {"words": torch.randint(0, 20, (2, 5)), "instructions": torch.randint(0, 2, (2, 9))},
        {"words": TN, "instructions": {0: "N", 1: "I"}},
        {"words": (0, 19), "instructions": (0, 1)},
        script=True,
    ),
    "sleep": Exported(Sleep, {"x": torch.randn(2, 3, 160)}, {"x": {0: "N", 1: "E"}}),
    "two_rates": Exported(TwoRates, {"x": torch.randn(2, 9, 4)}, {"x": TN}, script=True),
    **{
        f"zipped_{len(rates)}": Exported(
            lambda rates=rates: Zipped(rates),
            {"x": torch.randn(2, 57, 20), "lengths": torch.tensor([57, 43])},
            {"x": TN, "lengths": {0: "N"}},
            {"lengths": ("T", "T")},
            outputs=2,
        )
        for rates in ((1, 2), (1, 2, 4, 8, 4, 2))
    },
    "expected": Exported(
        Expected,
        {"memory": torch.randn(2, 6, 6), "noise": torch.randn(2, 4)},
        {"memory": {0: "N", 1: "S"}, "noise": {0: "N", 1: "T"}},
        outputs=2,
        script=True,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
