"""Forecasts and missing values by both exporters: `forecast_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class AutoCorrelated(nn.Module):
    """Autoformer: trend by moving means, delays by an autocorrelation in frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        front, end = x[:, :1].repeat(1, 2, 1), x[:, -1:].repeat(1, 2, 1)
        trend = functional.avg_pool1d(torch.cat([front, x, end], 1).transpose(1, 2), 5, 1)
        trend = trend.transpose(1, 2)
        s = x - trend
        q, k, v = self.q(s), self.k(s), self.v(s)
        n = x.size(1)
        lag = torch.arange(n)
        index = (lag[None] - lag[:, None]) % n
        corr = torch.einsum("btc,bsc->bts", q, k)
        corr = torch.gather(corr, 2, index[None].expand(x.size(0), n, n)).mean(1)
        w, delays = torch.topk(corr, 2, dim=-1)
        w = w.softmax(-1)
        doubled = torch.cat([v, v], 1)
        out = torch.zeros_like(v)
        for i in range(2):
            at = (lag[None] + delays[:, i : i + 1]).unsqueeze(-1).expand(-1, -1, 6)
            out = out + w[:, i, None, None] * torch.gather(doubled, 1, at)
        return out, trend


class Patches(nn.Module):
    """PatchTST: instance norm, overlapping patches of each channel, an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Linear(8, 16)
        self.pos = nn.Parameter(torch.randn(64, 16) * 0.02)
        self.e = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.o = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        z = ((x - mean) / std).transpose(1, 2)
        z = functional.pad(z, (0, 4), mode="replicate").unfold(-1, 8, 4)
        b, c, n = z.shape[0], z.shape[1], z.shape[2]
        h = self.p(z) + self.pos[:n]
        h = self.e(h.reshape(b * c, n, 16)).reshape(b, c, n, 16)
        y = self.o(h.mean(2)).transpose(1, 2)
        return y * std + mean


class Imputed(nn.Module):
    """BRITS, one direction: what is missing is estimated from a decayed state."""

    def __init__(self) -> None:
        super().__init__()
        self.d, self.r, self.f = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(4, 4)
        self.w, self.cell = nn.Linear(8, 4), nn.LSTMCell(8, 8)

    def forward(self, x: Tensor, m: Tensor, delta: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 8)
        c = torch.zeros(x.size(0), 8)
        out = []
        for t in range(x.size(1)):
            v, k, d = x[:, t], m[:, t], delta[:, t]
            h = h * torch.exp(-functional.relu(self.d(d)))
            xh = self.r(h)
            xc = k * v + (1 - k) * xh
            zh = self.f(xc)
            alpha = torch.sigmoid(self.w(torch.cat([torch.exp(-d), k], 1)))
            ch = alpha * zh + (1 - alpha) * xh
            cc = k * v + (1 - k) * ch
            h, c = self.cell(torch.cat([cc, k], 1), (h, c))
            out.append(cc)
        return torch.stack(out, 1)


class Fusion(nn.Module):
    """Temporal fusion: selected variables, gated residuals, an LSTM, masked attention."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.ModuleList([nn.Linear(1, 8) for _ in range(4)])
        self.s = nn.Linear(32, 4)
        self.l = nn.LSTM(8, 8, batch_first=True)
        self.g, self.n = nn.Linear(8, 16), nn.LayerNorm(8)
        self.q, self.k, self.v = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(8, 8)
        self.o = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        each = torch.stack([e(x[..., i : i + 1]) for i, e in enumerate(self.e)], -2)
        w = self.s(each.flatten(-2)).softmax(-1)
        z = (each * w.unsqueeze(-1)).sum(-2)
        h = self.n(z + functional.glu(self.g(self.l(z)[0])))
        b, t = h.shape[0], h.shape[1]
        q = self.q(h).view(b, t, 2, 8).transpose(1, 2)
        k = self.k(h).view(b, t, 2, 8).transpose(1, 2)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
        a = (q @ k.transpose(2, 3) / 8**0.5).masked_fill(mask, float("-inf")).softmax(-1)
        return self.o(a.mean(1) @ self.v(h)), a


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


def _x(*shape: int) -> Tensor:
    return torch.randn(shape)


_N = {0: "N"}


MODELS = {
    "autoformer": Exported(AutoCorrelated, {"x": torch.randn(2, 12, 6)}, {"x": TN}, outputs=2),
    "patchtst": Exported(Patches, {"x": torch.randn(2, 24, 3)}, {"x": TN}),
    "brits": Exported(
        Imputed,
        {"x": torch.randn(2, 5, 4), "m": torch.ones(2, 5, 4), "d": torch.rand(2, 5, 4)},
        {"x": TN, "m": TN, "d": TN},
        script=True,
    ),
    "tft": Exported(Fusion, {"x": torch.randn(2, 6, 4)}, {"x": TN}, outputs=2),
    "mixer": Exported(Mixer, {"x": _x(2, 16, 5)}, {"x": _N}),
}


if __name__ == "__main__":
    export_all(MODELS)
