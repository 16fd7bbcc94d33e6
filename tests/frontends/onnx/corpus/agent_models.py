"""Video and agents by both exporters: `agent_models.py OUTDIR`.

Convolutional recurrent layers; policies with states that episodes reset.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


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


_FRAMES: dict[int, str] = {0: "T", 1: "N"}


MODELS: dict[str, Exported] = {
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
    "memory": Exported(Memory, {"x": torch.randn(5, 2, 6)}, {"x": _FRAMES}, script=True),
}


if __name__ == "__main__":
    export_all(MODELS)
