"""Filters, front ends, aligners and codecs by both exporters: `filter_models.py OUTDIR`.

Adaptive and recursive filters, synthesis by oscillators, pooled embeddings, paths through
trellises.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Biquads(nn.Module):
    """A cascade of second-order sections over samples."""

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.randn(3, 3) * 0.3)
        self.a = nn.Parameter(torch.rand(3, 2) * 0.5)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros(3, 2, x.size(0))
        out = torch.empty_like(x)
        for t in range(x.size(1)):
            v = x[:, t]
            rows = []
            for s in range(3):
                y = self.b[s, 0] * v + z[s, 0]
                rows.append(
                    torch.stack(
                        [
                            self.b[s, 1] * v - self.a[s, 0] * y + z[s, 1],
                            self.b[s, 2] * v - self.a[s, 1] * y,
                        ]
                    )
                )
                v = y
            z = torch.stack(rows)
            out[:, t] = v
        return out


class Echo(nn.Module):
    """A normalised LMS canceller: its taps follow the error."""

    def __init__(self) -> None:
        super().__init__()
        self.mu = nn.Parameter(torch.tensor(0.2))

    def forward(self, far: Tensor, near: Tensor) -> Tensor:
        w = torch.zeros(far.size(0), 8)
        history = torch.zeros(far.size(0), 8)
        errors = []
        for t in range(far.size(1)):
            history = torch.cat([far[:, t : t + 1], history[:, :-1]], 1)
            e = near[:, t] - (w * history).sum(1)
            w = w + self.mu * (e / (history.pow(2).sum(1) + 1e-3)).unsqueeze(1) * history
            errors.append(e)
        return torch.stack(errors, 1)


class Compressor(nn.Module):
    """A compressor of dynamics whose time constants depend on the direction."""

    def forward(self, x: Tensor) -> Tensor:
        level = 20 * torch.log10(x.abs().clamp(min=1e-5))
        gain = torch.where(level > -20, (-20 - level) * 0.75, torch.zeros_like(level))
        g = torch.zeros(x.size(0))
        kept = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1)):
            target = gain[:, t]
            coefficient = torch.where(target < g, 0.3, 0.95)
            g = coefficient * g + (1 - coefficient) * target
            kept.append(g)
        return x * 10 ** (torch.stack(kept, 1) / 20)


class Pcen(nn.Module):
    """Per-channel energy normalisation with trained smoothing, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.full((12,), -3.0))
        self.alpha, self.delta = nn.Parameter(torch.full((12,), 0.9)), nn.Parameter(torch.ones(12))
        self.r = nn.Parameter(torch.full((12,), 0.5))
        self.gru = nn.GRU(12, 10, batch_first=True)

    def forward(self, mel: Tensor) -> Tensor:
        e = mel.exp()
        s = torch.sigmoid(self.s)
        m = e[:, 0]
        kept = [m]
        for t in range(1, e.size(1)):
            m = (1 - s) * m + s * e[:, t]
            kept.append(m)
        smooth = torch.stack(kept, 1)
        x = (e / (1e-6 + smooth).pow(self.alpha) + self.delta).pow(self.r) - self.delta.pow(self.r)
        return self.gru(x)[0]


class Sinc(nn.Module):
    """Band-pass filters computed from their edges, then pooled frames and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Parameter(torch.linspace(0.01, 0.3, 8))
        self.band = nn.Parameter(torch.full((8,), 0.05))
        self.register_buffer("n", torch.arange(-15, 16).float())
        self.register_buffer("w", torch.hamming_window(31, periodic=False))
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        low = self.low.abs()
        high = (low + self.band.abs()).clamp(max=0.5)
        t = 2 * math.pi * self.n
        t = torch.where(t == 0, 1e-5, t)
        f = (torch.sin(high[:, None] * t) - torch.sin(low[:, None] * t)) / (t / 2) * self.w
        y = functional.max_pool1d(functional.conv1d(x[:, None], f[:, None]).abs(), 4)
        y = (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)
        return self.lstm(y.transpose(1, 2))[0]


class Ddsp(nn.Module):
    """Harmonics whose phase is a running sum of the pitch, interpolated between frames."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(2, 16, batch_first=True)
        self.o = nn.Linear(16, 5)

    def forward(self, f0: Tensor, loud: Tensor) -> Tensor:
        h = self.gru(torch.cat([f0, loud], -1))[0]
        a = functional.softplus(self.o(h))
        up = functional.interpolate(
            torch.cat([f0, a], -1).transpose(1, 2), scale_factor=8.0, mode="linear"
        ).transpose(1, 2)
        pitch, a = up[..., :1], up[..., 1:]
        k = torch.arange(1, 6)
        alias = (pitch * k < 0.5).float() + 1e-4
        a = a * alias
        a = a / a.sum(-1, keepdim=True)
        phase = torch.cumsum(pitch, 1) * 2 * math.pi
        return (torch.sin(phase * k) * a).sum(-1)


class Xvector(nn.Module):
    """Frames of several contexts, attentive statistics, an embedding of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.ModuleList(
            [nn.Conv1d(i, 16, k, dilation=d) for i, k, d in ((10, 5, 1), (16, 3, 2), (16, 3, 3))]
        )
        self.bn = nn.ModuleList([nn.BatchNorm1d(16) for _ in range(3)])
        self.a = nn.Sequential(nn.Conv1d(48, 8, 1), nn.Tanh(), nn.Conv1d(8, 16, 1))
        self.o = nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = (x - x.mean(1, keepdim=True)).transpose(1, 2)
        for c, b in zip(self.t, self.bn, strict=True):
            x = b(functional.leaky_relu(c(x), 0.1))
        mean, std = x.mean(2, keepdim=True), x.std(2, keepdim=True)
        w = self.a(torch.cat([x, mean.expand_as(x), std.expand_as(x)], 1)).softmax(2)
        mu = (w * x).sum(2)
        sd = ((w * x * x).sum(2) - mu * mu).clamp(min=1e-6).sqrt()
        return functional.normalize(self.o(torch.cat([mu, sd], 1)), dim=1)


class Attractors(nn.Module):
    """Speakers as attractors that an LSTM emits from nothing (EEND-EDA)."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
        self.enc = nn.LSTM(16, 16, batch_first=True)
        self.dec = nn.LSTM(16, 16, batch_first=True)
        self.o = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.e(x)
        _, state = self.enc(h.flip(1))
        attractors, _ = self.dec(torch.zeros(x.size(0), 3, 16), state)
        alive = torch.sigmoid(self.o(attractors)).squeeze(-1)
        return torch.sigmoid(torch.bmm(h, attractors.transpose(1, 2))), alive


class Trellis(nn.Module):
    """Forced alignment: the best path of tokens through frames, and back."""

    def forward(self, emission: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        score = emission[:, tokens]
        frames, count = score.size(0), score.size(1)
        best = torch.full((count,), -1e4)
        best[0] = 0.0
        moves = torch.jit.annotate(list[Tensor], [])
        for t in range(frames):
            stay = best + emission[t, 0]
            move = torch.cat([torch.full((1,), -1e4), best[:-1] + score[t, 1:]])
            moves.append(move > stay)
            best = torch.maximum(stay, move)
        back = torch.stack(moves)
        at = torch.tensor(count - 1)
        path = torch.jit.annotate(list[Tensor], [])
        for t in range(frames):
            path.append(at)
            at = at - back[frames - 1 - t, at].long()
        return best, torch.stack(path).flip(0)


class Warped(nn.Module):
    """Dynamic time warping between two series, a row at a time."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        cost = (a[:, None] - b[None]).abs().sum(-1)
        row = torch.cumsum(cost[0], 0)
        for i in range(1, cost.size(0)):
            up = row
            diagonal = torch.cat([torch.full((1,), 1e9), row[:-1]])
            least = torch.minimum(up, diagonal)
            last = torch.tensor(1e9)
            kept = torch.jit.annotate(list[Tensor], [])
            for j in range(cost.size(1)):
                last = cost[i, j] + torch.minimum(least[j], last)
                kept.append(last)
            row = torch.stack(kept)
        return row


class Kalman(nn.Module):
    """A filter of two states and one measurement."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        f = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
        q = torch.eye(2) * 0.01
        x = torch.zeros(z.size(0), 2)
        p = torch.eye(2).expand(z.size(0), 2, 2)
        out = []
        for t in range(z.size(1)):
            x = x @ f.T
            p = f @ p @ f.T + q
            s = p[:, 0, 0] + 0.1
            k = p[:, :, 0] / s[:, None]
            x = x + k * (z[:, t] - x[:, 0])[:, None]
            p = p - k[:, :, None] * p[:, None, 0, :]
            out.append(x)
        return torch.stack(out, 1), p


class Hmm(nn.Module):
    """Forward and backward in logarithms; posteriors of states."""

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.randn(5, 5))
        self.e = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        trans = self.t.log_softmax(1)
        obs = self.e(x).log_softmax(-1)
        steps = x.size(1)
        alpha = [obs[:, 0]]
        for t in range(1, steps):
            alpha.append(torch.logsumexp(alpha[-1].unsqueeze(2) + trans, 1) + obs[:, t])
        beta = torch.zeros_like(obs[:, 0])
        betas = [beta]
        for t in range(steps - 1):
            beta = torch.logsumexp(trans + (obs[:, steps - 1 - t] + beta).unsqueeze(1), 2)
            betas.append(beta)
        return (torch.stack(alpha, 1) + torch.stack(betas, 1).flip(1)).softmax(-1)


class Codec(nn.Module):
    """A neural codec: strided encoder, LSTM, residual codebooks, transposed decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.i = nn.Conv1d(1, 8, 7, padding=3)
        self.d1, self.d2 = nn.Conv1d(8, 12, 4, 2, 1), nn.Conv1d(12, 16, 8, 4, 2)
        self.l = nn.LSTM(16, 16, 2)
        self.books = nn.Parameter(torch.randn(3, 32, 16))
        self.u1 = nn.ConvTranspose1d(16, 12, 8, 4, 2)
        self.u2 = nn.ConvTranspose1d(12, 8, 4, 2, 1)
        self.o = nn.Conv1d(8, 1, 7, padding=3)
        self.alpha = nn.Parameter(torch.ones(1, 12, 1))

    def snake(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.alpha * x).pow(2) / (self.alpha + 1e-9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.d2(self.snake(self.d1(functional.elu(self.i(x)))))
        z = z.permute(2, 0, 1)
        z = (self.l(z)[0] + z).permute(1, 2, 0)
        rest, q, codes = z.transpose(1, 2), torch.zeros_like(z.transpose(1, 2)), []
        for i in range(3):
            book = self.books[i]
            distance = rest.pow(2).sum(-1, keepdim=True) - 2 * rest @ book.T + book.pow(2).sum(-1)
            code = distance.argmin(-1)
            picked = functional.embedding(code, book)
            rest, q = rest - picked, q + picked
            codes.append(code)
        y = self.o(functional.elu(self.u2(self.snake(self.u1(q.transpose(1, 2))))))
        return torch.tanh(y), torch.stack(codes, 1)


class Hangover(nn.Module):
    """Voice activity with a hangover: counters in integers, thresholds with hysteresis."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)
        self.o = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(self.o(self.gru(x)[0])).squeeze(-1)
        on = torch.zeros(x.size(0), dtype=torch.bool)
        left = torch.zeros(x.size(0), dtype=torch.long)
        kept = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1)):
            high = p[:, t] > 0.5
            low = p[:, t] < 0.45
            left = torch.where(high, torch.full_like(left, 3), left - low.long())
            left = left.clamp(min=0)
            on = torch.where(on, left > 0, high)
            kept.append(on)
        return torch.stack(kept, 1), p


LENGTHS = torch.tensor([5, 3])

MODELS = {
    "biquads": Exported(Biquads, {"x": torch.randn(2, 8)}, {"x": TN}, script=True),
    "echo": Exported(
        Echo,
        {"far": torch.randn(2, 8), "near": torch.randn(2, 8)},
        {"far": TN, "near": TN},
        script=True,
    ),
    "compressor": Exported(Compressor, {"x": torch.randn(2, 8)}, {"x": TN}, script=True),
    "pcen": Exported(Pcen, {"mel": torch.randn(2, 6, 12)}, {"mel": TN}, script=True),
    "sinc": Exported(Sinc, {"x": torch.randn(2, 128)}, {"x": {0: "N", 1: "S"}}),
    "ddsp": Exported(
        Ddsp,
        {"f0": torch.rand(2, 5, 1), "loud": torch.rand(2, 5, 1)},
        {"f0": TN, "loud": TN},
    ),
    "xvector": Exported(Xvector, {"x": torch.randn(2, 30, 10)}, {"x": TN}),
    "attractors": Exported(Attractors, {"x": torch.randn(2, 7, 16)}, {"x": TN}, outputs=2),
    "trellis": Exported(
        Trellis,
        {"e": torch.randn(9, 12), "t": torch.tensor([0, 3, 4])},
        {"e": {0: "T"}, "t": {0: "U"}},
        {"t": (0, 11)},
        outputs=2,
        script=True,
    ),
    "dtw": Exported(
        Warped,
        {"a": torch.randn(6, 3), "b": torch.randn(5, 3)},
        {"a": {0: "A"}, "b": {0: "B"}},
        script=True,
    ),
    "kalman": Exported(Kalman, {"z": torch.randn(2, 7)}, {"z": TN}, outputs=2, script=True),
    "hmm": Exported(Hmm, {"x": torch.randn(2, 6, 4)}, {"x": TN}, script=True),
    "codec": Exported(Codec, {"x": torch.randn(2, 1, 64)}, {"x": {0: "N", 2: "S"}}, outputs=2),
    "hangover": Exported(Hangover, {"x": torch.randn(2, 6, 6)}, {"x": TN}, outputs=2, script=True),
}

if __name__ == "__main__":
    export_all(MODELS)
