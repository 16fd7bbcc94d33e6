"""Recurrent models of further tasks, by both exporters: `python task_models.py OUTDIR`.

Written chunks, detectors of anomalies, forecasts, sessions, policies, students, trees, trackers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.torch_models import TN, Exported, export_all


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


class Joint(nn.Module):
    """A transducer's prediction and joint networks, over frames and tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(20, 8, padding_idx=0), nn.LSTM(8, 12, batch_first=True)
        self.frames, self.tokens, self.out = nn.Linear(10, 12), nn.Linear(12, 12), nn.Linear(12, 20)

    def forward(self, frames: Tensor, tokens: Tensor) -> Tensor:
        before = functional.pad(tokens, (1, 0))
        y, _ = self.rnn(self.words(before))
        joint = self.frames(frames).unsqueeze(2) + self.tokens(y).unsqueeze(1)
        return self.out(joint.tanh()).log_softmax(-1)


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


class Tacotron(nn.Module):
    """Frames until a stop token, by attention that knows where it has been."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.decode = nn.LSTMCell(16, 8), nn.LSTMCell(16, 8)
        self.before = nn.Linear(5, 8)
        self.query, self.key, self.score = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.place, self.seen = nn.Conv1d(2, 4, 5, padding=2), nn.Linear(4, 8)
        self.frame, self.stop = nn.Linear(16, 5), nn.Linear(16, 1)

    def forward(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        n, letters = memory.size(0), memory.size(1)
        frame, context = torch.zeros([n, 5]), torch.zeros([n, 8])
        h, c, k, m = (torch.zeros([n, 8]) for _ in range(4))
        weights, total = torch.zeros([n, letters]), torch.zeros([n, letters])
        keys = self.key(memory)
        frames: list[Tensor] = []
        stops: list[Tensor] = []
        for _ in range(3 * letters):
            y = torch.relu(self.before(frame))
            h, c = self.attend(torch.cat([y, context], 1), (h, c))
            place = self.seen(self.place(torch.stack([weights, total], 1)).transpose(1, 2))
            scores = self.score(torch.tanh(self.query(h).unsqueeze(1) + keys + place)).squeeze(2)
            weights = scores.softmax(1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            k, m = self.decode(torch.cat([h, context], 1), (k, m))
            both = torch.cat([k, context], 1)
            frame = self.frame(both)
            frames.append(frame)
            stops.append(torch.sigmoid(self.stop(both)))
        return torch.stack(frames, 1), torch.cat(stops, 1)


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


class Svdf(nn.Module):
    """A keyword spotter of one frame: filters over features and a memory of frames."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ModuleList([nn.Linear(10, 16), nn.Linear(8, 16)])
        self.time = nn.ParameterList(torch.randn(16, 6) * 0.3 for _ in range(2))
        self.out = nn.Linear(8, 4)

    def forward(
        self, frame: Tensor, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        memories = [first, second]
        y = frame
        for k in range(2):
            new = self.features[k](y).unsqueeze(2)
            memories[k] = torch.cat([memories[k][:, :, 1:], new], 2)
            y = (memories[k] * self.time[k]).sum(2)
            y = torch.relu(y.view(-1, 8, 2).sum(2))
        return self.out(y).softmax(1), memories[0], memories[1]


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


class Frames(nn.Module):
    """Pictures of a clip by convolutions, one by one, then an LSTM; the last valid step."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6()),
            *(nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), nn.Hardswish()),
            *(nn.Conv2d(8, 12, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.lstm, self.out = nn.LSTM(12, 10, batch_first=True), nn.Linear(10, 4)

    def forward(self, clip: Tensor, lengths: Tensor) -> Tensor:
        n, t = clip.shape[:2]
        y = self.lstm(self.eye(clip.flatten(0, 1)).view(n, t, -1))[0]
        return self.out(y[torch.arange(n), lengths - 1])


class Mixer(nn.Module):
    """Blocks that mix a fixed number of steps, then features, normalised by the instance."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.features = nn.ModuleList(
            nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 5)) for _ in range(2)
        )
        self.rnn, self.out = nn.GRU(5, 5, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        spread = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = (x - mean) / spread
        for time, features in zip(self.time, self.features, strict=True):
            y = y + torch.relu(time(y.transpose(1, 2))).transpose(1, 2)
            y = y + features(y)
        y = self.rnn(y)[0]
        return self.out(y.transpose(1, 2)).transpose(1, 2) * spread + mean


class WaveRnn(nn.Module):
    """Samples from coarse and fine halves, each the likeliest."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.up = nn.GRUCell(2 + 6, 16), nn.ConvTranspose1d(5, 6, 4, 4)
        self.coarse, self.fine = nn.Linear(8, 16), nn.Linear(8 + 1, 16)

    def forward(self, mel: Tensor) -> Tensor:
        condition = self.up(mel)
        h, last = torch.zeros([mel.size(0), 16]), torch.zeros([mel.size(0), 2])
        samples: list[Tensor] = []
        for t in range(condition.size(2)):
            h = self.cell(torch.cat([last, condition[:, :, t]], 1), h)
            a, b = h.chunk(2, 1)
            coarse = self.coarse(a).argmax(1)
            near = coarse.float().unsqueeze(1) / 8.0 - 1.0
            fine = self.fine(torch.cat([b, near], 1)).argmax(1)
            last = torch.stack([near.squeeze(1), fine.float() / 8.0 - 1.0], 1)
            samples.append((coarse * 16 + fine).float() / 128.0 - 1.0)
        return torch.stack(samples, 1)


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
    "sessions": Exported(
        Sessions,
        {"items": _words(2, 6), "begins": torch.rand(2, 6) > 0.7},
        {"items": TN, "begins": TN},
        {"items": (0, 29)},
        script=True,
    ),
    "sas_rec": Exported(SasRec, {"items": _words(2, 6)}, {"items": TN}, {"items": (0, 29)}),
    "joint": Exported(
        Joint,
        {"frames": _x(2, 9, 10), "tokens": _words(2, 5)},
        {"frames": TN, "tokens": {0: "N", 1: "U"}},
        {"tokens": (0, 19)},
    ),
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
    "graph_rnn": Exported(
        GraphRnn,
        {"nodes": _x(2, 5, 8), "edges": torch.rand(2, 5, 5)},
        {"nodes": TN, "edges": {0: "N", 1: "T", 2: "T"}},
    ),
    "conv_lstm_both": Exported(
        ConvLstmBoth, {"x": _x(2, 4, 2, 8, 9)}, {"x": {0: "N", 1: "T", 3: "H", 4: "W"}}, script=True
    ),
    "tacotron": Exported(Tacotron, {"memory": _x(2, 6, 8)}, {"memory": TN}, outputs=2, script=True),
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
    "svdf": Exported(
        Svdf,
        {"frame": _x(2, 10), "first": _x(2, 16, 6), "second": _x(2, 16, 6)},
        {"frame": _N, "first": _N, "second": _N},
        outputs=3,
    ),
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
    "frames": Exported(
        Frames,
        {"clip": _x(2, 4, 3, 16, 16), "lengths": torch.tensor([4, 2])},
        {"clip": TN, "lengths": _N},
        {"lengths": (1, "T")},
    ),
    "mixer": Exported(Mixer, {"x": _x(2, 16, 5)}, {"x": _N}),
    "wave_rnn": Exported(WaveRnn, {"mel": _x(2, 5, 4)}, {"mel": {0: "N", 2: "T"}}, script=True),
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
