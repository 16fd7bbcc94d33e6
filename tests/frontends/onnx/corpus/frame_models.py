"""Synthesisers that predict how long each letter lasts: `python frame_models.py OUTDIR`.

Letters become frames by `repeat_interleave`, or by a product with a matrix of bools; over frames
there is attention or an LSTM, and more frames are made of them. Both of PyTorch's exporters write
them; `--max-iterations` bounds the frames.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from tests.frontends.onnx.corpus.exporting import TN, Exported, export_all

WIDTH, LETTERS, MELS = 16, 30, 20
BOUND = {"max_iterations": "8*T"}


class Block(nn.Module):
    """Attention and convolutions, each with a norm behind it."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.wide, self.narrow = nn.Conv1d(WIDTH, 32, 9, padding=4), nn.Conv1d(32, WIDTH, 1)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        q, k, v = (
            part(x).view(batch, steps, self.heads, -1).transpose(1, 2) for part in self.parts[:3]
        )
        weights = (q @ k.transpose(-2, -1) / math.sqrt(WIDTH // self.heads)).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, steps, WIDTH)
        x = self.norms[0](x + self.parts[3](y))
        y = self.narrow(self.wide(x.transpose(1, 2)).relu()).transpose(1, 2)
        return self.norms[1](x + y)


class Synthesiser(nn.Module):
    """Letters to frames; how long each lasts is an output too.

    Args:
        over_frames: makes mels of frames [N, frames, WIDTH].
        by_product: whether frames are made by a product, for a batch; else of one sentence.
    """

    def __init__(self, over_frames: nn.Module, by_product: bool) -> None:
        super().__init__()
        self.letters, self.before = nn.Embedding(LETTERS, WIDTH), Block()
        self.lasting, self.by_product = nn.Linear(WIDTH, 1), by_product
        self.over_frames = over_frames

    def forward(self, letters: Tensor) -> tuple[Tensor, Tensor]:
        x = self.before(self.letters(letters))
        lasting = torch.clamp(torch.round(torch.exp(self.lasting(x)[..., 0]) + 1), min=1).long()
        if self.by_product:
            end = lasting.cumsum(1)
            at = torch.arange(end[:, -1].max())
            begun = at[None, None] >= (end - lasting)[..., None]
            frames = (begun & (at[None, None] < end[..., None])).float().transpose(1, 2) @ x
        else:
            frames = torch.repeat_interleave(x[0], lasting[0], 0)[None]
        return self.over_frames(frames), lasting


class Attending(nn.Module):
    """Attention between frames, at places that sines tell."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.out = Block(), nn.Linear(WIDTH, MELS)

    def forward(self, x: Tensor) -> Tensor:
        rates = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(1e4) / WIDTH))
        angles = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * rates
        return self.out(self.block(x + torch.cat([angles.sin(), angles.cos()], -1)))


class Recurring(nn.Module):
    """An LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * WIDTH, MELS)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0])


class Finer(nn.Module):
    """An LSTM, then twice as many frames, normalised by channels, with mirrored pads."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.norm = nn.InstanceNorm1d(2 * WIDTH, affine=True)
        self.up, self.pad = nn.Upsample(scale_factor=2), nn.ReflectionPad1d((1, 2))
        self.out = nn.Conv1d(2 * WIDTH, MELS, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.lstm(x)[0].transpose(1, 2))
        return self.out(self.pad(self.up(nn.functional.leaky_relu(y, 0.2))))


def _model(over_frames: Callable[[], nn.Module], by_product: bool) -> Exported:
    letters = torch.randint(1, LETTERS, (2 if by_product else 1, 7))
    axes = {"letters": TN if by_product else {1: "T"}}
    drawn = {"letters": (1, LETTERS - 1)}
    return Exported(
        lambda: Synthesiser(over_frames(), by_product), {"letters": letters}, axes, drawn, outputs=2
    )


MODELS: dict[str, Exported] = {
    f"frames_{name}{'_by_product' if by_product else ''}": _model(over_frames, by_product)
    for name, over_frames in (("attend", Attending), ("recur", Recurring), ("finer", Finer))
    for by_product in (False, True)
}

if __name__ == "__main__":
    export_all(MODELS)
    for beside in Path(sys.argv[1]).glob("*_frames_*.json"):
        beside.write_text(json.dumps(json.loads(beside.read_text()) | BOUND))
