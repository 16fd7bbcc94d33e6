"""Recurrent graphs of TensorFlow 1 by tf2onnx: `python tensorflow1_models.py FOLDER [NAME...]`.

It needs the packages tensorflow, tf_keras and tf2onnx, and imports nothing of rnncc. Loops are
those of frames (Enter, Switch, Exit), of which tf2onnx recognises some layers. Each becomes
`tf1_NAME.onnx` with random weights; `tf1_NAME.json` names its open sizes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
import tf2onnx

v1 = tf.compat.v1
v1.disable_v2_behavior()
nn, cells = v1.nn, v1.nn.rnn_cell

STEPS: list[int | None] = [None, None, 5]
MODELS: dict[str, tuple[Callable[..., Any], list[list[int | None]]]] = {}


def model(*shapes: list[int | None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function of sequences, and of lengths of one axis, to the list."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        MODELS[function.__name__] = function, list(shapes)
        return function

    return add


@model(STEPS)
def peepholes(x: Any) -> Any:
    return nn.dynamic_rnn(cells.LSTMCell(6, use_peepholes=True), x, dtype=tf.float32)


@model(STEPS, [None])
def gru_of_lengths(x: Any, lengths: Any) -> Any:
    return nn.dynamic_rnn(cells.GRUCell(6), x, sequence_length=lengths, dtype=tf.float32)


@model(STEPS, [None])
def lstm_of_lengths(x: Any, lengths: Any) -> Any:
    return nn.dynamic_rnn(cells.BasicLSTMCell(6), x, sequence_length=lengths, dtype=tf.float32)


@model(STEPS)
def of_two_kinds(x: Any) -> Any:
    pair = cells.LSTMCell(6), cells.GRUCell(4)
    return tf.concat(nn.bidirectional_dynamic_rnn(*pair, x, dtype=tf.float32)[0], 2)


@model(STEPS, [None])
def both_of_lengths(x: Any, lengths: Any) -> Any:
    pair = cells.LSTMCell(6), cells.LSTMCell(6)
    return nn.bidirectional_dynamic_rnn(*pair, x, sequence_length=lengths, dtype=tf.float32)


@model(STEPS)
def several_layers(x: Any) -> Any:
    residual = cells.ResidualWrapper(cells.GRUCell(4))
    stack = [cells.LSTMCell(6, num_proj=4), residual, cells.BasicRNNCell(3)]
    return nn.dynamic_rnn(cells.MultiRNNCell(stack), x, dtype=tf.float32)[0]


@model([None, 4, 5])
def unrolled(x: Any) -> Any:
    rows, state = nn.static_rnn(cells.BasicLSTMCell(6), tf.unstack(x, axis=1), dtype=tf.float32)
    return tf.stack(rows, 1), state.h


@model([None, None, 5])
def time_first(x: Any) -> Any:
    return nn.dynamic_rnn(cells.GRUCell(6), x, time_major=True, dtype=tf.float32)


@model(STEPS)
def own_loop(x: Any) -> Any:
    weights = tf.constant(0.3 * np.random.default_rng(0).standard_normal((11, 6)), tf.float32)
    steps = tf.shape(x)[1]

    def step(t: Any, h: Any, rows: Any) -> Any:
        h = tf.tanh(tf.concat([x[:, t], h], 1) @ weights)
        return t + 1, h, rows.write(t, h)

    rows = tf.TensorArray(tf.float32, steps, element_shape=[None, 6])
    start = [0, tf.zeros([tf.shape(x)[0], 6]), rows]
    return tf.transpose(v1.while_loop(lambda t, *_: t < steps, step, start)[2].stack(), [1, 0, 2])


def write(name: str, folder: Path) -> None:
    """Write a model."""
    function, shapes = MODELS[name]
    kinds = [tf.float32 if len(shape) > 1 else tf.int32 for shape in shapes]
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.set_random_seed(1)
        inputs = [
            v1.placeholder(kind, shape, name=f"x{at}")
            for at, (kind, shape) in enumerate(zip(kinds, shapes, strict=True))
        ]
        results = tf.nest.flatten(function(*inputs))
        outputs = [tf.identity(value, name=f"y{at}") for at, value in enumerate(results)]
        session.run(v1.global_variables_initializer())
        names = [value.op.name for value in outputs]
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
    path = folder / f"tf1_{name}.onnx"
    tf2onnx.convert.from_graph_def(
        frozen,
        input_names=[value.name for value in inputs],
        output_names=[value.name for value in outputs],
        opset=18,
        output_path=str(path),
    )
    beside = {
        "shapes": {
            value.name: [size or "NT"[axis] for axis, size in enumerate(shape)]
            for value, shape in zip(inputs, shapes, strict=True)
        },
        "integers": {value.name: (1, 6) for value in inputs},
    }
    path.with_suffix(".json").write_text(json.dumps(beside))


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or MODELS:
        write(name, Path(folder))
        print(name, flush=True)


if __name__ == "__main__":
    main()
