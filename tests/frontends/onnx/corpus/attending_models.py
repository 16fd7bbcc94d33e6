"""What attends, by both exporters: `attending_models.py OUTDIR`.

Sets, handwriting, captions, questions; positions by rotations, by buckets and by slopes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Set2Set(nn.Module):
    """A set read by an LSTM that asks again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.LSTMCell(12, 6)

    def forward(self, x: Tensor, batch_mask: Tensor) -> Tensor:
        batch = x.size(0)
        h = torch.zeros(batch, 6)
        c = torch.zeros(batch, 6)
        q = torch.zeros(batch, 12)
        for _ in range(3):
            h, c = self.l(q, (h, c))
            e = (
                (x * h.unsqueeze(1))
                .sum(-1)
                .masked_fill(~batch_mask, torch.finfo(torch.float32).min)
            )
            a = torch.softmax(e, 1)
            q = torch.cat([h, (a.unsqueeze(-1) * x).sum(1)], 1)
        return q


class Handwriting(nn.Module):
    """Strokes under a window that slides over the text, by mixtures of Gaussians."""

    def __init__(self) -> None:
        super().__init__()
        self.l1 = nn.LSTMCell(3 + 7, 8)
        self.w = nn.Linear(8, 9)
        self.l2 = nn.LSTMCell(3 + 8 + 7, 8)
        self.o = nn.Linear(16, 6 * 4 + 1)
        self.emb = nn.Embedding(7, 7)

    def forward(
        self, strokes: Tensor, chars: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        batch = strokes.size(0)
        letters = chars.size(1)
        oh = functional.one_hot(chars, 7).float() * mask.unsqueeze(-1)
        k = torch.zeros(batch, 3, 1)
        w = torch.zeros(batch, 7)
        h1 = torch.zeros(batch, 8)
        c1 = torch.zeros(batch, 8)
        h2 = torch.zeros(batch, 8)
        c2 = torch.zeros(batch, 8)
        u = torch.arange(letters).float().view(1, 1, -1)
        ys = torch.jit.annotate(list[Tensor], [])
        for t in range(strokes.size(1)):
            x = strokes[:, t]
            h1, c1 = self.l1(torch.cat([x, w], 1), (h1, c1))
            p = self.w(h1).exp().view(batch, 9, 1)
            al, be, dk = p.split(3, 1)
            k = k + dk * 0.1
            phi = (al * torch.exp(-be * (k - u) ** 2)).sum(1)
            w = torch.bmm(phi.unsqueeze(1), oh).squeeze(1)
            h2, c2 = self.l2(torch.cat([x, h1, w], 1), (h2, c2))
            ys.append(torch.cat([h1, h2], 1))
        y = self.o(torch.stack(ys, 1))
        pi, mu, sg, e = y.split([6, 12, 6, 1], -1)
        return (functional.softmax(pi, -1), mu, torch.exp(sg.clamp(-3, 3)), torch.sigmoid(e))


class ShowTell(nn.Module):
    """A caption, word by word, by attention over parts of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(3, 6, 3, 2),
            nn.ReLU(),
            nn.Conv2d(6, 8, 3, 2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d((3, 3)),
        )
        self.e = nn.Embedding(15, 6)
        self.ih = nn.Linear(8, 8)
        self.ic = nn.Linear(8, 8)
        self.l = nn.LSTMCell(14, 8)
        self.ea = nn.Linear(8, 5)
        self.da = nn.Linear(8, 5)
        self.fa = nn.Linear(5, 1)
        self.fb = nn.Linear(8, 8)
        self.fc = nn.Linear(8, 15)

    def forward(self, img: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        f = self.c(img).permute(0, 2, 3, 1).flatten(1, 2)
        m = f.mean(1)
        h = self.ih(m)
        c = self.ic(m)
        w = start
        done = torch.zeros(img.size(0), dtype=torch.bool)
        out = torch.jit.annotate(list[Tensor], [])
        al = torch.jit.annotate(list[Tensor], [])
        for _ in range(6):
            a = functional.softmax(
                self.fa(functional.relu(self.ea(f) + self.da(h).unsqueeze(1))).squeeze(2), 1
            )
            z = (f * a.unsqueeze(2)).sum(1) * torch.sigmoid(self.fb(h))
            h, c = self.l(torch.cat([self.e(w), z], 1), (h, c))
            lg = self.fc(h)
            w = torch.where(done, torch.zeros_like(w), lg.argmax(-1))
            done = done | (w == 1)
            out.append(w)
            al.append(a)
        return (torch.stack(out, 1), torch.stack(al, 1))


class Bidaf(nn.Module):
    """A paragraph and a question that attend to each other; spans."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(30, 6)
        self.l = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.wc = nn.Linear(8, 1)
        self.wq = nn.Linear(8, 1)
        self.wcq = nn.Parameter(torch.rand(8))
        self.m = nn.LSTM(32, 4, 2, bidirectional=True, batch_first=True)
        self.p1 = nn.Linear(40, 1)
        self.o = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
        self.p2 = nn.Linear(40, 1)

    def forward(self, cx: Tensor, qx: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cm = cx != 0
        qm = qx != 0
        c, _ = self.l(self.e(cx))
        q, _ = self.l(self.e(qx))
        sim = (
            self.wc(c) + self.wq(q).transpose(1, 2) + torch.matmul(c * self.wcq, q.transpose(1, 2))
        )
        a = functional.softmax(sim.masked_fill(~qm.unsqueeze(1), -1e30), -1)
        c2q = a @ q
        b = functional.softmax(sim.max(2)[0].masked_fill(~cm, -1e30), 1)
        q2c = torch.bmm(b.unsqueeze(1), c).expand(-1, c.size(1), -1)
        g = torch.cat([c, c2q, c * c2q, c * q2c], -1)
        m, _ = self.m(g)
        p1 = self.p1(torch.cat([g, m], -1)).squeeze(-1)
        m2, _ = self.o(m)
        p2 = self.p2(torch.cat([g, m2], -1)).squeeze(-1)
        p1 = functional.log_softmax(p1.masked_fill(~cm, -1e30), -1)
        p2 = functional.log_softmax(p2.masked_fill(~cm, -1e30), -1)
        sc = p1.unsqueeze(2) + p2.unsqueeze(1)
        length = cx.size(1)
        ok = torch.ones(length, length).triu().tril(4).bool()
        sc = sc.masked_fill(~ok, -1e30)
        best = sc.flatten(1).argmax(1)
        return (p1, p2, best // length, best % length)


class Rope(nn.Module):
    """Attention with rotated places over a cache that goes in and out, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.inv = nn.Parameter(
            1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4), requires_grad=False
        )
        self.w1 = nn.Linear(8, 16, bias=False)
        self.w3 = nn.Linear(8, 16, bias=False)
        self.w2 = nn.Linear(16, 8, bias=False)
        self.g = nn.Parameter(torch.rand(8))
        self.gru = nn.GRU(8, 8, batch_first=True)

    def rot(self, x: Tensor) -> Tensor:
        a, b = (x[..., :2], x[..., 2:])
        return torch.cat((-b, a), -1)

    def norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-06) * self.g

    def forward(self, x: Tensor, pk: Tensor, pv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, steps, _ = x.shape
        before = pk.size(2)
        q, k, v = [
            z.view(batch, steps, 2, 4).transpose(1, 2) for z in self.qkv(self.norm(x)).chunk(3, -1)
        ]
        pos = torch.arange(before, before + steps).float()
        fr = torch.outer(pos, self.inv)
        e = torch.cat([fr, fr], -1)
        c, sn = (e.cos(), e.sin())
        q = q * c + self.rot(q) * sn
        k = k * c + self.rot(k) * sn
        k = torch.cat([pk, k], 2)
        v = torch.cat([pv, v], 2)
        m = torch.full((steps, before + steps), -float("inf")).triu(before + 1)
        a = torch.softmax(q @ k.transpose(-1, -2) / 2 + m, -1) @ v
        x = x + a.transpose(1, 2).reshape(batch, steps, 8)
        y = self.norm(x)
        x = x + self.w2(functional.silu(self.w1(y)) * self.w3(y))
        y, _ = self.gru(x)
        return (y, k, v)


class T5Bias(nn.Module):
    """Attention biased by buckets of distances."""

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Embedding(8, 2)
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.v = nn.Linear(8, 8)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        c = torch.arange(steps)[:, None]
        m = torch.arange(steps)[None, :]
        rp = m - c
        nb = 4
        rb = (rp > 0).long() * nb
        rp = rp.abs()
        me = 2
        small = rp < me
        large = me + (torch.log(rp.float() / me) / math.log(16 / me) * (nb - me)).long()
        large = torch.min(large, torch.full_like(large, nb - 1))
        rb = rb + torch.where(small, rp, large)
        bias = self.b(rb).permute(2, 0, 1).unsqueeze(0)
        q, k, v = [
            lengths(x).view(batch, steps, 2, 4).transpose(1, 2)
            for lengths in (self.q, self.k, self.v)
        ]
        ext = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        return (
            (torch.softmax(q @ k.transpose(-1, -2) + bias + ext, -1) @ v).transpose(1, 2).flatten(2)
        )


class Alibi(nn.Module):
    """Attention that falls off with distance, under a mask; the last valid step of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.TransformerEncoderLayer(
            8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
        )
        self.rnn = nn.LSTM(8, 6, batch_first=True)

    def forward(self, x: Tensor, lens: Tensor) -> Tensor:
        steps = x.size(1)
        d = (torch.arange(steps)[None] - torch.arange(steps)[:, None]).abs().float()
        sl = torch.tensor([0.5, 0.25])
        m = -d[None] * sl[:, None, None]
        m = m.unsqueeze(0).expand(x.size(0), -1, -1, -1).reshape(-1, steps, steps)
        kp = torch.arange(steps)[None] >= lens[:, None]
        kpf = torch.zeros(kp.shape).masked_fill(kp, -1000000000.0)
        y = self.l(x, src_mask=m, src_key_padding_mask=kpf)
        o, (_h, _c) = self.rnn(y.masked_fill(kp[..., None], 0))
        return o.gather(1, (lens - 1).view(-1, 1, 1).expand(-1, 1, 6)).squeeze(1)


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 20, shape)


LENGTHS = torch.tensor([5, 3])


class Local(nn.Module):
    """Attention in blocks that also see the blocks beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        rest = (-t) % 4
        q, k, v = self.qkv(functional.pad(x, (0, 0, 0, rest))).chunk(3, -1)
        n = (t + rest) // 4
        valid = functional.pad(torch.ones(b, t), (0, rest))
        q = q.view(b, n, 4, d)

        def around(y: Tensor) -> Tensor:
            z = functional.pad(y, (0, 0, 1, 1) if y.dim() == 3 else (0, 0, 0, 0, 1, 1))
            return torch.cat([z[:, :-2], z[:, 1:-1], z[:, 2:]], 2)

        k, v = around(k.view(b, n, 4, d)), around(v.view(b, n, 4, d))
        seen = around(valid.view(b, n, 4))
        s = torch.einsum("bnid,bnjd->bnij", q, k) / math.sqrt(d)
        a = s.masked_fill(seen[:, :, None] == 0, -1e4).softmax(-1)
        y = torch.einsum("bnij,bnjd->bnid", a, v).reshape(b, n * 4, d)
        return self.o(y[:, :t])


MODELS = {
    "set2set": Exported(
        Set2Set,
        {"x": torch.randn(2, 7, 6), "m": torch.ones(2, 7, dtype=torch.bool)},
        {"x": TN, "m": TN},
    ),
    "handwriting": Exported(
        Handwriting,
        {
            "s": torch.randn(2, 5, 3),
            "c": torch.zeros(2, 6, dtype=torch.long),
            "m": torch.ones(2, 6),
        },
        {"s": TN, "c": {0: "N", 1: "U"}, "m": {0: "N", 1: "U"}},
        {"c": (0, 6)},
        outputs=4,
        script=True,
    ),
    "showtell": Exported(
        ShowTell,
        {"img": torch.randn(2, 3, 20, 20), "start": torch.zeros(2, dtype=torch.long)},
        {"img": {0: "N"}, "start": {0: "N"}},
        {"start": (0, 14)},
        outputs=2,
        script=True,
    ),
    "bidaf": Exported(
        Bidaf,
        {"c": _words(2, 8), "q": _words(2, 5)},
        {"c": {0: "N", 1: "C"}, "q": {0: "N", 1: "Q"}},
        {"c": (1, 29), "q": (1, 29)},
        outputs=4,
    ),
    "rope": Exported(
        Rope,
        {"x": torch.randn(2, 4, 8), "pk": torch.randn(2, 2, 3, 4), "pv": torch.randn(2, 2, 3, 4)},
        {"x": TN, "pk": {0: "N", 2: "P"}, "pv": {0: "N", 2: "P"}},
        outputs=3,
    ),
    "t5": Exported(
        T5Bias, {"x": torch.randn(2, 6, 8), "mask": torch.ones(2, 6)}, {"x": TN, "mask": TN}
    ),
    "alibi": Exported(
        Alibi,
        {"x": torch.randn(2, 5, 8), "lens": LENGTHS},
        {"x": TN, "lens": {0: "N"}},
        {"lens": (1, "T")},
    ),
    "local": Exported(Local, {"x": torch.randn(2, 10, 8)}, {"x": TN}),
}


if __name__ == "__main__":
    export_all(MODELS)
