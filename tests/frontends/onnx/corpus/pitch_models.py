"""Pitch, sources, bands and codes by both exporters: `pitch_models.py OUTDIR`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Sines(nn.Module):
    """A vocoder's source: pitch held for a hop, its phase summed, harmonics filtered."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(5, 8, batch_first=True)
        self.pitch, self.filter = nn.Linear(8, 1), nn.Linear(8, 9)
        self.merge = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.gru(x)[0]
        f0 = functional.softplus(self.pitch(h)) * 100
        f0 = functional.interpolate(f0.transpose(1, 2), scale_factor=16.0).transpose(1, 2)
        harmonics = f0 * torch.arange(1, 5, dtype=f0.dtype)
        steps = (harmonics / 16000) % 1
        steps = functional.interpolate(
            steps.transpose(1, 2), scale_factor=1 / 16, mode="linear"
        ).transpose(1, 2)
        phase = torch.cumsum(steps, 1) * 2 * math.pi
        phase = functional.interpolate(
            phase.transpose(1, 2) * 16, scale_factor=16.0, mode="linear"
        ).transpose(1, 2)
        voiced = (f0 > 60).to(f0.dtype)
        wave = torch.tanh(self.merge(0.1 * torch.sin(phase) * voiced))[..., 0]
        taps = torch.softmax(self.filter(h), -1)
        frames = wave.view(x.shape[0], -1, 16)
        return (frames.view(x.shape[0], -1, 16)[..., :9] * taps).flatten(1)


class Pitch(nn.Module):
    """A spectrogram down and up again, a recurrence, a weighted mean of cents."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((1, 4), (4, 8)))
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 3, (2, 2), 1, (1, 1)) for a, b in ((8, 8), (8, 4))
        )
        self.mix = nn.ModuleList(nn.Conv2d(2 * a, a, 3, padding=1) for a in (8, 4))
        self.gru = nn.GRU(4 * 16, 12, batch_first=True, bidirectional=True)
        self.out = nn.Linear(24, 20)

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        frames = mel.shape[2]
        rest = 4 * ((frames - 1) // 4 + 1) - frames
        y = functional.pad(mel, (0, rest)).transpose(1, 2)[:, None]
        kept = list[Tensor]()
        for conv in self.down:
            y = functional.relu(conv(y))
            kept.append(y)
            y = functional.avg_pool2d(y, 2)
        y = self.middle(y)
        for up, mix in zip(self.up, self.mix, strict=True):
            y = mix(torch.cat([functional.relu(up(y)), kept.pop()], 1))
        y = self.gru(y.transpose(1, 2).flatten(2))[0]
        salience = torch.sigmoid(self.out(y))[:, :frames]
        center = salience.argmax(2)
        cents = torch.arange(20) * 20.0 + 1997.3794
        near = (torch.arange(20)[None, None] - center[..., None]).abs() <= 4
        weights = salience * near
        pitch = (weights * cents).sum(2) / weights.sum(2)
        hz = 10 * 2 ** (pitch / 1200)
        return torch.where(salience.max(2).values > 0.5, hz, torch.zeros_like(hz)), salience


class Codes(nn.Module):
    """Residual quantisation: the nearest of a book of codes, then of what it leaves, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 8, 8, 4, 2)
        self.lstm = nn.LSTM(8, 8, 2)
        self.books = nn.ParameterList(torch.randn(16, 8) for _ in range(3))
        self.decode = nn.ConvTranspose1d(8, 1, 8, 4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.elu(self.encode(x[:, None])).permute(2, 0, 1)
        y = (self.lstm(y)[0] + y).permute(1, 0, 2)
        left, total, codes = y, torch.zeros_like(y), list[Tensor]()
        for book in self.books:
            apart = left.pow(2).sum(-1, keepdim=True) - 2 * left @ book.t() + book.pow(2).sum(1)
            code = (-apart).max(-1).indices
            held = functional.embedding(code, book)
            left, total = left - held, total + held
            codes.append(code)
        return self.decode(total.transpose(1, 2))[:, 0], torch.stack(codes)


class Bands(nn.Module):
    """A spectrum in bands of other widths, each with a norm of its own, attended both ways."""

    WIDTHS = (2, 3, 5, 7)

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.ModuleList(
            nn.Sequential(nn.RMSNorm(2 * w), nn.Linear(2 * w, 12)) for w in self.WIDTHS
        )
        self.time = nn.LSTM(12, 12, batch_first=True)
        self.bands = nn.MultiheadAttention(12, 2, batch_first=True)
        self.out = nn.ModuleList(
            nn.Sequential(nn.Linear(12, 4 * w), nn.GLU(-1)) for w in self.WIDTHS
        )

    def forward(self, x: Tensor) -> Tensor:
        n, t = x.shape[0], x.shape[1]
        parts = x.split([2 * w for w in self.WIDTHS], -1)
        y = torch.stack([f(p) for f, p in zip(self.into, parts, strict=True)], 2)
        z = y.transpose(1, 2).reshape(-1, t, 12)
        y = y + self.time(z)[0].view(n, 4, t, 12).transpose(1, 2)
        z = y.reshape(-1, 4, 12)
        y = y + self.bands(z, z, z, need_weights=False)[0].view(n, t, 4, 12)
        masks = [f(p) for f, p in zip(self.out, y.unbind(2), strict=True)]
        return torch.cat(masks, -1) * x


class Features(nn.Module):
    """Log mel energies out of samples by `stft`, normalised over time, with slopes."""

    window: Tensor
    mel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("mel", torch.rand(33, 12))
        self.gru = nn.GRU(24, 10, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
        made = torch.stft(x, 64, 16, window=self.window, center=True, return_complex=False)
        power = made.pow(2).sum(-1)
        mel = torch.log(power.transpose(1, 2) @ self.mel + 1e-6)
        mel = (mel - mel.mean(1, keepdim=True)) / (mel.std(1, keepdim=True) + 1e-5)
        padded = functional.pad(mel.transpose(1, 2), (2, 2), mode="replicate")
        taps = torch.arange(-2, 3, dtype=mel.dtype).view(1, 1, 5).expand(12, 1, 5) / 10
        slopes = functional.conv1d(padded, taps, groups=12).transpose(1, 2)
        return self.gru(torch.cat([mel, slopes], 2))[0]


MODELS: dict[str, Exported] = {
    "sines": Exported(Sines, {"x": torch.randn(2, 9, 5)}, {"x": TN}),
    "pitch": Exported(Pitch, {"mel": torch.randn(2, 16, 10)}, {"mel": {0: "N", 2: "T"}}, outputs=2),
    "codes": Exported(Codes, {"x": torch.randn(2, 64)}, {"x": {0: "N", 1: "S"}}, outputs=2),
    "bands": Exported(Bands, {"x": torch.randn(2, 9, 34)}, {"x": TN}),
    "features": Exported(Features, {"x": torch.randn(2, 400)}, {"x": {0: "N", 1: "S"}}),
}


if __name__ == "__main__":
    export_all(MODELS)
