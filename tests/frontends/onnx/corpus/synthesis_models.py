"""Synthesis, separation and speakers by both exporters: `synthesis_models.py OUTDIR`.

Flows and splines, durations that become frames, fired tokens, chunks that overlap, pooled
statistics.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Res2(nn.Module):
    """Channels in parts, each convolved with the one before it."""

    def __init__(self, size: int, parts: int, dilation: int) -> None:
        super().__init__()
        self.parts = parts
        wide = size // parts
        self.convs = nn.ModuleList(
            nn.Conv1d(wide, wide, 3, dilation=dilation, padding=dilation) for _ in range(parts - 1)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(wide) for _ in range(parts - 1))

    def forward(self, x: Tensor) -> Tensor:
        made = list[Tensor]()
        y = torch.zeros(())
        for i, part in enumerate(torch.chunk(x, self.parts, 1)):
            if i:
                step = part if i == 1 else part + y
                y = self.norms[i - 1](functional.relu(self.convs[i - 1](step)))
                made.append(y)
            else:
                made.append(part)
        return torch.cat(made, 1)


class Ecapa(nn.Module):
    """Speakers: parts of channels, squeezed and excited, statistics weighted under a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(20, 32, 5, padding=2)
        self.res = nn.ModuleList(Res2(32, 4, d) for d in (2, 3))
        self.squeeze = nn.ModuleList(
            nn.Sequential(nn.Conv1d(32, 8, 1), nn.ReLU(), nn.Conv1d(8, 32, 1), nn.Sigmoid())
            for _ in range(2)
        )
        self.mix = nn.Conv1d(64, 48, 1)
        self.attend = nn.Sequential(nn.Conv1d(144, 16, 1), nn.Tanh(), nn.Conv1d(16, 48, 1))
        self.norm = nn.BatchNorm1d(96)
        self.out = nn.Linear(96, 24)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        mask = (torch.arange(x.shape[2])[None] < lengths[:, None]).unsqueeze(1)
        y = functional.relu(self.front(x))
        kept = list[Tensor]()
        for res, squeeze in zip(self.res, self.squeeze, strict=True):
            z = res(y)
            total = mask.sum(2, keepdim=True)
            mean = (z * mask).sum(2, keepdim=True) / total
            y = y + z * squeeze(mean)
            kept.append(y)
        y = functional.relu(self.mix(torch.cat(kept, 1)))
        weights = mask / mask.sum(2, keepdim=True)
        mean = (y * weights).sum(2)
        deviation = ((y - mean[:, :, None]).pow(2) * weights).sum(2).clamp(1e-12).sqrt()
        both = torch.cat([mean, deviation], 1)[:, :, None].expand(-1, -1, y.shape[2])
        scores = self.attend(torch.cat([y, both], 1)).masked_fill(mask == 0, float("-inf"))
        w = torch.softmax(scores, 2)
        mean = (w * y).sum(2)
        deviation = (w * (y - mean[:, :, None]).pow(2)).sum(2).clamp(1e-12).sqrt()
        made = self.out(self.norm(torch.cat([mean, deviation], 1)))
        return functional.normalize(made, dim=1)


class DualChunks(nn.Module):
    """Two speakers: a sequence cut into chunks that overlap by half, recurrences in and across."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 16, 8, 4, bias=False)
        self.norm = nn.GroupNorm(1, 16)
        self.inner = nn.LSTM(16, 12, batch_first=True, bidirectional=True)
        self.across = nn.LSTM(16, 12, batch_first=True, bidirectional=True)
        self.first, self.second = nn.Linear(24, 16), nn.Linear(24, 16)
        self.masks = nn.Conv1d(16, 32, 1)
        self.decode = nn.ConvTranspose1d(16, 1, 8, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        chunk = 10
        hop = chunk // 2
        wave = functional.relu(self.encode(x[:, None]))
        y = self.norm(wave)
        n, c, length = y.shape
        gap = chunk - (hop + length % chunk) % chunk
        y = functional.pad(y, (hop, gap + hop))
        left = y[:, :, :-hop].reshape(n, c, -1, chunk)
        right = y[:, :, hop:].reshape(n, c, -1, chunk)
        y = torch.cat([left, right], 3).view(n, c, -1, chunk).transpose(2, 3)
        n, c, k, s = y.shape
        z = y.permute(0, 3, 2, 1).reshape(n * s, k, c)
        z = self.first(self.inner(z)[0]).view(n, s, k, c).permute(0, 3, 2, 1)
        y = y + z
        z = y.permute(0, 2, 3, 1).reshape(n * k, s, c)
        z = self.second(self.across(z)[0]).view(n, k, s, c).permute(0, 3, 1, 2)
        y = y + z
        y = y.transpose(2, 3).reshape(n, c, -1, chunk * 2)
        left = y[:, :, :, :chunk].reshape(n, c, -1)[:, :, hop:]
        right = y[:, :, :, chunk:].reshape(n, c, -1)[:, :, :-hop]
        y = (left + right)[:, :, :-gap]
        masks = torch.sigmoid(self.masks(y)).view(n, 2, c, -1)
        parts = masks * wave[:, None]
        return self.decode(parts.view(n * 2, c, -1)).view(n, 2, -1)


class Folded(nn.Module):
    """Frames by `unfold`, a recurrence in each, overlapped and added by `fold`."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(16, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.unfold(x[:, None, None, :], (1, 16), stride=(1, 8))
        y = self.gru(y.transpose(1, 2))[0].transpose(1, 2)
        long = (y.shape[2] - 1) * 8 + 16
        return functional.fold(y, (1, long), (1, 16), stride=(1, 8))[:, 0, 0]


class Coupling(nn.Module):
    """A flow's inverse: half of the channels moved by what the other half says, then reversed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.moved = size // 2
        self.pre = nn.Conv1d(self.moved, 16, 1)
        self.gates = nn.ModuleList(
            weight_norm(nn.Conv1d(16, 32, 5, padding=2 * d, dilation=d)) for d in (1, 2)
        )
        self.mix = nn.ModuleList(weight_norm(nn.Conv1d(16, 32, 1)) for _ in range(2))
        self.post = nn.Conv1d(16, self.moved, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = torch.flip(x, [1])
        a, b = torch.split(x, [self.moved] * 2, 1)
        h = self.pre(a) * mask
        out = torch.zeros_like(h)
        for gate, mix in zip(self.gates, self.mix, strict=True):
            t, s = gate(h).chunk(2, 1)
            both = mix(torch.tanh(t) * torch.sigmoid(s))
            h = (h + both[:, :16]) * mask
            out = out + both[:, 16:]
        m = self.post(out * mask) * mask
        return torch.cat([a, (b - m) * mask], 1)


class Vits(nn.Module):
    """Tokens to waves: durations become a path of frames, a flow, a generator of waves."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.encode = nn.GRU(16, 8, batch_first=True, bidirectional=True)
        self.stats = nn.Conv1d(16, 32, 1)
        self.durations = nn.Sequential(
            nn.Conv1d(16, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 1, 1)
        )
        self.flows = nn.ModuleList(Coupling(16) for _ in range(2))
        self.pre = nn.Conv1d(16, 16, 7, padding=3)
        self.up = weight_norm(nn.ConvTranspose1d(16, 8, 8, 4, 2))
        self.res = nn.ModuleList(weight_norm(nn.Conv1d(8, 8, k, padding=k // 2)) for k in (3, 7))
        self.post = nn.Conv1d(8, 1, 7, padding=3, bias=False)

    def forward(self, tokens: Tensor, lengths: Tensor, scale: Tensor) -> Tensor:
        x = self.embed(tokens) * math.sqrt(16)
        mask = (torch.arange(tokens.shape[1])[None] < lengths[:, None]).unsqueeze(1).to(x.dtype)
        y = self.encode(x)[0].transpose(1, 2) * mask
        mean, log = torch.split(self.stats(y) * mask, 16, 1)
        w = torch.exp(self.durations(y) * mask) * mask * scale
        durations = torch.ceil(w)
        frames = torch.clamp_min(durations.sum([1, 2]), 1).long()
        steps: Any = frames.max()  # a tensor, which the exporters keep
        long = (torch.arange(steps)[None] < frames[:, None]).to(x.dtype)[:, None]
        both = mask[:, :, None, :] * long[:, :, :, None]
        ends = torch.cumsum(durations[:, 0], 1)
        path = torch.arange(both.shape[2])[None, None] < ends[:, :, None]
        path = path.to(x.dtype)
        path = path - functional.pad(path, (0, 0, 1, 0))[:, :-1]
        path = path.transpose(1, 2) * both[:, 0]
        mean = torch.matmul(path, mean.transpose(1, 2)).transpose(1, 2)
        log = torch.matmul(path, log.transpose(1, 2)).transpose(1, 2)
        z = mean + 0.3 * torch.exp(log)
        for flow in self.flows:
            z = flow(z, long)
        y = self.pre(z * long)
        y = self.up(functional.leaky_relu(y, 0.1))
        total = self.res[0](functional.leaky_relu(y, 0.1)) + self.res[1](y)
        return torch.tanh(self.post(functional.leaky_relu(total / 2)))


class Spline(nn.Module):
    """A rational quadratic spline where it holds, the identity outside, as stochastic durations."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)
        self.out = nn.Linear(8, 3 * 10 - 1)

    def forward(self, x: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        h = self.out(self.gru(x)[0])
        widths, heights, slopes = h[..., :10], h[..., 10:20], h[..., 20:]
        inside = (inputs >= -1.0) & (inputs <= 1.0)
        slopes = functional.pad(slopes, (1, 1), value=math.log(math.exp(1 - 1e-3) - 1))
        outputs, logs = torch.zeros_like(inputs), torch.zeros_like(inputs)
        outputs[~inside] = inputs[~inside]
        made, log = self.spline(inputs[inside], widths[inside], heights[inside], slopes[inside])
        outputs[inside] = made
        logs[inside] = log
        return outputs, logs

    def spline(self, x: Tensor, w: Tensor, h: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        w = 1e-3 + (1 - 1e-3 * 10) * torch.softmax(w, -1)
        across = functional.pad(torch.cumsum(w, -1), (1, 0)) * 2 - 1
        w = across[..., 1:] - across[..., :-1]
        h = 1e-3 + (1 - 1e-3 * 10) * torch.softmax(h, -1)
        up = functional.pad(torch.cumsum(h, -1), (1, 0)) * 2 - 1
        h = up[..., 1:] - up[..., :-1]
        d = 1e-3 + functional.softplus(d)
        at = (torch.sum(x[..., None] >= across, -1) - 1).clamp(0, 9)[..., None]
        x0, w0 = across.gather(-1, at)[..., 0], w.gather(-1, at)[..., 0]
        y0, h0 = up.gather(-1, at)[..., 0], h.gather(-1, at)[..., 0]
        slope = h0 / w0
        d0, d1 = d.gather(-1, at)[..., 0], d[..., 1:].gather(-1, at)[..., 0]
        theta = (x - x0) / w0
        rest = theta * (1 - theta)
        below = slope + (d0 + d1 - 2 * slope) * rest
        y = y0 + h0 * (slope * theta.pow(2) + d0 * rest) / below
        grown = slope.pow(2) * (d1 * theta.pow(2) + 2 * slope * rest + d0 * (1 - theta).pow(2))
        return y, torch.log(grown) - 2 * torch.log(below)


class Fired(nn.Module):
    """Continuous integrate-and-fire, without a loop: frames summed until a weight of one."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.out = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.gru(x)[0]
        y = functional.relu(self.conv(hidden.transpose(1, 2)).transpose(1, 2) + hidden)
        alphas = torch.sigmoid(self.out(y))[..., 0]
        total = torch.cumsum(alphas, 1)
        floors = torch.floor(total)
        before = functional.pad(floors[:, :-1], (1, 0))
        fires = floors - before
        fired = fires > 0
        fires = torch.where(fired, total - floors, fires)
        sums = torch.cumsum(alphas[..., None] * hidden, 1)
        remain = fires[..., None] * hidden
        frames = torch.where(fired[..., None], sums - remain, torch.zeros_like(sums))
        last = functional.pad(frames[:, :-1], (0, 0, 1, 0))
        return frames - last, floors[:, -1]


class Memory(nn.Module):
    """A feed-forward net with memories of its own past and future, as voice detectors have them."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(10, 24)
        self.down = nn.ModuleList(nn.Linear(24, 12, bias=False) for _ in range(2))
        self.past = nn.ModuleList(nn.Conv2d(12, 12, (5, 1), groups=12, bias=False) for _ in "ab")
        self.next = nn.ModuleList(nn.Conv2d(12, 12, (3, 1), groups=12, bias=False) for _ in "ab")
        self.up = nn.ModuleList(nn.Linear(12, 24) for _ in range(2))
        self.out = nn.Linear(24, 5)

    def forward(self, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        y, kept = functional.relu(self.into(x)), list[Tensor]()
        for i in range(2):
            p = self.down[i](y)
            z = p.unsqueeze(1).permute(0, 3, 2, 1)
            z = torch.cat([cache[:, :, 4 * i : 4 * i + 4], z], 2)
            kept.append(z[:, :, -4:])
            ahead = functional.pad(p.unsqueeze(1).permute(0, 3, 2, 1), (0, 0, 0, 2))
            m = self.past[i](z) + self.next[i](ahead)
            y = functional.relu(self.up[i](p + m.permute(0, 3, 2, 1).squeeze(1)))
        return torch.softmax(self.out(y), -1), torch.cat(kept, 2)


class Styled(nn.Module):
    """A style moves and scales instance norms, a spectrum becomes a wave."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 8, batch_first=True, bidirectional=True)
        self.norm, self.style = nn.InstanceNorm1d(16, affine=True), nn.Linear(6, 32)
        self.conv = weight_norm(nn.Conv1d(16, 16, 3, padding=1))
        self.alpha = nn.Parameter(torch.ones(1, 16, 1))
        self.post = nn.Conv1d(16, 18, 3, padding=1)

    def forward(self, x: Tensor, style: Tensor, path: Tensor) -> Tensor:
        y = self.lstm(torch.cat([x, style[:, None].expand(-1, x.shape[1], -1)], -1))[0]
        y = y.transpose(1, 2) @ path
        scale, shift = self.style(style)[:, :, None].chunk(2, 1)
        y = (1 + scale) * self.norm(y) + shift
        y = y + (1 / self.alpha) * torch.sin(self.alpha * y) ** 2
        y = self.post(functional.pad(self.conv(y), (1, 0), mode="reflect"))
        size, angle = torch.exp(y[:, :9]), torch.sin(y[:, 9:])
        real, imaginary = size * torch.cos(angle), size * torch.sin(angle)
        k = torch.arange(9, dtype=x.dtype)[:, None] * torch.arange(16, dtype=x.dtype)
        basis = torch.stack([torch.cos(k * math.pi / 8), -torch.sin(k * math.pi / 8)]) / 16
        kernel = torch.cat([basis[0], basis[1]])[:, None]
        return functional.conv_transpose1d(torch.cat([real, imaginary], 1), kernel, stride=4)[:, 0]


_LENGTHS = torch.tensor([9, 6])
MODELS: dict[str, Exported] = {
    "ecapa": Exported(
        Ecapa,
        {"x": torch.randn(2, 9, 20), "lengths": _LENGTHS},
        {"x": TN, "lengths": {0: "N"}},
        {"lengths": (2, "T")},
    ),
    "dual_chunks": Exported(DualChunks, {"x": torch.randn(2, 180)}, {"x": {0: "N", 1: "S"}}),
    "folded": Exported(Folded, {"x": torch.randn(2, 64)}, {"x": {0: "N", 1: "S"}}),
    "vits": Exported(
        Vits,
        {"tokens": torch.randint(0, 30, (2, 9)), "lengths": _LENGTHS, "scale": torch.tensor(1.5)},
        {"tokens": TN, "lengths": {0: "N"}},
        {"tokens": (0, 29), "lengths": (2, "T")},
    ),
    "spline": Exported(
        Spline,
        {"x": torch.randn(2, 9, 4), "inputs": torch.randn(2, 9)},
        {"x": TN, "inputs": TN},
        outputs=2,
    ),
    "fired": Exported(Fired, {"x": torch.randn(2, 9, 6)}, {"x": TN}, outputs=2),
    "memory_blocks": Exported(
        Memory,
        {"x": torch.randn(2, 9, 10), "cache": torch.randn(2, 12, 8, 1)},
        {"x": TN, "cache": {0: "N"}},
        outputs=2,
    ),
    "styled": Exported(
        Styled,
        {"x": torch.randn(2, 5, 6), "style": torch.randn(2, 6), "path": torch.randn(2, 5, 12)},
        {"x": TN, "style": {0: "N"}, "path": {0: "N", 1: "T", 2: "F"}},
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
