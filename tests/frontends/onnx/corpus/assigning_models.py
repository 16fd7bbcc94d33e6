"""Steps that are written into a tensor, or read back from a list: `assigning_models.py DIR`.

By both exporters of PyTorch: what a mask, a slice or lengths choose is assigned, the last elements
of a list are a cell's states, rows of positions are shifted against each other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all


class ByMask(nn.Module):
    """Elements and steps that masks choose."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.gru(x)[0].clone()
        y[y < 0] = 0
        chosen = x[..., 0] > 0
        y[chosen] = y[chosen] * 2
        return y


class BySlice(nn.Module):
    """All steps but the first, every other unit, the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.lstm(x)[0].clone()
        y[:, 1:] = y[:, 1:] - y[:, :-1] * 0.97
        y[:, 0, ::2] = 1
        y[:, -1] += 2
        return y


class Padding(nn.Module):
    """Steps behind each sequence's end become zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y = self.gru(x)[0].clone()
        y[torch.arange(x.size(1))[None] >= lengths[:, None]] = 0.0
        return y.sum(1)


class TwoBefore(nn.Module):
    """A cell of second order, whose states are the last elements of its results."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        found = [torch.zeros(x.size(1), 8), torch.zeros(x.size(1), 8)]
        for t in range(x.size(0)):
            found.append(torch.tanh(self.into(x[t]) + self.back(found[-1]) - 0.5 * found[-2]))
        return torch.stack(found)


class Shifted(nn.Module):
    """Attention by relative positions behind a memory, of which steps see none that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.place = nn.Linear(8, 24), nn.Linear(8, 8)
        self.gate = nn.GRUCell(8, 8)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        steps, batch, _ = x.shape
        seen = torch.cat([memory, x])
        count = seen.size(0)
        q, k, v = (part.reshape(count, batch, 2, 4) for part in self.mixed(seen).chunk(3, -1))
        angles = torch.arange(count - 1, -1, -1.0)[:, None] * 10.0 ** -torch.arange(4.0)
        places = self.place(torch.cat([angles.sin(), angles.cos()], -1)).reshape(-1, 2, 4)
        by_place = torch.einsum("ibnd,jnd->ijbn", q[-steps:], places)
        padded = torch.cat([torch.zeros_like(by_place[:, :1]), by_place], 1)
        by_place = padded.reshape(count + 1, steps, batch, 2)[1:].reshape(steps, count, batch, 2)
        scores = torch.einsum("ibnd,jbnd->ijbn", q[-steps:], k) + by_place
        later = torch.ones(steps, count).triu(1 + count - steps).bool()
        weights = scores.masked_fill(later[:, :, None, None], -1e9).softmax(1)
        y = torch.einsum("ijbn,jbnd->ibnd", weights, v).reshape(-1, 8)
        return self.gate(y, x.reshape(-1, 8)).reshape(steps, batch, 8)


def _x(*shape: int) -> dict[str, Tensor]:
    return {"x": torch.randn(*shape)}


OF_TIME = {"x": {0: "T", 1: "N"}}
LENGTHS = {"lengths": torch.tensor([5, 3])}
MODELS: dict[str, Exported] = {
    "by_mask": Exported(ByMask, _x(2, 5, 6), {"x": TN}),
    "by_slice": Exported(BySlice, _x(2, 5, 6), {"x": TN}),
    "padding": Exported(
        Padding, _x(2, 5, 6) | LENGTHS, {"x": TN, "lengths": {0: "N"}}, {"lengths": (1, "T")}
    ),
    "two_before": Exported(TwoBefore, _x(5, 2, 6), OF_TIME, script=True),
    "shifted": Exported(
        Shifted,
        _x(5, 2, 8) | {"memory": torch.randn(3, 2, 8)},
        {**OF_TIME, "memory": {0: "M", 1: "N"}},
    ),
}

if __name__ == "__main__":
    export_all(MODELS)
