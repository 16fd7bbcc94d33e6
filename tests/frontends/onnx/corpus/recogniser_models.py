"""Recognisers of speech, text and states by both exporters: `recogniser_models.py OUTDIR`.

Masks whose lengths shrink, chunks, residuals of means, episodes that end.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import Exported, export_all


class AttnCell(nn.Module):
    """A step of a reader: additive attention over columns, then an LSTM cell."""

    def __init__(self, c: int, h: int, n: int) -> None:
        super().__init__()
        self.i2h = nn.Linear(c, h, bias=False)
        self.h2h = nn.Linear(h, h)
        self.score = nn.Linear(h, 1, bias=False)
        self.rnn = nn.LSTMCell(c + n, h)

    def forward(
        self, hidden: tuple[Tensor, Tensor], high: Tensor, onehot: Tensor
    ) -> tuple[Tensor, Tensor]:
        e = self.score(torch.tanh(self.i2h(high) + self.h2h(hidden[0]).unsqueeze(1)))
        alpha = functional.softmax(e, dim=1)
        ctx = torch.bmm(alpha.permute(0, 2, 1), high).squeeze(1)
        return (self.rnn(torch.cat([ctx, onehot], 1), hidden), alpha)


class AttnOcr(nn.Module):
    """Text in images, letter by letter: the column that counts is chosen by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 8, 3, 1, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(8, 16, 3, 1, 1),
            nn.ReLU(),
            nn.MaxPool2d((2, 1), (2, 1)),
        )
        self.pool = nn.AdaptiveAvgPool2d((None, 1))
        self.rnn = nn.LSTM(16, 12, bidirectional=True, batch_first=True)
        self.cell = AttnCell(24, 10, 11)
        self.gen = nn.Linear(10, 11)
        self.steps = 7

    def forward(self, x: Tensor) -> Tensor:
        f = self.cnn(x)
        f = self.pool(f.permute(0, 3, 1, 2)).squeeze(3)
        high, _ = self.rnn(f)
        b = high.size(0)
        hid = (torch.zeros(b, 10), torch.zeros(b, 10))
        out = torch.zeros(b, self.steps, 11)
        t = torch.zeros(b, dtype=torch.long)
        for i in range(self.steps):
            oh = functional.one_hot(t, 11).float()
            hid, _a = self.cell(hid, high, oh)
            p = self.gen(hid[0])
            out[:, i, :] = p
            t = p.argmax(1)
        return out


class MaskedConv(nn.Module):
    """A convolution that sees nothing behind the end of each sequence."""

    def __init__(
        self,
        channels: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, outputs, kernel, stride, padding, dilation, groups)
        self.more, self.stride = 2 * padding - dilation * (kernel - 1) - 1, stride

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        beyond = torch.arange(x.size(2)).expand(x.size(0), x.size(2)) >= lengths.unsqueeze(1)
        y = self.conv(x.masked_fill(beyond.unsqueeze(1), 0))
        return y, (lengths + self.more) // self.stride + 1


class Quartz(nn.Module):
    """A recogniser of separable, dilated convolutions under masks whose lengths shrink."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = MaskedConv(16, 12, 11, stride=2, padding=5)
        self.dw = MaskedConv(12, 12, 7, padding=3, groups=12)
        self.pw = MaskedConv(12, 12, 1)
        self.bn = nn.BatchNorm1d(12)
        self.dil = MaskedConv(12, 12, 5, dilation=2, padding=4)
        self.out = nn.Conv1d(12, 9, 1)
        self.se = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 12))

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, lengths = self.c1(x, lengths)
        r = x
        x, lengths = self.dw(x, lengths)
        x, lengths = self.pw(x, lengths)
        x = self.bn(x)
        m = (torch.arange(x.size(2)).unsqueeze(0) < lengths.unsqueeze(1)).float().unsqueeze(1)
        y = (x * m).sum(2) / m.sum(2)
        x = functional.relu(x * torch.sigmoid(self.se(y)).unsqueeze(2) + r)
        x, lengths = self.dil(x, lengths)
        return (functional.log_softmax(self.out(x).transpose(1, 2), -1), lengths)


class SubSpec(nn.Module):
    """Batch norm of bands of a spectrum, each with statistics of its own."""

    def __init__(self, c: int, parts: int) -> None:
        super().__init__()
        self.S = parts
        self.bn = nn.BatchNorm2d(c * parts)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, bands, steps = x.shape
        return self.bn(x.view(batch, channels * self.S, bands // self.S, steps)).view(
            batch, channels, bands, steps
        )


class BcRes(nn.Module):
    """Keywords: residuals that are means over frequency, added to all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(1, 8, 5, stride=(2, 1), padding=2)
        self.f2 = nn.Sequential(nn.Conv2d(8, 8, (3, 1), groups=8, padding=(1, 0)), SubSpec(8, 5))
        self.f1 = nn.Sequential(
            nn.Conv2d(8, 8, (1, 3), groups=8, padding=(0, 2), dilation=(1, 2)),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.Conv2d(8, 8, 1),
        )
        self.tail = nn.Conv2d(8, 8, (20, 5), groups=8, padding=(0, 2))
        self.cls = nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.head(x))
        y = self.f2(x)
        z = self.f1(y.mean(2, keepdim=True))
        x = functional.relu(x + y + z)
        x = self.tail(x)
        x = x.mean(-1, keepdim=True)
        return self.cls(x).flatten(1)


class R2d2(nn.Module):
    """Reinforcement: images, actions and rewards; a state that is cleared where an episode ends."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(1, 4, 4, 2), nn.ReLU(), nn.Conv2d(4, 6, 3, 2), nn.ReLU(), nn.Flatten()
        )
        self.l = nn.LSTMCell(6 * 9 + 3 + 1, 8)
        self.v = nn.Linear(8, 1)
        self.a = nn.Linear(8, 3)

    def forward(
        self, obs: Tensor, act: Tensor, rew: Tensor, done: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, batch = obs.shape[:2]
        f = self.c(obs.flatten(0, 1)).view(steps, batch, -1)
        x = torch.cat([f, functional.one_hot(act, 3).float(), rew.unsqueeze(-1).clamp(-1, 1)], -1)
        ys = torch.jit.annotate(list[Tensor], [])
        for t in range(steps):
            nd = (~done[t]).float().view(-1, 1)
            h, c = self.l(x[t], (h * nd, c * nd))
            ys.append(h)
        y = torch.stack(ys)
        a = self.a(y)
        return (self.v(y) + a - a.mean(-1, keepdim=True), h, c)


class RelMha(nn.Module):
    """Attention by content and by relative place, shifted by a row."""

    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.dk = d // h
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.p = nn.Linear(d, d, bias=False)
        self.o = nn.Linear(d, d)
        self.bu = nn.Parameter(torch.rand(h, self.dk))
        self.bv = nn.Parameter(torch.rand(h, self.dk))

    def forward(self, x: Tensor, pe: Tensor, mask: Tensor) -> Tensor:
        batch = x.size(0)
        q = self.q(x).view(batch, -1, self.h, self.dk)
        k = self.k(x).view(batch, -1, self.h, self.dk).transpose(1, 2)
        v = self.v(x).view(batch, -1, self.h, self.dk).transpose(1, 2)
        p = self.p(pe).view(pe.size(0), -1, self.h, self.dk).transpose(1, 2)
        ac = torch.matmul((q + self.bu).transpose(1, 2), k.transpose(-2, -1))
        bd = torch.matmul((q + self.bv).transpose(1, 2), p.transpose(-2, -1))
        b, h, ql, pl = bd.size()
        bd = (
            functional.pad(bd, (1, 0))
            .view(b, h, -1, ql)[:, :, 1:]
            .view(b, h, ql, pl)[:, :, :, : ac.size(-1)]
        )
        sc = (ac + bd) / math.sqrt(self.dk)
        m = mask.unsqueeze(1).eq(0)
        sc = sc.masked_fill(m, -10000.0)
        a = torch.softmax(sc, -1).masked_fill(m, 0.0)
        return self.o(torch.matmul(a, v).transpose(1, 2).reshape(batch, -1, self.h * self.dk))


class Conformer(nn.Module):
    """A recogniser: strided stem, relative attention, gated convolutions, masks."""

    blocks: Any

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        d = 12
        self.sub = nn.Sequential(nn.Conv2d(1, d, 3, 2), nn.ReLU(), nn.Conv2d(d, d, 3, 2), nn.ReLU())
        self.lin = nn.Linear(d * 4, d)
        self.blocks = nn.ModuleList(
            [
                nn.ModuleDict(
                    {
                        "n1": nn.LayerNorm(d),
                        "f1": nn.Sequential(nn.Linear(d, 24), nn.SiLU(), nn.Linear(24, d)),
                        "n2": nn.LayerNorm(d),
                        "a": RelMha(d, 2),
                        "n3": nn.LayerNorm(d),
                        "pw": nn.Conv1d(d, 2 * d, 1),
                        "dw": nn.Conv1d(d, d, 7, padding=3, groups=d),
                        "bn": nn.BatchNorm1d(d),
                        "po": nn.Conv1d(d, d, 1),
                        "n4": nn.LayerNorm(d),
                        "f2": nn.Sequential(nn.Linear(d, 24), nn.SiLU(), nn.Linear(24, d)),
                        "n5": nn.LayerNorm(d),
                    }
                )
                for _ in range(layers)
            ]
        )
        self.dim = d
        self.out = nn.Linear(d, 7)

    def forward(self, feats: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.sub(feats.unsqueeze(1))
        b, c, t, f = x.size()
        x = self.lin(x.transpose(1, 2).reshape(b, t, c * f)) * math.sqrt(self.dim)
        lengths = ((lens - 1) // 2 - 1) // 2
        pos = torch.arange(t - 1, -t, -1, dtype=torch.float32).unsqueeze(1)
        div = torch.exp(torch.arange(0, self.dim, 2).float() * -(math.log(10000.0) / self.dim))
        pe = torch.zeros(pos.size(0), self.dim)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        pe = pe.unsqueeze(0)
        pad = torch.arange(t).expand(b, t) < lengths.unsqueeze(1)
        mask = pad.unsqueeze(1) & pad.unsqueeze(2)
        for m in self.blocks:
            x = x + 0.5 * m["f1"](m["n1"](x))
            x = x + m["a"](m["n2"](x), pe, mask)
            y = m["n3"](x).transpose(1, 2)
            y = functional.glu(m["pw"](y), 1)
            y = y.masked_fill(~pad.unsqueeze(1), 0.0)
            y = m["po"](functional.silu(m["bn"](m["dw"](y))))
            x = x + y.transpose(1, 2)
            x = x + 0.5 * m["f2"](m["n4"](x))
            x = m["n5"](x)
        return (functional.log_softmax(self.out(x), -1), lengths)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape)


LENGTHS = torch.tensor([5, 3])
MODELS = {
    "attn_ocr": Exported(AttnOcr, {"x": torch.randn(2, 1, 16, 24)}, {"x": {0: "N", 3: "W"}}),
    "quartz": Exported(
        Quartz,
        {"x": torch.randn(2, 16, 20), "lengths": torch.tensor([20, 11])},
        {"x": {0: "N", 2: "T"}, "lengths": {0: "N"}},
        {"lengths": (3, "T")},
        outputs=2,
    ),
    "bcres": Exported(BcRes, {"x": torch.randn(2, 1, 40, 20)}, {"x": {0: "N", 3: "T"}}),
    "r2d2": Exported(
        R2d2,
        {
            "obs": torch.randn(4, 2, 1, 16, 16),
            "act": torch.zeros(4, 2, dtype=torch.long),
            "rew": torch.randn(4, 2),
            "done": torch.zeros(4, 2, dtype=torch.bool),
            "h": torch.randn(2, 8),
            "c": torch.randn(2, 8),
        },
        {
            "obs": {0: "T", 1: "N"},
            "act": {0: "T", 1: "N"},
            "rew": {0: "T", 1: "N"},
            "done": {0: "T", 1: "N"},
            "h": {0: "N"},
            "c": {0: "N"},
        },
        {"act": (0, 2)},
        outputs=3,
        script=True,
    ),
    "conformer": Exported(
        Conformer,
        {"feats": torch.randn(2, 40, 20), "lens": torch.tensor([40, 25])},
        {"feats": {0: "N", 1: "T"}, "lens": {0: "N"}},
        {"lens": ("T", "T")},
        outputs=2,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
