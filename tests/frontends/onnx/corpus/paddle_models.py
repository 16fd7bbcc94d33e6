"""Recurrent models of Paddle by paddle2onnx: `python paddle_models.py FOLDER [NAME...]`.

It needs the packages paddlepaddle and paddle2onnx, and imports nothing of rnncc, so any Python that
has those runs it. Each model becomes `paddle_NAME.onnx` with random weights. What paddle2onnx does
not write, such as cells under `nn.RNN`, ends its process: models are written one a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import paddle
import paddle2onnx
from paddle import nn
from paddle.nn import functional

WIDTH, UNITS, WORDS, STEPS, OPSET = 6, 10, 12, 6, 17


class Layer(nn.Layer):
    """Recurrent layers of Paddle's own, and a product."""

    def __init__(self, kind: str, lengths: bool = False, **options: Any) -> None:
        super().__init__()
        self.layer, self.lengths = getattr(nn, kind)(WIDTH, UNITS, **options), lengths
        self.head = nn.Linear(UNITS * (1 + ("direction" in options)), 3)

    def forward(self, x: Any, lengths: Any = None) -> Any:
        y, state = self.layer(x, None, lengths) if self.lengths else self.layer(x)
        return self.head(y), state


class Decoder(nn.Layer):
    """Tokens one after another, each the likeliest."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.words = nn.GRUCell(WIDTH, UNITS), nn.Embedding(WORDS, WIDTH)
        self.head = nn.Linear(UNITS, WORDS)

    def forward(self, h: Any) -> Any:
        token, rows = paddle.zeros([h.shape[0]], dtype="int64"), []
        for _ in range(STEPS):
            y, h = self.cell(self.words(token), h)
            rows.append(self.head(y))
            token = paddle.argmax(rows[-1], axis=-1)
        return paddle.stack(rows, axis=1)


class Attended(nn.Layer):
    """A reader of text lines that attends to their columns, as PaddleOCR's."""

    def __init__(self) -> None:
        super().__init__()
        self.of_x, self.of_h = nn.Linear(WIDTH, UNITS), nn.Linear(UNITS, UNITS)
        self.score, self.head = nn.Linear(UNITS, 1), nn.Linear(UNITS, WORDS)
        self.cell = nn.LSTMCell(WIDTH + WORDS, UNITS)

    def forward(self, x: Any) -> Any:
        batch = paddle.shape(x)[0]
        h, c = paddle.zeros([batch, UNITS]), paddle.zeros([batch, UNITS])
        token, rows = paddle.zeros([batch], dtype="int32"), []
        for _ in range(STEPS):
            scores = self.score(paddle.tanh(self.of_x(x) + self.of_h(h).unsqueeze(1)))
            weights = functional.softmax(scores, axis=1).transpose([0, 2, 1])
            seen = paddle.matmul(weights, x).squeeze(1)
            given = paddle.concat([seen, functional.one_hot(token, WORDS)], 1)
            y, (h, c) = self.cell(given, (h, c))
            rows.append(self.head(y))
            token = paddle.argmax(rows[-1], axis=1).astype("int32")
        return functional.softmax(paddle.stack(rows, 1), axis=2)


class Lines(nn.Layer):
    """Convolutions and two layers over the columns of a text line."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv2D(3, 8, 3, stride=2, padding=1), nn.BatchNorm2D(8), nn.Hardswish()),
            *(nn.Conv2D(8, 8, 3, stride=(2, 1), padding=1, groups=8), nn.BatchNorm2D(8)),
            *(nn.MaxPool2D((2, 1), (2, 1)), nn.Conv2D(8, 16, (4, 1)), nn.ReLU()),
        )
        self.layer = getattr(nn, kind)(16, UNITS, 2, direction="bidirectional")
        self.head = nn.Linear(2 * UNITS, WORDS)

    def forward(self, x: Any) -> Any:
        y, _ = self.layer(self.stem(x).squeeze(2).transpose([0, 2, 1]))
        return functional.softmax(self.head(y), axis=2)


class While(nn.Layer):
    """A loop of Python's over the steps, which becomes a Loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.SimpleRNNCell(WIDTH, UNITS), nn.Linear(UNITS, WIDTH)

    def forward(self, x: Any, h: Any) -> Any:
        step, count = paddle.zeros([1], dtype="int64"), paddle.shape(x)[1].astype("int64")
        while step < count:
            row = paddle.index_select(x, step, axis=1).squeeze(1)
            _, h = self.cell(row, h)
            step = step + 1
        return self.head(h)


class Convolved(nn.Layer):
    """A causal convolution, a norm and a layer; the largest, the mean and the last step."""

    def __init__(self) -> None:
        super().__init__()
        self.taps = nn.Conv1D(WIDTH, UNITS, 3, dilation=2, padding=4)
        self.norm, self.layer = nn.LayerNorm(UNITS), nn.GRU(UNITS, UNITS)

    def forward(self, x: Any) -> Any:
        y = self.taps(x.transpose([0, 2, 1]))[:, :, :-4].transpose([0, 2, 1])
        y, _ = self.layer(functional.gelu(self.norm(y)))
        return paddle.max(y, axis=1), paddle.mean(y, axis=1), y[:, -1]


@dataclass(frozen=True)
class Made:
    """A model to be written.

    Attributes:
        inputs: name -> shape, with None for open sizes; `lengths` are int64.
        told: what `comparing.py` reads beside it.
    """

    layer: Callable[[], Any]
    inputs: dict[str, list[int | None]]
    told: dict[str, Any] = field(default_factory=dict[str, Any])


SEQUENCE: dict[str, list[int | None]] = {"x": [None, None, WIDTH]}
LENGTHS: dict[str, list[int | None]] = {**SEQUENCE, "lengths": [None]}
STATE: dict[str, list[int | None]] = {"h": [None, UNITS]}
LINE: dict[str, list[int | None]] = {"x": [None, 3, 32, None]}
BOTH: dict[str, Any] = {"direction": "bidirect"}

MODELS: dict[str, Made] = {
    "decoder": Made(Decoder, STATE),
    "attended": Made(Attended, SEQUENCE),
    "while": Made(While, {**SEQUENCE, **STATE}),
    "convolved": Made(Convolved, SEQUENCE),
}
for _kind in ("LSTM", "GRU"):
    _name = _kind.lower()
    MODELS |= {
        _name: Made(partial(Layer, _kind), SEQUENCE),
        f"{_name}_deep": Made(partial(Layer, _kind, num_layers=2, **BOTH), SEQUENCE),
        f"{_name}_time_major": Made(partial(Layer, _kind, time_major=True), SEQUENCE),
        f"{_name}_lengths": Made(
            partial(Layer, _kind, lengths=True, **BOTH), LENGTHS, {"integers": {"lengths": [1, 6]}}
        ),
        f"lines_{_name}": Made(partial(Lines, _kind), LINE, {"draws": [[1, 160], [3, 200]]}),
    }


def write(name: str, folder: Path) -> None:
    """One model."""
    made, path = MODELS[name], folder / f"paddle_{name}"
    layer = made.layer()
    layer.eval()
    specs = [
        paddle.static.InputSpec(shape, "int64" if input == "lengths" else "float32", input)
        for input, shape in made.inputs.items()
    ]
    paddle.jit.save(paddle.jit.to_static(layer, input_spec=specs), str(path))
    paddle2onnx.export(
        f"{path}.json", f"{path}.pdiparams", save_file=f"{path}.onnx", opset_version=OPSET
    )
    path.with_suffix(".json").write_text(json.dumps(made.told))


def main() -> None:
    """All, or those that are named."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    if len(names) == 1:
        write(names[0], folder)
        return
    for name in names or MODELS:
        subprocess.run([sys.executable, __file__, str(folder), name], check=True)


if __name__ == "__main__":
    main()
