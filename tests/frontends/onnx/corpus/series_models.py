"""Recurrent models of series, video and agents by both exporters: `series_models.py OUTDIR`.

Forecasting, anomalies, missing values, graphs; convolutional recurrent layers; policies with states
that episodes reset.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.torch_models import TN, Exported, export_all


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


class ConvLstm(nn.Module):
    """Two layers of convolutional LSTMs over frames, a frame predicted."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(7, 24, 3, padding=1), nn.Conv2d(12, 24, 3, padding=1)
        self.out = nn.Conv2d(6, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, _, _, height, width = x.size()
        h1, c1 = torch.zeros(n, 6, height, width), torch.zeros(n, 6, height, width)
        h2, c2 = torch.zeros(n, 6, height, width), torch.zeros(n, 6, height, width)
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            i, f, o, g = torch.split(self.one(torch.cat([x[:, t], h1], 1)), 6, dim=1)
            c1 = torch.sigmoid(f) * c1 + torch.sigmoid(i) * torch.tanh(g)
            h1 = torch.sigmoid(o) * torch.tanh(c1)
            i, f, o, g = torch.split(self.two(torch.cat([h1, h2], 1)), 6, dim=1)
            c2 = torch.sigmoid(f) * c2 + torch.sigmoid(i) * torch.tanh(g)
            h2 = torch.sigmoid(o) * torch.tanh(c2)
            rows.append(self.out(h2))
        return torch.stack(rows, 1)


class Flow(nn.Module):
    """Features of two images, their products, a convolutional GRU that refines a field by
    sampling; the number of turns is known."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv2d(1, 6, 3, 2, 1)
        self.z, self.r = nn.Conv2d(14, 6, 3, padding=1), nn.Conv2d(14, 6, 3, padding=1)
        self.q, self.head = nn.Conv2d(14, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one, two = self.front(a), self.front(b)
        n, _, height, width = one.shape
        ys = torch.linspace(-1, 1, 8).view(1, -1, 1).expand(n, -1, 8)
        xs = torch.linspace(-1, 1, 8).view(1, 1, -1).expand(n, 8, -1)
        grid = torch.stack([xs, ys], -1)
        flow, h = torch.zeros(n, 2, height, width), torch.tanh(one)
        for _ in range(3):
            warped = functional.grid_sample(
                two, grid + flow.permute(0, 2, 3, 1), align_corners=True
            )
            x = torch.cat([warped * one, flow], 1)
            hx = torch.cat([h, x], 1)
            z, r = torch.sigmoid(self.z(hx)), torch.sigmoid(self.r(hx))
            h = (1 - z) * h + z * torch.tanh(self.q(torch.cat([r * h, x], 1)))
            flow = flow + self.head(h)
        return functional.interpolate(flow, scale_factor=2.0, mode="bilinear", align_corners=True)


class Video(nn.Module):
    """Frames through a convolutional net each, then an LSTM over time."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()),
            *(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.ReLU6(), nn.Conv2d(8, 12, 1)),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.lstm, self.out = nn.LSTM(12, 10, batch_first=True), nn.Linear(10, 4)

    def forward(self, clip: Tensor) -> Tensor:
        n, t, c, h, w = clip.shape
        y = self.net(clip.reshape(n * t, c, h, w)).view(n, t, -1)
        return functional.softmax(self.out(self.lstm(y)[0][:, -1]), 1)


class Lines(nn.Module):
    """A mobile net for lines of text: squeeze and excitation, then two LSTMs; best classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.depth = nn.Conv2d(8, 8, 5, (2, 1), 2, groups=8)
        self.down, self.up = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.point, self.pool = nn.Conv2d(8, 16, 1), nn.MaxPool2d(2, 2)
        self.lstm = nn.LSTM(16, 12, 2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.hardswish(self.stem(x))
        y = functional.hardswish(self.depth(y))
        scale = functional.hardsigmoid(
            self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(y, 1))))
        )
        y = self.pool(functional.hardswish(self.point(y * scale)))
        y = functional.avg_pool2d(y, (4, 1)).squeeze(2).permute(0, 2, 1)
        chances = functional.softmax(self.out(self.lstm(y)[0]), 2)
        return chances.max(2)[0], chances.argmax(2).to(torch.int32)


class Policy(nn.Module):
    """An agent whose LSTM forgets where episodes start: actions, values and states."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh())
        self.cell = nn.LSTMCell(12, 10)
        self.pi, self.value = nn.Linear(10, 4), nn.Linear(10, 1)

    def forward(self, obs: Tensor, starts: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        y = self.net(obs)
        rows: list[Tensor] = []
        for t in range(obs.size(0)):
            keep = 1.0 - starts[t].unsqueeze(1)
            h, c = self.cell(y[t], (h * keep, c * keep))
            rows.append(h)
        z = torch.stack(rows)
        logits = self.pi(z)
        return logits.argmax(-1), torch.log_softmax(logits, -1), self.value(z).squeeze(-1), h, c


class Dueling(nn.Module):
    """Images, last actions and rewards through an LSTM; values of actions; states in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2), nn.ReLU(), nn.Conv2d(8, 8, 3, 1), nn.ReLU()
        )
        self.fc, self.lstm = nn.Linear(8 * 25, 16), nn.LSTM(16 + 5, 12)
        self.value, self.advantage = nn.Linear(12, 1), nn.Linear(12, 4)

    def forward(
        self, frames: Tensor, actions: Tensor, rewards: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        t, n = frames.shape[0], frames.shape[1]
        y = self.conv(frames.flatten(0, 1).float() / 255.0)
        y = functional.relu(self.fc(y.flatten(1)))
        hot = functional.one_hot(actions.flatten(0, 1), 4).float()
        y = torch.cat([y, hot, torch.clamp(rewards, -1, 1).view(t * n, 1)], -1)
        z, (h, c) = self.lstm(y.view(t, n, -1), (h, c))
        advantage = self.advantage(z)
        q = self.value(z) + advantage - advantage.mean(-1, keepdim=True)
        return q, q.argmax(-1), h, c


class World(nn.Module):
    """A model of a world: a GRU with layer norm, categories by their largest logits."""

    def __init__(self) -> None:
        super().__init__()
        self.front, self.norm1 = nn.Linear(12 + 2, 10), nn.LayerNorm(10)
        self.gates, self.norm2 = nn.Linear(20, 30, bias=False), nn.LayerNorm(30)
        self.prior = nn.Linear(10, 12)

    def forward(self, h: Tensor, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = functional.silu(self.norm1(self.front(torch.cat([z.flatten(1), action], -1))))
        parts = self.norm2(self.gates(torch.cat([h, x], -1)))
        reset, candidate, update = torch.chunk(parts, 3, -1)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        update = torch.sigmoid(update - 1)
        h = update * candidate + (1 - update) * h
        logits = self.prior(h).reshape(-1, 3, 4)
        probs = 0.99 * logits.softmax(-1) + 0.01 / 4
        sample = functional.one_hot(torch.argmax(probs, -1), 4).float()
        return h, sample, torch.log(probs)


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


class Selective(nn.Module):
    """A state space whose steps depend on the input, behind a causal convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.conv = nn.Linear(6, 16), nn.Conv1d(8, 8, 4, padding=3, groups=8)
        self.x, self.dt = nn.Linear(8, 2 + 8, bias=False), nn.Linear(2, 8)
        self.a = nn.Parameter(torch.arange(1.0, 5).log().repeat(8, 1))
        self.d, self.out = nn.Parameter(torch.ones(8)), nn.Linear(8, 6)

    def forward(self, u: Tensor) -> Tensor:
        x, gate = self.inside(u).chunk(2, -1)
        x = functional.silu(self.conv(x.transpose(1, 2))[..., : u.size(1)].transpose(1, 2))
        parts = self.x(x)
        delta = functional.softplus(self.dt(parts[..., :2]))
        b, c = parts[..., 2:6], parts[..., 6:]
        da = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.a))
        db = delta.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
        h = torch.zeros(u.size(0), 8, 4)
        rows: list[Tensor] = []
        for t in range(u.size(1)):
            h = da[:, t] * h + db[:, t]
            rows.append((h * c[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(rows, 1) + x * self.d
        return self.out(y * functional.silu(gate))


class Memory(nn.Module):
    """A controller that reads and writes a memory by content."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.heads = nn.LSTMCell(11, 10), nn.Linear(10, 5 + 1 + 5 + 5)
        self.start, self.out = nn.Parameter(torch.randn(7, 5) * 0.1), nn.Linear(15, 6)

    def forward(self, x: Tensor) -> Tensor:
        n = x.size(1)
        memory = self.start.unsqueeze(0).repeat(n, 1, 1)
        h, c, read = torch.zeros(n, 10), torch.zeros(n, 10), torch.zeros(n, 5)
        rows: list[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.cell(torch.cat([x[t], read], 1), (h, c))
            key, beta, erase, add = torch.split(self.heads(h), [5, 1, 5, 5], dim=1)
            near = functional.cosine_similarity(
                memory + 1e-16, torch.tanh(key).unsqueeze(1) + 1e-16, dim=-1
            )
            w = functional.softmax(functional.softplus(beta) * near, dim=1)
            memory = memory * (1 - w.unsqueeze(2) * torch.sigmoid(erase).unsqueeze(1))
            memory = memory + w.unsqueeze(2) * torch.tanh(add).unsqueeze(1)
            read = (w.unsqueeze(1) @ memory).squeeze(1)
            rows.append(self.out(torch.cat([h, read], 1)))
        return torch.stack(rows)


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


_FRAMES: dict[int, str] = {0: "T", 1: "N"}

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
    "conv_lstm": Exported(
        ConvLstm, {"x": torch.randn(2, 4, 1, 8, 9)}, {"x": {**TN, 3: "H", 4: "W"}}, script=True
    ),
    "flow": Exported(
        Flow,
        {"a": torch.randn(2, 1, 16, 16), "b": torch.randn(2, 1, 16, 16)},
        {"a": {0: "N"}, "b": {0: "N"}},
    ),
    "video": Exported(Video, {"clip": torch.randn(2, 4, 3, 16, 16)}, {"clip": TN}),
    "lines": Exported(Lines, {"x": torch.randn(2, 3, 32, 64)}, {"x": {0: "N", 3: "W"}}, outputs=2),
    "policy": Exported(
        Policy,
        {
            "obs": torch.randn(5, 2, 6),
            "starts": torch.zeros(5, 2),
            "h": torch.randn(2, 10),
            "c": torch.randn(2, 10),
        },
        {"obs": _FRAMES, "starts": _FRAMES, "h": {0: "N"}, "c": {0: "N"}},
        outputs=5,
        script=True,
    ),
    "dueling": Exported(
        Dueling,
        {
            "frames": torch.randint(0, 255, (3, 2, 1, 16, 16), dtype=torch.uint8),
            "actions": torch.randint(0, 4, (3, 2)),
            "rewards": torch.randn(3, 2),
            "h": torch.randn(1, 2, 12),
            "c": torch.randn(1, 2, 12),
        },
        {"frames": _FRAMES, "actions": _FRAMES, "rewards": _FRAMES, "h": {1: "N"}, "c": {1: "N"}},
        {"frames": (0, 255), "actions": (0, 3)},
        outputs=4,
    ),
    "world": Exported(
        World,
        {"h": torch.randn(2, 10), "z": torch.randn(2, 3, 4), "action": torch.randn(2, 2)},
        {"h": {0: "N"}, "z": {0: "N"}, "action": {0: "N"}},
        outputs=3,
    ),
    "matrices": Exported(Matrices, {"x": torch.randn(2, 5, 8)}, {"x": TN}, script=True),
    "selective": Exported(Selective, {"u": torch.randn(2, 6, 6)}, {"u": TN}, script=True),
    "kalman": Exported(
        Kalman,
        {"x": torch.randn(2, 4, 3), "series": torch.randn(2, 4)},
        {"x": {0: "N"}, "series": {0: "N"}},
        outputs=2,
    ),
    "memory": Exported(Memory, {"x": torch.randn(5, 2, 6)}, {"x": _FRAMES}, script=True),
}

if __name__ == "__main__":
    export_all(MODELS)
