"""Recurrences of one step by both exporters: `step_models.py OUTDIR`.

Their states go in and out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all
from tests.frontends.onnx.corpus.streaming_models import D, H, N


class MambaStep(nn.Module):
    """One step of a selective state space: a window of the convolution, and the state."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.conv = nn.Linear(8, 2 * D), nn.Parameter(torch.randn(D, 4))
        self.select, self.step = nn.Linear(D, 1 + 2 * 4), nn.Linear(1, D)
        self.decay, self.out = nn.Parameter(torch.rand(D, 4)), nn.Linear(D, 8)

    def forward(self, x: Tensor, window: Tensor, state: Tensor):
        y, gate = self.inside(x).chunk(2, 1)
        window = torch.roll(window, -1, 2)
        window = torch.cat([window[:, :, :-1], y.unsqueeze(2)], 2)
        y = functional.silu((window * self.conv).sum(2))
        delta, b, c = self.select(y).split([1, 4, 4], 1)
        delta = functional.softplus(self.step(delta)).unsqueeze(2)
        state = state * torch.exp(-delta * self.decay) + delta * b.unsqueeze(1) * y.unsqueeze(2)
        y = torch.einsum("ndk,nk->nd", state, c) * functional.silu(gate)
        return self.out(y), window, state


class RwkvStep(nn.Module):
    """One step of a weighted sum over time in a form that does not overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.r, self.k, self.v, self.out = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.mix, self.decay = nn.Parameter(torch.rand(3, D)), nn.Parameter(torch.rand(D))
        self.first = nn.Parameter(torch.rand(D))

    def forward(self, x: Tensor, before: Tensor, a: Tensor, b: Tensor, p: Tensor):
        r, k, v = (
            layer(x * m + before * (1 - m))
            for layer, m in zip((self.r, self.k, self.v), self.mix, strict=True)
        )
        top = torch.maximum(p, self.first + k)
        e, f = torch.exp(p - top), torch.exp(self.first + k - top)
        y = torch.sigmoid(r) * (e * a + f * v) / (e * b + f)
        top = torch.maximum(p - torch.exp(self.decay), k)
        e, f = torch.exp(p - torch.exp(self.decay) - top), torch.exp(k - top)
        return self.out(y), x, e * a + f * v, e * b + f, top


class MatrixStep(nn.Module):
    """One step of an mLSTM: a matrix, a normaliser and a running maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.gates = nn.Linear(8, 3 * D), nn.Linear(8, 2 * H)

    def forward(self, x: Tensor, c: Tensor, n: Tensor, m: Tensor):
        q, k, v = (part.unflatten(1, (H, -1)) for part in self.all(x).chunk(3, 1))
        i, f = self.gates(x).chunk(2, 1)
        f = functional.logsigmoid(f)
        top = torch.maximum(f + m, i)
        keep, new = torch.exp(f + m - top).unsqueeze(2), torch.exp(i - top).unsqueeze(2)
        k = k / math.sqrt(D // H)
        c = keep.unsqueeze(3) * c + new.unsqueeze(3) * v.unsqueeze(3) * k.unsqueeze(2)
        n = keep * n + new * k
        y = (c @ q.unsqueeze(3)).squeeze(3)
        return (y / (n * q).sum(2, keepdim=True).abs().clamp(min=1.0)).flatten(1), c, n, top


class Delta(nn.Module):
    """A gated delta rule over time as a loop: a matrix that is corrected by what it predicts."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.gates = nn.Linear(8, 3 * D), nn.Linear(8, 2)

    def forward(self, x: Tensor, state: Tensor):
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            q, k, v = torch.chunk(self.all(x[:, t]), 3, dim=1)
            k = functional.normalize(k, dim=1)
            keep = torch.sigmoid(self.gates(x[:, t]))
            state = state * keep[:, :1, None]
            found = torch.bmm(state, k.unsqueeze(2)).squeeze(2)
            change = keep[:, 1:] * (v - found)
            state = state + change.unsqueeze(2) * k.unsqueeze(1)
            rows.append(torch.bmm(state, q.unsqueeze(2)).squeeze(2))
        return torch.stack(rows, 1), state


class Smoothed(nn.Module):
    """Energies divided by their running mean (PCEN), then a GRU: both go on in the next chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(10, D, batch_first=True), nn.Linear(D, 2)
        self.power = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor, mean: Tensor, h: Tensor):
        energy = x * x
        rows: list[Tensor] = []
        for t in range(energy.size(1)):
            mean = 0.96 * mean.abs() + 0.04 * energy[:, t]
            rows.append((energy[:, t] / (mean + 1e-6) ** 0.98 + 2.0) ** self.power)
        y, h = self.gru(torch.stack(rows, 1), h)
        return torch.softmax(self.out(y), -1), mean, h


MODELS: dict[str, Exported] = {
    "mamba_step": Exported(
        MambaStep,
        {"x": torch.randn(2, 8), "window": torch.randn(2, D, 4), "state": torch.randn(2, D, 4)},
        {"x": N, "window": N, "state": N},
        outputs=3,
    ),
    "rwkv_step": Exported(
        RwkvStep,
        {name: torch.randn(2, D) for name in ("x", "before", "a", "b", "p")},
        dict.fromkeys(("x", "before", "a", "b", "p"), N),
        outputs=5,
    ),
    "matrix_step": Exported(
        MatrixStep,
        {
            "x": torch.randn(2, 8),
            "c": torch.randn(2, H, 8, 8),
            "n": torch.randn(2, H, 8),
            "m": torch.randn(2, H),
        },
        {"x": N, "c": N, "n": N, "m": N},
        outputs=4,
    ),
    "delta": Exported(
        Delta,
        {"x": torch.randn(2, 5, 8), "state": torch.randn(2, D, D)},
        {"x": TN, "state": N},
        outputs=2,
        script=True,
    ),
    "smoothed": Exported(
        Smoothed,
        {"x": torch.randn(2, 5, 10), "mean": torch.randn(2, 10).abs(), "h": torch.randn(1, 2, D)},
        {"x": TN, "mean": N, "h": {1: "N"}},
        outputs=3,
        script=True,
    ),
}


if __name__ == "__main__":
    export_all(MODELS)
