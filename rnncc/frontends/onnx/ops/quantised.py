"""Weights held as whole numbers, which become floats again at import."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import FLOATS, Node, Operator
from rnncc.frontends.onnx.ops.recurrent import LstmLayer, Stacked
from rnncc.frontends.onnx.values import Array, Value
from rnncc.ir.types import shape_text


def _dequantise(n: Node) -> SSAValue:
    """(X - zero point) · scale, of constants.

    Refused: X that is computed at run time.
    """
    raise n.unsupported("of computed elements is not supported")


def _fold_dequantise(n: Node, arrays: list[Array]) -> Array:
    x, scale = arrays[0], arrays[1]
    zero = arrays[2] if len(arrays) > 2 and n.has(2) else np.zeros((), np.int32)
    block = n.integer("block_size", 0) if n.opset >= 21 else 0
    axis = n.axis(n.integer("axis", 1), x.ndim) if x.ndim and scale.size > 1 else 0
    if not _fits(x, scale, axis, block) or zero.shape not in ((), scale.shape):
        shapes = ", ".join(shape_text(value.dims) for value in n.inputs if value is not None)
        raise n.error(f"has data, scale and zero point of shapes {shapes}")
    if block:
        scale, zero = (np.repeat(a, block, axis) if a.ndim else a for a in (scale, zero))
        whole = (*[slice(None)] * axis, slice(x.shape[axis]))
        scale, zero = (a[whole] if a.ndim else a for a in (scale, zero))
    elif scale.ndim == 1 and scale.size != 1:
        wide = [1] * x.ndim
        wide[axis] = scale.size
        scale, zero = (a.reshape(wide) if a.size > 1 else a for a in (scale, zero))
    return _as_floats(x, zero, scale).astype(scale.dtype)


def _fits(x: Array, scale: Array, axis: int, block: int) -> bool:
    """Whether there is one scale for all, one a row along an axis, or one a block of rows."""
    if block < 0 or (block and scale.ndim not in (0, x.ndim)):
        return False
    if block and scale.ndim:
        rows = -(-x.shape[axis] // block)
        return scale.shape == (*x.shape[:axis], rows, *x.shape[axis + 1 :])
    return scale.size == 1 or (x.ndim > 0 and scale.shape == (x.shape[axis],))


def _as_floats(x: Array, zero: Array, scale: Array) -> Array:
    return (x.astype(np.int64) - zero.astype(np.int64)).astype(np.float32) * scale


def _weights(n: Node, index: int, scale: int) -> Value:
    """[directions, I, 4H] of whole numbers as [directions, 4H, I] of floats."""
    x, factors = n.numbers(index), n.numbers(scale).astype(np.float32)
    zero = n.numbers(scale + 1) if n.has(scale + 1) else np.zeros_like(factors, np.int32)
    shapes = [] if x.ndim != 3 else [(), (x.shape[0],), (x.shape[0], x.shape[2])]
    if factors.shape not in shapes or x.dtype.kind not in "iu" or factors.shape != zero.shape:
        raise n.error("has weights that are no whole numbers with a scale and a zero point each")
    wide = [a.reshape(a.shape[0], 1, -1) if a.ndim else a for a in (zero, factors)]
    return Value.of(np.ascontiguousarray(_as_floats(x, *wide).swapaxes(1, 2)), n.op.input[index])


def _dynamic_quantize_lstm(n: Node) -> list[SSAValue]:
    """LSTM with weights of whole numbers. They become floats again at import, and X and H stay as
    they are, so that results are nearer to those of the net before it was quantised.

    Refused: weights that are not constants.
    """
    w, r = (n.scope.ssa(_weights(n, *at)) for at in ((1, 8), (2, 10)))
    return LstmLayer(n, Stacked(w, r, n.maybe(3, FLOATS))).run()


OPERATORS: dict[str, Operator] = {
    "DequantizeLinear": Operator(_dequantise, _fold_dequantise),
    "com.microsoft.DynamicQuantizeLSTM": Operator(_dynamic_quantize_lstm),
}
