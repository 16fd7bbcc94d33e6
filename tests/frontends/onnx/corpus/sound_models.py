"""Synthesis, keywords, transducers, separation by both exporters: `sound_models.py OUTDIR`."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


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


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


_N = {0: "N"}


class Demucs(nn.Module):
    """Waves down and up again through gated convolutions, an LSTM in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 3
        self.k = 8
        self.st = 4
        self.enc = nn.ModuleList()
        self.dec = nn.ModuleList()
        ci = 1
        ch = 4
        for i in range(self.depth):
            self.enc.append(
                nn.Sequential(
                    nn.Conv1d(ci, ch, 8, 4), nn.ReLU(), nn.Conv1d(ch, ch * 2, 1), nn.GLU(1)
                )
            )
            d = [nn.Conv1d(ch, ch * 2, 1), nn.GLU(1), nn.ConvTranspose1d(ch, ci, 8, 4)]
            if i:
                d.append(nn.ReLU())
            self.dec.insert(0, nn.Sequential(*d))
            ci = ch
            ch *= 2
        self.lstm = nn.LSTM(ci, ci, 2)

    def valid(self, length: int) -> int:
        for _ in range(self.depth):
            length = math.ceil((length - self.k) / self.st) + 1
            length = max(length, 1)
        for _ in range(self.depth):
            length = (length - 1) * self.st + self.k
        return length

    def forward(self, mix: Tensor) -> Tensor:
        std = mix.mean(1, keepdim=True).std(-1, keepdim=True)
        x = mix / (0.001 + std)
        length = x.shape[-1]
        x = functional.pad(x, (0, 100))
        skips = []
        for e in self.enc:
            x = e(x)
            skips.append(x)
        x = x.permute(2, 0, 1)
        x, _ = self.lstm(x)
        x = x.permute(1, 2, 0)
        for d in self.dec:
            sk = skips.pop()
            x = x + sk[..., : x.shape[-1]]
            x = d(x)
        return std * x[..., :length]


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


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 9, shape)


MODELS = {
    "tacotron": Exported(Tacotron, {"memory": _x(2, 6, 8)}, {"memory": TN}, outputs=2, script=True),
    "svdf": Exported(
        Svdf,
        {"frame": _x(2, 10), "first": _x(2, 16, 6), "second": _x(2, 16, 6)},
        {"frame": _N, "first": _N, "second": _N},
        outputs=3,
    ),
    "wave_rnn": Exported(WaveRnn, {"mel": _x(2, 5, 4)}, {"mel": {0: "N", 2: "T"}}, script=True),
    "demucs": Exported(Demucs, {"mix": torch.randn(2, 1, 300)}, {"mix": {0: "N", 2: "S"}}),
    "joint": Exported(
        Joint,
        {"frames": _x(2, 9, 10), "tokens": _words(2, 5)},
        {"frames": TN, "tokens": {0: "N", 1: "U"}},
        {"tokens": (0, 19)},
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
