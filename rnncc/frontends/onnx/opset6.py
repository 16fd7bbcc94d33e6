"""What opset 6 says otherwise than opset 7: which axes are broadcast, and training mode."""

from __future__ import annotations

from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.reading import plain_domain
from rnncc.frontends.onnx.values import Dims, Value
from rnncc.ir.dims import Dim
from rnncc.ir.types import shape_text

_BINARY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_TRAINED = ("BatchNormalization", "Dropout")


def read_as_7(n: Node) -> None:
    """Give a node of opset 6 the inputs that it would have in opset 7.

    Raises:
        CompileError: shapes differ, and the node does not say that they are broadcast.
        Unsupported: it is in training mode.
    """
    name = n.op.op_type
    if n.opset > 6 or plain_domain(n.op.domain):
        return
    if name in _TRAINED and not n.flag("is_test"):
        raise n.unsupported("is in training mode (is_test is 0)")
    if name == "Upsample":
        raise n.unsupported("is of opset 6", "onnx.version_converter changes it")
    if name == "PRelu" and n.value(1).rank == 1 and n.value(0).rank > 1:
        n.inputs[1] = _aligned(n, 0 if n.dims(1) == (1,) else 1)
    if name not in _BINARY:
        return
    if n.flag("broadcast"):
        n.inputs[1] = _aligned(n, n.integer("axis", n.value(0).rank - n.value(1).rank))
    elif n.dims(0) != n.dims(1):
        shapes = " and ".join(shape_text(n.dims(index)) for index in (0, 1))
        raise n.error(f"has operands of shapes {shapes}, and broadcast is 0")


def _aligned(n: Node, axis: int) -> Value:
    """The second operand, whose first axis is one of the first's, with axes of one behind."""
    rank, value = n.value(0).rank, n.value(1)
    behind = rank - (axis + rank if axis < 0 else axis) - value.rank
    if not 0 <= behind <= rank - value.rank:
        raise n.error(f"has axis {axis}, from which on {value.rank} of {rank} axes do not fit")
    dims: Dims = (*value.dims, *[Dim.of(1)] * behind)
    if value.known is not None:
        return Value.of(value.known.reshape((*value.known.shape, *[1] * behind)), dtype=value.dtype)
    return Value(value.dtype, dims, made=n.b.reshape(n.x(1), dims))
