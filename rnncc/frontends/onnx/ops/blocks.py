"""Weights in blocks of 2, 4 or 8 bits, or of codes, with a scale each: float32 at import."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import SINGLE, Node, OnnxOperator, contributed
from rnncc.frontends.onnx.ops.indexing import gathered
from rnncc.frontends.onnx.values import Array, Value
from rnncc.nn.linear import matmul

BITS = (4, 8)
FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""What codes of a sign and three bits stand for, those of positive sign."""
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Means of sixteenths of a normal distribution, as scaled to its largest."""
CODES = (np.array([*FP4, *(-x for x in FP4)], np.float32), np.array(NF4, np.float32))
"""By `quant_type`."""


def _matmul_bits(n: Node) -> SSAValue:
    """A Bᵀ + bias, B being [N, blocks, bytes] numbers of 2, 4 or 8 bits with a scale for each
    block, or with that of the block that an order of A's columns says.

    Refused: B, scales, zero points or an order that are computed; an order of numbers of 2 bits, or
    with zero points of bytes, which ONNX Runtime reads otherwise.
    """
    rows, depth = n.integer("N"), n.integer("K")
    bits, size = n.integer("bits", 4), n.integer("block_size")
    if bits not in (2, *BITS) or size < 16 or size & (size - 1):
        raise n.unsupported(f"has blocks of {size} numbers of {bits} bits")
    blocks = -(-depth // size)
    numbers = _unpacked(n.numbers(1).reshape(-1), bits)
    if numbers.size != rows * blocks * size:
        raise n.error(f"has {numbers.size} numbers for {rows} rows of {blocks} blocks of {size}")
    block = _blocks_of_columns(n, depth, blocks, size)
    zero = _block_zeros(n, rows, blocks, bits)[:, block]
    scales = n.numbers(2).astype(np.float32).reshape(rows, blocks)[:, block]
    floats = (numbers.reshape(rows, -1)[:, :depth].astype(np.float32) - zero) * scales
    constant = Value.of(np.ascontiguousarray(floats.T), n.op.input[1])
    return n.plus(matmul(n.b, n.x(0, SINGLE), n.scope.ssa(constant)), 5)


def _blocks_of_columns(n: Node, depth: int, blocks: int, size: int) -> Array:
    """Of which block the scale of each column is."""
    if not n.has(4):
        return np.arange(depth) // size
    if n.integer("bits", 4) == 2 or (n.has(3) and n.value(3).dtype == "u8"):
        raise n.unsupported("has an order of numbers of 2 bits, or one beside zero points of bytes")
    order = n.numbers(4).reshape(-1)[:depth]
    if len(order) != depth or order.min() < 0 or order.max() >= blocks:
        raise n.error(f"has an order of {len(order)} columns for {depth} in {blocks} blocks")
    return order


def _block_zeros(n: Node, rows: int, blocks: int, bits: int) -> Array:
    """Zero points [rows, blocks]: the middle where none are given."""
    if not n.has(3):
        return np.full((rows, blocks), 1 << (bits - 1), np.float32)
    zeros = n.numbers(3)
    if zeros.dtype.kind == "f":
        return zeros.astype(np.float32).reshape(rows, blocks)
    return _unpacked(zeros.reshape(rows, -1), bits)[:, :blocks].astype(np.float32)


def _matmul_codes(n: Node) -> SSAValue:
    """A Bᵀ, B being [N, K] codes of 4 bits, FP4 or NF4, with a scale for each block of them.

    Refused: B or scales that are computed; A transposed.
    """
    rows, depth, size = n.integer("N"), n.integer("K"), n.integer("block_size")
    kind = n.integer("quant_type")
    if kind not in range(len(CODES)) or min(rows, depth, size) < 1 or not n.integer("transB", 1):
        raise n.unsupported(f"has blocks of {size} codes of kind {kind}")
    packed, scales = n.numbers(1).reshape(-1), n.numbers(2).astype(np.float32).reshape(-1)
    count = rows * depth
    if packed.dtype != np.uint8 or packed.size != -(-count // 2):
        raise n.error(f"has {packed.size} bytes for {rows} rows of {depth} codes")
    if scales.size != -(-count // size):
        raise n.error(f"has {scales.size} scales for {count} codes in blocks of {size}")
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[:count]
    floats = CODES[kind][codes] * np.repeat(scales, size)[:count]
    weights = np.ascontiguousarray(floats.reshape(rows, depth).T)
    return matmul(n.b, n.x(0, SINGLE), n.scope.ssa(Value.of(weights, n.op.input[1])))


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
    """Bytes as numbers of so many bits, the lowest first."""
    parts = [packed >> at & (1 << bits) - 1 for at in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


OPERATORS: dict[str, OnnxOperator] = {
    "com.microsoft.MatMulNBits": contributed(
        _matmul_bits,
        "A B scales zero_points? g_idx? bias?",
        "K:i! N:i! accuracy_level:i bits:i block_size:i! weight_prepacked:i",
    ),
    "com.microsoft.MatMulBnb4": contributed(
        _matmul_codes,
        "A B absmax",
        "K:i! N:i! block_size:i! quant_type:i! training_mode:i transB:i",
    ),
    "com.microsoft.GatherBlockQuantized": contributed(
        _gather_blocks,
        "data indices scales zero_points?",
        "bits:i block_size:i gather_axis:i quantize_axis:i",
    ),
}
