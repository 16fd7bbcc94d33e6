"""Models whose results have as many rows as the run decides, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

import rnncc
from rnncc.ir.interpreter import run
from tests.frontends.onnx.models import assert_close, by_onnxruntime, imported
from tests.golden import Arrays


def compared(made: Any, calls: list[Arrays], **options: Any) -> None:
    """By ONNX Runtime, the interpreter and machine code, which tell the number of rows besides."""
    compiled, program = rnncc.compile(made, **options), imported(made, **options)
    for inputs in calls:
        want = by_onnxruntime(made, inputs)
        for got in (compiled.run(inputs), run(program, inputs)):
            assert_close({name: got[name] for name in want}, want)


def flags(*numbers: int) -> Any:
    return np.array(numbers, bool)


def rows(count: int, size: int = 4) -> Any:
    return np.random.default_rng(count).standard_normal((count, size)).astype(np.float32)
