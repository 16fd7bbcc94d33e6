"""Recurrent models of Keras and TensorFlow by tf2onnx: `python keras_models.py FOLDER [NAME...]`.

It needs the packages keras, tensorflow and tf2onnx, and imports nothing of rnncc, so any Python
that has those runs it. Each model becomes `keras_NAME.onnx` with random weights; `keras_NAME.json`
names its open sizes and says how integers are drawn.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers, ops

Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Made:
    """A model to be written.

    Attributes:
        call: what it computes.
        inputs: shapes with the batch in front, None for open sizes; dtypes but float32 beside.
    """

    call: Callable[..., Any]
    inputs: Sequence[Shape]
    dtypes: Sequence[str] = ()
    opset: int = 17


MODELS: dict[str, Callable[[], Made]] = {}


def model(make: Callable[[], Made]) -> Callable[[], Made]:
    """Add a model to the list, under its function's name."""
    MODELS[make.__name__] = make
    return make


def stack(shape: Shape, *stacked: Any, **options: Any) -> Made:
    """Layers one after another, of one input."""
    return Made(
        keras.Sequential([keras.Input(shape[1:], batch_size=shape[0]), *stacked]),
        [shape],
        **options,
    )


@model
def lstm() -> Made:
    return stack((None, None, 8), layers.LSTM(16, return_sequences=True), layers.Dense(4))


@model
def lstm_last() -> Made:
    return stack((None, None, 8), layers.LSTM(16), layers.Dense(4, activation="softmax"), opset=13)


@model
def lstm_fixed() -> Made:
    return stack((None, 12, 8), layers.LSTM(16, return_sequences=True), layers.LSTM(8), opset=15)


@model
def lstm_masked() -> Made:
    return stack((None, None, 8), layers.Masking(0.0), layers.LSTM(16, return_sequences=True))


@model
def lstm_backwards() -> Made:
    back = layers.LSTM(12, return_sequences=True, go_backwards=True)
    return stack((None, None, 8), back, layers.Dense(3), opset=18)


@model
def lstm_unrolled() -> Made:
    return stack((None, 6, 5), layers.LSTM(8, unroll=True, return_sequences=True))


@model
def lstm_relu() -> Made:
    return stack(
        (None, None, 5), layers.LSTM(8, activation="relu", recurrent_activation="hard_sigmoid")
    )


@model
def gru() -> Made:
    return stack((None, None, 8), layers.GRU(16, return_sequences=True), layers.Dense(4))


@model
def gru_before() -> Made:
    return stack((None, None, 8), layers.GRU(16, reset_after=False), opset=13)


@model
def gru_fixed() -> Made:
    return stack((3, 10, 8), layers.GRU(16, return_sequences=True), layers.GRU(8))


@model
def gru_backwards() -> Made:
    return stack((None, None, 4), layers.GRU(8, go_backwards=True, return_sequences=True), opset=15)


@model
def gru_stateful() -> Made:
    cell = layers.GRUCell(16)
    cell.build((1, 8))

    def call(x: Any, h: Any) -> Any:
        y, (h,) = cell(x, [h])
        return y, h

    return Made(call, [(1, 8), (1, 16)])


@model
def simple_rnn() -> Made:
    return stack((None, None, 8), layers.SimpleRNN(16, return_sequences=True), layers.Dense(2))


@model
def simple_rnn_stacked() -> Made:
    first = layers.SimpleRNN(12, return_sequences=True, activation="relu")
    return stack((None, None, 6), first, layers.SimpleRNN(8), opset=18)


@model
def bidirectional_lstm() -> Made:
    both = layers.Bidirectional(layers.LSTM(8, return_sequences=True))
    return stack((None, None, 6), both, layers.Dense(4))


@model
def bidirectional_gru() -> Made:
    both = layers.Bidirectional(layers.GRU(8, return_sequences=True), merge_mode="sum")
    return stack((None, None, 6), both, layers.Bidirectional(layers.GRU(4)))


@model
def embedding_lstm() -> Made:
    net = [
        layers.Embedding(50, 8, mask_zero=True),
        layers.LSTM(16),
        layers.Dense(1, activation="sigmoid"),
    ]
    return stack((None, None), *net, dtypes=["int32"])


@model
def embedding_bigru() -> Made:
    both = layers.Bidirectional(layers.GRU(8, return_sequences=True))
    net = [layers.Embedding(50, 8, mask_zero=True), both, layers.GRU(6)]
    return stack((None, None), *net, dtypes=["int32"])


@model
def embedding_rnn() -> Made:
    net = [layers.Embedding(30, 6, mask_zero=True), layers.SimpleRNN(8, return_sequences=True)]
    return stack((None, None), *net, dtypes=["int64"], opset=15)


@model
def embedding_bilstm() -> Made:
    both = layers.Bidirectional(layers.LSTM(8, return_sequences=True))
    net = [layers.Embedding(50, 8, mask_zero=True), both, layers.TimeDistributed(layers.Dense(5))]
    return stack((None, None), *net, dtypes=["int32"])


@model
def conv_lstm_1d() -> Made:
    return stack(
        (None, None, 10, 3), layers.ConvLSTM1D(4, 3, padding="same", return_sequences=True)
    )


@model
def conv_lstm_2d() -> Made:
    conv = layers.ConvLSTM2D(4, 3, padding="same", return_sequences=True)
    return stack((None, None, 6, 6, 2), conv, layers.Conv3D(1, 3, padding="same"))


@model
def conv_lstm_fixed() -> Made:
    return stack((None, 5, 6, 6, 2), layers.ConvLSTM2D(4, 3), layers.Flatten(), layers.Dense(3))


@model
def time_dense() -> Made:
    each = layers.TimeDistributed(layers.Dense(6, activation="relu"))
    return stack((None, None, 8), each, layers.LSTM(8), opset=18)


@model
def time_conv() -> Made:
    each = layers.TimeDistributed(layers.Conv1D(4, 3, padding="same"))
    flat = layers.TimeDistributed(layers.Flatten())
    return stack((None, 9, 8, 3), each, flat, layers.GRU(8))


@model
def time_norm() -> Made:
    each = layers.TimeDistributed(layers.LayerNormalization())
    return stack((None, None, 6), each, layers.TimeDistributed(layers.Dense(4)), layers.GRU(5))


@model
def time_conv_fixed() -> Made:
    each = layers.TimeDistributed(layers.Conv2D(4, 3, activation="relu"))
    pooled = layers.TimeDistributed(layers.GlobalAveragePooling2D())
    return stack((None, 6, 8, 8, 3), each, pooled, layers.LSTM(8))


@model
def stacked_cells() -> Made:
    cells = layers.StackedRNNCells([layers.LSTMCell(8), layers.GRUCell(6)])
    return stack((None, None, 5), layers.RNN(cells, return_sequences=True))


class MinimalCell(layers.Layer):
    """h' = tanh(LayerNorm(x W + h U)), and a slow average of it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = [units, units]
        self.output_size = 2 * units
        self.inputs = layers.Dense(units)
        self.states = layers.Dense(units, use_bias=False)
        self.normal = layers.LayerNormalization()

    def build(self, shape: Any) -> None:
        units = self.state_size[0]
        self.inputs.build(shape)
        self.states.build((shape[0], units))
        self.normal.build((shape[0], units))
        self.built = True

    def call(self, x: Any, states: Any) -> Any:
        h, slow = states
        h = ops.tanh(self.normal(self.inputs(x) + self.states(h)))
        slow = 0.9 * slow + 0.1 * h
        return ops.concatenate([h, slow], -1), [h, slow]


@model
def custom_cell() -> Made:
    return stack(
        (None, None, 5), layers.RNN(MinimalCell(8), return_sequences=True), layers.Dense(2)
    )


@model
def seq2seq() -> Made:
    encoder = layers.LSTM(16, return_state=True)
    decoder = layers.LSTM(16, return_sequences=True)
    x, y = keras.Input((None, 6)), keras.Input((None, 4))
    _, h, c = encoder(x)
    out = layers.Dense(4, activation="softmax")(decoder(y, initial_state=[h, c]))
    return Made(keras.Model([x, y], out), [(None, None, 6), (None, None, 4)])


@model
def gru_attention() -> Made:
    x, y = keras.Input((None, 6)), keras.Input((None, 6))
    keys = layers.GRU(12, return_sequences=True)(x)
    queries = layers.GRU(12, return_sequences=True)(y)
    context = layers.Attention()([queries, keys])
    out = layers.Dense(3)(layers.Concatenate()([queries, context]))
    return Made(keras.Model([x, y], out), [(None, None, 6), (None, None, 6)])


@model
def additive_attention() -> Made:
    x = keras.Input((None, 6))
    h = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    weights = ops.softmax(layers.Dense(1, activation="tanh")(h), axis=1)
    return Made(keras.Model(x, layers.Dense(2)(ops.sum(weights * h, axis=1))), [(None, None, 6)])


@model
def dropout() -> Made:
    net = [layers.GRU(8, dropout=0.3, recurrent_dropout=0.2, return_sequences=True)]
    return stack((None, None, 5), layers.Dropout(0.5), *net, layers.LayerNormalization())


@model
def return_state() -> Made:
    x = keras.Input((None, 5))
    y, h, c = layers.LSTM(8, return_sequences=True, return_state=True)(x)
    z, g = layers.GRU(4, return_state=True)(y)
    return Made(keras.Model(x, [y, h, c, z, g]), [(None, None, 5)])


@model
def conv_gru() -> Made:
    net = [layers.Conv1D(8, 3, padding="same", activation="relu"), layers.BatchNormalization()]
    return stack((None, None, 5), *net, layers.GRU(8, return_sequences=True), layers.Dense(2))


@model
def repeat_vector() -> Made:
    net = [layers.LSTM(8), layers.RepeatVector(7), layers.LSTM(8, return_sequences=True)]
    return stack((None, None, 4), *net, layers.TimeDistributed(layers.Dense(4)))


@model
def tensor_array() -> Made:
    cell = layers.GRUCell(6)
    cell.build((2, 4))

    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=tf.shape(x)[1], element_shape=(2, 6))

        def step(t: Any, h: Any, rows: Any) -> Any:
            h, _ = cell(x[:, t], [h])
            return t + 1, h, rows.write(t, h)

        start = (0, tf.zeros((2, 6)), rows)
        _, h, rows = tf.while_loop(lambda t, h, rows: t < tf.shape(x)[1], step, start)
        return tf.transpose(rows.stack(), (1, 0, 2)), h

    return Made(call, [(2, None, 4)])


@model
def every_second_step() -> Made:
    cell = layers.SimpleRNNCell(6)
    cell.build((None, 4))

    def call(x: Any) -> Any:
        start = (1, tf.zeros((tf.shape(x)[0], 6)))

        def step(t: Any, h: Any) -> Any:
            return t + 2, cell(x[:, t], [h])[0]

        return tf.while_loop(lambda t, h: t <= 7, step, start)[1]

    return Made(call, [(None, 9, 4)])


def recurrent() -> tuple[Any, Any]:
    """tanh(x W + h U): what is multiplied with x, and with the state."""
    rng = np.random.default_rng(0)
    w, u = (rng.standard_normal((rows, 6)).astype(np.float32) for rows in (4, 6))
    return 0.3 * w, 0.3 * u


@model
def functional_scan() -> Made:
    w, u = recurrent()

    def call(x: Any) -> Any:
        return tf.scan(lambda h, row: tf.tanh(row @ w + h @ u), x, tf.zeros((2, 6)), reverse=True)

    return Made(call, [(None, 2, 4)])


@model
def functional_map() -> Made:
    w, _ = recurrent()

    def call(x: Any) -> Any:
        kind = tf.TensorSpec((6,))
        return tf.map_fn(lambda rows: tf.reduce_max(rows @ w, 0), x, fn_output_signature=kind)

    return Made(call, [(None, None, 4)])


@model
def counting_down() -> Made:
    w, u = recurrent()

    def call(x: Any) -> Any:
        steps = tf.shape(x)[1]
        rows = tf.TensorArray(tf.float32, size=steps, element_shape=(2, 6))

        def step(t: Any, h: Any, rows: Any) -> Any:
            h = tf.tanh(x[:, t] @ w + h @ u)
            return t - 1, h, rows.write(t, h)

        start = (steps - 1, tf.zeros((2, 6)), rows)
        return tf.while_loop(lambda t, h, rows: t >= 0, step, start)[2].stack()

    return Made(call, [(2, None, 4)])


@model
def windows() -> Made:
    w, u = recurrent()

    def call(x: Any) -> Any:
        steps = tf.shape(x)[1] - 2
        rows = tf.TensorArray(tf.float32, size=steps, element_shape=(2, 6))

        def step(t: Any, h: Any, rows: Any) -> Any:
            h = tf.tanh(tf.reduce_mean(x[:, t : t + 3], 1) @ w + h @ u)
            return t + 1, h, rows.write(t, h)

        start = (0, tf.zeros((2, 6)), rows)
        return tf.while_loop(lambda t, h, rows: t < steps, step, start)[2].stack()

    return Made(call, [(2, None, 4)])


@model
def nested_loops() -> Made:
    w, u = recurrent()

    def call(x: Any) -> Any:
        def outer(i: Any, total: Any) -> Any:
            def inner(j: Any, h: Any) -> Any:
                return j + 1, tf.tanh(x[:, i, j] @ w + h @ u)

            start = (0, tf.zeros((2, 6)))
            row = tf.while_loop(lambda j, h: j < tf.shape(x)[2], inner, start)[1]
            return i + 1, 0.5 * total + row

        start = (0, tf.zeros((2, 6)))
        return tf.while_loop(lambda i, total: i < tf.shape(x)[1], outer, start)[1]

    return Made(call, [(2, None, None, 4)])


@model
def greedy_decoder() -> Made:
    rng = np.random.default_rng(1)
    rows, scores = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 4), (4, 7)))

    def call(h: Any) -> Any:
        found = tf.TensorArray(tf.int32, size=10, element_shape=(None,))

        def step(t: Any, h: Any, token: Any, found: Any) -> Any:
            h = tf.tanh(0.7 * h + tf.gather(rows, token))
            token = tf.argmax(h @ scores, -1, output_type=tf.int32)
            return t + 1, h, token, found.write(t, token)

        start = (0, h, tf.zeros((tf.shape(h)[0],), tf.int32), found)
        _, h, _, found = tf.while_loop(lambda t, *_: t < 10, step, start)
        return found.stack(), h

    return Made(call, [(None, 4)])


@model
def attending_decoder() -> Made:
    w, u = recurrent()

    def call(x: Any, y: Any) -> Any:
        keys, steps = x @ w, tf.shape(y)[1]
        rows = tf.TensorArray(tf.float32, size=steps, element_shape=(2, 6))

        def step(t: Any, h: Any, rows: Any) -> Any:
            weights = tf.nn.softmax(tf.einsum("btu,bu->bt", keys, h), -1)
            context = tf.einsum("bt,btu->bu", weights, keys)
            h = tf.tanh(context + y[:, t] @ w + h @ u)
            return t + 1, h, rows.write(t, h)

        start = (0, tf.zeros((2, 6)), rows)
        return tf.while_loop(lambda t, h, rows: t < steps, step, start)[2].stack()

    return Made(call, [(2, None, 4), (2, None, 4)])


@model
def until_small() -> Made:
    def call(x: Any) -> Any:
        def smaller(x: Any) -> Any:
            return [x @ tf.constant(0.6 * np.eye(4), x.dtype)]

        return tf.while_loop(lambda x: tf.reduce_sum(tf.abs(x)) > 0.1, smaller, [x])[0]

    return Made(call, [(None, 4)])


def write(name: str, folder: Path) -> None:
    """Write a model."""
    keras.utils.set_random_seed(1)
    made = MODELS[name]()
    dtypes = [*made.dtypes, *["float32"] * (len(made.inputs) - len(made.dtypes))]
    signature = [
        tf.TensorSpec(shape, dtype, name=f"x{at}")
        for at, (shape, dtype) in enumerate(zip(made.inputs, dtypes, strict=True))
    ]
    several = len(signature) > 1 and isinstance(made.call, keras.Model)
    function = tf.function(lambda *xs: made.call(list(xs)) if several else made.call(*xs))
    path = folder / f"keras_{name}.onnx"
    beside: dict[str, Any] = {
        "shapes": {spec.name: _named(at, spec.shape) for at, spec in enumerate(signature)}
    }
    beside["integers"] = {s.name: (0, 20) for s in signature if s.dtype.is_integer}
    path.with_suffix(".json").write_text(json.dumps(beside))
    tf2onnx.convert.from_function(function, signature, opset=made.opset, output_path=str(path))


def _named(at: int, shape: Any) -> list[int | str]:
    """An input's shape, with names for its open sizes: the batch is that of all inputs."""
    names = ["N", f"T{at or ''}", "A", "B"]
    return [size or names[axis] for axis, size in enumerate(shape)]


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        write(name, Path(folder))
        print(name, flush=True)


if __name__ == "__main__":
    main()
