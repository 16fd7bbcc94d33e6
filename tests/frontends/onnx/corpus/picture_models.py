"""Videos, sketches and flow by both exporters: `picture_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class TwoStream(nn.Module):
    """Frames with channels shifted in time (TSM), pooled, and read by a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.gru, self.o = nn.GRU(16, 8), nn.Linear(8, 3)

    def forward(self, v: Tensor) -> Tensor:
        n, t = v.shape[:2]
        x = functional.relu(self.c1(v.flatten(0, 1)))
        x = x.view(n, t, *x.shape[1:])
        left = functional.pad(x[:, 1:, :2], (0, 0, 0, 0, 0, 0, 0, 1))
        right = functional.pad(x[:, :-1, 2:4], (0, 0, 0, 0, 0, 0, 1, 0))
        x = torch.cat([left, right, x[:, :, 4:]], 2).flatten(0, 1)
        x = functional.relu6(self.c2(x)).mean((2, 3)).view(n, t, 16)
        return self.o(self.gru(x.transpose(0, 1))[0]).transpose(0, 1)


class Convex(nn.Module):
    """RAFT in one level: a ConvGRU over correlations, then convex upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Conv2d(3, 8, 3, 2, 1)
        self.z, self.r, self.q = (nn.Conv2d(8 + 11, 8, 3, padding=1) for _ in range(3))
        self.d, self.m = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 4 * 9, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        x, y = torch.tanh(self.f(a)), torch.tanh(self.f(b))
        n, _, hh, ww = x.shape
        padded = functional.pad(y, (1, 1, 1, 1))
        corr = torch.stack(
            [
                (x * padded[:, :, i : i + hh, j : j + ww]).mean(1)
                for i in range(3)
                for j in range(3)
            ],
            1,
        )
        h, flow = torch.zeros_like(x), torch.zeros_like(x[:, :2])
        for _ in range(3):
            inputs = torch.cat([corr, flow], 1)
            hx = torch.cat([h, inputs], 1)
            z, r = torch.sigmoid(self.z(hx)), torch.sigmoid(self.r(hx))
            h = (1 - z) * h + z * torch.tanh(self.q(torch.cat([r * h, inputs], 1)))
            flow = flow + self.d(h)
        mask = self.m(h).view(n, 1, 9, 2, 2, hh, ww).softmax(2)
        up = functional.unfold(2 * flow, (3, 3), padding=1).view(n, 2, 9, 1, 1, hh, ww)
        return (mask * up).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 2 * hh, 2 * ww)


class Sketch(nn.Module):
    """A decoder of strokes: mixtures by their modes, until a pen lifts for good."""

    def __init__(self) -> None:
        super().__init__()
        self.i, self.cell = nn.Linear(6, 24), nn.LSTMCell(5 + 6, 12)
        self.o = nn.Linear(12, 3 * 3 + 3)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        h, c = torch.tanh(self.i(z)).chunk(2, 1)
        x = torch.zeros(z.size(0), 5)
        x[:, 2] = 1.0
        done = torch.zeros(z.size(0), dtype=torch.bool)
        out = torch.jit.annotate(list[Tensor], [])
        for _ in range(12):
            h, c = self.cell(torch.cat([x, z], 1), (h, c))
            y = self.o(h)
            mix = y[:, :9].view(-1, 3, 3)
            best = mix[..., 0].argmax(1)
            move = mix[torch.arange(z.size(0)), best, 1:]
            pen = functional.one_hot(y[:, 9:].argmax(1), 3).float()
            done = done | (pen[:, 2] > 0)
            x = torch.cat([move, pen], 1)
            out.append(x * (~done).float().unsqueeze(1))
        return torch.stack(out, 1), done


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


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


_N = {0: "N"}


class BiConvGru(nn.Module):
    """Convolutional GRUs in both directions over a video."""

    def __init__(self) -> None:
        super().__init__()
        self.zr = nn.Conv2d(3 + 6, 12, 3, padding=1)
        self.n = nn.Conv2d(3 + 6, 6, 3, padding=1)
        self.fuse = nn.Conv2d(12, 6, 1)

    def step(self, x: Tensor, h: Tensor) -> Tensor:
        z, r = torch.sigmoid(self.zr(torch.cat([x, h], 1))).chunk(2, 1)
        n = torch.tanh(self.n(torch.cat([x, r * h], 1)))
        return (1 - z) * h + z * n

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(0), 6, x.size(3), x.size(4))
        fw = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1)):
            h = self.step(x[:, t], h)
            fw.append(h)
        h = x.new_zeros(x.size(0), 6, x.size(3), x.size(4))
        bw = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1) - 1, -1, -1):
            h = self.step(x[:, t], h)
            bw.append(h)
        b = torch.flip(torch.stack(bw, 1), [1])
        y = torch.cat([torch.stack(fw, 1), b], 2)
        return self.fuse(y.flatten(0, 1)).view(x.size(0), x.size(1), 6, x.size(3), x.size(4))


MODELS = {
    "tsm": Exported(TwoStream, {"v": torch.randn(2, 4, 3, 16, 16)}, {"v": {**TN, 3: "H", 4: "W"}}),
    "raft": Exported(
        Convex,
        {"a": torch.randn(1, 3, 16, 24), "b": torch.randn(1, 3, 16, 24)},
        {"a": {0: "N", 2: "H", 3: "W"}, "b": {0: "N", 2: "H", 3: "W"}},
    ),
    "sketch": Exported(Sketch, {"z": torch.randn(2, 6)}, {"z": {0: "N"}}, outputs=2, script=True),
    "frames": Exported(
        Frames,
        {"clip": _x(2, 4, 3, 16, 16), "lengths": torch.tensor([4, 2])},
        {"clip": TN, "lengths": _N},
        {"lengths": (1, "T")},
    ),
    "biconvgru": Exported(
        BiConvGru,
        {"x": torch.randn(2, 4, 3, 6, 7)},
        {"x": {0: "N", 1: "T", 3: "H", 4: "W"}},
        script=True,
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
