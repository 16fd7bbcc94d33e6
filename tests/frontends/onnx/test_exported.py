"""Modules as PyTorch exports them, with open sizes: its detours over shapes, its loops."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import rnncc

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
pytestmark = pytest.mark.peers


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        y, (h, _) = self.lstm(self.embedding(x))
        return torch.log_softmax(self.out(y), -1), h


class Frames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8)
        self.gru, self.rows = nn.GRU(8, 12), nn.LayerNorm(12)

    def forward(self, x: Any) -> Any:
        y, _ = self.gru(torch.relu(self.norm(self.conv(x))).permute(2, 0, 1))
        return self.rows(y)


class States(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        y, (h, c) = self.lstm(x, (h, c))
        return y, h, c


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.query = nn.GRU(6, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        y, h = self.gru(x)
        scores = self.query(h.transpose(0, 1)) @ y.transpose(1, 2)
        return torch.softmax(scores / 8**0.5, -1) @ y


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv1d(3, 6, 3, stride=2), nn.MaxPool1d(2)
        self.back, self.rnn = nn.ConvTranspose1d(6, 3, 4, 2, 1), nn.RNN(3, 4)

    def forward(self, x: Any) -> Any:
        y = self.back(self.pool(nn.functional.gelu(self.conv(x))))
        return self.rnn(y.permute(2, 0, 1))[0].mean(0)


def looped(x, h, w):  # TorchScript takes what has no type for a tensor
    for i in range(x.size(0)):
        h = torch.tanh(h @ w + x[i])
    return h


def listed(x, h, w):
    ys = []
    for i in range(x.size(0)):
        h = torch.tanh(h @ w + x[i])
        ys.append(h)
    return torch.cat([torch.stack(ys), h.unsqueeze(0)])


def unbound(x, h, w):
    ys = []
    for row in x.unbind(0):
        h = torch.tanh(h @ w + row)
        ys.append(h)
    return torch.stack(ys)


def layers(x, h, w):
    hs = [h, h + 1]
    for i in range(x.size(0)):
        a = torch.tanh(hs[0] @ w + x[i])
        hs = [a, torch.tanh(hs[1] @ w + a)]
    return torch.cat(hs)


def parts(x, h, w):
    ys = []
    for part in torch.split(x, 3, 0):
        ys.append(part.sum(0) @ w)
    ys.insert(0, h)
    return torch.stack(ys)


STEPS = [(4, 2, 5), (2, 5), (5, 5)], [{0: "T", 1: "N"}, {0: "N"}, {}]
CASES: dict[str, tuple[Any, list[Any], list[dict[int, str]]]] = {
    "tagger": (Tagger, [np.arange(21).reshape(3, 7) % 20], [{0: "N", 1: "T"}]),
    "frames": (Frames, [(2, 4, 9)], [{0: "N", 2: "T"}]),
    "states": (
        States,
        [(5, 2, 8), (1, 2, 16), (1, 2, 16)],
        [{0: "T", 1: "N"}, {1: "N"}, {1: "N"}],
    ),
    "attention": (Attention, [(2, 5, 6)], [{0: "N", 1: "T"}]),
    "pooled": (Pooled, [(2, 3, 20)], [{0: "N"}]),
    "scripted loop": (
        lambda: torch.jit.script(looped),
        *STEPS,
    ),
    "scripted loop with a list": (
        lambda: torch.jit.script(listed),
        *STEPS,
    ),
    "scripted loop over rows": (
        lambda: torch.jit.script(unbound),
        *STEPS,
    ),
    "scripted loop with a list of states": (
        lambda: torch.jit.script(layers),
        *STEPS,
    ),
    "scripted list of parts": (
        lambda: torch.jit.script(parts),
        [(4, 2, 5), (2, 5), (5, 5)],
        [{1: "N"}, {0: "N"}, {}],
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name: str) -> None:
    make, given, axes = CASES[name]
    torch.manual_seed(0)
    module, file = make(), io.BytesIO()
    args = tuple(torch.randn(g) if isinstance(g, tuple) else torch.tensor(g) for g in given)
    names = [f"x{i}" for i in range(len(args))]
    if isinstance(module, nn.Module):
        module.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = module(*args)
        torch.onnx.export(
            module,
            args,
            file,
            input_names=names,
            dynamic_axes=dict(zip(names, axes, strict=True)),
            dynamo=False,
            opset_version=17,
        )
    want = [found] if isinstance(found, torch.Tensor) else list(found)
    model = rnncc.compile(file.getvalue())
    got = model.run({n: a.numpy() for n, a in zip(names, args, strict=True)})
    for array, tensor in zip(got.values(), want, strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), 1e-4, 1e-5)
    declared = {n: s for n, s in zip(names, axes, strict=True) if s}
    for title, symbols in declared.items():
        assert {i: model.inputs[title].shape[i] for i in symbols} == symbols
