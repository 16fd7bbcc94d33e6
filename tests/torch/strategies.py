"""Random cells and modules of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.torch.cells import F, nn, torch

Draw = Callable[..., Any]
UNITS = 4
TAME: list[Callable[[Any], Any]] = [
    torch.tanh,
    torch.sigmoid,
    F.silu,
    F.softplus,
    F.logsigmoid,
    F.gelu,
    F.elu,
    F.mish,
    F.hardswish,
    lambda x: F.leaky_relu(x, 0.2),
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: F.softsign(x) * 2,
    lambda x: torch.exp(-x.abs()),
    lambda x: torch.log1p(x.square()),
    lambda x: x / (1 + x.abs()).sqrt(),
    lambda x: torch.rsqrt(1 + x**2),
    lambda x: torch.sin(x) - torch.cos(x),
    lambda x: x.clamp(-0.5, 0.8),
    lambda x: F.hardtanh(x, -0.7, 0.6),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: torch.softmax(x, -1),
    lambda x: torch.log_softmax(x, 1),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x / x.std(-1, keepdim=True).clamp(min=1.0),
    lambda x: x.amax(1, keepdim=True) - x,
    lambda x: x.flip(-1),
    lambda x: torch.roll(x, 1, -1),
    lambda x: F.pad(x, (1, 0))[:, :-1],
    lambda x: x.unflatten(-1, (2, -1)).transpose(1, 2).flatten(1),
    lambda x: x[:, [2, 0, 3, 1]],
    lambda x: torch.einsum("ni,ni,nj->nj", x, x, x) * 0.1,
    lambda x: x.repeat(1, 2)[:, 1 : UNITS + 1],
    lambda x: torch.stack(x.unbind(-1)[::-1], -1),
    lambda x: x.masked_fill(x < -0.3, 0.1),
    lambda x: x[:, ::2].repeat_interleave(2, 1),
    lambda x: torch.softmax(x, -1).cumsum(-1),
    lambda x: x.cumsum(0) * 0.3,
    lambda x: F.normalize(x, dim=0),
    lambda x: x / (1 + x.norm(dim=-1, keepdim=True)),
    lambda x: x.view(len(x), 2, 2).transpose(1, 2).reshape(len(x), -1),
    lambda x: (x.unsqueeze(1) - x.unsqueeze(2)).abs().mean(2),
]
JOINED: list[Callable[[Any, Any], Any]] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda x, y: torch.where(x > y, x, y * 0.5),
    lambda x, y: x.lerp(y, 0.3),
    lambda x, y: torch.addcmul(x, x, y, value=0.5),
    lambda x, y: torch.cat([x[:, :2], y[:, 2:]], 1),
    lambda x, y: (x.unsqueeze(1) @ y.unsqueeze(2)).squeeze(2) * y,
    lambda x, y: (x * x + y * y + 0.1).sqrt(),
]


class RandomCell(nn.Module):
    """A few ops on x, the state and what came of them, some products with weights."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        count = draw(st.integers(2, 7))
        self.plan: list[tuple[str, Any, int, int]] = []
        self.weights = nn.ModuleList()
        for number in range(count):
            one, other = (draw(st.integers(0, 2 + number)) for _ in range(2))
            kind = draw(st.sampled_from(["one", "one", "two", "linear"]))
            function = {"one": TAME, "two": JOINED}.get(kind)
            chosen = draw(st.sampled_from(function)) if function else len(self.weights)
            if kind == "linear":
                self.weights.append(nn.Linear(UNITS, UNITS, bias=draw(st.booleans())))
            self.plan.append((kind, chosen, one, other))
        self.outs = [draw(st.integers(0, count + 2)) for _ in range(3)]

    def forward(self, x: Any, state: Any) -> Any:
        pool = [x, *state]
        for kind, chosen, one, other in self.plan:
            if kind == "linear":
                pool.append(self.weights[chosen](pool[one]))
            else:
                pool.append(chosen(pool[one]) if kind == "one" else chosen(pool[one], pool[other]))
        y, h, c = (pool[-1 - i] for i in self.outs)
        return y, (torch.tanh(h), c * 0.5)


@st.composite
def cells(draw: Draw) -> Any:
    """A cell with a seed for its weights."""
    torch.manual_seed(draw(st.integers(0, 9)))
    return RandomCell(draw)


@st.composite
def layers(draw: Draw) -> Any:
    """A recurrent layer, and whether the batch comes first."""
    torch.manual_seed(draw(st.integers(0, 9)))
    kind = draw(st.sampled_from(["LSTM", "GRU", "RNN"]))
    options: dict[str, Any] = {
        "num_layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "bias": draw(st.booleans()),
    }
    if kind == "RNN":
        options["nonlinearity"] = draw(st.sampled_from(["tanh", "relu"]))
    if kind == "LSTM" and draw(st.booleans()):
        options["proj_size"] = 2
    return getattr(nn, kind)(3, UNITS, **options)
