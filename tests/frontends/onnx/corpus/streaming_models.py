"""Models of one chunk whose states go in and out, by both exporters: `streaming_models.py OUTDIR`.

Encoders with caches of keys and of convolutions, decoders that write into buffers of a fixed size,
filters and what decodes their outputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all

N = {0: "N"}
D, H = 16, 2
"""Units of a model, and heads."""


def _heads(x: Tensor) -> Tensor:
    """[N, T, D] -> [N, H, T, D / H]"""
    return x.unflatten(2, (H, D // H)).transpose(1, 2)


class Attention(nn.Module):
    """Of queries to keys and values of earlier chunks and of this one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        keys = torch.cat([keys, _heads(self.k(x))], 2)
        values = torch.cat([values, _heads(self.v(x))], 2)
        scores = _heads(self.q(x)) @ keys.transpose(2, 3) / math.sqrt(D // H)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -math.inf)
        weights = torch.softmax(scores, -1)
        if mask is not None:
            weights = weights.masked_fill(mask.unsqueeze(1) == 0, 0.0)
        return self.out((weights @ values).transpose(1, 2).flatten(2)), keys, values


class ConformerChunk(nn.Module):
    """A chunk through a block, behind a cache of keys and values and one of the convolution."""

    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(D, D), nn.LayerNorm(D)
        self.attention = Attention()
        self.wide = nn.Conv1d(D, 2 * D, 1)
        self.deep, self.narrow = nn.Conv1d(D, D, 5, groups=D), nn.Conv1d(D, D, 1)
        self.register_buffer("positions", torch.randn(1, 512, D))

    def forward(self, x: Tensor, offset: Tensor, cached: Tensor, left: Tensor, mask: Tensor):
        steps = offset + torch.arange(x.size(1))
        x = x * math.sqrt(D) + functional.embedding(steps, self.positions[0])
        x = x + 0.5 * functional.silu(self.first(self.norm(x)))
        keys, values = cached.chunk(2, -1)
        y, keys, values = self.attention(x, keys, values, mask)
        x = x + y
        wide = torch.cat([left, functional.glu(self.wide(x.transpose(1, 2)), 1)], 2)
        y = self.narrow(functional.silu(self.deep(wide))).transpose(1, 2)
        return self.norm(x + y), torch.cat([keys, values], -1)[:, :, -12:], wide[:, :, -4:]


class Sliced(nn.Module):
    """A table of positions cut from an offset on, as long as the chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.gru = nn.Parameter(torch.randn(512, D)), nn.GRU(D, D, batch_first=True)

    def forward(self, x: Tensor, offset: Tensor, h: Tensor):
        start = offset[0]
        y = x + self.table[start : start + x.size(1)]
        return self.gru(y, h)


class FixedCache(nn.Module):
    """A decoder that writes its new keys and values into buffers, at the place of the token."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, D)
        self.places = nn.Embedding(32, D)
        self.q, self.k, self.v = (nn.Linear(D, D) for _ in range(3))
        self.scores = nn.Linear(D, 30)

    def forward(self, token: Tensor, place: Tensor, keys: Tensor, values: Tensor):
        x = self.words(token) + self.places(place)
        keys = torch.index_copy(keys, 1, place, self.k(x).unsqueeze(1))
        values = torch.index_copy(values, 1, place, self.v(x).unsqueeze(1))
        seen = torch.arange(keys.size(1)) <= place
        scores = (keys @ self.q(x).unsqueeze(2)).squeeze(2) / 4
        weights = scores.masked_fill(~seen, -math.inf).softmax(1)
        return self.scores((weights.unsqueeze(1) @ values).squeeze(1)), keys, values


class WithMemory(nn.Module):
    """A segment that attends to itself, to a look ahead, and to summaries of earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(D)

    def forward(self, x: Tensor, memory: Tensor):
        summary = x[:, :4].mean(1, keepdim=True)
        both = torch.cat([memory, x], 1)
        none = _heads(x[:, :0])
        y = self.attention(both, none, none)[0][:, memory.size(1) :]
        return self.norm(x + y)[:, :4], torch.cat([memory, torch.tanh(summary)], 1)[:, 1:]


class Dilated(nn.Module):
    """Dilated convolutions of one new sample each, whose queues are shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.dilations = (1, 2, 4, 8)
        self.layers = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=d) for d in self.dilations)
        self.inside, self.out = nn.Conv1d(1, 8, 1), nn.Conv1d(8, 5, 1)

    def forward(self, x: Tensor, queue: Tensor):
        y, kept, start = self.inside(x), list[Tensor](), 0
        for layer, dilation in zip(self.layers, self.dilations, strict=True):
            window = torch.cat([queue[:, :, start : start + dilation], y], 2)
            kept.append(window[:, :, -dilation:])
            start += dilation
            value, gate = layer(window).chunk(2, 1)
            y = y + torch.tanh(value) * torch.sigmoid(gate)
        return self.out(torch.relu(y)), torch.cat(kept, 2)


class Biquads(nn.Module):
    """Recursive filters of second order behind each other over samples."""

    a: Tensor
    b: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.tensor([[0.2, 0.3, 0.1], [0.5, -0.2, 0.1]]))
        self.register_buffer("a", torch.tensor([[-0.5, 0.2], [0.3, 0.1]]))

    def forward(self, x: Tensor, state: Tensor):
        samples: list[Tensor] = []
        for t in range(x.size(1)):
            y = x[:, t]
            kept: list[Tensor] = []
            for section in range(2):
                one, two = state[:, section, 0], state[:, section, 1]
                out = self.b[section, 0] * y + one
                kept.append(self.b[section, 1] * y - self.a[section, 0] * out + two)
                kept.append(self.b[section, 2] * y - self.a[section, 1] * out)
                y = out
            state = torch.stack(kept, 1).reshape(-1, 2, 2)
            samples.append(y)
        return torch.stack(samples, 1), state


class Overlapped(nn.Module):
    """A spectrum by a product, a mask by a GRU, and back: what overlaps goes to the next frame."""

    forth: Tensor
    back: Tensor
    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        n = torch.arange(32.0)
        angles = 2 * math.pi * n[:17, None] * n[None] / 32
        self.register_buffer("forth", torch.cat([torch.cos(angles), -torch.sin(angles)]))
        self.register_buffer("back", torch.linalg.pinv(torch.cat([angles.cos(), -angles.sin()])))
        self.register_buffer("window", torch.hann_window(32).sqrt())
        self.gru, self.mask = nn.GRUCell(17, D), nn.Linear(D, 17)

    def forward(self, x: Tensor, before: Tensor, tail: Tensor, h: Tensor):
        frame = torch.cat([before, x], 1)
        real, imaginary = functional.linear(frame * self.window, self.forth).chunk(2, 1)
        h = self.gru(torch.log1p(torch.sqrt(real**2 + imaginary**2 + 1e-9)), h)
        mask = torch.sigmoid(self.mask(h))
        spectrum = torch.cat([real * mask, imaginary * mask], 1)
        y = functional.linear(spectrum, self.back) * self.window
        return y[:, :16] + tail, x, y[:, 16:], h


class Located(nn.Module):
    """A synthesiser's decoder that attends by where it attended before, until its gate closes."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.attending, self.cell = nn.LSTMCell(8 + D, D), nn.LSTMCell(2 * D, D)
        self.query, self.memory = nn.Linear(D, 8, bias=False), nn.Linear(D, 8, bias=False)
        self.place, self.places = nn.Conv1d(2, 4, 5, padding=2), nn.Linear(4, 8, bias=False)
        self.energy, self.frame = nn.Linear(8, 1, bias=False), nn.Linear(2 * D, 6)
        self.gate = nn.Linear(2 * D, 1)

    def forward(self, memory: Tensor):
        n, steps = memory.size(0), memory.size(1)
        h = c = g = e = torch.zeros(n, 16)
        context, frame = torch.zeros(n, 16), torch.zeros(n, 6)
        weights = total = torch.zeros(n, steps)
        keys = self.memory(memory)
        frames: list[Tensor] = []
        gates: list[Tensor] = []
        count = 0
        stop = False
        while not stop:
            h, c = self.attending(torch.cat([self.before(frame), context], 1), (h, c))
            places = self.place(torch.stack([weights, total], 1)).transpose(1, 2)
            energies = self.energy(
                torch.tanh(self.query(h).unsqueeze(1) + self.places(places) + keys)
            ).squeeze(2)
            weights = torch.softmax(energies, 1)
            total = total + weights
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            g, e = self.cell(torch.cat([h, context], 1), (g, e))
            both = torch.cat([g, context], 1)
            frame = self.frame(both)
            gate = torch.sigmoid(self.gate(both))
            frames.append(frame)
            gates.append(gate)
            count += 1
            stop = bool((gate > 0.7).all()) or count >= 9
        return torch.stack(frames, 1), torch.cat(gates, 1)


class Collapsed(nn.Module):
    """The labels that remain where repeats and blanks go, of one sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor, h: Tensor, c: Tensor):
        y, (h, c) = self.rnn(x, (h, c))
        best = self.out(3 * y)[0].argmax(-1)
        changed = torch.cat([best[:1] >= 0, best[1:] != best[:-1]])
        return best[changed & (best != 0)], h, c


def _places(*shape: int) -> Tensor:
    return torch.full(shape, 3, dtype=torch.int64)


_PAST = {0: "N", 2: "P"}

MODELS: dict[str, Exported] = {
    "conformer_chunk": Exported(
        ConformerChunk,
        {
            "x": torch.randn(2, 4, D),
            "offset": _places(1),
            "cached": torch.randn(2, H, 12, D),
            "left": torch.randn(2, D, 4),
            "mask": torch.ones(2, 1, 16, dtype=torch.bool),
        },
        {"x": N, "cached": N, "left": N, "mask": N},
        {"offset": (0, 400)},
        outputs=3,
    ),
    "sliced": Exported(
        Sliced,
        {"x": torch.randn(2, 4, D), "offset": _places(1), "h": torch.randn(1, 2, D)},
        {"x": N, "h": {1: "N"}},
        {"offset": (0, 400)},
        outputs=2,
    ),
    "fixed_cache": Exported(
        FixedCache,
        {
            "token": _places(2),
            "place": _places(1),
            "keys": torch.randn(2, 32, D),
            "values": torch.randn(2, 32, D),
        },
        {"token": N, "keys": N, "values": N},
        {"token": (0, 29), "place": (0, 31)},
        outputs=3,
    ),
    "with_memory": Exported(
        WithMemory,
        {"x": torch.randn(2, 6, D), "memory": torch.randn(2, 3, D)},
        {"x": N, "memory": {0: "N", 1: "M"}},
        outputs=2,
    ),
    "attending": Exported(
        Attention,
        {
            "x": torch.randn(2, 3, D),
            "keys": torch.randn(2, H, 5, D // H),
            "values": torch.randn(2, H, 5, D // H),
        },
        {"x": TN, "keys": _PAST, "values": _PAST},
        outputs=3,
    ),
    "dilated": Exported(
        Dilated,
        {"x": torch.randn(2, 1, 1), "queue": torch.randn(2, 8, 15)},
        {"x": N, "queue": N},
        outputs=2,
    ),
    "biquads": Exported(
        Biquads,
        {"x": torch.randn(2, 20), "state": torch.randn(2, 2, 2)},
        {"x": TN, "state": N},
        outputs=2,
        script=True,
    ),
    "overlapped": Exported(
        Overlapped,
        {
            "x": torch.randn(2, 16),
            "before": torch.randn(2, 16),
            "tail": torch.randn(2, 16),
            "h": torch.randn(2, D),
        },
        {"x": N, "before": N, "tail": N, "h": N},
        outputs=4,
    ),
    "located": Exported(
        Located, {"memory": torch.randn(2, 6, D)}, {"memory": TN}, outputs=2, script=True
    ),
    "collapsed": Exported(
        Collapsed,
        {"x": torch.randn(1, 9, 6), "h": torch.randn(1, 1, 8), "c": torch.randn(1, 1, 8)},
        {"x": {1: "T"}},
        outputs=3,
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
