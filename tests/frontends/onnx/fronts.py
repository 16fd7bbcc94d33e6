"""Front ends as PyTorch exports them, both axes open: OCR, speech and audio models in small.

    python -m tests.frontends.onnx.fronts [NAME ...] [--sizes 24]

Exports each by both exporters and compares compiled code with ONNX Runtime at many sizes, from the
smallest that fit; prints the worst error of the scale, and sizes that one side alone refuses.
"""

from __future__ import annotations

import argparse
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rnncc_runtime import ModelError
from torch import nn

import rnncc

TOLERANCE = 1e-4


class Lines(nn.Module):
    """Text lines: convolutions and pools that halve the height more often than the width."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            *(nn.Conv2d(1, 4, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(4, 6, 3, 1, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2, 2)),
            *(nn.Conv2d(6, 6, 3, 1, 1), nn.ReLU(), nn.MaxPool2d((2, 2), (2, 1), (0, 1))),
            *(nn.Conv2d(6, 8, 2), nn.ReLU()),
        )
        self.rows, self.out = nn.LSTM(8, 6, bidirectional=True), nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        y = self.front(x)
        n, c, h, w = y.size()
        y, _ = self.rows(y.reshape(n, c * h, w).permute(2, 0, 1))
        return self.out(y)


class Spectra(nn.Module):
    """Speech by spectra: two strided convolutions, then a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            *(nn.Conv2d(1, 3, (11, 11), (2, 2), (5, 5)), nn.BatchNorm2d(3), nn.Hardtanh(0, 20)),
            *(nn.Conv2d(3, 3, (11, 5), (2, 1), (5, 2)), nn.Hardtanh(0, 20)),
        )
        self.rows, self.out = nn.GRU(30, 6, bidirectional=True, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        y = self.front(x)
        n, c, f, t = y.size()
        y, _ = self.rows(y.view(n, c * f, t).transpose(1, 2))
        return self.out(y).log_softmax(-1)


class Waves(nn.Module):
    """Samples: strided convolutions in a row, a mean rounded up, and the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            *(nn.Conv1d(1, 5, 10, 5), nn.GELU(), nn.Conv1d(5, 5, 8, 4), nn.GELU()),
            *(nn.Conv1d(5, 6, 4, 2, 1), nn.ReLU(), nn.AvgPool1d(3, 2, ceil_mode=True)),
        )
        self.rows, self.out = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        y, _ = self.rows(self.front(x.unsqueeze(1)).transpose(1, 2))
        return self.out(y[:, -1])


class Pyramid(nn.Module):
    """Pairs of steps joined, the last of an odd number left out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.second = nn.LSTM(16, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        y, _ = self.first(x)
        half = y.size(1) // 2
        return self.second(y[:, : half * 2].reshape(y.size(0), half, 16))[0]


class Down(nn.Module):
    """Down, a loop and up again, added to what it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.rows = nn.Conv1d(3, 5, 4, 2, 1), nn.GRU(5, 5, batch_first=True)
        self.up = nn.ConvTranspose1d(5, 3, 4, 2, 1)

    def forward(self, x: Any) -> Any:
        y, _ = self.rows(self.down(x).transpose(1, 2))
        y = self.up(y.transpose(1, 2))
        return y + x[:, :, : y.size(2)]


class Last(nn.Module):
    """The last three steps, flat."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.out = nn.GRU(3, 4, batch_first=True), nn.Linear(12, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.rows(x)[0][:, -3:].flatten(1))


class Parts(nn.Module):
    """Every other step, every third but the ends, and the steps backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        y, _ = self.rows(x)
        return torch.cat([y[:, ::2].mean(1), y[:, 1:-1:3].sum(1), y.flip(1)[:, 0]], 1)


@dataclass(frozen=True)
class Front:
    """A model, its input's shape with one axis open beside the batch, and sizes to start from."""

    make: Callable[[], Any]
    shape: tuple[int | None, ...]
    least: int
    step: int = 1


FRONTS: dict[str, Front] = {
    "lines": Front(Lines, (1, 16, None), 4, 3),
    "spectra": Front(Spectra, (1, 40, None), 1),
    "waves": Front(Waves, (None,), 190, 13),
    "pyramid": Front(Pyramid, (None, 6), 2),
    "down": Front(Down, (3, None), 2),
    "last": Front(Last, (None, 3), 3),
    "parts": Front(Parts, (None, 3), 2),
}


def example(front: Front, batch: int, size: int) -> Any:
    """An input."""
    shape = [size if n is None else n for n in front.shape]
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(size))


def exported(front: Front, dynamo: bool = False) -> bytes:
    """The model as ONNX, its batch and its open axis open."""
    torch.manual_seed(0)
    axis, buffer = 1 + front.shape.index(None), io.BytesIO()
    net, given = front.make().eval(), (example(front, 2, front.least + 16 * front.step),)
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"]}
    if dynamo:
        open_ = {0: torch.export.Dim.DYNAMIC, axis: torch.export.Dim.DYNAMIC}
        made = torch.onnx.export(
            net, given, dynamo=True, dynamic_shapes=(open_,), verbose=False, **names
        )
        assert made is not None
        return made.model_proto.SerializeToString()
    axes = {"x": {0: "batch", axis: "size"}}
    export: Any = torch.onnx.export  # whose stub knows no buffers
    export(net, given, buffer, dynamo=False, dynamic_axes=axes, **names)
    return buffer.getvalue()


def compare(front: Front, data: bytes, sizes: int) -> Iterator[tuple[int, float | str]]:
    """For each size the worst error of the scale, or what one side alone refuses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    model: Any = rnncc.compile(data)
    for number in range(sizes):
        size = front.least + number * front.step
        inputs = {"x": example(front, 1 + number % 3, size).numpy()}
        try:
            want: Any = session.run(None, inputs)[0]
        except Exception:  # it has classes of its own for each code
            want = None
        try:
            got: Any = model.run(inputs)["y"]
        except ModelError as error:
            yield size, str(error) if want is not None else 0.0
            continue
        if want is None or got.shape != want.shape:
            yield size, f"{got.shape}, expected {None if want is None else want.shape}"
            continue
        scale = max(float(np.abs(want).max(initial=0)), 1e-6)
        yield size, float(np.abs(got - want).max(initial=0)) / scale


def main() -> int:
    """1 if a model fails at any size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="all without")
    parser.add_argument("--sizes", type=int, default=24, help="how many of each")
    options = parser.parse_args()
    failed = 0
    for name, front in FRONTS.items():
        for dynamo in (False, True) if not options.names or name in options.names else ():
            try:
                data = exported(front, dynamo)
            except torch.onnx.OnnxExporterError as error:
                print(f"{name}, dynamo {dynamo}: not exported, {str(error)[:60]!r}")
                continue
            found = list(compare(front, data, options.sizes))
            worst = max(error for _, error in found if isinstance(error, float))
            bad = [(size, why) for size, why in found if isinstance(why, str)]
            failed += worst > TOLERANCE or bool(bad)
            print(f"{name}, dynamo {dynamo}: {worst:.1e}", *bad, sep="\n    ", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
