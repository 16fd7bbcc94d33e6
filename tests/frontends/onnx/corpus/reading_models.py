"""Parsers, decoders, recommenders and agents by both exporters: `reading_models.py OUTDIR`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class Elmo(nn.Module):
    """Characters by convolutions of several widths, highways, LSTMs with projections."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(40, 6, padding_idx=0)
        self.c = nn.ModuleList([nn.Conv1d(6, 4 * k, k, padding=k - 1) for k in (1, 2, 3)])
        self.h = nn.Linear(24, 48)
        self.l = nn.LSTM(24, 20, 2, batch_first=True, bidirectional=True, proj_size=7)
        self.mix = nn.Parameter(torch.zeros(2))

    def forward(self, chars: Tensor) -> Tensor:
        b, t, c = chars.shape
        x = self.e(chars.reshape(b * t, c)).transpose(1, 2)
        x = torch.cat([functional.relu(f(x)).amax(-1) for f in self.c], 1)
        a, g = self.h(x).chunk(2, -1)
        x = (torch.sigmoid(g) * torch.relu(a) + (1 - torch.sigmoid(g)) * x).view(b, t, 24)
        y = self.l(x)[0]
        w = self.mix.softmax(0)
        return w[0] * y + w[1] * x[..., :14]


class Biaffine(nn.Module):
    """Dependencies: scores of all pairs of words, heads, labels of the heads found."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.l = nn.LSTM(8, 8, bidirectional=True, batch_first=True)
        self.h, self.d = nn.Linear(16, 10), nn.Linear(16, 10)
        self.u = nn.Parameter(torch.randn(11, 10))
        self.v = nn.Parameter(torch.randn(4, 11, 11))

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.l(self.e(words))[0]
        h, d = functional.elu(self.h(x)), functional.elu(self.d(x))
        one = torch.ones_like(h[..., :1])
        s = torch.cat([d, one], -1) @ self.u @ h.transpose(1, 2)
        s = s.masked_fill(mask[:, None] == 0, -1e9)
        s = s - 1e9 * torch.eye(s.size(1))
        heads = s.argmax(-1)
        chosen = torch.gather(h, 1, heads.unsqueeze(-1).expand(-1, -1, 10))
        labels = torch.einsum(
            "bti,lij,btj->btl", torch.cat([d, one], -1), self.v, torch.cat([chosen, one], -1)
        )
        return heads, labels


class Hierarchy(nn.Module):
    """A document: GRUs with attention over words of sentences, then over sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(60, 8)
        self.w = nn.GRU(8, 6, bidirectional=True, batch_first=True)
        self.s = nn.GRU(12, 5, bidirectional=True, batch_first=True)
        self.wa, self.wc = nn.Linear(12, 12), nn.Linear(12, 1, bias=False)
        self.sa, self.sc = nn.Linear(10, 10), nn.Linear(10, 1, bias=False)
        self.o = nn.Linear(10, 4)

    def forward(self, docs: Tensor) -> tuple[Tensor, Tensor]:
        b, s, w = docs.size()
        flat = docs.view(b * s, w)
        h = self.w(self.e(flat))[0]
        score = self.wc(torch.tanh(self.wa(h))).squeeze(-1)
        score = score.masked_fill(flat == 0, -1e4)
        a = functional.softmax(score, -1)
        sent = torch.bmm(a.unsqueeze(1), h).view(b, s, 12)
        g = self.s(sent)[0]
        d = functional.softmax(self.sc(torch.tanh(self.sa(g))), 1)
        return functional.log_softmax(self.o((d * g).sum(1)), -1), a.view(b, s, w)


class Pointer(nn.Module):
    """A pointer network: each step points at an input that has not been taken."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.LSTM(2, 12, batch_first=True)
        self.cell = nn.LSTMCell(2, 12)
        self.w1, self.w2 = nn.Linear(12, 12, bias=False), nn.Linear(12, 12, bias=False)
        self.v = nn.Linear(12, 1, bias=False)
        self.start = nn.Parameter(torch.randn(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        enc, state = self.l(x)
        h, c = state[0][0], state[1][0]
        mask = torch.zeros(x.size(0), x.size(1))
        keys = self.w1(enc)
        y = self.start.expand(x.size(0), 2)
        tour = torch.jit.annotate(list[Tensor], [])
        total = torch.zeros(x.size(0))
        for _ in range(x.size(1)):
            h, c = self.cell(y, (h, c))
            u = self.v(torch.tanh(keys + self.w2(h).unsqueeze(1))).squeeze(-1) - 1e6 * mask
            lp = u.log_softmax(-1)
            best = u.argmax(-1)
            total = total + lp.gather(1, best.unsqueeze(1)).squeeze(1)
            mask = mask.scatter(1, best.unsqueeze(1), 1.0)
            y = x.gather(1, best.view(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)
            tour.append(best)
        return torch.stack(tour, 1), total


class Farthest(nn.Module):
    """Points chosen one after another, the farthest from all before; features around them."""

    def __init__(self) -> None:
        super().__init__()
        self.m = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 12))

    def forward(self, p: Tensor) -> tuple[Tensor, Tensor]:
        distance = torch.full((p.size(0), p.size(1)), 1e10)
        at = torch.zeros(p.size(0), dtype=torch.long)
        chosen = torch.zeros(p.size(0), 4, dtype=torch.long)
        for i in range(4):
            chosen[:, i] = at
            centre = p.gather(1, at.view(-1, 1, 1).expand(-1, 1, 3))
            distance = torch.minimum(distance, (p - centre).pow(2).sum(-1))
            at = distance.argmax(1)
        centres = p.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 3))
        d = torch.cdist(centres, p)
        near = d.topk(3, dim=-1, largest=False)[1]
        batch = torch.arange(p.size(0)).view(-1, 1, 1)
        groups = p[batch, near] - centres.unsqueeze(2)
        return chosen, self.m(groups).amax(2)


class SessionGraph(nn.Module):
    """SR-GNN: a gated graph of a session's items, with the matrices of in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.i, self.o = nn.Linear(8, 8), nn.Linear(8, 8)
        self.wi, self.wh = nn.Linear(16, 24), nn.Linear(8, 24)
        self.q1, self.q2, self.q3 = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1, bias=False)

    def forward(self, items: Tensor, alias: Tensor, adjacency: Tensor, mask: Tensor) -> Tensor:
        h = self.e(items)
        n = items.size(1)
        for _ in range(2):
            inward = adjacency[:, :, :n] @ self.i(h)
            outward = adjacency[:, :, n : 2 * n] @ self.o(h)
            gi, gh = self.wi(torch.cat([inward, outward], 2)), self.wh(h)
            ir, ii, inew = gi.chunk(3, 2)
            hr, hi, hnew = gh.chunk(3, 2)
            z, r = torch.sigmoid(ii + hi), torch.sigmoid(ir + hr)
            new = torch.tanh(inew + r * hnew)
            h = new + z * (h - new)
        seq = torch.stack([h[i][alias[i]] for i in range(2)])
        last = seq[torch.arange(2), mask.sum(1).long() - 1]
        a = self.q3(torch.sigmoid(self.q1(last).unsqueeze(1) + self.q2(seq)))
        pooled = (a * seq * mask.unsqueeze(-1)).sum(1)
        return torch.cat([pooled, last], 1) @ torch.cat([self.e.weight, self.e.weight], 1).T


class Social(nn.Module):
    """Pedestrians whose hidden states are pooled over a grid around each."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.e = nn.LSTMCell(12, 6), nn.Linear(2, 6)
        self.p, self.o = nn.Linear(24, 6), nn.Linear(6, 5)

    def forward(self, tracks: Tensor) -> Tensor:
        people = tracks.size(1)
        h = torch.zeros(people, 6)
        c = torch.zeros(people, 6)
        out = torch.jit.annotate(list[Tensor], [])
        for t in range(tracks.size(0)):
            x = tracks[t]
            relative = x[None] - x[:, None]
            inside = (relative.abs() < 1.0).all(-1) & ~torch.eye(people, dtype=torch.bool)
            cell = ((relative + 1.0).clamp(0.0, 1.99)).floor().long()
            at = cell[..., 0] * 2 + cell[..., 1]
            grid = torch.zeros(people, 4, 6)
            source = h[None].expand(people, people, 6) * inside.unsqueeze(-1).float()
            grid = grid.scatter_add(1, at.unsqueeze(-1).expand(people, people, 6), source)
            pooled = torch.relu(self.p(grid.view(people, 24)))
            h, c = self.cell(torch.cat([torch.relu(self.e(x)), pooled], 1), (h, c))
            out.append(self.o(h))
        return torch.stack(out)


class Dreamer(nn.Module):
    """A recurrent state-space model: categorical latents by their modes, imagined actions."""

    def __init__(self) -> None:
        super().__init__()
        self.i, self.gru = nn.Linear(12 + 2, 10), nn.GRUCell(10, 10)
        self.post, self.prior = nn.Linear(10 + 5, 12), nn.Linear(10, 12)
        self.r = nn.Linear(22, 1)

    def forward(self, obs: Tensor, act: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        n = obs.size(0)
        h = torch.zeros(n, 10)
        z = torch.zeros(n, 12)
        rewards = []
        kl = torch.zeros(n)
        for t in range(obs.size(1)):
            keep = 1.0 - first[:, t : t + 1]
            h, z = h * keep, z * keep
            h = self.gru(functional.silu(self.i(torch.cat([z, act[:, t]], 1))), h)
            q = self.post(torch.cat([h, obs[:, t]], 1)).view(n, 3, 4)
            p = self.prior(h).view(n, 3, 4)
            kl = kl + (q.softmax(-1) * (q.log_softmax(-1) - p.log_softmax(-1))).sum(-1).sum(-1)
            z = functional.one_hot(q.argmax(-1), 4).float().view(n, 12)
            rewards.append(self.r(torch.cat([h, z], 1)))
        return torch.cat(rewards, 1), kl


class Collapsed(nn.Module):
    """CTC by the best path: blanks and repetitions are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.LSTM(6, 8, bidirectional=True)
        self.o = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.o(self.l(x)[0]).squeeze(1).log_softmax(-1)
        p, best = y.max(-1)
        before = torch.cat([torch.full((1,), -1), best[:-1]])
        keep = (best != before) & (best != 0)
        return best[keep], p[keep].exp()


class Gathered(nn.Module):
    """Mentions as spans: all up to three words, pruned to the best, scored in pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.LSTM(6, 6, bidirectional=True, batch_first=True)
        self.m, self.a = nn.Linear(30, 1), nn.Linear(90, 1)
        self.w = nn.Embedding(3, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.l(x)[0][0]
        t = h.size(0)
        starts = torch.arange(t).unsqueeze(1).expand(t, 3)
        ends = starts + torch.arange(3)
        ok = (ends < t).flatten()
        starts, ends = starts.flatten()[ok], ends.flatten()[ok]
        g = torch.cat([h[starts], h[ends], self.w(ends - starts)], 1)
        s = self.m(g).squeeze(1)
        top, at = s.topk(4)
        g = g[at]
        pairs = torch.cat(
            [
                g.unsqueeze(1).expand(4, 4, 30),
                g.unsqueeze(0).expand(4, 4, 30),
                g.unsqueeze(1) * g.unsqueeze(0),
            ],
            -1,
        )
        score = self.a(pairs).squeeze(-1) + top[:, None] + top[None]
        return score.tril(-1), at


class Buffered(nn.Module):
    """A streaming encoder: a cache of left context that is filled, read and shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv1d(8, 8, 5, groups=8)
        self.p = nn.Conv1d(8, 16, 1)
        self.l = nn.LSTM(8, 8, batch_first=True)

    def forward(
        self, x: Tensor, cache: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        z = torch.cat([cache, x.transpose(1, 2)], 2)
        y = functional.glu(self.p(functional.silu(self.c(z))), 1).transpose(1, 2)
        y, (h, c) = self.l(y, (h, c))
        return y, z[:, :, -4:], h, c


def _words(*shape: int) -> Tensor:
    return torch.randint(1, 30, shape)


class Performed(nn.Module):
    """Events of music: three GRU layers, a controlled step, the best events of given noise."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(16 + 6, 12), nn.Linear(3 * 12, 16)
        self.gru, self.start = nn.GRU(12, 12, 3), nn.Linear(8, 36)

    def forward(self, z: Tensor, control: Tensor, noise: Tensor, heat: Tensor) -> Tensor:
        h = torch.tanh(self.start(z)).view(-1, 3, 12).transpose(0, 1).contiguous()
        event = torch.full([z.size(0)], 15, dtype=torch.int64)
        made: list[Tensor] = []
        for t in range(noise.size(0)):
            x = torch.cat([functional.one_hot(event, 16).float(), control[t]], 1)
            x = functional.leaky_relu(self.into(x), 0.01)
            _, h = self.gru(x[None], h)
            logits = self.out(h.transpose(0, 1).flatten(1)) / heat
            event = (logits - torch.log(functional.softplus(noise[t]))).argmax(1)
            made.append(event)
        return torch.stack(made)


MODELS = {
    "elmo": Exported(Elmo, {"c": _words(2, 5, 7)}, {"c": {0: "N", 1: "T", 2: "C"}}, {"c": (0, 39)}),
    "biaffine": Exported(
        Biaffine,
        {"w": _words(2, 6), "m": torch.ones(2, 6, dtype=torch.long)},
        {"w": TN, "m": TN},
        {"w": (1, 49), "m": (1, 1)},
        outputs=2,
    ),
    "hierarchy": Exported(
        Hierarchy,
        {"d": _words(2, 3, 5)},
        {"d": {0: "N", 1: "S", 2: "W"}},
        {"d": (1, 59)},
        outputs=2,
    ),
    "pointer": Exported(Pointer, {"x": torch.rand(2, 6, 2)}, {"x": TN}, outputs=2, script=True),
    "farthest": Exported(Farthest, {"p": torch.randn(2, 20, 3)}, {"p": TN}, outputs=2),
    "srgnn": Exported(
        SessionGraph,
        {
            "i": _words(2, 5),
            "a": torch.randint(0, 5, (2, 7)),
            "g": torch.rand(2, 5, 10),
            "m": torch.ones(2, 7),
        },
        {"a": {1: "T"}, "m": {1: "T"}},
        {"i": (0, 49), "a": (0, 4)},
    ),
    "social": Exported(Social, {"t": torch.randn(5, 4, 2)}, {"t": {0: "T", 1: "P"}}, script=True),
    "dreamer": Exported(
        Dreamer,
        {"o": torch.randn(2, 5, 5), "a": torch.randn(2, 5, 2), "f": torch.zeros(2, 5)},
        {"o": TN, "a": TN, "f": TN},
        outputs=2,
        script=True,
    ),
    "collapsed": Exported(Collapsed, {"x": torch.randn(9, 1, 6)}, {"x": {0: "T"}}, outputs=2),
    "mentions": Exported(Gathered, {"x": torch.randn(1, 8, 6)}, {"x": {1: "T"}}, outputs=2),
    "buffered": Exported(
        Buffered,
        {
            "x": torch.randn(2, 4, 8),
            "k": torch.zeros(2, 8, 4),
            "h": torch.zeros(1, 2, 8),
            "c": torch.zeros(1, 2, 8),
        },
        {"x": TN, "k": {0: "N"}, "h": {1: "N"}, "c": {1: "N"}},
        outputs=4,
    ),
    "performed": Exported(
        Performed,
        {
            "z": torch.randn(2, 8),
            "control": torch.randn(5, 2, 6),
            "noise": torch.rand(5, 2, 16),
            "heat": torch.ones(1),
        },
        {"z": {0: "N"}, "control": {0: "T", 1: "N"}, "noise": {0: "T", 1: "N"}},
        script=True,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
