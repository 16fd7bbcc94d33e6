"""Cells from papers by both exporters: `paper_models.py OUTDIR`.

Matrices as memories, solvers, images, complex layers, forecasts.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class GWave(nn.Module):
    """Traffic: dilated gated convolutions over time, a learned adjacency between roads."""

    def __init__(self) -> None:
        super().__init__()
        self.e1 = nn.Parameter(torch.randn(5, 4))
        self.e2 = nn.Parameter(torch.randn(4, 5))
        self.st = nn.Conv2d(2, 6, 1)
        self.f = nn.ModuleList([nn.Conv2d(6, 6, (1, 2), dilation=(1, d)) for d in (1, 2, 4)])
        self.g = nn.ModuleList([nn.Conv2d(6, 6, (1, 2), dilation=(1, d)) for d in (1, 2, 4)])
        self.sk = nn.ModuleList([nn.Conv2d(6, 7, 1) for _ in range(3)])
        self.gc = nn.ModuleList([nn.Conv2d(12, 6, 1) for _ in range(3)])
        self.bn = nn.ModuleList([nn.BatchNorm2d(6) for _ in range(3)])
        self.o = nn.Conv2d(7, 3, 1)
        self.rf = 8

    def forward(self, x: Tensor) -> Tensor:
        if x.size(3) < self.rf:
            x = functional.pad(x, (self.rf - x.size(3), 0, 0, 0))
        matrix = functional.softmax(functional.relu(self.e1 @ self.e2), 1)
        x = self.st(x)
        skip: Tensor | None = None
        for f, g, k, c, b in zip(self.f, self.g, self.sk, self.gc, self.bn, strict=True):
            r = x
            x = torch.tanh(f(x)) * torch.sigmoid(g(x))
            sk = k(x)
            skip = sk if skip is None else sk + skip[..., -sk.size(3) :]
            x = c(torch.cat([x, torch.einsum("ncvl,vw->ncwl", x, matrix)], 1))
            x = b(x + r[..., -x.size(3) :])
        assert skip is not None
        return self.o(functional.relu(skip))


class ReNet(nn.Module):
    """An image swept by recurrences along rows, then along columns."""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.GRU(12, 5, bidirectional=True, batch_first=True)
        self.h = nn.GRU(10, 5, bidirectional=True, batch_first=True)
        self.o = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        b, c, high, wide = x.shape
        x = (
            x.view(b, c, high // 2, 2, wide // 2, 2)
            .permute(0, 4, 2, 3, 5, 1)
            .reshape(b * (wide // 2), high // 2, 4 * c)
        )
        x, _ = self.v(x)
        x = (
            x.view(b, wide // 2, high // 2, 10)
            .transpose(1, 2)
            .reshape(b * (high // 2), wide // 2, 10)
        )
        x, _ = self.h(x)
        return self.o(x).view(b, high // 2, wide // 2, 3).permute(0, 3, 1, 2)


class MLstm(nn.Module):
    """A memory of matrices in its parallel form, stabilised in logarithms."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)
        self.i = nn.Linear(24, 2)
        self.f = nn.Linear(24, 2)
        self.n = nn.GroupNorm(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, parts, width = x.shape
        q, k, v = (self.q(x), self.k(x), self.v(x))
        g = torch.cat([q, k, v], -1)
        q, k, v = [z.view(batch, parts, 2, 4).transpose(1, 2) for z in (q, k, v)]
        ig = self.i(g).transpose(-1, -2).unsqueeze(-1)
        fg = self.f(g).transpose(-1, -2).unsqueeze(-1)
        lf = functional.logsigmoid(fg)
        ltr = torch.tril(torch.ones((parts, parts), dtype=torch.bool))
        cs = torch.cat([torch.zeros((batch, 2, 1, 1)), torch.cumsum(lf, dim=-2)], -2)
        rep = cs.repeat(1, 1, 1, parts + 1)
        m = rep - rep.transpose(-2, -1)
        lfm = torch.where(ltr, m[:, :, 1:, 1:], -float("inf"))
        ld = lfm + ig.transpose(-2, -1)
        mx, _ = torch.max(ld, dim=-1, keepdim=True)
        weight = torch.exp(ld - mx)
        channels = q @ (k / 2.0).transpose(-2, -1) * weight
        n = torch.maximum(channels.sum(-1, keepdim=True).abs(), torch.exp(-mx))
        h = channels / (n + 1e-06) @ v
        y = h.transpose(1, 2).reshape(batch * parts, width)
        return self.n(y).view(batch, parts, width)


class SLstm(nn.Module):
    """A cell with exponential gates, normalised and stabilised."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(6, 32)
        self.r = nn.Parameter(torch.randn(4, 2, 4, 4) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.size(0)
        h = torch.zeros(batch, 8)
        c = torch.zeros(batch, 8)
        n = torch.zeros(batch, 8)
        m = torch.zeros(batch, 8)
        ys = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1)):
            r = torch.einsum("bhd,ghde->bghe", h.view(batch, 2, 4), self.r).reshape(batch, 32)
            i, f, z, o = (self.w(x[:, t]) + r).chunk(4, 1)
            lfm = m + functional.logsigmoid(f)
            mn = i if bool(torch.all(n == 0.0)) else torch.max(i, lfm)
            ie = torch.minimum(torch.exp(i - mn), torch.ones_like(i))
            fe = torch.minimum(torch.exp(lfm - mn), torch.ones_like(i))
            c = fe * c + ie * torch.tanh(z)
            n = fe * n + ie
            h = torch.sigmoid(o) * c / n
            m = mn
            ys.append(h)
        return torch.stack(ys, 1)


class Ltc(nn.Module):
    """Liquid time constants: several steps of a solver for each input."""

    def __init__(self) -> None:
        super().__init__()
        n = 6
        self.gl = nn.Parameter(torch.rand(n))
        self.vl = nn.Parameter(torch.randn(n))
        self.cm = nn.Parameter(torch.rand(n) + 0.4)
        self.sg = nn.Parameter(torch.rand(n, n) + 3)
        self.mu = nn.Parameter(torch.rand(n, n))
        self.w = nn.Parameter(torch.rand(n, n))
        self.er = nn.Parameter(torch.sign(torch.randn(n, n)))
        self.ss = nn.Parameter(torch.rand(4, n) + 3)
        self.sm = nn.Parameter(torch.rand(4, n))
        self.sw = nn.Parameter(torch.rand(4, n))
        self.se = nn.Parameter(torch.sign(torch.randn(4, n)))

    def forward(self, x: Tensor, ts: Tensor) -> tuple[Tensor, Tensor]:
        batch = x.size(0)
        v = torch.zeros(batch, 6)
        ys = torch.jit.annotate(list[Tensor], [])
        for t in range(x.size(1)):
            sa = functional.softplus(self.sw) * torch.sigmoid(
                self.ss * (x[:, t].unsqueeze(-1) - self.sm)
            )
            sr = sa * self.se
            wn = sr.sum(1)
            wd = sa.sum(1)
            cm = functional.softplus(self.cm).view(1, -1) / ((ts[:, t].unsqueeze(1) + 1.0) / 4)
            for _ in range(4):
                wa = functional.softplus(self.w) * torch.sigmoid(
                    self.sg * (v.unsqueeze(-1) - self.mu)
                )
                rv = wa * self.er
                nu = cm * v + functional.softplus(self.gl) * self.vl + rv.sum(1) + wn
                de = cm + functional.softplus(self.gl) + wa.sum(1) + wd
                v = nu / (de + 1e-08)
            ys.append(v)
        return (torch.stack(ys, 1), v)


class Dccrn(nn.Module):
    """Complex convolutions and a complex LSTM over a spectrum, and a mask for it."""

    def __init__(self) -> None:
        super().__init__()
        self.er = nn.Conv2d(1, 4, (5, 2), (2, 1), (2, 1))
        self.ei = nn.Conv2d(1, 4, (5, 2), (2, 1), (2, 1))
        self.lr = nn.LSTM(4 * 9, 8)
        self.li = nn.LSTM(4 * 9, 8)
        self.pr = nn.Linear(8, 36)
        self.dr = nn.ConvTranspose2d(8, 1, (5, 2), (2, 1), (2, 0))
        self.di = nn.ConvTranspose2d(8, 1, (5, 2), (2, 1), (2, 0))
        self.win = nn.Parameter(torch.hann_window(32), requires_grad=False)

    def forward(self, w: Tensor) -> tuple[Tensor, Tensor]:
        sp = torch.stft(w, 32, 8, 32, self.win, return_complex=True, center=True)
        re, im = (sp.real.unsqueeze(1), sp.imag.unsqueeze(1))
        a = (self.er(re) - self.ei(im))[..., :-1]
        b = (self.er(im) + self.ei(re))[..., :-1]
        batch, channels, bands, steps = a.shape
        ar = a.permute(3, 0, 1, 2).reshape(steps, batch, -1)
        br = b.permute(3, 0, 1, 2).reshape(steps, batch, -1)
        rr, _ = self.lr(ar)
        ri, _ = self.li(ar)
        ir, _ = self.lr(br)
        ii, _ = self.li(br)
        r = self.pr(rr - ii).view(steps, batch, channels, bands).permute(1, 2, 3, 0)
        i = self.pr(ri + ir).view(steps, batch, channels, bands).permute(1, 2, 3, 0)
        r = torch.cat([r, a], 1)
        i = torch.cat([i, b], 1)
        mr = (self.dr(r) - self.di(i))[..., 1:].squeeze(1)
        mi = (self.dr(i) + self.di(r))[..., 1:].squeeze(1)
        mag = torch.tanh(torch.sqrt(mr**2 + mi**2 + 1e-08))
        ph = torch.atan2(mi, mr)
        re = sp.real
        im = sp.imag
        m0 = torch.sqrt(re**2 + im**2 + 1e-08) * mag
        p0 = torch.atan2(im, re) + ph
        return (m0 * torch.cos(p0), m0 * torch.sin(p0))


class Nbeats(nn.Module):
    """Forecasts: blocks that take away what they explain, by trends, seasons and at will."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
                for _ in range(3)
            ]
        )
        self.th = nn.ModuleList([nn.Linear(16, n) for n in (6, 8, 12 + 4)])
        t = torch.arange(16.0) / 16
        self.T = nn.Parameter(torch.stack([t**i for i in range(3)]), requires_grad=False)
        self.S = nn.Parameter(
            torch.stack([torch.cos(2 * math.pi * i * t) for i in range(4)]), requires_grad=False
        )

    def forward(self, x: Tensor) -> Tensor:
        norm = x.abs().amax(1, keepdim=True).clamp_min(0.001)
        x = x / norm
        f = torch.zeros(x.size(0), 4)
        for i, (a, b) in enumerate(zip(self.fc, self.th, strict=True)):
            th = b(a(x))
            if i == 0:
                bk, fc = (th[:, :3] @ self.T[:, :12], th[:, 3:] @ self.T[:, 12:])
            elif i == 1:
                bk, fc = (th[:, :4] @ self.S[:, :12], th[:, 4:] @ self.S[:, 12:])
            else:
                bk, fc = (th[:, :12], th[:, 12:])
            x = x - bk
            f = f + fc
        return f * norm


MODELS = {
    "gwave": Exported(GWave, {"x": torch.randn(2, 2, 5, 12)}, {"x": {0: "N", 3: "T"}}),
    "renet": Exported(ReNet, {"x": torch.randn(2, 3, 8, 6)}, {"x": {0: "N", 2: "H", 3: "W"}}),
    "mlstm": Exported(MLstm, {"x": torch.randn(2, 5, 8)}, {"x": TN}),
    "slstm": Exported(SLstm, {"x": torch.randn(2, 5, 6)}, {"x": TN}, script=True),
    "ltc": Exported(
        Ltc,
        {"x": torch.randn(2, 5, 4), "ts": torch.rand(2, 5)},
        {"x": TN, "ts": TN},
        outputs=2,
        script=True,
    ),
    "dccrn": Exported(Dccrn, {"w": torch.randn(2, 128)}, {"w": {0: "N", 1: "S"}}, outputs=2),
    "nbeats": Exported(Nbeats, {"x": torch.randn(2, 12)}, {"x": {0: "N"}}),
}

if __name__ == "__main__":
    export_all(MODELS)
