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


class Halving(torch.autograd.Function):
    """x, and half of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 0.5


def _hooked(x: Any) -> Any:
    y = x * 1.0
    if y.requires_grad:
        y.register_hook(lambda grad: grad * 0.5)
    return y


def _changed(x: Any, alias: Callable[[Any], Any], change: Callable[[Any], Any]) -> Any:
    y = torch.tanh(x)
    change(alias(y))
    return y * x


def _without(x: Any) -> Any:
    y = torch.tanh(x)
    with torch.no_grad():
        y.mul_(0.5)
    return y + x


def _inference(x: Any) -> Any:
    with torch.inference_mode():
        y = torch.tanh(x)
    return y + x


ALIASES: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x.detach(),
    lambda x: x.data,
    lambda x: x.detach().clone(),
    lambda x: x[:, 1:].detach(),
    lambda x: x.detach().view(-1),
    lambda x: x.view(-1)[::2],
]
IN_PLACE: list[Callable[[Any], Any]] = [
    lambda x: x.mul_(0.5),
    lambda x: x.zero_(),
    lambda x: F.relu(x, inplace=True),
    lambda x: F.leaky_relu(x, 0.1, True),
    lambda x: x.__setitem__(slice(1), 0.25),
    lambda x: torch.add(x, 1.0, out=x.detach()),
]
HIDDEN: list[Callable[[Any], Any]] = [
    lambda x: Halving.apply(x),
    lambda x: Halving.apply(torch.tanh(x)) * x,
    lambda x: Halving.apply(x.detach()) + x,
    _hooked,
    lambda x: x * (2.0 if x.requires_grad else 3.0),
    lambda x: x * (2.0 if x.is_leaf else 3.0),
    lambda x: x * (2.0 if (x + 1).grad_fn is None else 3.0),
    lambda x: x * (2.0 if torch.is_grad_enabled() else 3.0),
    lambda x: x.detach() * x,
    lambda x: x.data * x,
    lambda x: torch.tanh(x).detach_() + x,
    lambda x: x.detach().requires_grad_() * x,
    lambda x: torch.where(x > 0, x, x.detach()),
    _without,
    _inference,
]


@st.composite
def hidden(draw: Draw) -> Any:
    """A function of a tensor with something that acts on gradients, or on what shares memory."""
    if draw(st.booleans()):
        first = draw(st.sampled_from(HIDDEN))
    else:
        alias, change = draw(st.sampled_from(ALIASES)), draw(st.sampled_from(IN_PLACE))
        first = lambda x: _changed(x, alias, change)  # noqa: E731
    then = draw(st.sampled_from([lambda x: x, torch.sigmoid, *TAME[:3]]))
    return lambda x: then(first(x * 1.5))
