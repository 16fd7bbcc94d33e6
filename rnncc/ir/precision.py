"""What low precision means, in NumPy: weights as bf16, weights and rows as integers.

Used to pack weights at compile time, and as the meaning of products in the kern interpreter.
"""

from __future__ import annotations

import numpy as np

from rnncc.arrays import Array
from rnncc.ir.types import NARROW_FLOATS

MOST = 127
"""The largest integer of a row or of a unit's weights; the smallest is its opposite."""
LEAST = np.float32(2.0**-100)
"""Rows whose values are all smaller count as zero: 127 / max would not be finite for some."""
MOST_DEPTH = 1 << 17
"""Sums of more products of integers may not fit into 32 bits; those stay fp32."""


def to_bf16(x: Array) -> Array:
    """The bits of the nearest bf16, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32, order="C").view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
    nan = np.isnan(x)
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_bf16(bits: Array) -> Array:
    """The float32 values of bf16 bits, exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(x: Array) -> Array:
    """The nearest bf16 of each value, as float32: what products of bf16 multiply.

    Their sums are float32's. So are products of gradients, with rounded gradients by rounded
    weights, and rounded rows by rounded gradients; rounding itself counts as no function there.
    """
    return from_bf16(to_bf16(x))


def stored_bits(value: float, dtype: str) -> int:
    """A number of a type other than f32 as the integer that code holds: of floats, their bits."""
    if dtype not in NARROW_FLOATS:
        return int(value)
    number = np.array(value, np.float32)
    with np.errstate(over="ignore"):
        return int(number.astype(np.float16).view(np.uint16) if dtype == "f16" else to_bf16(number))


def quantise_units(weights: Array) -> tuple[Array, Array]:
    """Integers for [units, depth] weights as int8, and each unit's scale: max / 127.

    A unit that holds inf or NaN gets the scale NaN.
    """
    return _quantise(weights, np.int8)


def quantise_rows(a: Array) -> tuple[Array, Array]:
    """Integers for rows along the last axis as int32, and each row's scale: max / 127.

    A row that holds inf or NaN gets the scale NaN; one without a value of at least 2^-100 zeros.
    """
    return _quantise(a, np.int32)


def _quantise(a: Array, dtype: type[np.integer]) -> tuple[Array, Array]:
    a = np.asarray(a, np.float32)
    most = np.abs(a).max(axis=-1, initial=0.0)
    finite = np.isfinite(most)
    usable = finite & (most >= LEAST)
    factor = np.divide(np.float32(MOST), most, out=np.zeros_like(most), where=usable)
    whole = np.rint(np.where(usable[..., None], a, 0) * factor[..., None])
    scale = np.where(finite, most / np.float32(MOST), np.float32(np.nan))
    return whole.astype(dtype), scale.astype(np.float32)


def integer_product(a: Array, b: Array) -> Array:
    """Products of matrices of int8, or of as small numbers, as int32: modulo 2^32."""
    exact = a.astype(np.float64) @ b.astype(np.float64)  # up to a depth of 2^39, in any order
    return exact.astype(np.int64).astype(np.int32)


def scaled_product(a: Array, weights: Array, scales: Array) -> Array:
    """Rows by whole weights [units, depth]: each sum times its row's scale, then its unit's."""
    whole, row_scales = quantise_rows(a)
    return integer_product(whole, weights.T).astype(np.float32) * row_scales[..., None] * scales
