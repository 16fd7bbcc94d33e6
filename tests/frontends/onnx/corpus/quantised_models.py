"""Quantised and half-precision recurrent models: `python quantised_models.py OUTDIR`.

PyTorch's exports, quantised by `onnxruntime.quantization` (dynamically and by calibration, with
QDQ pairs and with operators of integers, weights alone in blocks) and converted to float16. Beside
those whose activations are rounded lies NAME.json with the tolerance: a number on the edge between
two levels falls to either side by the last bit of a float. ONNX Runtime's quantisers need the
package onnx_ir.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import nn

INPUTS, HIDDEN, WORDS = 24, 32, 200
TOLERANCE = 0.03


class Recurrent(nn.Module):
    """A stack of recurrent layers with a projection behind it."""

    def __init__(self, kind: str, layers: int = 1, both: bool = False, **more: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(
            INPUTS, HIDDEN, layers, batch_first=True, bidirectional=both, **more
        )
        self.out = nn.Linear(HIDDEN * (1 + both), 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.out(self.layers(x)[0]), -1)


class ConvGru(nn.Module):
    """Convolutions over time, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(INPUTS, 48, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(48, 48, 3, padding=1, groups=48),
            nn.Conv1d(48, 32, 1),
            nn.ReLU(),
        )
        self.gru, self.out = nn.GRU(32, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x.transpose(1, 2)).transpose(1, 2)
        return torch.sigmoid(self.out(self.gru(y)[0]))


class Tagger(nn.Module):
    """An embedding, an LSTM forth and back, one label a word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, INPUTS)
        self.lstm = nn.LSTM(INPUTS, HIDDEN, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * HIDDEN, 7)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(words))[0])


class Attentive(nn.Module):
    """A GRU, then attention of its states to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(INPUTS, HIDDEN, batch_first=True)
        self.parts = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.gru(x)[0]
        q, k, v = (part(y) for part in self.parts)
        seen = torch.softmax(q @ k.transpose(1, 2) / HIDDEN**0.5, -1) @ v
        return self.out(self.norm(y + seen))


class HandWritten(nn.Module):
    """A cell as a loop over a known number of steps, its products in every one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(INPUTS, HIDDEN), nn.Linear(HIDDEN, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.shape[0], HIDDEN)
        rows = list[torch.Tensor]()
        for step in range(4):
            h = self.cell(x[:, step], h)
            rows.append(self.out(h))
        return torch.stack(rows, 1)


FLOATS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Recurrent("LSTM"),
    "bilstm": lambda: Recurrent("LSTM", 2, True),
    "gru": lambda: Recurrent("GRU", 2),
    "rnn": lambda: Recurrent("RNN", nonlinearity="relu"),
    "conv_gru": ConvGru,
    "tagger": Tagger,
    "attentive": Attentive,
    "hand_written": HandWritten,
}


def export(name: str, path: Path) -> None:
    """A model of floats, with open sizes."""
    torch.manual_seed(0)
    made, steps = FLOATS[name]().eval(), 4 if name == "hand_written" else 6
    x = (
        torch.zeros(2, steps, dtype=torch.long)
        if name == "tagger"
        else torch.zeros(2, steps, INPUTS)
    )
    axes = {0: "N"} if name == "hand_written" else {0: "N", 1: "T"}
    names = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": axes, "y": axes}}
    torch.onnx.export(made, (x,), str(path), dynamo=False, opset_version=17, **names)


class Readings(CalibrationDataReader):
    """Random inputs to calibrate with."""

    def __init__(self, path: Path, steps: int = 4) -> None:
        self._name = onnx.load(path).graph.input[0].name
        rng = np.random.default_rng(0)
        shape = (4, steps, INPUTS)
        self._left = [rng.standard_normal(shape).astype(np.float32) for _ in range(8)]

    def get_next(self) -> Any:
        return {self._name: self._left.pop()} if self._left else None


def dynamic(source: Path, target: Path, **more: Any) -> None:
    """Weights as integers, activations when it runs."""
    quantize_dynamic(source, target, **more)


def static(source: Path, target: Path, style: QuantFormat, **more: Any) -> None:
    """All by calibration."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.onnx"
        quant_pre_process(source, ready, skip_symbolic_shape=True)
        quantize_static(ready, target, Readings(ready), quant_format=style, **more)


def in_blocks(source: Path, target: Path, bits: int = 4, symmetric: bool = True) -> None:
    """Weights of products as numbers of so many bits, with a scale for each block."""
    made: Any = MatMulNBitsQuantizer(onnx.load(source), bits, 32, is_symmetric=symmetric)
    made.process()
    made.model.save_model_to_file(str(target))


def halves(source: Path, target: Path, keep_io_types: bool = True) -> None:
    """All floats as float16, with casts at inputs and outputs or without."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    made = convert_float_to_float16(onnx.load(source), keep_io_types=keep_io_types)
    onnx.save(made, target)


QDQ, INTEGERS = QuantFormat.QDQ, QuantFormat.QOperator
I8, U8 = {"weight_type": QuantType.QInt8}, {"weight_type": QuantType.QUInt8}
WHOLE_U8 = {**U8, "activation_type": QuantType.QUInt8}
KINDS: dict[str, tuple[Callable[..., None], str, dict[str, Any]]] = {
    **{f"dynamic_{name}": (dynamic, name, I8) for name in FLOATS},
    "dynamic_u8_bilstm": (dynamic, "bilstm", U8),
    "dynamic_u8_tagger": (dynamic, "tagger", U8),
    "dynamic_by_channel_lstm": (dynamic, "lstm", {**I8, "per_channel": True}),
    "dynamic_by_channel_attentive": (dynamic, "attentive", {**I8, "per_channel": True}),
    "dynamic_reduced_attentive": (dynamic, "attentive", {**I8, "reduce_range": True}),
    "dynamic_reduced_gru": (dynamic, "gru", {**I8, "reduce_range": True}),
    **{f"qdq_{n}": (static, n, {"style": QDQ}) for n in ("lstm", "conv_gru", "attentive", "gru")},
    "qdq_by_channel_conv_gru": (static, "conv_gru", {"style": QDQ, "per_channel": True}),
    "qdq_u8_hand_written": (static, "hand_written", {"style": QDQ, **WHOLE_U8}),
    "qdq_i8_attentive": (static, "attentive", {"style": QDQ, "activation_type": QuantType.QInt8}),
    **{f"integers_{n}": (static, n, {"style": INTEGERS}) for n in ("conv_gru", "attentive", "rnn")},
    "integers_hand_written": (static, "hand_written", {"style": INTEGERS}),
    "blocks4_attentive": (in_blocks, "attentive", {}),
    "blocks4_zeros_bilstm": (in_blocks, "bilstm", {"symmetric": False}),
    "blocks8_lstm": (in_blocks, "lstm", {"bits": 8}),
    "halves_hand_written": (halves, "hand_written", {}),
    "halves_attentive": (halves, "attentive", {}),
    "halves_whole_attentive": (halves, "attentive", {"keep_io_types": False}),
}


def is_new(source: Path, target: Path) -> bool:
    """Whether a conversion changed anything."""
    kinds = [sorted(n.op_type for n in onnx.load(path).graph.node) for path in (source, target)]
    return kinds[0] != kinds[1] or target.stem.startswith("halves")


def load_apart(path: Path) -> None:
    """Load a model in a process of its own: ONNX Runtime dies of some recurrent ones of float16."""
    text = f"import onnxruntime; onnxruntime.InferenceSession({str(path)!r})"
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)


def main() -> None:
    """All of them, and the models of floats that they come from as `float_NAME.onnx`."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in FLOATS:
        export(name, folder / f"float_{name}.onnx")
    for name, (make, source, options) in KINDS.items():
        target = folder / f"{name}.onnx"
        try:
            make(folder / f"float_{source}.onnx", target, **options)
            load_apart(target)
        except Exception as error:
            print(f"{name}: {str(error).splitlines()[:1]}", file=sys.stderr)
            target.unlink(missing_ok=True)
            continue
        assert is_new(folder / f"float_{source}.onnx", target), f"{name} is as it was"
        told = {} if name.startswith("blocks") else {"tolerance": TOLERANCE}
        target.with_suffix(".json").write_text(json.dumps(told))
        print(name, *sorted({node.op_type for node in onnx.load(target).graph.node}))


if __name__ == "__main__":
    main()
