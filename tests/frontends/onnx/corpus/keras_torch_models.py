"""Keras over PyTorch, by its own exporter: `KERAS_BACKEND=torch python keras_torch_models.py DIR`.

It needs the package keras beside those of this folder. Keras' loops over time come out as as many
steps as the model declares; layers that Keras hands to PyTorch whole keep time open. The batch is
open in all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import torch
from keras import layers

SEQUENCES = {"return_sequences": True}
STEPS = 6
"""Of time that is open, when a model is read."""


def stack(shape: tuple[int | None, ...], *stacked: Any) -> Any:
    """Layers one after another, of one input."""
    return keras.Sequential([keras.Input(shape), *stacked])


def self_attention() -> Any:
    x = keras.Input((9, 5))
    y = layers.LSTM(8, **SEQUENCES)(x)
    return keras.Model(x, layers.GlobalAveragePooling1D()(layers.MultiHeadAttention(2, 4)(y, y)))


def states() -> Any:
    x = keras.Input((6, 5))
    return keras.Model(x, layers.LSTM(8, return_state=True, **SEQUENCES)(x))


def seq2seq() -> Any:
    x, y = keras.Input((6, 5)), keras.Input((4, 3))
    _, h, c = layers.LSTM(8, return_state=True)(x)
    return keras.Model([x, y], layers.LSTM(8, **SEQUENCES)(y, initial_state=[h, c]))


def stacked_cells() -> Any:
    cells = layers.StackedRNNCells([layers.LSTMCell(4), layers.GRUCell(3)])
    return stack((6, 5), layers.RNN(cells, **SEQUENCES))


def convolutions() -> Any:
    first = layers.Conv1D(8, 3, padding="same", activation="relu")
    return stack(
        (20, 4), first, layers.BatchNormalization(), layers.MaxPooling1D(2), layers.LSTM(6)
    )


def frames() -> Any:
    each = [layers.TimeDistributed(layer) for layer in (layers.Conv2D(3, 3), layers.Flatten())]
    return stack((6, 8, 8, 1), *each, layers.GRU(5))


def both() -> Any:
    first = layers.Bidirectional(layers.LSTM(6, **SEQUENCES))
    return stack((9, 5), first, layers.Bidirectional(layers.GRU(4)))


def words() -> Any:
    return stack((9,), layers.Embedding(21, 8, mask_zero=True), layers.GRU(5))


def pictures() -> Any:
    return stack((5, 8, 8, 2), layers.ConvLSTM2D(3, 3, padding="same", **SEQUENCES))


MODELS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: stack((12, 5), layers.LSTM(8, **SEQUENCES), layers.Dense(3)),
    "gru": lambda: stack((12, 5), layers.GRU(8), layers.Dense(3, activation="softmax")),
    "simple_rnn": lambda: stack((7, 5), layers.SimpleRNN(8, **SEQUENCES)),
    "masked": lambda: stack((9, 5), layers.Masking(), layers.LSTM(6, **SEQUENCES), layers.GRU(3)),
    "open_gru": lambda: stack((None, 5), layers.GRU(8, **SEQUENCES), layers.Dense(2)),
    "open_lstm": lambda: stack((None, 5), layers.LSTM(8, **SEQUENCES), layers.Dense(2)),
    **{
        make.__name__: make
        for make in (
            *(both, words, pictures, frames, convolutions),
            *(self_attention, states, seq2seq, stacked_cells),
        )
    },
}


def write(name: str, folder: Path) -> None:
    """Write a model: Keras wants it called once before."""
    keras.utils.set_random_seed(0)
    made, path = MODELS[name](), folder / f"keras_torch_{name}.onnx"
    dtype = torch.int32 if name == "words" else torch.float32
    given = [torch.ones((2, *(d or STEPS for d in x.shape[1:])), dtype=dtype) for x in made.inputs]
    made(given if len(given) > 1 else given[0])
    made.export(str(path), format="onnx", verbose=False)
    told = {"integers": {made.inputs[0].name: (0, 20)}} if name == "words" else {}
    path.with_suffix(".json").write_text(json.dumps(told))


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        write(name, Path(folder))
        print(name, flush=True)


if __name__ == "__main__":
    main()
