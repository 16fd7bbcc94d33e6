"""Video, regions and motion by both exporters: `video_models.py OUTDIR`.

Features warped by flows, states of several resolutions, neighbours, slots that compete.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import Exported, export_all


def grid_of(x: Tensor) -> Tensor:
    """Places of all pixels of [N, C, H, W], as [1, 2, H, W]: x, then y."""
    rows, columns = torch.arange(x.shape[2]), torch.arange(x.shape[3])
    ys, xs = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack([xs, ys])[None].to(x.dtype)


def sampled(x: Tensor, places: Tensor, mode: str = "bilinear", padding: str = "zeros") -> Tensor:
    """Pixels of x [N, C, H, W] at places [N, 2, h, w]."""
    height, width = x.shape[2], x.shape[3]
    xs = 2 * places[:, 0] / max(width - 1, 1) - 1
    ys = 2 * places[:, 1] / max(height - 1, 1) - 1
    grid = torch.stack([xs, ys], 3)
    return functional.grid_sample(x, grid, mode, padding, align_corners=True)


class ConvGru(nn.Module):
    """Gates by convolutions."""

    def __init__(self, state: int, x: int, kernel: int | tuple[int, int] = 3) -> None:
        super().__init__()
        self.gates = nn.Conv2d(state + x, 2 * state, kernel, padding="same")
        self.candidate = nn.Conv2d(state + x, state, kernel, padding="same")

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        z, r = torch.sigmoid(self.gates(torch.cat([h, x], 1))).chunk(2, 1)
        return (1 - z) * h + z * torch.tanh(self.candidate(torch.cat([r * h, x], 1)))


class Flowing(nn.Module):
    """Optical flow: correlations of all pairs, read around where the flow points, refined."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 7, stride=4, padding=3)
        self.context = nn.Conv2d(3, 16, 7, stride=4, padding=3)
        self.motion = nn.Conv2d(2 * 25 + 2, 10, 3, padding=1)
        self.gru = ConvGru(8, 18)
        self.flow = nn.Conv2d(8, 2, 3, padding=1)
        self.mask = nn.Conv2d(8, 16 * 9, 1)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        f, g = self.features(one), self.features(other)
        n, c, height, width = f.shape
        pairs = f.flatten(2).transpose(1, 2) @ g.flatten(2) / c**0.5
        pairs = pairs.reshape(n * height * width, 1, height, width)
        levels = [pairs, functional.avg_pool2d(pairs, 2, 2)]
        h, inputs = self.context(one).chunk(2, 1)
        h, inputs = torch.tanh(h), torch.relu(inputs)
        start = grid_of(f).expand(n, -1, -1, -1)
        places = start
        span = torch.arange(-2, 3).to(f.dtype)
        around = torch.stack(torch.meshgrid(span, span, indexing="ij"))[None]
        up = start
        for _ in range(3):
            centres = places.permute(0, 2, 3, 1).reshape(-1, 2, 1, 1)
            found = [
                sampled(level, centres / 2**i + around).view(n, height, width, 25)
                for i, level in enumerate(levels)
            ]
            near = torch.cat(found, 3).permute(0, 3, 1, 2)
            flow = places - start
            moved = torch.relu(self.motion(torch.cat([near, flow], 1)))
            h = self.gru(h, torch.cat([inputs, moved], 1))
            places = places + self.flow(h)
            flow = places - start
            mask = torch.softmax(self.mask(h).view(n, 1, 9, 4, 4, height, width), 2)
            nine = functional.unfold(4 * flow, 3, padding=1).view(n, 2, 9, 1, 1, height, width)
            up = (mask * nine).sum(2).permute(0, 1, 4, 2, 5, 3)
            up = up.reshape(n, 2, 4 * height, 4 * width)
        return up


class Propagated(nn.Module):
    """Super-resolution: frames' features warped and carried both ways, pixels shuffled."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = nn.Conv2d(6, 2, 5, padding=2)
        self.behind, self.ahead = nn.Conv2d(11, 8, 3, padding=1), nn.Conv2d(11, 8, 3, padding=1)
        self.fuse, self.up = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 12, 3, padding=1)

    def one_way(self, x: Tensor, conv: nn.Module, backwards: bool) -> list[Tensor]:
        n, count, _, height, width = x.shape
        h = x.new_zeros(n, 8, height, width)
        made = list[Tensor]()
        order = range(count)[::-1] if backwards else range(count)
        last = x[:, order[0]]
        for t in order:
            flow = self.flow(torch.cat([x[:, t], last], 1))
            h = sampled(h, grid_of(h) + flow, "bilinear", "border")
            last = x[:, t]
            h = functional.leaky_relu(conv(torch.cat([last, h], 1)), 0.1)
            made.append(h)
        return made[::-1] if backwards else made

    def forward(self, x: Tensor) -> Tensor:
        behind, ahead = self.one_way(x, self.behind, True), self.one_way(x, self.ahead, False)
        frames = list[Tensor]()
        for t, (left, right) in enumerate(zip(behind, ahead, strict=True)):
            y = functional.pixel_shuffle(self.up(self.fuse(torch.cat([left, right], 1))), 2)
            frames.append(y + functional.interpolate(x[:, t], scale_factor=2.0, mode="bicubic"))
        return torch.stack(frames, 1)


class Trajectories(nn.Module):
    """A cell whose hidden neighbours are where a net says, by warping."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Conv2d(3 + 6, 2 * 3, 5, padding=2)
        self.x, self.h = nn.Conv2d(3, 18, 3, padding=1), nn.Conv2d(18, 18, 1)

    def forward(self, x: Tensor) -> Tensor:
        n, _, height, width = x.size(0), x.size(1), x.size(3), x.size(4)
        h = torch.zeros([n, 6, height, width])
        made: list[Tensor] = []
        for t in range(x.size(1)):
            points = self.points(torch.cat([x[:, t], h], 1)).view(n, 3, 2, height, width)
            ys = torch.linspace(-1.0, 1.0, 6)[None, :, None].expand(n, height, width)
            xs = torch.linspace(-1.0, 1.0, 6)[None, None].expand(n, height, width)
            near: list[Tensor] = []
            for link in range(3):
                grid = torch.stack([xs + points[:, link, 0], ys + points[:, link, 1]], 3)
                near.append(functional.grid_sample(h, grid, align_corners=False))
            zx, rx, cx = self.x(x[:, t]).chunk(3, 1)
            zh, rh, ch = self.h(torch.cat(near, 1)).chunk(3, 1)
            z = torch.sigmoid(zx + zh)
            h = z * h + (1 - z) * functional.leaky_relu(cx + torch.sigmoid(rx + rh) * ch, 0.2)
            made.append(h)
        return torch.stack(made, 1)


class Matting(nn.Module):
    """A step of a matter: states of two resolutions in and out, a guided filter at the full one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, 2, 1)
        self.low, self.high = ConvGru(6, 6), ConvGru(4, 4)
        self.squeeze, self.up = nn.Conv2d(12, 12, 1), nn.Conv2d(12 + 8 + 3, 8, 3, padding=1)
        self.out = nn.Conv2d(8 + 3, 4, 3, padding=1)
        self.box = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)

    def forward(self, image: Tensor, r1: Tensor, r2: Tensor) -> tuple[Tensor, ...]:
        small = functional.interpolate(image, scale_factor=0.5, mode="bilinear")
        half = functional.hardswish(self.first(small))
        quarter = functional.hardswish(self.second(half))
        a, b = self.squeeze(quarter).split(6, 1)
        zeros = torch.zeros_like(b)
        r2 = self.low(r2.expand_as(zeros), b)
        y = torch.cat([a, r2], 1)
        y = functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        pooled = functional.avg_pool2d(small, 2, 2, count_include_pad=False, ceil_mode=True)
        y = y[:, :, : half.size(2), : half.size(3)]
        y = torch.relu(self.up(torch.cat([y, half, pooled], 1)))
        a, b = y.split(4, 1)
        r1 = self.high(r1.expand_as(b), b)
        y = functional.interpolate(torch.cat([a, r1], 1), scale_factor=2.0, mode="bilinear")
        y = self.out(torch.cat([y[:, :, : small.size(2), : small.size(3)], small], 1))
        mean = self.box(y)
        slope = (y * mean - mean * mean) / (mean * mean + 1e-3)
        size = image.shape[2:]
        fine = functional.interpolate(slope, size, mode="bilinear", align_corners=False)
        coarse = functional.interpolate(y, size, mode="bilinear", align_corners=False)
        foreground, alpha = (fine * image.mean(1, keepdim=True) + coarse).split([3, 1], 1)
        return (foreground + image).clamp(0, 1), alpha.clamp(0, 1), r1, r2


class Social(nn.Module):
    """Walkers: relative places pooled over neighbours in each step, predicted by an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.pair = nn.Linear(2, 6), nn.Linear(2 + 8, 6)
        self.cell, self.out = nn.LSTMCell(12, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        walkers = x.size(1)
        h = torch.zeros([walkers, 8])
        c = torch.zeros([walkers, 8])
        made: list[Tensor] = []
        alone = torch.eye(walkers, dtype=torch.bool)
        for t in range(x.size(0)):
            apart = x[t][None] - x[t][:, None]
            pairs = torch.cat([apart, h[None].expand(walkers, walkers, 8)], 2)
            near = (apart.norm(dim=2) < 1.5) & present[t][None] & ~alone
            pairs = torch.relu(self.pair(pairs)).masked_fill(~near[:, :, None], -1e4)
            pooled = pairs.max(1)[0] * near.any(1)[:, None].float()
            following = self.cell(torch.cat([self.place(x[t]), pooled], 1), (h, c))
            h = torch.where(present[t][:, None], following[0], h)
            c = torch.where(present[t][:, None], following[1], c)
            made.append(x[t] + self.out(h))
        return torch.stack(made)


class Slots(nn.Module):
    """Slots that compete for the pixels of a frame, a GRU for each, from frame to frame."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.start = nn.Conv2d(3, 8, 3, padding=1), nn.Parameter(torch.randn(1, 4, 8))
        self.q, self.k, self.v = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.cell, self.norm = nn.GRUCell(8, 8), nn.LayerNorm(8)
        self.between = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        n, count = x.size(0), x.size(1)
        slots = self.start.expand(n, 4, 8)
        made: list[Tensor] = []
        for t in range(count):
            y = self.norm(torch.relu(self.conv(x[:, t])).flatten(2).transpose(1, 2))
            k, v = self.k(y), self.v(y)
            for _ in range(2):
                scores = torch.einsum("nsd,npd->nsp", self.q(self.norm(slots)), k) / 8**0.5
                weights = torch.softmax(scores, 1) + 1e-6
                weights = weights / weights.sum(2, keepdim=True)
                update = torch.einsum("nsp,npd->nsd", weights, v)
                slots = self.cell(update.reshape(-1, 8), slots.reshape(-1, 8)).view(n, 4, 8)
            made.append(slots)
            slots = self.between(slots)
        return torch.stack(made, 1)


NHW = {0: "N", 2: "H", 3: "W"}
MODELS = {
    "flowing": Exported(
        Flowing,
        {"one": torch.randn(1, 3, 32, 24), "other": torch.randn(1, 3, 32, 24)},
        {"one": {0: "N"}, "other": {0: "N"}},
    ),
    "flowing_open": Exported(
        Flowing,
        {"one": torch.randn(1, 3, 32, 24), "other": torch.randn(1, 3, 32, 24)},
        {"one": {2: "H", 3: "W"}, "other": {2: "H", 3: "W"}},
    ),
    "propagated": Exported(
        Propagated, {"x": torch.randn(2, 3, 3, 6, 8)}, {"x": {0: "N", 3: "H", 4: "W"}}
    ),
    "trajectories": Exported(
        Trajectories, {"x": torch.randn(2, 3, 3, 6, 6)}, {"x": {0: "N", 1: "T"}}, script=True
    ),
    "matting": Exported(
        Matting,
        {
            "image": torch.randn(1, 3, 16, 24),
            "r1": torch.randn(1, 4, 4, 6),
            "r2": torch.randn(1, 6, 2, 3),
        },
        {"image": {0: "N"}, "r1": {0: "N"}, "r2": {0: "N"}},
        outputs=4,
    ),
    "social": Exported(
        Social,
        {"x": torch.randn(4, 3, 2), "present": torch.ones(4, 3, dtype=torch.bool)},
        {"x": {0: "T", 1: "N"}, "present": {0: "T", 1: "N"}},
        script=True,
    ),
    "slots": Exported(
        Slots, {"x": torch.randn(2, 3, 3, 4, 6)}, {"x": {0: "N", 1: "T"}}, script=True
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
