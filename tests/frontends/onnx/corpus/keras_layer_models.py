"""More of Keras and TensorFlow: `python -m tests.frontends.onnx.corpus.keras_layer_models FOLDER`.

Merges and masks of bidirectional layers, layers in layers, convolutions around recurrences, cells
of one's own, and functions of `keras.ops` and TensorFlow; each at open batch and time.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from tests.frontends.onnx.corpus.keras_models import Made, main, model, stack

SEQUENCES = {"return_sequences": True}


@model
def both_summed() -> Made:
    net = layers.Bidirectional(layers.GRU(8, **SEQUENCES), merge_mode="sum")
    return stack((None, None, 5), net, layers.Dense(3))


@model
def both_averaged() -> Made:
    net = layers.Bidirectional(layers.LSTM(8), merge_mode="ave")
    return stack((None, None, 5), net, layers.Dense(3))


@model
def both_multiplied() -> Made:
    net = layers.Bidirectional(layers.SimpleRNN(8, **SEQUENCES), merge_mode="mul")
    return stack((None, None, 5), net)


@model
def both_apart() -> Made:
    x = keras.Input((None, 5))
    return Made(
        keras.Model(x, layers.Bidirectional(layers.LSTM(6, **SEQUENCES), merge_mode=None)(x)),
        [(None, None, 5)],
    )


@model
def both_of_two_kinds() -> Made:
    there = layers.LSTM(6, **SEQUENCES)
    back = layers.GRU(6, go_backwards=True, **SEQUENCES)
    return stack((None, None, 5), layers.Bidirectional(there, backward_layer=back))


@model
def both_masked() -> Made:
    net = layers.Bidirectional(layers.LSTM(6, **SEQUENCES))
    return stack((None, None, 5), layers.Masking(0.0), net, layers.GRU(4))


@model
def both_of_words() -> Made:
    net = layers.Bidirectional(layers.GRU(6, **SEQUENCES))
    tail = layers.TimeDistributed(layers.Dense(4, activation="softmax"))
    return stack((None, None), layers.Embedding(21, 8, mask_zero=True), net, tail, dtypes=["int32"])


@model
def both_with_states() -> Made:
    x = keras.Input((None, 5))
    states = layers.Bidirectional(layers.LSTM(6, return_state=True, **SEQUENCES))(x)
    return Made(keras.Model(x, states), [(None, None, 5)])


@model
def both_of_pictures() -> Made:
    conv = layers.ConvLSTM1D(3, 3, padding="same", **SEQUENCES)
    return stack((None, None, 8, 2), layers.Bidirectional(conv))


@model
def masked_zeros() -> Made:
    net = layers.LSTM(6, zero_output_for_mask=True, **SEQUENCES)
    return stack((None, None, 5), layers.Masking(0.0), net)


@model
def masked_average() -> Made:
    net = [layers.GRU(6, **SEQUENCES), layers.GlobalAveragePooling1D()]
    return stack((None, None), layers.Embedding(21, 8, mask_zero=True), *net, dtypes=["int32"])


@model
def masked_stack() -> Made:
    net = [layers.SimpleRNN(6, **SEQUENCES), layers.LSTM(6, **SEQUENCES), layers.GRU(3)]
    return stack((None, None), layers.Embedding(21, 8, mask_zero=True), *net, dtypes=["int64"])


@model
def sentences_of_words() -> Made:
    x = keras.Input((None, 7, 4))
    words = layers.LSTM(6)(layers.Reshape((-1, 4))(x))
    rows = layers.TimeDistributed(layers.Dense(6, activation="tanh"))(ops.max(x, 2))
    return Made(
        keras.Model(x, layers.GRU(5)(rows, initial_state=layers.Dense(5)(words))),
        [(None, None, 7, 4)],
    )


@model
def frames_by_network() -> Made:
    frame = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
        ]
    )
    return stack((None, None, 12, 12, 1), layers.TimeDistributed(frame), layers.LSTM(6))


@model
def conv_lstm_strided() -> Made:
    net = layers.ConvLSTM2D(3, 3, strides=2, padding="same", **SEQUENCES)
    return stack((None, None, 9, 8, 2), net, layers.BatchNormalization())


@model
def conv_lstm_dilated() -> Made:
    net = layers.ConvLSTM2D(3, 3, dilation_rate=2, padding="same", go_backwards=True)
    return stack((None, None, 8, 8, 2), net, layers.Conv2D(1, 1))


@model
def conv_lstm_states() -> Made:
    x = keras.Input((None, 8, 2))
    net = layers.ConvLSTM1D(3, 3, return_state=True, **SEQUENCES)
    return Made(keras.Model(x, net(x)), [(None, None, 8, 2)])


@model
def conv_lstm_stack() -> Made:
    nets = [layers.ConvLSTM2D(4, 3, padding="same", **SEQUENCES) for _ in range(2)]
    return stack((None, None, 6, 7, 1), *nets, layers.Conv3D(1, (3, 3, 3), padding="same"))


@model
def text_line() -> Made:
    """A CRNN of lines of text whose width is open."""
    x = keras.Input((16, None, 1))
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    y = layers.MaxPooling2D((2, 2))(y)
    y = layers.Conv2D(12, 3, padding="same", activation="relu")(y)
    y = layers.MaxPooling2D((2, 1))(y)
    y = layers.Permute((2, 1, 3))(y)
    y = layers.Reshape((-1, 4 * 12))(y)
    y = layers.Bidirectional(layers.LSTM(8, **SEQUENCES))(y)
    return Made(keras.Model(x, layers.Dense(11, activation="softmax")(y)), [(None, 16, None, 1)])


@model
def causal_stack() -> Made:
    x = keras.Input((None, 4))
    y = layers.Conv1D(8, 1)(x)
    for rate in (1, 2, 4):
        gate = layers.Conv1D(8, 2, dilation_rate=rate, padding="causal", activation="sigmoid")(y)
        new = layers.Conv1D(8, 2, dilation_rate=rate, padding="causal", activation="tanh")(y)
        y = layers.Add()([y, layers.Conv1D(8, 1)(layers.Multiply()([gate, new]))])
    return Made(keras.Model(x, layers.GRU(6)(y)), [(None, None, 4)])


@model
def separable() -> Made:
    net = [
        layers.SeparableConv1D(8, 5, padding="same", activation="swish"),
        layers.MaxPooling1D(2, padding="same"),
        layers.DepthwiseConv1D(3, padding="same", depth_multiplier=2),
        layers.AveragePooling1D(3, strides=2),
        layers.UpSampling1D(2),
        layers.ZeroPadding1D(2),
        layers.Cropping1D((1, 0)),
    ]
    return stack((None, None, 4), *net, layers.LSTM(6, **SEQUENCES))


@model
def transposed() -> Made:
    net = [layers.Conv1D(8, 4, strides=2, padding="same"), layers.LSTM(8, **SEQUENCES)]
    return stack((None, None, 3), *net, layers.Conv1DTranspose(2, 4, strides=2, padding="same"))


@model
def normalised() -> Made:
    net = [
        layers.GroupNormalization(2),
        layers.UnitNormalization(),
        layers.SpatialDropout1D(0.2),
        layers.GaussianNoise(0.1),
        layers.PReLU(shared_axes=[1]),
        layers.LSTM(6, **SEQUENCES),
        layers.RMSNormalization(),
        layers.ELU(),
    ]
    return stack((None, None, 4), *net)


@model
def self_attention() -> Made:
    x = keras.Input((None, 8))
    y = layers.LSTM(8, **SEQUENCES)(x)
    seen = layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True)
    y = layers.LayerNormalization()(layers.Add()([y, seen]))
    return Made(keras.Model(x, layers.GlobalMaxPooling1D()(y)), [(None, None, 8)])


@model
def grouped_attention() -> Made:
    x = keras.Input((None, 8))
    y = layers.GRU(8, **SEQUENCES)(x)
    return Made(keras.Model(x, layers.GroupQueryAttention(4, 4, 2)(y, y)), [(None, None, 8)])


@model
def masked_attention() -> Made:
    x = keras.Input((None,), dtype="int32")
    y = layers.Embedding(21, 8, mask_zero=True)(x)
    y = layers.LSTM(8, **SEQUENCES)(y)
    y = layers.AdditiveAttention()([y, y])
    return Made(keras.Model(x, y), [(None, None)], ["int32"])


@model
def summed_attention() -> Made:
    x = keras.Input((None, 6))
    y, h = layers.GRU(8, return_state=True, **SEQUENCES)(x)
    scores = layers.Dot(axes=(2, 1))([y, layers.Dense(8)(h)])
    context = layers.Dot(axes=(1, 1))([layers.Softmax()(scores), y])
    return Made(keras.Model(x, layers.Concatenate()([context, h])), [(None, None, 6)])


class Gates(layers.Layer):
    """A state of a matrix for each row: outer products, fading."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = [(units, units)], units
        self.keys, self.values, self.queries = (layers.Dense(units) for _ in range(3))
        self.fade = layers.Dense(1, activation="sigmoid")

    def build(self, shape: Any) -> None:
        for each in (self.keys, self.values, self.queries, self.fade):
            each.build(shape)
        self.built = True

    def call(self, x: Any, states: Any) -> Any:
        key, value, query = (made(x) for made in (self.keys, self.values, self.queries))
        fading = ops.expand_dims(self.fade(x), -1)
        memory = fading * states[0] + ops.expand_dims(key, -1) * ops.expand_dims(value, -2)
        return ops.tanh(ops.einsum("nk,nkv->nv", query, memory)), [memory]

    def get_initial_state(self, batch_size: Any = None) -> Any:
        return [ops.zeros((batch_size, *self.state_size[0]))]


@model
def matrix_state() -> Made:
    return stack((None, None, 5), layers.RNN(Gates(6), **SEQUENCES))


class Counting(layers.Layer):
    """A state of integers beside one of floats."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = [units, 1], units
        self.inner = layers.GRUCell(units)

    def build(self, shape: Any) -> None:
        self.inner.build(shape)
        self.built = True

    def call(self, x: Any, states: Any) -> Any:
        h, steps = states
        new, _ = self.inner(x, [h])
        due = ops.equal(ops.mod(steps, 2.0), 0.0)
        return ops.where(due, new, h), [ops.where(due, new, h), steps + 1.0]


@model
def every_other() -> Made:
    return stack((None, None, 5), layers.RNN(Counting(6), return_state=True, **SEQUENCES))


@model
def residual_cells() -> Made:
    cells = [layers.GRUCell(5), layers.SimpleRNNCell(5, activation="relu"), layers.LSTMCell(4)]
    return stack((None, None, 5), layers.RNN(layers.StackedRNNCells(cells)), layers.Dense(2))


@model
def backwards_unrolled() -> Made:
    return stack((None, 5, 4), layers.GRU(6, unroll=True, go_backwards=True), layers.Dense(2))


@model
def sorted_scores() -> Made:
    def call(x: Any) -> Any:
        y = layer(x)
        values, places = ops.top_k(ops.mean(y, -1), 3)
        chosen = ops.take_along_axis(y, ops.expand_dims(places, -1), 1)
        return values, chosen, ops.argsort(ops.mean(y, -1), -1)

    layer = layers.GRU(6, **SEQUENCES)
    layer.build((None, None, 4))
    return Made(call, [(None, None, 4)])


@model
def running() -> Made:
    def call(x: Any) -> Any:
        y = layer(x)
        sums = ops.cumsum(y, 1) / ops.cast(ops.arange(1, ops.shape(y)[1] + 1), "float32")[:, None]
        return ops.logsumexp(sums, 1), ops.roll(y, 1, 1), ops.flip(y, 1), ops.max(sums, 1)

    layer = layers.LSTM(6, **SEQUENCES)
    layer.build((None, None, 4))
    return Made(call, [(None, None, 4)])


@model
def last_by_length() -> Made:
    def call(x: Any, lengths: Any) -> Any:
        y = layer(x)
        last = tf.gather_nd(y, tf.stack([tf.range(tf.shape(y)[0]), lengths - 1], 1))
        mask = tf.sequence_mask(lengths, tf.shape(y)[1], tf.float32)
        mean = tf.reduce_sum(y * mask[..., None], 1) / tf.reduce_sum(mask, 1, keepdims=True)
        return last, mean

    layer = layers.GRU(6, **SEQUENCES)
    layer.build((None, None, 4))
    return Made(call, [(None, None, 4), (None,)], ["float32", "int32"])


@model
def framed() -> Made:
    """Frames of a wave, windowed."""

    def call(x: Any) -> Any:
        frames = tf.signal.frame(x, 16, 8) * tf.signal.hann_window(16)
        return layer(frames)

    layer = layers.GRU(6, **SEQUENCES)
    layer.build((None, None, 16))
    return Made(call, [(None, None)])


@model
def spectrum() -> Made:
    def call(x: Any) -> Any:
        return layer(tf.abs(tf.signal.stft(x, 16, 8, 16)))

    layer = layers.GRU(6, **SEQUENCES)
    layer.build((None, None, 9))
    return Made(call, [(None, 64)])


@model
def scanned() -> Made:
    """`tf.scan`: an exponential average, of which each step is an output."""

    def call(x: Any) -> Any:
        rows = tf.transpose(x, (1, 0, 2))
        return tf.scan(lambda h, row: 0.9 * h + 0.1 * tf.tanh(row), rows, tf.zeros_like(rows[0]))

    return Made(call, [(None, None, 4)])


@model
def folded() -> Made:
    def call(x: Any) -> Any:
        return tf.foldl(lambda h, row: tf.tanh(h + row), tf.transpose(x, (1, 0, 2)))

    return Made(call, [(None, None, 4)])


@model
def fori() -> Made:
    def call(x: Any) -> Any:
        return ops.fori_loop(0, ops.shape(x)[1], lambda t, h: ops.tanh(h + x[:, t]), x[:, 0] * 0)

    return Made(call, [(None, None, 4)])


@model
def chosen_by_mean() -> Made:
    def call(x: Any) -> Any:
        return ops.cond(ops.mean(x) > 0, lambda: layer(x), lambda: layer(-x) * 2)

    layer = layers.LSTM(6)
    layer.build((None, None, 4))
    return Made(call, [(None, None, 4)])


@model
def by_length() -> Made:
    """States and outputs by length, in a loop of TensorFlow over a TensorArray."""
    cell = layers.GRUCell(6)
    cell.build((None, 4))

    def call(x: Any, lengths: Any) -> Any:
        size, steps = tf.shape(x)[0], tf.shape(x)[1]
        rows = tf.TensorArray(tf.float32, steps)

        def step(t: Any, h: Any, rows: Any) -> Any:
            new, _ = cell(x[:, t], [h])
            on = (t < lengths)[:, None]
            return t + 1, tf.where(on, new, h), rows.write(t, tf.where(on, new, 0.0))

        starts = (0, tf.zeros((size, 6)), rows)
        shapes = (tf.TensorShape([]), tf.TensorShape([None, 6]), tf.TensorShape([]))
        _, h, rows = tf.while_loop(lambda t, h, rows: t < steps, step, starts, shapes)
        return tf.transpose(rows.stack(), (1, 0, 2)), h

    return Made(call, [(None, None, 4), (None,)], ["float32", "int32"])


if __name__ == "__main__":
    main()
