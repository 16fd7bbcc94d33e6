"""Linear recurrences in chunks, and their steps, by both exporters: `state_models.py OUTDIR`.

Delta rules solved chunk by chunk, gates in logarithms, scans by doubling, states in and out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


def heads_of(x: Tensor, heads: int = 2) -> Tensor:
    """[N, T, D] as [N, heads, T, D / heads]."""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


class ChunkedDelta(nn.Module):
    """A gated delta rule: a triangle inverted row by row in each chunk, states between chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.beta, self.decay = nn.Linear(8, 24), nn.Linear(8, 2), nn.Linear(8, 2)
        self.out = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        n, steps, _ = x.shape
        size = 4
        q, k, v = (heads_of(part) for part in self.qkv(x).chunk(3, 2))
        q, k = functional.normalize(q, dim=3), functional.normalize(k, dim=3)
        beta = torch.sigmoid(self.beta(x)).transpose(1, 2)
        decay = functional.logsigmoid(self.decay(x)).transpose(1, 2)
        pad = (size - steps % size) % size
        q, k, v = (functional.pad(part, (0, 0, 0, pad)) for part in (q, k, v))
        beta, decay = functional.pad(beta, (0, pad)), functional.pad(decay, (0, pad))
        q, k, v = (part.reshape(n, 2, -1, size, 4) for part in (q, k, v))
        beta, g = (part.reshape(n, 2, -1, size) for part in (beta, decay))
        g = g.cumsum(3)
        upper = torch.triu(torch.ones(size, size, dtype=torch.bool))
        ratio = (g[..., :, None] - g[..., None, :]).tril().exp().tril()
        scaled = k * beta[..., None]
        rows = -((scaled @ k.transpose(3, 4)) * ratio).masked_fill(upper, 0)
        for i in range(1, size):
            row = rows[..., i, :i].clone()
            below = rows[..., :i, :i].clone()
            rows[..., i, :i] = row + (row[..., None] * below).sum(-2)
        rows = rows + torch.eye(size)
        values = rows @ (v * beta[..., None])
        keys = rows @ (scaled * g.exp()[..., None])
        state = x.new_zeros(n, 2, 4, 4)
        strictly = torch.triu(torch.ones(size, size, dtype=torch.bool), 1)
        made = list[Tensor]()
        for i in range(2):
            qi, ki = q[:, :, i], k[:, :, i]
            inside = (qi @ ki.transpose(2, 3) * ratio[:, :, i]).masked_fill(strictly, 0)
            new = values[:, :, i] - keys[:, :, i] @ state
            made.append(qi * g[:, :, i, :, None].exp() @ state + inside @ new)
            last = g[:, :, i, -1]
            left = (last[..., None] - g[:, :, i]).exp()[..., None]
            state = state * last.exp()[..., None, None] + (ki * left).transpose(2, 3) @ new
        y = torch.stack(made, 2).reshape(n, 2, -1, 4)[:, :, :steps]
        return self.out(y.transpose(1, 2).reshape(n, steps, 8))


class Doubled(nn.Module):
    """A diagonal recurrence in log2 T rounds: each adds what lies twice as far behind."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.x = nn.Linear(6, 8), nn.Linear(6, 8)

    def forward(self, x: Tensor) -> Tensor:
        a, h = torch.sigmoid(self.gate(x)), self.x(x)
        apart = 1
        while apart < x.size(1):
            before = functional.pad(h, (0, 0, apart, 0))[:, : h.size(1)]
            decay = functional.pad(a, (0, 0, apart, 0), value=1.0)[:, : a.size(1)]
            h = h + a * before
            a = a * decay
            apart = apart * 2
        return h


class Griffin(nn.Module):
    """A real gated linear unit behind a causal convolution, then attention in a window."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.gate = nn.Linear(8, 8), nn.Linear(8, 8)
        self.conv = nn.Conv1d(8, 8, 4, groups=8, padding=3)
        self.inputs, self.forgets = nn.Linear(8, 8), nn.Linear(8, 8)
        self.decay = nn.Parameter(torch.randn(8))
        self.qkv, self.out = nn.Linear(8, 16), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        steps = x.size(1)
        y = self.conv(self.x(x).transpose(1, 2))[:, :, :steps].transpose(1, 2)
        log = -8.0 * torch.sigmoid(self.forgets(y)) * functional.softplus(self.decay)
        a = torch.exp(log)
        scaled = torch.sqrt(-torch.expm1(2 * log)) * torch.sigmoid(self.inputs(y)) * y
        h = torch.zeros([x.size(0), 8])
        made: list[Tensor] = []
        for t in range(steps):
            h = a[:, t] * h + scaled[:, t]
            made.append(h)
        y = torch.stack(made, 1) * functional.gelu(self.gate(x), approximate="tanh")
        q, k, v = self.qkv(y).split([8, 4, 4], 2)
        q = q.view(x.size(0), steps, 2, 4).transpose(1, 2)
        place = torch.arange(steps)
        apart = place[:, None] - place[None]
        seen = (apart >= 0) & (apart < 3)
        scores = (q @ k[:, None].transpose(2, 3) / 2.0).masked_fill(~seen, float("-inf"))
        y = torch.softmax(scores, 3) @ v[:, None]
        return x + self.out(y.transpose(1, 2).reshape(x.size(0), steps, 8))


class Finch(nn.Module):
    """RWKV-6's and -7's step: decays by the data, a state that is corrected, group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(6, 8))
        self.r, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.w1, self.w2 = nn.Linear(8, 3, bias=False), nn.Linear(3, 8)
        self.a1, self.a2 = nn.Linear(8, 3, bias=False), nn.Linear(3, 8)
        self.g1, self.g2 = nn.Linear(8, 3, bias=False), nn.Linear(3, 8, bias=False)
        self.kk, self.ka, self.rk = (nn.Parameter(torch.rand(8)) for _ in range(3))
        self.norm = nn.GroupNorm(2, 8, eps=64e-5)

    def forward(self, x: Tensor, last: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n = x.size(0)
        made: list[Tensor] = []
        for t in range(x.size(1)):
            xt = x[:, t]
            mixed = xt[None] + (last - xt)[None] * self.mix[:, None]
            r, w = self.r(mixed[0]), self.w2(torch.tanh(self.w1(mixed[1])))
            w = torch.exp(-0.606531 * torch.sigmoid(w))
            k, v = self.k(mixed[2]), self.v(mixed[3])
            a = torch.sigmoid(self.a2(self.a1(mixed[4])))
            gate = self.g2(torch.sigmoid(self.g1(mixed[5])))
            kk = functional.normalize((k * self.kk).view(n, 2, 4), dim=2, p=2.0).view(n, 8)
            k = k * (1 + (a - 1) * self.ka)
            vk = v.view(n, 2, 4, 1) @ k.view(n, 2, 1, 4)
            ab = (-kk).view(n, 2, 4, 1) @ (kk * a).view(n, 2, 1, 4)
            state = state * w.view(n, 2, 1, 4) + state @ ab + vk
            y = self.norm((state @ r.view(n, 2, 4, 1)).view(n, 8))
            bonus = (r * k * self.rk).view(n, 2, 4).sum(2, keepdim=True) * v.view(n, 2, 4)
            made.append(self.o((y + bonus.view(n, 8)) * gate))
            last = xt
        return torch.stack(made, 1), last, state


class Retained(nn.Module):
    """Retention chunk by chunk over an open number of chunks, by a loop, with xpos rotations."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.g = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.norm, self.out = nn.GroupNorm(2, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        n, chunks = x.size(0), x.size(1) // 4
        decay = torch.log(1 - torch.pow(2.0, -2.0 - torch.arange(2)))
        place = torch.arange(4).float()
        inner = torch.exp((place[:, None] - place[None]) * decay[:, None, None]).tril()
        across = torch.exp((place + 1)[None] * decay[:, None])[:, :, None]
        ahead = torch.exp((3 - place)[None] * decay[:, None])[:, :, None]
        whole = torch.exp(4 * decay)[:, None, None]
        q, k, v = self.q(x), self.k(x), self.v(x)
        state = torch.zeros([n, 2, 4, 4])
        made: list[Tensor] = []
        for i in range(chunks):
            a = q[:, 4 * i : 4 * i + 4].view(n, 4, 2, 4).transpose(1, 2)
            b = k[:, 4 * i : 4 * i + 4].view(n, 4, 2, 4).transpose(1, 2)
            c = v[:, 4 * i : 4 * i + 4].view(n, 4, 2, 4).transpose(1, 2)
            y = (a @ b.transpose(2, 3) * inner) @ c + (a @ state) * across
            state = state * whole + b.transpose(2, 3) @ (c * ahead)
            made.append(y.transpose(1, 2).reshape(n * 4, 8))
        y = self.norm(torch.cat(made, 0)).view(chunks, n, 4, 8).transpose(0, 1).reshape(n, -1, 8)
        return self.out(functional.silu(self.g(x)) * y)


class TrainedInside(nn.Module):
    """A layer whose state is a linear model, moved by a step of gradient descent per token."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.rate = nn.Linear(6, 18), nn.Linear(6, 1)
        self.w, self.b = nn.Parameter(torch.randn(6, 6) / 6), nn.Parameter(torch.zeros(1, 6))
        self.scale, self.shift = nn.Parameter(torch.ones(6)), nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, 2)
        rate = torch.sigmoid(self.rate(x)) * 0.1
        w, bias = self.w[None].expand(x.size(0), 6, 6), self.b[None].expand(x.size(0), 1, 6)
        made: list[Tensor] = []
        for t in range(x.size(1)):
            kt, target = k[:, t : t + 1], v[:, t : t + 1] - k[:, t : t + 1]
            z = kt @ w + bias
            mean, var = z.mean(2, keepdim=True), z.var(2, unbiased=False, keepdim=True)
            normed = (z - mean) / torch.sqrt(var + 1e-6)
            slope = (self.scale * normed + self.shift - target) * self.scale
            inner = slope.mean(2, keepdim=True)
            along = (slope * normed).mean(2, keepdim=True)
            slope = (slope - inner - normed * along) / torch.sqrt(var + 1e-6)
            step = rate[:, t : t + 1]
            w = w - step * kt.transpose(1, 2) @ slope
            bias = bias - step * slope
            qt = q[:, t : t + 1]
            made.append(qt + functional.layer_norm(qt @ w + bias, [6], self.scale, self.shift))
        return torch.cat(made, 1)


class Expanded(nn.Module):
    """Mamba-2's step: a convolution's state and the states of heads go in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(6, 2 * 8 + 2 * 4 + 2, bias=False), nn.Linear(8, 6)
        self.conv, self.bias = nn.Parameter(torch.randn(16, 4)), nn.Parameter(torch.randn(16))
        self.log, self.d, self.dt = (nn.Parameter(torch.rand(2)) for _ in range(3))
        self.norm = nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor, window: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, xbc, dt = self.into(x).split([8, 16, 2], 1)
        window = torch.roll(window, -1, 2)
        window[:, :, -1] = xbc
        xbc = functional.silu((window * self.conv).sum(2) + self.bias)
        x, b, c = xbc.split([8, 4, 4], 1)
        dt = functional.softplus(dt + self.dt)
        decay = torch.exp(dt * -torch.exp(self.log))
        x = x.view(-1, 2, 4)
        state = state * decay[:, :, None, None] + torch.einsum("nh,nd,nhp->nhpd", dt, b, x)
        y = torch.einsum("nhpd,nd->nhp", state, c) + self.d[:, None] * x
        y = y.reshape(-1, 8) * functional.silu(z)
        y = y * torch.rsqrt(y.pow(2).mean(1, keepdim=True) + 1e-5) * self.norm
        return self.out(y), window, state


class Splines(nn.Module):
    """A cell whose products are sums of splines of each input."""

    knots: Tensor

    def __init__(self) -> None:
        super().__init__()
        knots = torch.arange(-3, 9).float() * 0.4 - 1
        self.register_buffer("knots", knots.expand(10, -1).contiguous())
        self.base, self.spline = nn.Linear(10, 12), nn.Parameter(torch.randn(12, 10, 8) / 4)

    def bases(self, x: Tensor) -> Tensor:
        x = x[:, :, None]
        knots = self.knots
        made = ((x >= knots[:, :-1]) & (x < knots[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            left = (x - knots[:, : -(k + 1)]) / (knots[:, k:-1] - knots[:, : -(k + 1)])
            right = (knots[:, k + 1 :] - x) / (knots[:, k + 1 :] - knots[:, 1:-k])
            made = left * made[:, :, :-1] + right * made[:, :, 1:]
        return made

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros([x.size(0), 6])
        for t in range(x.size(1)):
            both = torch.cat([x[:, t], h], 1)
            y = self.base(functional.silu(both))
            y = y + functional.linear(self.bases(both).view(-1, 80), self.spline.view(12, 80))
            gate, new = y.chunk(2, 1)
            h = h + torch.sigmoid(gate) * (torch.tanh(new) - h)
        return h


class Hyper(nn.Module):
    """A cell whose weights another cell scales, with layer norms."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.x, self.h = nn.LSTMCell(12, 4), nn.Linear(5, 28), nn.Linear(7, 28)
        self.zx, self.zh, self.zb = (nn.Linear(4, 12) for _ in range(3))
        self.dx, self.dh, self.db = (nn.Parameter(torch.randn(4, 3, 7)) for _ in range(3))
        self.norm = nn.LayerNorm(7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.size(0)
        h, c = torch.zeros([n, 7]), torch.zeros([n, 7])
        s, m = torch.zeros([n, 4]), torch.zeros([n, 4])
        for t in range(x.size(1)):
            s, m = self.small(torch.cat([x[:, t], h], 1), (s, m))
            dx = torch.einsum("ngz,gzh->ngh", self.zx(s).view(n, 4, 3), self.dx)
            dh = torch.einsum("ngz,gzh->ngh", self.zh(s).view(n, 4, 3), self.dh)
            db = torch.einsum("ngz,gzh->ngh", self.zb(s).view(n, 4, 3), self.db)
            y = dx * self.x(x[:, t]).view(n, 4, 7) + dh * self.h(h).view(n, 4, 7) + db
            i, f, g, o = self.norm(y).unbind(1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm(c))
        return h, c


class Orthogonal(nn.Module):
    """A rotation of the state by the exponential of a skew matrix, as a series; modrelu."""

    def __init__(self) -> None:
        super().__init__()
        self.skew, self.x = nn.Parameter(torch.randn(8, 8) / 8), nn.Linear(3, 8)
        self.bias = nn.Parameter(torch.randn(8) / 8)

    def forward(self, x: Tensor) -> Tensor:
        a = self.skew.triu(1)
        a = (a - a.t()) / 4
        power = torch.eye(8)
        turn = torch.eye(8)
        for k in range(1, 8):
            power = power @ a / float(k)
            turn = turn + power
        turn = turn @ turn
        turn = turn @ turn
        h = torch.zeros([x.size(0), 8])
        made: list[Tensor] = []
        for xt in x.unbind(1):
            z = h @ turn + self.x(xt)
            h = torch.sign(z) * torch.relu(z.abs() + self.bias)
            made.append(h)
        return torch.stack(made, 1)


class Selective(nn.Module):
    """A state space whose steps depend on the input, behind a causal convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.conv = nn.Linear(6, 16), nn.Conv1d(8, 8, 4, padding=3, groups=8)
        self.x, self.dt = nn.Linear(8, 2 + 8, bias=False), nn.Linear(2, 8)
        self.a = nn.Parameter(torch.arange(1.0, 5).log().repeat(8, 1))
        self.d, self.out = nn.Parameter(torch.ones(8)), nn.Linear(8, 6)

    def forward(self, u: Tensor) -> Tensor:
        x, gate = self.inside(u).chunk(2, -1)
        x = functional.silu(self.conv(x.transpose(1, 2))[..., : u.size(1)].transpose(1, 2))
        parts = self.x(x)
        delta = functional.softplus(self.dt(parts[..., :2]))
        b, c = parts[..., 2:6], parts[..., 6:]
        da = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.a))
        db = delta.unsqueeze(-1) * b.unsqueeze(2) * x.unsqueeze(-1)
        h = torch.zeros(u.size(0), 8, 4)
        rows: list[Tensor] = []
        for t in range(u.size(1)):
            h = da[:, t] * h + db[:, t]
            rows.append((h * c[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(rows, 1) + x * self.d
        return self.out(y * functional.silu(gate))


MODELS = {
    "chunked_delta": Exported(ChunkedDelta, {"x": torch.randn(2, 7, 8)}, {"x": {0: "N"}}),
    "doubled": Exported(Doubled, {"x": torch.randn(2, 7, 6)}, {"x": TN}, script=True),
    "doubled_traced": Exported(Doubled, {"x": torch.randn(2, 7, 6)}, {"x": {0: "N"}}),
    "griffin": Exported(Griffin, {"x": torch.randn(2, 5, 8)}, {"x": TN}, script=True),
    "finch": Exported(
        Finch,
        {"x": torch.randn(2, 5, 8), "last": torch.randn(2, 8), "state": torch.randn(2, 2, 4, 4)},
        {"x": TN, "last": {0: "N"}, "state": {0: "N"}},
        outputs=3,
        script=True,
    ),
    "retained": Exported(Retained, {"x": torch.randn(2, 8, 8)}, {"x": TN}, script=True),
    "trained_inside": Exported(TrainedInside, {"x": torch.randn(2, 5, 6)}, {"x": TN}, script=True),
    "expanded": Exported(
        Expanded,
        {"x": torch.randn(2, 6), "window": torch.randn(2, 16, 4), "state": torch.randn(2, 2, 4, 4)},
        {"x": {0: "N"}, "window": {0: "N"}, "state": {0: "N"}},
        outputs=3,
    ),
    "splines": Exported(Splines, {"x": torch.randn(2, 5, 4)}, {"x": TN}, script=True),
    "hyper": Exported(Hyper, {"x": torch.randn(2, 6, 5)}, {"x": TN}, outputs=2, script=True),
    "orthogonal": Exported(Orthogonal, {"x": torch.randn(2, 5, 3)}, {"x": TN}, script=True),
    "selective": Exported(Selective, {"u": torch.randn(2, 6, 6)}, {"u": TN}, script=True),
}

if __name__ == "__main__":
    export_all(MODELS)
