"""Constants that layers multiply with and add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node
from rnncc.frontends.onnx.values import Value


def weights(n: Node, index: int, dtypes: Sequence[str] = FLOATS) -> SSAValue:
    """An input of a layer; where it is a constant, its denormal numbers are zeros.

    Weight decay leaves such numbers in channels that have died. A layer's result changes by less
    than the smallest normal number for each, and processors take a hundred times as long for what
    is computed with them.
    """
    n.inputs[index] = _without_denormals(n, n.value(index))
    return n.x(index, dtypes)


def maybe_weights(n: Node, index: int) -> SSAValue | None:
    """The same of an input that may be missing."""
    return weights(n, index) if n.has(index) else None


def _without_denormals(n: Node, value: Value) -> Value:
    array, weights = value.numbers, n.scope.model.weights
    if array is None or value.dtype not in ("f32", "f64"):
        return value
    if value not in weights:
        denormal = (np.abs(array) < np.finfo(array.dtype).tiny) & (array != 0)
        whole = not denormal.any()
        weights[value] = value if whole else Value.of(np.where(denormal, 0, array), value.name)
    return weights[value]
