"""The models of `keras_models.py` by TensorFlow Lite: `python tflite_models.py FOLDER [NAME...]`.

TensorFlow Lite's converter fuses and folds in its own way, and tf2onnx reads what it wrote. Open
sizes become numbers, as its converter wants them. Names of an odd length get weights of 8 bits with
ranges that are measured at run time. It needs what `keras_models.py` needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import keras_models  # the file beside this one
import tensorflow as tf
import tf2onnx
from tensorflow.python.framework import convert_to_constants

BATCH, OTHER = 2, 9
"""What open sizes become."""
NEITHER = ("dropout", "greedy_decoder")
"""What TensorFlow Lite's converter refuses."""


def _fixed(shape: keras_models.Shape) -> list[int]:
    return [size or (OTHER if axis else BATCH) for axis, size in enumerate(shape)]


def write(name: str, folder: Path) -> None:
    made = keras_models.MODELS[name]()
    dtypes = made.dtypes or ["float32"] * len(made.inputs)
    signature = [
        tf.TensorSpec(
            [size or (OTHER if axis else BATCH) for axis, size in enumerate(shape)], dtype
        )
        for shape, dtype in zip(made.inputs, dtypes, strict=True)
    ]
    several = len(signature) > 1 and isinstance(made.call, keras.Model)
    function = tf.function(lambda *xs: made.call(list(xs)) if several else made.call(*xs))
    concrete = function.get_concrete_function(*signature)
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if len(name) % 2:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path = folder / f"tflite_{name}.tflite"
    path.write_bytes(converter.convert())
    tf2onnx.convert.from_tflite(str(path), opset=15, output_path=str(path.with_suffix(".onnx")))
    path.unlink()


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names or keras_models.MODELS:
        if name not in NEITHER:
            write(name, Path(folder))
            print(name, flush=True)


if __name__ == "__main__":
    main()
