"""Recurrent models of series by both exporters: `series_models.py OUTDIR`.

Forecasting, anomalies, missing values, graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class DeepAr(nn.Module):
    """A stack of LSTMs over lagged values, then steps that are fed their own means."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.lstm = nn.LSTM(8, 12, 2, batch_first=True)
        self.mu, self.sigma = nn.Linear(24, 1), nn.Linear(24, 1)

    def forward(self, past: Tensor, future: Tensor, series: Tensor) -> tuple[Tensor, Tensor]:
        scale = past[..., 0].abs().mean(1, keepdim=True).clamp(min=0.1)
        place = self.embed(series)
        x = torch.cat([past[..., :1] / scale.unsqueeze(2), past[..., 1:]], -1)
        x = torch.cat([x, place.unsqueeze(1).expand(-1, x.size(1), -1)], -1)
        _, (h, c) = self.lstm(x)
        last = past[:, -1, 0:1] / scale
        means: list[Tensor] = []
        deviations: list[Tensor] = []
        for t in range(future.size(1)):
            row = torch.cat([last, future[:, t], place], -1).unsqueeze(1)
            _, (h, c) = self.lstm(row, (h, c))
            both = h.permute(1, 2, 0).contiguous().view(h.size(1), -1)
            last = self.mu(both)
            means.append(last * scale)
            deviations.append(functional.softplus(self.sigma(both)) * scale)
        return torch.cat(means, 1), torch.cat(deviations, 1)


class Smoothing(nn.Module):
    """Exponential smoothing with seasons, then a dilated LSTM with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha, self.gamma = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        self.seasons = nn.Parameter(torch.rand(1, 4) + 0.5)
        self.lstm1, self.lstm2 = nn.LSTM(6, 10), nn.LSTM(10, 10)
        self.out = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, g = torch.sigmoid(self.alpha), torch.sigmoid(self.gamma)
        season = self.seasons.expand(x.size(0), -1)
        level = x[:, 0:1] / season[:, 0:1]
        levels: list[Tensor] = [level]
        seasonal: list[Tensor] = [season[:, 0:1]]
        for t in range(1, x.size(1)):
            now = season[:, 1:2]
            new = a * (x[:, t : t + 1] / now) + (1 - a) * level
            season = torch.cat([season[:, 1:], g * (x[:, t : t + 1] / new) + (1 - g) * now], 1)
            level = new
            levels.append(level)
            seasonal.append(now)
        joined, factors = torch.cat(levels, 1), torch.cat(seasonal, 1)
        normed = x / (joined * factors)
        windows = normed.unfold(1, 6, 1).transpose(0, 1)
        y = self.lstm1(windows)[0]
        y = self.lstm2(y)[0] + y
        return self.out(torch.tanh(y)).transpose(0, 1), joined


class GatedResidual(nn.Module):
    """A gated layer beside what it starts from, normalised."""

    def __init__(self, size: int, hidden: int, made: int) -> None:
        super().__init__()
        self.skip = nn.Linear(size, made) if size != made else nn.Identity()
        self.one, self.two = nn.Linear(size, hidden), nn.Linear(hidden, hidden)
        self.gate, self.norm = nn.Linear(hidden, 2 * made), nn.LayerNorm(made)

    def forward(self, x: Tensor) -> Tensor:
        y = self.two(functional.elu(self.one(x)))
        return self.norm(functional.glu(self.gate(y), -1) + self.skip(x))


class Fusion(nn.Module):
    """Selection of variables, LSTMs of past and future, attention with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(1, 8) for _ in range(3))
        self.choose = GatedResidual(24, 8, 3)
        self.each = nn.ModuleList(GatedResidual(8, 8, 8) for _ in range(3))
        self.past, self.future = nn.LSTM(8, 8, batch_first=True), nn.LSTM(8, 8, batch_first=True)
        self.gate, self.norm = nn.Linear(8, 16), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last, self.out = GatedResidual(8, 8, 8), nn.Linear(8, 3)

    def select(self, x: Tensor) -> Tensor:
        each = [part(x[..., i : i + 1]) for i, part in enumerate(self.parts)]
        weight = self.choose(torch.cat(each, -1)).softmax(-1).unsqueeze(-2)
        made = torch.stack([layer(y) for layer, y in zip(self.each, each, strict=True)], -1)
        return (made * weight).sum(-1)

    def forward(self, past: Tensor, future: Tensor) -> Tensor:
        p, f = self.select(past), self.select(future)
        yp, state = self.past(p)
        yf, _ = self.future(f, state)
        y = self.norm(functional.glu(self.gate(torch.cat([yp, yf], 1)), -1) + torch.cat([p, f], 1))
        mask = torch.triu(torch.ones(y.size(1), y.size(1), dtype=torch.bool), 1)
        seen, _ = self.attention(y, y, y, attn_mask=mask)
        return self.out(self.last(seen + y)[:, past.size(1) :])


class Skips(nn.Module):
    """Convolution, a GRU, a GRU over every fourth step, and a linear part."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 10, (3, 5))
        self.gru, self.skip = nn.GRU(10, 8), nn.GRU(10, 4)
        self.out, self.line = nn.Linear(8 + 16, 5), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(0)
        c = functional.relu(self.conv(x.unsqueeze(1))).squeeze(3)
        _, r = self.gru(c.permute(2, 0, 1))
        steps = (x.size(1) - 2) // 4
        s = c[:, :, -steps * 4 :].contiguous().view(n, 10, steps, 4)
        s = s.permute(2, 0, 3, 1).contiguous().view(steps, n * 4, 10)
        _, s = self.skip(s)
        y = self.out(torch.cat([r.squeeze(0), s.view(n, 16)], 1))
        z = self.line(x[:, -6:, :].permute(0, 2, 1).contiguous().view(-1, 6))
        return torch.sigmoid(y + z.view(-1, 5))


class GraphGru(nn.Module):
    """A GRU whose products are convolutions over a graph, encoder and decoder in loops."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Parameter(torch.randn(6, 4) * 0.5)
        self.gates, self.update = nn.Linear(3 * 9, 16), nn.Linear(3 * 9, 8)
        self.out = nn.Linear(8, 1)

    def spread(self, x: Tensor, support: Tensor) -> Tensor:
        one = torch.einsum("nm,bmc->bnc", support, x)
        two = 2 * torch.einsum("nm,bmc->bnc", support, one) - x
        return torch.cat([x, one, two], -1)

    def forward(self, x: Tensor, horizon: Tensor) -> Tensor:
        support = functional.softmax(
            functional.relu(self.embed @ self.embed.transpose(0, 1)), dim=1
        )
        h = torch.zeros(x.size(0), 6, 8)
        for t in range(x.size(1)):
            z, r = torch.sigmoid(
                self.gates(self.spread(torch.cat([x[:, t], h], -1), support))
            ).chunk(2, -1)
            new = torch.tanh(self.update(self.spread(torch.cat([x[:, t], r * h], -1), support)))
            h = z * h + (1 - z) * new
        value = x[:, -1]
        rows: list[Tensor] = []
        for _ in range(horizon.size(0)):
            z, r = torch.sigmoid(self.gates(self.spread(torch.cat([value, h], -1), support))).chunk(
                2, -1
            )
            new = torch.tanh(self.update(self.spread(torch.cat([value, r * h], -1), support)))
            h = z * h + (1 - z) * new
            value = self.out(h)
            rows.append(value)
        return torch.stack(rows, 1)


class TwoStages(nn.Module):
    """Attention to series by an encoder, attention to steps by a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.LSTMCell(5, 8), nn.LSTMCell(1, 8)
        self.we, self.ue, self.ve = nn.Linear(16, 7), nn.Linear(7, 7), nn.Linear(7, 1)
        self.wd, self.ud, self.vd = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.fc, self.out = nn.Linear(9, 1), nn.Linear(16, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h, c = torch.zeros(x.size(0), 8), torch.zeros(x.size(0), 8)
        series = self.ue(x.permute(0, 2, 1))
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            e = self.ve(torch.tanh(self.we(torch.cat([h, c], 1)).unsqueeze(1) + series))
            h, c = self.encoder(functional.softmax(e.squeeze(2), 1) * x[:, t], (h, c))
            rows.append(h)
        keys = torch.stack(rows, 1)
        d, s = torch.zeros_like(h), torch.zeros_like(c)
        context = torch.zeros_like(h)
        for t in range(x.size(1)):
            e = self.vd(torch.tanh(self.wd(torch.cat([d, s], 1)).unsqueeze(1) + self.ud(keys)))
            context = torch.bmm(functional.softmax(e, 1).transpose(1, 2), keys).squeeze(1)
            d, s = self.decoder(self.fc(torch.cat([context, y[:, t : t + 1]], 1)), (d, s))
        return self.out(torch.cat([d, context], 1))


class Missing(nn.Module):
    """Values that are missing decay towards their means, and the state decays too."""

    def __init__(self) -> None:
        super().__init__()
        self.decay_x, self.decay_h = nn.Parameter(torch.rand(5)), nn.Linear(5, 8)
        self.cell, self.mean = nn.GRUCell(10, 8), nn.Parameter(torch.randn(5))
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor, mask: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        h, last = torch.zeros(x.size(0), 8), self.mean.expand(x.size(0), -1)
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            m, d = mask[:, t], delta[:, t]
            gamma = torch.exp(-functional.relu(self.decay_x * d))
            last = torch.where(m > 0, x[:, t], last)
            value = m * x[:, t] + (1 - m) * (gamma * last + (1 - gamma) * self.mean)
            h = h * torch.exp(-functional.relu(self.decay_h(d)))
            h = self.cell(torch.cat([value, m], 1), h)
            rows.append(self.out(h))
        return torch.stack(rows, 1), h


class Reconstruct(nn.Module):
    """An autoencoder: the last state, repeated, becomes the sequence again, backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(4, 12, batch_first=True)
        self.narrow = nn.LSTM(12, 6, batch_first=True)
        self.mean, self.spread = nn.Linear(6, 3), nn.Linear(6, 3)
        self.wide = nn.Linear(3, 6)
        self.decoder, self.out = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, _ = self.encoder(x)
        _, (h, _) = self.narrow(functional.relu(y))
        h = h.squeeze(0)
        mean, logs = self.mean(h), self.spread(h)
        z = self.wide(mean + 0.0 * torch.exp(0.5 * logs))
        y = self.out(self.decoder(z.unsqueeze(1).repeat(1, x.shape[1], 1))[0])
        y = torch.flip(y, [1])
        error = ((y - x) ** 2).mean(dim=(1, 2))
        return y, error, (error > 0.5).to(torch.int32)


class Normalised(nn.Module):
    """Series normalised by themselves, patches as steps, and normalised back."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        self.patch, self.gru = nn.Linear(4, 8), nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        std = torch.sqrt(torch.var(x, 1, keepdim=True, unbiased=False) + 1e-5)
        y = ((x - mean) / std * self.w + self.b).permute(0, 2, 1).reshape(-1, x.size(1) // 4, 4)
        y = self.out(self.gru(functional.relu(self.patch(y)))[0][:, -1])
        y = y.reshape(-1, 3, 6).permute(0, 2, 1)
        return (y - self.b) / (self.w + 1e-10) * std + mean


class Matrices(nn.Module):
    """A cell whose state is a matrix, with exponential gates that are kept in range."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.gates = nn.Linear(8, 24), nn.Linear(8, 3)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(0)
        c, s, m = torch.zeros(n, 8, 8), torch.zeros(n, 8), torch.zeros(n, 1)
        q, k, v = self.qkv(x).chunk(3, -1)
        gates = self.gates(x)
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            i, f, o = gates[:, t, 0:1], functional.logsigmoid(gates[:, t, 1:2]), gates[:, t, 2:3]
            new = torch.maximum(f + m, i)
            i, f, m = torch.exp(i - new), torch.exp(f + m - new), new
            key = k[:, t] / 8.0**0.5
            c = f.unsqueeze(2) * c + i.unsqueeze(2) * (v[:, t].unsqueeze(2) @ key.unsqueeze(1))
            s = f * s + i * key
            under = torch.clamp((s * q[:, t]).sum(1, keepdim=True).abs(), min=1.0)
            y = (c @ q[:, t].unsqueeze(2)).squeeze(2) / under
            rows.append(torch.sigmoid(o) * self.norm(y))
        return torch.stack(rows, 1)


class Kalman(nn.Module):
    """A filter of level and trend whose noises an LSTM tells, and the likelihood of a series."""

    moves: Tensor
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.noises = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 3)
        self.register_buffer("moves", torch.tensor([[1.0, 1.0], [0.0, 0.9]]))
        self.register_buffer("seen", torch.tensor([[1.0, 0.0]]))

    def forward(self, x: Tensor, series: Tensor) -> tuple[Tensor, Tensor]:
        noises = functional.softplus(self.noises(self.rnn(x)[0])) + 0.01
        mean, spread = torch.zeros(x.size(0), 2, 1), torch.eye(2).repeat(x.size(0), 1, 1)
        likelihood, means = torch.zeros(x.size(0)), list[Tensor]()
        for t in range(x.size(1)):
            mean = self.moves @ mean
            noise = torch.eye(2) * noises[:, t, :2].unsqueeze(1)
            spread = self.moves @ spread @ self.moves.t() + noise
            variance = self.seen @ spread @ self.seen.t() + noises[:, t, 2].view(-1, 1, 1)
            gain = spread @ self.seen.t() / variance
            error = series[:, t].view(-1, 1, 1) - self.seen @ mean
            mean, spread = mean + gain @ error, spread - gain @ self.seen @ spread
            likelihood = likelihood - (torch.log(variance) + error * error / variance).view(-1) / 2
            means.append(mean.squeeze(-1))
        return torch.stack(means, 1), likelihood


MODELS: dict[str, Exported] = {
    "deep_ar": Exported(
        DeepAr,
        {
            "past": torch.randn(2, 6, 4),
            "future": torch.randn(2, 3, 3),
            "series": torch.tensor([1, 4]),
        },
        {"past": TN, "future": {0: "N", 1: "H"}, "series": {0: "N"}},
        {"series": (0, 9)},
        outputs=2,
        script=True,
    ),
    "smoothing": Exported(
        Smoothing, {"x": torch.randn(2, 12).abs() + 0.5}, {"x": TN}, outputs=2, script=True
    ),
    "fusion": Exported(
        Fusion,
        {"past": torch.randn(2, 6, 3), "future": torch.randn(2, 4, 3)},
        {"past": TN, "future": {0: "N", 1: "H"}},
    ),
    "skips": Exported(Skips, {"x": torch.randn(2, 18, 5)}, {"x": TN}),
    "graph_gru": Exported(
        GraphGru,
        {"x": torch.randn(2, 5, 6, 1), "horizon": torch.randn(3)},
        {"x": TN, "horizon": {0: "H"}},
        script=True,
    ),
    "two_stages": Exported(
        TwoStages,
        {"x": torch.randn(2, 7, 5), "y": torch.randn(2, 7)},
        {"x": TN, "y": TN},
        script=True,
    ),
    "missing": Exported(
        Missing,
        {
            "x": torch.randn(2, 6, 5),
            "mask": torch.randn(2, 6, 5).sign().relu(),
            "delta": torch.randn(2, 6, 5).abs(),
        },
        {"x": TN, "mask": TN, "delta": TN},
        outputs=2,
        script=True,
    ),
    "reconstruct": Exported(Reconstruct, {"x": torch.randn(2, 8, 4)}, {"x": TN}, outputs=3),
    "normalised": Exported(Normalised, {"x": torch.randn(2, 24, 3)}, {"x": {0: "N"}}),
    "matrices": Exported(Matrices, {"x": torch.randn(2, 5, 8)}, {"x": TN}, script=True),
    "kalman": Exported(
        Kalman,
        {"x": torch.randn(2, 4, 3), "series": torch.randn(2, 4)},
        {"x": {0: "N"}, "series": {0: "N"}},
        outputs=2,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
