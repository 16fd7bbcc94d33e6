"""Constants, and tensors of one number."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.counts import counted_shape
from rnncc.frontends.onnx.counted.decided import decided_sizes, settled
from rnncc.frontends.onnx.counted.rows import Partial
from rnncc.frontends.onnx.node import STORED, TEXT, Node, OnnxOperator
from rnncc.frontends.onnx.texts import texts_of
from rnncc.frontends.onnx.values import Value, name_of

SMALL = 1 << 20
"""Up to so many elements a constant of known shape is numbers; a larger one is a fill."""


def _constant(n: Node) -> Value:
    """The numbers or texts of an attribute."""
    for name, kind in (("value_int", np.int64), ("value_float", np.float32)):
        if n.given(name):
            number = n.integer(name) if kind is np.int64 else n.real(name)
            return Value.of(np.array(number, kind))
    if n.given("value_ints"):
        return Value.of(np.array(n.integers("value_ints"), np.int64))
    if n.given("value_floats"):
        return Value.of(np.array(n.reals("value_floats"), np.float32))
    if n.given("sparse_value"):
        return Value.of(n.dense("sparse_value"), n.op.output[0])
    if n.given("value_string"):
        return Value.of(texts_of([n.text("value_string")], ()))
    if n.given("value_strings"):
        return Value.of(texts_of(n.texts("value_strings")))
    return Value.of(n.tensor("value"), n.op.output[0])


def _constant_of_shape(n: Node) -> SSAValue | Value:
    """One number everywhere.

    Refused: a shape that is computed at run time, but of sizes that must be those of something
    else, or one that counts rows.
    """
    value = n.tensor("value") if n.given("value") else np.zeros(1, np.float32)
    if value.size != 1:
        raise n.error(f"attribute 'value' holds {value.size} numbers, not one")
    number, dtype = value.reshape(()), name_of(value.dtype)
    if dtype in STORED and (counted := counted_shape(n, 0)):
        tensor = Value.computed(n.everywhere(number, counted.dims))
        return Partial.counted(tensor, counted.axis, counted.count)
    decided = decided_sizes(n, 0)
    dims = n.sizes(0) if decided is None else decided
    if any(d.is_static and int(d) < 0 for d in dims):
        raise n.error(f"asks for the shape {', '.join(str(d) for d in dims)}")
    if all(d.is_static for d in dims) and prod(int(d) for d in dims) <= SMALL:
        return Value.of(np.full([int(d) for d in dims], number))
    if dtype not in STORED:
        raise n.unsupported(f"makes {TEXT.get(dtype, dtype)}, which is not supported")
    tensor = n.everywhere(number, dims)
    return tensor if decided is None else settled(n, 0, tensor)


OPERATORS: dict[str, OnnxOperator] = {
    "Constant": OnnxOperator(_constant),
    "ConstantOfShape": OnnxOperator(_constant_of_shape),
}
