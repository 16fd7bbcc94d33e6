"""Optional values, of which is known at import whether they have an element."""

from __future__ import annotations

import numpy as np

from rnncc.frontends.onnx.lists import Nothing
from rnncc.frontends.onnx.node import Node, OnnxOperator
from rnncc.frontends.onnx.values import Array, Value


def _optional(n: Node) -> Value:
    """An optional value: of X, or of nothing."""
    return n.value(0) if n.has(0) else Nothing()


def _has_element(n: Node) -> Array:
    """Whether an optional value has an element."""
    return np.array(n.has(0) and not isinstance(n.value(0), Nothing))


def _get_element(n: Node) -> Value:
    """The element of an optional value."""
    value = n.value(0)
    if isinstance(value, Nothing):
        raise n.error("takes the element of an optional value that has none")
    return value


OPERATORS: dict[str, OnnxOperator] = {
    "Optional": OnnxOperator(_optional),
    "OptionalHasElement": OnnxOperator(_has_element),
    "OptionalGetElement": OnnxOperator(_get_element),
}
