"""Weights in blocks of 4 or 8 bits with a scale each, which become float32 at import."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import SINGLE, Node, OnnxOperator
from rnncc.frontends.onnx.ops.indexing import gathered
from rnncc.frontends.onnx.values import Array, Value
from rnncc.nn.linear import matmul

BITS = (4, 8)


def _matmul_bits(n: Node) -> SSAValue:
    """A Bᵀ + bias, B being [N, blocks, bytes] numbers of 4 or 8 bits with a scale for each block.

    Refused: B, scales or zero points that are computed; rows of B in another order.
    """
    rows, depth = n.integer("N"), n.integer("K")
    bits, size = n.integer("bits", 4), n.integer("block_size")
    if bits not in BITS or n.has(4) or size < 16 or size & (size - 1):
        raise n.unsupported(f"has blocks of {size} numbers of {bits} bits, or an order of them")
    blocks = -(-depth // size)
    numbers = _unpacked(n.numbers(1).reshape(-1), bits)
    if numbers.size != rows * blocks * size:
        raise n.error(f"has {numbers.size} numbers for {rows} rows of {blocks} blocks of {size}")
    zero = _block_zeros(n, rows, blocks, bits)
    scales = n.numbers(2).astype(np.float32).reshape(rows, blocks, 1)
    floats = (numbers.reshape(rows, blocks, size).astype(np.float32) - zero) * scales
    weights = floats.reshape(rows, blocks * size)[:, :depth].T
    constant = Value.of(np.ascontiguousarray(weights), n.op.input[1])
    return n.plus(matmul(n.b, n.x(0, SINGLE), n.scope.ssa(constant)), 5)


def _block_zeros(n: Node, rows: int, blocks: int, bits: int) -> Array:
    """Zero points [rows, blocks, 1]: the middle where none are given."""
    if not n.has(3):
        return np.full((rows, blocks, 1), 1 << (bits - 1), np.float32)
    zeros = n.numbers(3)
    if zeros.dtype.kind == "f":
        return zeros.astype(np.float32).reshape(rows, blocks, 1)
    each = _unpacked(zeros.reshape(rows, -1), bits)
    return each[:, :blocks].astype(np.float32).reshape(rows, blocks, 1)


def _gather_blocks(n: Node) -> SSAValue:
    """Rows along an axis, by number, of what numbers of 4 or 8 bits with a scale for each block
    along another axis stand for.

    Refused: data, scales or zero points that are computed; numbers other than uint4, int4, uint8.
    """
    numbers, bits = n.numbers(0), n.integer("bits", 4)
    packed = n.value(0).dtype == "u8"
    if bits not in BITS or n.value(0).dtype not in ("uint4", "int4", "u8"):
        raise n.unsupported(f"has numbers of {bits} bits as {n.value(0).dtype}")
    size, middle = n.integer("block_size", 128), 1 << (bits - 1) if packed else 0
    zero = n.numbers(3) if n.has(3) else np.full((), middle, np.uint8)
    if packed:
        numbers, zero = (_unpacked(a, bits) if a.ndim else a for a in (numbers, zero))
    axis = n.axis(n.integer("quantize_axis", 1), numbers.ndim)
    scales = n.numbers(2)
    blocks = [-(-d // size) if a == axis else d for a, d in enumerate(numbers.shape)]
    whole = (*[slice(None)] * axis, slice(numbers.shape[axis]))
    zero = zero[(*[slice(None)] * axis, slice(blocks[axis]))] if zero.ndim else zero
    if list(scales.shape) != blocks or zero.shape not in ((), scales.shape):
        what = f"has scales {scales.shape} and zero points {zero.shape} for data {numbers.shape}"
        raise n.error(what)
    scales, zero = (
        np.repeat(a.astype(np.float32), size, axis)[whole] if a.ndim else a for a in (scales, zero)
    )
    floats = (numbers.astype(np.float32) - zero) * scales
    table = n.scope.ssa(Value.of(floats.astype(np.float32), n.op.input[0]))
    return n.b.cast(gathered(n, table, n.axis(n.integer("gather_axis", 0), numbers.ndim)), "f32")


def _unpacked(packed: Array, bits: int) -> Array:
    """Bytes as numbers of 4 bits, the lower half first; or of 8, as they are."""
    if bits == 8:
        return packed
    halves = np.stack([packed & 15, packed >> 4], axis=-1)
    return halves.reshape(*packed.shape[:-1], -1)


OPERATORS: dict[str, OnnxOperator] = {
    "com.microsoft.MatMulNBits": OnnxOperator(_matmul_bits),
    "com.microsoft.GatherBlockQuantized": OnnxOperator(_gather_blocks),
}
