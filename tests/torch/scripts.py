"""Modules as people write them for `torch.jit.script`."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035 (TorchScript knows these)

import torch
from torch import Tensor, jit, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

Pair = Tuple[Tensor, Tensor]  # noqa: UP006


class Cell(jit.ScriptModule):
    """An LSTM by a method of TorchScript."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4 * units, width) * 0.3)
        self.u = nn.Parameter(torch.randn(4 * units, units) * 0.3)
        self.b = nn.Parameter(torch.randn(4 * units) * 0.1)

    @jit.script_method
    def forward(self, x: Tensor, state: Pair) -> Tuple[Tensor, Pair]:  # noqa: UP006
        h, c = state
        gates = torch.mm(x, self.w.t()) + self.b + torch.mm(h, self.u.t())
        i, f, g, o = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class Layer(jit.ScriptModule):
    """All steps of a cell, forwards or backwards."""

    __constants__ = ["reverse"]  # noqa: RUF012

    def __init__(self, width: int, units: int, reverse: bool = False) -> None:
        super().__init__()
        self.cell, self.reverse = Cell(width, units), reverse

    @jit.script_method
    def forward(self, x: Tensor, state: Pair) -> Tuple[Tensor, Pair]:  # noqa: UP006
        rows = x.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])  # noqa: UP006
        for t in range(len(rows)):
            y, state = self.cell(rows[len(rows) - 1 - t if self.reverse else t], state)
            outputs = [y] + outputs if self.reverse else outputs + [y]  # noqa: RUF005
        return torch.stack(outputs), state


class Both(jit.ScriptModule):
    """A list of modules, and of their states."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.directions = nn.ModuleList([Layer(width, units), Layer(width, units, True)])

    @jit.script_method
    def forward(self, x: Tensor, states: List[Pair]) -> Tuple[Tensor, List[Pair]]:  # noqa: UP006
        outputs = torch.jit.annotate(List[Tensor], [])  # noqa: UP006
        ends = torch.jit.annotate(List[Pair], [])  # noqa: UP006
        for i, layer in enumerate(self.directions):
            y, end = layer(x, states[i])
            outputs += [y]
            ends += [end]
        return torch.cat(outputs, -1), ends


class Decoder(nn.Module):
    """A state that may be absent, a list that grows."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.cell, self.head, self.units = nn.GRUCell(width, units), nn.Linear(units, 3), units

    def forward(self, x: Tensor, h: Optional[Tensor] = None):  # noqa: UP045
        if h is None:
            h = torch.zeros(x.size(1), self.units, dtype=x.dtype, device=x.device)
        outs = []
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
            outs.append(self.head(h))
        return torch.stack(outs), h


class Whole(nn.Module):
    """A layer of PyTorch's between others."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(width, 6, 3, padding=1), nn.BatchNorm1d(6)
        self.rnn = nn.LSTM(6, units, 2, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * units, 4), nn.GELU(), nn.Dropout(0.0))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.relu(self.norm(self.conv(x.permute(1, 2, 0))))
        y, _ = self.rnn(z.transpose(1, 2))
        return torch.log_softmax(self.head(y), -1)


class Named(NamedTuple):
    """What a module gives."""

    last: Tensor
    every: Tensor


@torch.jit.script
def gate(x: Tensor, scale: float = 1.0) -> Tensor:
    """A function of TorchScript that modules of it call."""
    return torch.sigmoid(x) * scale


class Numbers(nn.Module):
    """What Python's numbers, texts, lists and dicts do."""

    def forward(self, x: Tensor) -> Tensor:
        total, a, b = 0.0, -7, 2
        total += a // b + a % b + a / b + float(abs(a) ** b) + min(a, b) + max(a, b) + round(2.5)
        sizes: Dict[str, int] = {"T": x.size(0), "N": x.shape[1]}  # noqa: UP006
        sizes["rows"] = sizes["T"] * sizes["N"]
        for key in sizes:
            total += sizes[key] * (2 if key == "rows" else 1)
        listed = [float(i * i) for i in range(5, 0, -2)]
        listed.append(0.5)
        listed.insert(0, 1.5)
        last = listed.pop()
        names = "{}-{}".format("h", sizes["N"]).upper()
        if names == "H-2" and x.dtype == torch.float32 and "T" in sizes and not (a > 0 or b < 0):
            total += last + len(names) + listed[-1] + sum(listed)
        return x * 0.01 * total + torch.tensor(listed[1:3]).sum()


class Leaves(nn.Module):
    """Loops that end early or skip, and a module with more than one method."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.cell, self.units = nn.RNNCell(width, units), units
        self.scales = nn.ParameterList([nn.Parameter(torch.tensor(0.5)) for _ in range(2)])

    @torch.jit.export
    def start(self, x: Tensor) -> Tensor:
        """A state."""
        return torch.zeros(x.size(1), self.units) + 0.1

    def forward(self, x: Tensor, most: int = 5) -> Named:
        h = self.start(x)
        ys: List[Tensor] = []  # noqa: UP006
        t = 0
        while True:
            if t >= x.size(0):
                break
            if t == 2:
                t += 1
                continue
            h = gate(self.cell(x[t], h), scale=1.5)
            ys.append(h)
            t += 1
            if len(ys) == most:
                return Named(h, torch.stack(ys))
        for scale in self.scales:
            h = h * scale
        assert len(ys) > 0, "no steps"
        return Named(last=h, every=torch.stack(ys))


class Changed(nn.Module):
    """Tensors that are changed in place."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:  # noqa: UP006
        out = torch.zeros(x.size(0), x.size(1), 3)
        h = torch.zeros(x.size(1), 3)
        for t in range(x.size(0)):
            h = torch.tanh(h * 0.5 + x[t, :, :3])
            out[t] = h
            out[t, :, 1] *= 2.0
        out[out > 0.4] = 0.4
        last = x[-1].clone()
        last[:, 1:] += 1
        last.clamp_(-0.5, 1.5)
        return out, last


class Holder(nn.Module):
    """A module in Python with a part of TorchScript."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.cell, self.head = Cell(width, units), nn.Linear(units, units)

    def forward(self, x: Tensor, state: Pair) -> Tuple[Tensor, Pair]:  # noqa: UP006
        y, state = self.cell(x, state)
        return self.head(y), state


class Shadowing(nn.Module):
    """Attributes that are called as methods of all modules are."""

    def __init__(self) -> None:
        super().__init__()
        self.half, self.type = 2, 1.5  # type: ignore[bad-override]

    def forward(self, x: Tensor) -> Tensor:
        return x[..., : self.half] * self.type  # type: ignore[bad-override]


class Guarded(nn.Module):
    """What has no Python code here."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x


class Packed(nn.Module):
    """Sequences of several lengths."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, units)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.rnn(pack_padded_sequence(x, lengths))
        return pad_packed_sequence(y)[0]
