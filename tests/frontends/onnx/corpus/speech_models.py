"""Recurrent models of speech and audio by both of PyTorch's exporters: `speech_models.py OUTDIR`.

Detection of voices and words, synthesis: small forms of published architectures, some as one step
whose states are inputs and outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class VoiceFrames(nn.Module):
    """A frame of samples with context: a basis of Fourier by convolution, and an LSTM cell."""

    def __init__(self) -> None:
        super().__init__()
        self.basis = nn.Conv1d(1, 34, 32, 16, bias=False)
        self.encoder = nn.Sequential(
            *(nn.Conv1d(17, 16, 3, padding=1), nn.ReLU()),
            *(nn.Conv1d(16, 16, 3, 2, padding=1), nn.ReLU(), nn.Conv1d(16, 8, 3, 2, padding=1)),
        )
        self.cell = nn.LSTMCell(8, 8)
        self.out = nn.Conv1d(8, 1, 1)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y = self.basis(functional.pad(x.unsqueeze(1), (0, 16), mode="reflect"))
        magnitude = torch.sqrt(y[:, :17].pow(2) + y[:, 17:].pow(2))
        y = self.encoder(magnitude).mean(-1)
        h, c = self.cell(y, (state[0], state[1]))
        probability = torch.sigmoid(self.out(torch.relu(h).unsqueeze(-1)))
        return probability.mean(dim=2), torch.stack([h, c])


class Segmentation(nn.Module):
    """Filters of sinc, instance norms and pools, a deep bidirectional LSTM, speakers a frame."""

    n: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(1, affine=True)
        self.low = nn.Parameter(torch.linspace(0.01, 0.2, 8)[:, None])
        self.band = nn.Parameter(torch.full((8, 1), 0.05))
        self.register_buffer("n", torch.arange(1, 16).float()[None])
        self.convs = nn.ModuleList([nn.Conv1d(8, 12, 5), nn.Conv1d(12, 12, 5)])
        self.norms = nn.ModuleList(nn.InstanceNorm1d(c, affine=True) for c in (8, 12, 12))
        self.lstm = nn.LSTM(12, 10, 3, bidirectional=True, batch_first=True)
        self.linear, self.out = nn.Linear(20, 12), nn.Linear(12, 3)

    def filters(self) -> Tensor:
        high = torch.clamp(self.low.abs() + self.band.abs(), max=0.5)
        side = (torch.sin(high * 6.28 * self.n) - torch.sin(self.low * 6.28 * self.n)) / self.n
        middle = 2 * (high - self.low.abs())
        return torch.cat([torch.flip(side, [1]), middle, side], 1).unsqueeze(1)

    def forward(self, wave: Tensor) -> Tensor:
        y = torch.abs(functional.conv1d(self.norm(wave), self.filters(), stride=4))
        y = functional.leaky_relu(self.norms[0](functional.max_pool1d(y, 3, 3)))
        for conv, norm in zip(self.convs, list(self.norms)[1:], strict=True):
            y = functional.leaky_relu(norm(functional.max_pool1d(conv(y), 3, 3)))
        y = self.lstm(y.transpose(1, 2))[0]
        return torch.log_softmax(self.out(functional.leaky_relu(self.linear(y))), -1)


class Keywords(nn.Module):
    """Depthwise separable convolutions with caches, a GRU, pooling by attention: one chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.ModuleList(nn.Conv1d(10, 10, 5, groups=10) for _ in range(2))
        self.point = nn.ModuleList(nn.Conv1d(10, 10, 1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm1d(10) for _ in range(2))
        self.gru = nn.GRU(10, 12, batch_first=True)
        self.attention, self.out = nn.Linear(12, 1), nn.Linear(12, 4)

    def forward(self, x: Tensor, cache: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, caches = x.transpose(1, 2), []
        for i, (depth, point) in enumerate(zip(self.depth, self.point, strict=True)):
            joined = torch.cat((cache[:, :, i * 4 : (i + 1) * 4], y), 2)
            caches.append(joined[:, :, -4:])
            y = y + functional.hardtanh(self.norms[i](point(depth(joined))), 0.0, 6.0)
        y, h = self.gru(y.transpose(1, 2), h)
        weight = torch.softmax(self.attention(y), dim=1)
        return functional.softmax(self.out((y * weight).sum(1)), -1), torch.cat(caches, 2), h


class WakeWord(nn.Module):
    """Windows of embeddings through a bidirectional GRU; the last step of either direction."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(12)
        self.gru = nn.GRU(12, 10, 2, bidirectional=True, batch_first=True, dropout=0.3)
        self.out = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        y, h = self.gru(self.norm(x))
        last = torch.cat((y[:, -1, :10], y[:, 0, 10:]), -1)
        return self.out(last + torch.hstack((h[-2], h[-1])))


class Highways(nn.Module):
    """A bank of convolutions, highway layers and a bidirectional GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.bank = nn.ModuleList(
            nn.Sequential(nn.Conv1d(10, 8, k, padding=k // 2), nn.ReLU(), nn.BatchNorm1d(8))
            for k in range(1, 5)
        )
        self.pool = nn.MaxPool1d(2, 1, 1)
        self.project = nn.Conv1d(32, 10, 3, padding=1)
        self.h = nn.ModuleList(nn.Linear(10, 10) for _ in range(2))
        self.t = nn.ModuleList(nn.Linear(10, 10) for _ in range(2))
        self.gru = nn.GRU(10, 8, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        y, steps = x.transpose(1, 2), x.size(1)
        y = torch.cat([conv(y)[:, :, :steps] for conv in self.bank], 1)
        y = self.project(self.pool(y)[:, :, :steps]).transpose(1, 2) + x
        for h, t in zip(self.h, self.t, strict=True):
            gate = torch.sigmoid(t(y))
            y = gate * torch.relu(h(y)) + (1.0 - gate) * y
        return self.gru(y)[0]


class SpectrogramDecoder(nn.Module):
    """Attention by content and by place, two LSTM cells, a frame a turn of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.prenet = nn.Linear(6, 8)
        self.attention_rnn, self.decoder_rnn = nn.LSTMCell(20, 10), nn.LSTMCell(22, 10)
        self.query, self.memory = nn.Linear(10, 8, bias=False), nn.Linear(12, 8, bias=False)
        self.conv, self.dense = nn.Conv1d(2, 4, 5, padding=2), nn.Linear(4, 8, bias=False)
        self.v = nn.Linear(8, 1, bias=False)
        self.frame, self.gate = nn.Linear(22, 6), nn.Linear(22, 1)

    def forward(self, memory: Tensor, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, t = memory.size(0), memory.size(1)
        h1, c1 = torch.zeros(n, 10), torch.zeros(n, 10)
        h2, c2 = torch.zeros(n, 10), torch.zeros(n, 10)
        weights, total = torch.zeros(n, t), torch.zeros(n, t)
        context, frame = torch.zeros(n, 12), torch.zeros(n, 6)
        keys = self.memory(memory)
        mels: list[Tensor] = []
        gates: list[Tensor] = []
        alignments: list[Tensor] = []
        for _ in range(frames.size(1)):
            y = torch.relu(self.prenet(frame))
            h1, c1 = self.attention_rnn(torch.cat((y, context), -1), (h1, c1))
            places = torch.cat((weights.unsqueeze(1), total.unsqueeze(1)), 1)
            places = self.dense(self.conv(places).transpose(1, 2))
            energy = self.v(torch.tanh(self.query(h1).unsqueeze(1) + places + keys)).squeeze(-1)
            weights = torch.softmax(energy, dim=1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            total = total + weights
            h2, c2 = self.decoder_rnn(torch.cat((h1, context), -1), (h2, c2))
            joined = torch.cat((h2, context), dim=1)
            frame = self.frame(joined)
            mels.append(frame)
            gates.append(self.gate(joined).squeeze(1))
            alignments.append(weights)
        return torch.stack(mels, 1), torch.stack(gates, 1), torch.stack(alignments, 1)


class Vocoder(nn.Module):
    """Upsampled features with residual blocks, two GRUs, classes of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(6, 8, 5, padding=2)
        self.res = nn.Conv1d(8, 8, 1)
        self.up = nn.Upsample(scale_factor=4, mode="nearest")
        self.i = nn.Linear(9, 12)
        self.one, self.two = nn.GRU(12, 12, batch_first=True), nn.GRU(20, 12, batch_first=True)
        self.out = nn.Linear(12, 16)

    def forward(self, wave: Tensor, mel: Tensor) -> Tensor:
        y = torch.relu(self.front(mel))
        aux = self.up(y + self.res(y)).transpose(1, 2)
        x = self.i(torch.cat([wave.unsqueeze(-1), aux], dim=2))
        x = x + self.one(x)[0]
        x = self.two(torch.cat([x, aux], dim=2))[0]
        return functional.log_softmax(self.out(x), dim=-1)


class SoundEvents(nn.Module):
    """Gated convolutions and pools over spectra, a bidirectional GRU, pooling by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(a, 8, 3, 1, 1) for a in (1, 8))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8, eps=0.001) for _ in range(2))
        self.gates = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.pools = nn.ModuleList([nn.AvgPool2d((2, 4)), nn.AvgPool2d((1, 4))])
        self.gru = nn.GRU(8, 8, batch_first=True, bidirectional=True)
        self.strong, self.weight = nn.Linear(16, 5), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.unsqueeze(1)
        for i in range(2):
            y = self.norms[i](self.convs[i](y))
            gate = torch.sigmoid(self.gates[i](y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
            y = self.pools[i](gate * y)
        y = y.squeeze(-1).permute(0, 2, 1)
        y = self.gru(y)[0]
        strong = torch.sigmoid(self.strong(y))
        weight = torch.clamp(torch.softmax(self.weight(y), dim=-1), min=1e-7, max=1.0)
        return strong.transpose(1, 2), (strong * weight).sum(1) / weight.sum(1)


class Transducer(nn.Module):
    """Prediction and joint of a transducer: every step with every label."""

    def __init__(self) -> None:
        super().__init__()
        self.subsample = nn.Conv2d(1, 4, 3, 2)
        self.encoder = nn.LSTM(4 * 4, 12, 2, batch_first=True)
        self.embed, self.predict = nn.Embedding(20, 8), nn.LSTM(8, 12, batch_first=True)
        self.joint, self.out = nn.Linear(24, 16), nn.Linear(16, 20)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        y = torch.relu(self.subsample(x.unsqueeze(1)))
        n, c, t, f = y.size()
        y = self.encoder(y.transpose(1, 2).contiguous().view(n, t, c * f))[0]
        start = torch.zeros(n, 1, dtype=torch.long)
        p = self.predict(self.embed(torch.cat([start, labels], 1)))[0]
        u = p.size(1)
        joined = torch.cat(
            [y.unsqueeze(2).expand(-1, -1, u, -1), p.unsqueeze(1).repeat(1, t, 1, 1)], -1
        )
        return self.out(torch.tanh(self.joint(joined))).log_softmax(-1)


MODELS: dict[str, Exported] = {
    "voice_frames": Exported(
        VoiceFrames,
        {"x": torch.randn(2, 144), "state": torch.randn(2, 2, 8)},
        {"x": {0: "N"}, "state": {1: "N"}},
        outputs=2,
    ),
    "segmentation": Exported(
        Segmentation, {"wave": torch.randn(2, 1, 2000)}, {"wave": {0: "N", 2: "S"}}
    ),
    "keywords": Exported(
        Keywords,
        {"x": torch.randn(2, 6, 10), "cache": torch.randn(2, 10, 8), "h": torch.randn(1, 2, 12)},
        {"x": TN, "cache": {0: "N"}, "h": {1: "N"}},
        outputs=3,
    ),
    "wake_word": Exported(WakeWord, {"x": torch.randn(2, 16, 12)}, {"x": TN}),
    "highways": Exported(Highways, {"x": torch.randn(2, 9, 10)}, {"x": TN}),
    "spectrogram_decoder": Exported(
        SpectrogramDecoder,
        {"memory": torch.randn(2, 7, 12), "frames": torch.randn(2, 4, 6)},
        {"memory": TN, "frames": {0: "N", 1: "F"}},
        outputs=3,
        script=True,
    ),
    "vocoder": Exported(
        Vocoder,
        {"wave": torch.randn(2, 24), "mel": torch.randn(2, 6, 6)},
        {"wave": {0: "N"}, "mel": {0: "N"}},
    ),
    "sound_events": Exported(SoundEvents, {"x": torch.randn(2, 12, 16)}, {"x": TN}, outputs=2),
    "transducer": Exported(
        Transducer,
        {"x": torch.randn(2, 12, 10), "labels": torch.randint(1, 19, (2, 4))},
        {"x": TN, "labels": {0: "N", 1: "U"}},
        {"labels": (0, 19)},
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
