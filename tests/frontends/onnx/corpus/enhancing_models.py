"""Enhancers of speech, by both of PyTorch's exporters: `enhancing_models.py OUTDIR`.

Small forms of published architectures, some as one step whose states are inputs and outputs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class GroupedRnn(nn.Module):
    """Two GRUs over halves of the channels."""

    def __init__(self, size: int, hidden: int, both: bool = False) -> None:
        super().__init__()
        options = {"batch_first": True, "bidirectional": both}
        self.one = nn.GRU(size // 2, hidden // 2, **options)
        self.two = nn.GRU(size // 2, hidden // 2, **options)

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.chunk(x, 2, dim=-1)
        return torch.cat([self.one(left)[0], self.two(right)[0]], dim=-1)


class DualPath(nn.Module):
    """Along frequency in both directions, then along time."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.width, self.channels = width, channels
        self.intra = GroupedRnn(channels, channels // 2, both=True)
        self.intra_fc = nn.Linear(channels, channels)
        self.intra_ln = nn.LayerNorm([width, channels], eps=1e-8)
        self.inter = GroupedRnn(channels, channels)
        self.inter_fc = nn.Linear(channels, channels)
        self.inter_ln = nn.LayerNorm([width, channels], eps=1e-8)

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        y = x.reshape(x.shape[0] * x.shape[1], x.shape[2], x.shape[3])
        y = self.intra_fc(self.intra(y)).reshape(x.shape[0], -1, self.width, self.channels)
        intra = x + self.intra_ln(y)
        y = intra.permute(0, 2, 1, 3)
        y = self.inter(y.reshape(y.shape[0] * y.shape[1], y.shape[2], y.shape[3]))
        y = self.inter_fc(y).reshape(x.shape[0], self.width, -1, self.channels)
        return (intra + self.inter_ln(y.permute(0, 2, 1, 3))).permute(0, 3, 1, 2)


class TimeAttention(nn.Module):
    """Weights of frames by a GRU over their energy."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, channels * 2, 1, batch_first=True)
        self.fc = nn.Linear(channels * 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        energy = torch.mean(x.pow(2), dim=-1)
        y = self.fc(self.gru(energy.transpose(1, 2))[0]).transpose(1, 2)
        return x * torch.sigmoid(y)[..., None]


class GroupedTemporal(nn.Module):
    """Neighbouring bands as channels, causal dilated depthwise convolution, channel shuffle."""

    def __init__(self, channels: int, dilation: int, transposed: bool = False) -> None:
        super().__init__()
        self.pad, self.transposed = 2 * dilation, transposed
        conv: Any = nn.ConvTranspose2d if transposed else nn.Conv2d
        half = channels // 2
        self.point_in = conv(half * 3, channels, 1)
        self.norm_in, self.act_in = nn.BatchNorm2d(channels), nn.PReLU()
        pads = (2 * dilation, 1) if transposed else (0, 1)
        self.depth = conv(channels, channels, 3, 1, pads, groups=channels, dilation=(dilation, 1))
        self.norm, self.act = nn.BatchNorm2d(channels), nn.PReLU()
        self.point_out, self.norm_out = conv(channels, half, 1), nn.BatchNorm2d(half)
        self.attention = TimeAttention(half)

    def forward(self, x: Tensor) -> Tensor:
        one, two = torch.chunk(x, 2, dim=1)
        bands = functional.unfold(one, (1, 3), padding=(0, 1))
        bands = bands.reshape(one.shape[0], one.shape[1] * 3, one.shape[2], one.shape[3])
        y = self.act_in(self.norm_in(self.point_in(bands)))
        y = self.act(self.norm(self.depth(functional.pad(y, [0, 0, self.pad, 0]))))
        y = self.attention(self.norm_out(self.point_out(y)))
        y = torch.stack([y, two], dim=1).transpose(1, 2).contiguous()
        return y.reshape(y.shape[0], -1, y.shape[3], y.shape[4])


class Gtcrn(nn.Module):
    """Grouped temporal convolutions around two dual paths, and a complex mask."""

    def __init__(self) -> None:
        super().__init__()
        self.bands = nn.Linear(33, 17, bias=False)
        self.back = nn.Linear(17, 33, bias=False)
        self.first = nn.Sequential(
            nn.Conv2d(3, 8, (1, 5), (1, 2), (0, 2)), nn.BatchNorm2d(8), nn.PReLU()
        )
        self.down = nn.ModuleList([GroupedTemporal(8, d) for d in (1, 2)])
        self.paths = nn.ModuleList([DualPath(8, 9) for _ in range(2)])
        self.up = nn.ModuleList([GroupedTemporal(8, d, True) for d in (2, 1)])
        self.last = nn.ConvTranspose2d(8, 2, (1, 5), (1, 2), (0, 2))

    def forward(self, spec: Tensor) -> Tensor:
        real, imag = spec[..., 0].permute(0, 2, 1), spec[..., 1].permute(0, 2, 1)
        mag = torch.sqrt(real**2 + imag**2 + 1e-12)
        y = self.first(self.bands(torch.stack([mag, real, imag], dim=1)))
        kept = [y]
        for layer in self.down:
            y = layer(y)
            kept.append(y)
        for layer in self.paths:
            y = layer(y)
        for i, layer in enumerate(self.up):
            y = layer(y + kept[-1 - i])
        mask = self.back(torch.tanh(self.last(y + kept[0])))
        made_real = real * mask[:, 0] - imag * mask[:, 1]
        made_imag = imag * mask[:, 0] + real * mask[:, 1]
        return torch.stack([made_real, made_imag], dim=-1).transpose(1, 2)


class StreamingEnhancer(nn.Module):
    """One frame: caches of convolutions and the states of GRUs come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 6, (3, 3), (1, 2), (0, 1))
        self.second = nn.Conv2d(6, 6, (3, 3), (1, 2), (0, 1), groups=2)
        self.gru = nn.GRU(6 * 8, 32, batch_first=True)
        self.fc = nn.Linear(32, 6 * 8)
        self.up = nn.ConvTranspose2d(12, 6, (1, 3), (1, 2), (0, 1))
        self.out = nn.ConvTranspose2d(6, 1, (1, 4), (1, 2), (0, 1))

    def forward(self, mag: Tensor, conv: Tensor, more: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        x = torch.cat([conv, mag], dim=2)
        one = functional.elu(self.first(x))
        y = torch.cat([more, one], dim=2)
        two = functional.elu(self.second(y))
        z = two.permute(0, 2, 1, 3).flatten(2)
        z, h = self.gru(z, h)
        z = torch.relu(self.fc(z)).unflatten(2, (6, 8)).permute(0, 2, 1, 3)
        up = functional.elu(self.up(torch.cat([z, two], 1)))[..., :15]
        mask = torch.sigmoid(self.out(functional.pad(up, (0, 1)) + one[:, :, -1:]))
        return mag * mask, x[:, :, 1:], y[:, :, 1:], h


class GroupedLinear(nn.Module):
    """A product for each group of features."""

    def __init__(self, size: int, made: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.randn(groups, size // groups, made // groups) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        y = x.unflatten(-1, (self.groups, -1))
        return torch.einsum("btgi,gih->btgh", y, self.weight).flatten(2, 3)


class DeepFilter(nn.Module):
    """Gains of bands, and short complex filters over time for the lowest bins."""

    def __init__(self) -> None:
        super().__init__()
        self.taps, self.bins = 5, 12
        self.pad = nn.ConstantPad2d((0, 0, 2, 0), 0.0)
        self.erb = nn.Sequential(nn.Conv2d(1, 8, 3, (1, 2), (0, 1), bias=False), nn.BatchNorm2d(8))
        self.point = nn.Conv2d(8, 8, 1)
        self.squeeze = GroupedLinear(64, 32, 4)
        self.gru = nn.GRU(32, 32, 2, batch_first=True)
        self.gains = nn.Linear(32, 16)
        self.coefs = nn.Linear(32, self.bins * self.taps * 2)
        self.alpha = nn.Sequential(nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, spec: Tensor, erb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.relu(self.point(torch.relu(self.erb(self.pad(erb)))))
        y = torch.relu(self.squeeze(y.permute(0, 2, 3, 1).flatten(2)))
        y, _ = self.gru(y)
        gains = torch.sigmoid(self.gains(y))
        coefs = torch.tanh(self.coefs(y)).view(y.shape[0], y.shape[1], self.taps, self.bins, 2)
        low = spec[:, :, : self.bins]
        padded = functional.pad(low, (0, 0, 0, 0, self.taps - 1, 0))
        windows = padded.unfold(1, self.taps, 1).permute(0, 1, 4, 2, 3)
        re = windows[..., 0] * coefs[..., 0] - windows[..., 1] * coefs[..., 1]
        im = windows[..., 1] * coefs[..., 0] + windows[..., 0] * coefs[..., 1]
        filtered = torch.stack([re.sum(2), im.sum(2)], -1)
        return torch.cat([filtered, spec[:, :, self.bins :]], 2), gains, self.alpha(y)


class RnNoise(nn.Module):
    """Two causal convolutions and three GRUs whose outputs are joined; states in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, 24, 3), nn.Conv1d(24, 32, 3)
        self.grus = nn.ModuleList(nn.GRU(32, 32, batch_first=True) for _ in range(3))
        self.gain, self.vad = nn.Linear(128, 16), nn.Linear(128, 1)

    def forward(self, x: Tensor, h1: Tensor, h2: Tensor, h3: Tensor) -> tuple[Tensor, ...]:
        y = torch.tanh(self.conv1(x.permute(0, 2, 1)))
        y = torch.tanh(self.conv2(y)).permute(0, 2, 1)
        every, states = [y], []
        for gru, h in zip(self.grus, (h1, h2, h3), strict=True):
            y, h = gru(y, h)
            every.append(y)
            states.append(h)
        joined = torch.cat(every, dim=-1)
        return (torch.sigmoid(self.gain(joined)), torch.sigmoid(self.vad(joined)), *states)


class ConvRecurrent(nn.Module):
    """An encoder and a decoder of 2-D convolutions, joined, around an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (1, 4, 8, 8)
        pairs = list(pairwise(sizes))
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, (2, 3), (1, 2), (1, 0)), nn.BatchNorm2d(b), nn.ELU())
            for a, b in pairs
        )
        self.lstm = nn.LSTM(8 * 3, 8 * 3, 2, batch_first=True)
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(2 * b, a, (2, 3), (1, 2), (1, 0)), nn.ELU())
            for a, b in reversed(pairs)
        )

    def forward(self, x: Tensor) -> Tensor:
        y, kept = x.unsqueeze(1), []
        for layer in self.down:
            y = layer(y)[:, :, :-1]
            kept.append(y)
        n, c, t, f = y.size()
        y = self.lstm(y.permute(0, 2, 1, 3).reshape(n, t, c * f))[0]
        y = y.reshape(n, t, c, f).permute(0, 2, 1, 3)
        for layer, other in zip(self.up, reversed(kept), strict=True):
            y = functional.pad(layer(torch.cat([y, other], 1)), (0, 0, 1, 0))
        return torch.relu(y.squeeze(1))


class SubBand(nn.Module):
    """Each bin with its neighbours and the full band's output, as sequences of a large batch."""

    def __init__(self) -> None:
        super().__init__()
        self.full = nn.Sequential()
        self.full_lstm, self.full_out = nn.LSTM(17, 24, batch_first=True), nn.Linear(24, 17)
        self.sub, self.out = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 2)

    def forward(self, mag: Tensor) -> Tensor:
        n, f, t = mag.shape
        normed = mag / (mag.mean(dim=(1, 2), keepdim=True) + 1e-5)
        full = torch.relu(self.full_out(self.full_lstm(normed.transpose(1, 2))[0])).transpose(1, 2)
        padded = functional.pad(mag.unsqueeze(1), (0, 0, 2, 2), mode="reflect").squeeze(1)
        rows = torch.stack([padded[:, i : i + f] for i in range(5)], 2)
        joined = torch.cat([rows, full.unsqueeze(2)], 2)
        joined = joined / (joined.mean(dim=(1, 2, 3), keepdim=True) + 1e-5)
        y = self.sub(joined.reshape(n * f, 6, t).transpose(1, 2))[0]
        return self.out(y).view(n, f, t, 2).permute(0, 3, 1, 2)


class Waveform(nn.Module):
    """Strided convolutions with gates, an LSTM, transposed ones with what came before added."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for a, b in ((1, 8), (8, 16)):
            self.down.append(
                nn.Sequential(nn.Conv1d(a, b, 8, 4), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1))
            )
            up = nn.Sequential(nn.Conv1d(b, 2 * b, 1), nn.GLU(1), nn.ConvTranspose1d(b, a, 8, 4))
            self.up.insert(0, up)
        self.lstm, self.linear = nn.LSTM(16, 16, 2, bidirectional=True), nn.Linear(32, 16)

    def forward(self, wave: Tensor) -> Tensor:
        mono = wave.mean(dim=1, keepdim=True)
        std = mono.std(dim=-1, keepdim=True)
        y, kept = mono / (1e-3 + std), []
        for layer in self.down:
            y = layer(y)
            kept.append(y)
        y = self.linear(self.lstm(y.permute(2, 0, 1))[0]).permute(1, 2, 0)
        for i, layer in enumerate(self.up):
            other = kept.pop()
            y = layer(y + other[..., : y.shape[-1]])
            y = torch.relu(y) if i == 0 else y
        return std * y


class Chunks(nn.Module):
    """Overlapping chunks of an encoded signal: recurrent within chunks, then across them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 16, 4, 2, bias=False)
        self.norm, self.bottle = nn.GroupNorm(1, 16), nn.Conv1d(16, 8, 1)
        self.inside = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.across = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
        self.fc1, self.fc2 = nn.Linear(12, 8), nn.Linear(12, 8)
        self.mask = nn.Conv1d(8, 32, 1)
        self.decoder = nn.ConvTranspose1d(16, 1, 4, 2, bias=False)

    def forward(self, wave: Tensor) -> Tensor:
        encoded = torch.relu(self.encoder(wave.unsqueeze(1)))
        y = self.bottle(self.norm(encoded))
        n, c, length = y.shape
        count = length // 10
        y = y[:, :, : count * 10].reshape(n, c, count, 10)
        z = y.permute(0, 2, 3, 1).reshape(n * count, 10, c)
        y = y + self.fc1(self.inside(z)[0]).reshape(n, count, 10, c).permute(0, 3, 1, 2)
        z = y.permute(0, 3, 2, 1).reshape(n * 10, count, c)
        y = y + self.fc2(self.across(z)[0]).reshape(n, 10, count, c).permute(0, 3, 2, 1)
        y = functional.pad(y.reshape(n, c, count * 10), (0, length - count * 10))
        masks = torch.relu(self.mask(y)).reshape(n, 2, 16, length)
        parts = (masks * encoded.unsqueeze(1)).reshape(n * 2, 16, length)
        return self.decoder(parts).reshape(n, 2, -1)


class Spectral(nn.Module):
    """A Fourier transform inside of the model, a mask by an LSTM, log mel features."""

    window: Tensor
    mel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("mel", torch.rand(17, 8))
        self.lstm, self.out = nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 1)

    def forward(self, wave: Tensor) -> Tensor:
        spec = torch.stft(wave, 32, 16, 32, self.window, center=False, return_complex=False)
        power = spec.pow(2).sum(-1).transpose(1, 2)
        logs = torch.log(torch.clamp(power @ self.mel, min=1e-6))
        logs = torch.maximum(logs, logs.amax(dim=(1, 2), keepdim=True) - 8.0)
        return torch.sigmoid(self.out(self.lstm((logs + 4.0) / 4.0)[0])).squeeze(-1)


_STATES = ("h1", "h2", "h3")


MODELS: dict[str, Exported] = {
    "gtcrn": Exported(Gtcrn, {"spec": torch.randn(2, 33, 10, 2)}, {"spec": {0: "N", 2: "T"}}),
    "streaming_enhancer": Exported(
        StreamingEnhancer,
        {
            "mag": torch.randn(2, 1, 1, 32),
            "conv": torch.randn(2, 1, 2, 32),
            "more": torch.randn(2, 6, 2, 16),
            "h": torch.randn(1, 2, 32),
        },
        {"mag": {0: "N"}, "conv": {0: "N"}, "more": {0: "N"}, "h": {1: "N"}},
        outputs=4,
    ),
    "deep_filter": Exported(
        DeepFilter,
        {"spec": torch.randn(2, 7, 33, 2), "erb": torch.randn(2, 1, 7, 16)},
        {"spec": TN, "erb": {0: "N", 2: "T"}},
        outputs=3,
    ),
    "rnnoise": Exported(
        RnNoise,
        {"x": torch.randn(2, 9, 20), **{h: torch.randn(1, 2, 32) for h in _STATES}},
        {"x": TN, **{h: {1: "N"} for h in _STATES}},
        outputs=5,
    ),
    "conv_recurrent": Exported(ConvRecurrent, {"x": torch.randn(2, 8, 31)}, {"x": TN}),
    "sub_band": Exported(SubBand, {"mag": torch.randn(2, 17, 8)}, {"mag": {0: "N", 2: "T"}}),
    "waveform": Exported(Waveform, {"wave": torch.randn(2, 2, 404)}, {"wave": {0: "N", 2: "S"}}),
    "chunks": Exported(Chunks, {"wave": torch.randn(2, 204)}, {"wave": {0: "N", 1: "S"}}),
    "spectral": Exported(Spectral, {"wave": torch.randn(2, 320)}, {"wave": {0: "N", 1: "S"}}),
}


if __name__ == "__main__":
    export_all(MODELS)
