"""Elements that are stored narrow: read as the type that they are computed in, and back.

Floats of 16 bits are taken apart as integers, so that every machine gives the same bits: those of
machines that have instructions for them too, but for what a NaN holds beside its sign.
"""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.llvm.values import FLOAT, I16, I32, VALUE, Value, vector_type
from rnncc.ir.types import NARROW_FLOATS, WIDE

HALF_MOST, HALF_INFINITY, HALF_NAN = 0x47800000, 0x7C00, 0x7E00
"""The bits of 2^16 as a float32; of a float16's infinity and of its quiet NaN."""
HALF_LEAST = 0x38800000
"""The bits of 2^-14, the least normal float16, as a float32."""
MANTISSA = 13
"""Bits of a float32's mantissa that a float16 does not have."""
SAME = ("u64", "text")
"""Types whose bits are those of the type that they are read as."""
REBIASED = (127 - 15) << 23
"""What the exponents of both differ by, at a float32's place."""


def widened(b: ir.IRBuilder, x: Value, old: str, lanes: int, by_machine: bool = False) -> Value:
    """A narrow element as the type that it is computed in; exact.

    Args:
        by_machine: whether the machine converts float16.
    """
    if old in SAME:
        return x
    if old == "f16" and by_machine:
        half = b.bitcast(x, vector_type(ir.HalfType(), lanes))
        return b.fpext(half, vector_type(FLOAT, lanes))
    if old not in NARROW_FLOATS:
        extend = b.zext if old.startswith("u") else b.sext
        return extend(x, vector_type(VALUE[WIDE[old]], lanes))
    bits = _Bits(b, lanes)
    wide = b.zext(x, bits.integer)
    return bits.as_float(b.shl(wide, bits(16)) if old == "bf16" else _of_half(bits, wide))


def narrowed(b: ir.IRBuilder, x: Value, new: str, lanes: int, by_machine: bool = False) -> Value:
    """The opposite: an integer's lower bits; the nearest float, ties to even."""
    if new in SAME:
        return x
    if new == "f16" and by_machine:
        half = b.fptrunc(x, vector_type(ir.HalfType(), lanes))
        return b.bitcast(half, vector_type(I16, lanes))
    if new not in NARROW_FLOATS:
        return b.trunc(x, vector_type(VALUE[new], lanes))
    bits = _Bits(b, lanes)
    wide = b.bitcast(x, bits.integer)
    half = _to_bf16(bits, x, wide) if new == "bf16" else _to_half(bits, x, wide)
    return b.trunc(half, vector_type(I16, lanes))


class _Bits:
    """Constants and casts of vectors of 32 bits."""

    def __init__(self, b: ir.IRBuilder, lanes: int) -> None:
        self.b, self.lanes = b, lanes
        self.integer, self.float = vector_type(I32, lanes), vector_type(FLOAT, lanes)

    def __call__(self, value: int) -> Value:
        return ir.Constant(self.integer, value if self.lanes == 1 else [value] * self.lanes)

    def as_float(self, value: Value) -> Value:
        return self.b.bitcast(value, self.float)

    def as_integer(self, value: Value) -> Value:
        return self.b.bitcast(value, self.integer)


def _of_half(bits: _Bits, x: Value) -> Value:
    """Exponent and mantissa move to their places; what has no leading one loses a number added."""
    b = bits.b
    moved = b.shl(b.and_(x, bits(0x7FFF)), bits(MANTISSA))
    normal = b.add(moved, bits(REBIASED))
    beyond = b.add(normal, bits(REBIASED))  # inf and NaN: the largest exponent
    least = bits(HALF_LEAST)
    small = bits.as_integer(
        b.fsub(bits.as_float(b.add(moved, least)), bits.as_float(least))
    )  # mantissa / 2^24: exact
    exponent = b.and_(x, bits(HALF_INFINITY))
    magnitude = b.select(b.icmp_signed("==", exponent, bits(HALF_INFINITY)), beyond, normal)
    magnitude = b.select(b.icmp_signed("==", exponent, bits(0)), small, magnitude)
    return b.or_(magnitude, b.shl(b.and_(x, bits(0x8000)), bits(16)))


def _to_half(bits: _Bits, x: Value, wide: Value) -> Value:
    """Add half of what is lost, less one unless the last bit kept is odd; then shift."""
    b = bits.b
    sign = b.and_(b.lshr(wide, bits(16)), bits(0x8000))
    size = b.and_(wide, bits(0x7FFFFFFF))
    odd = b.and_(b.lshr(size, bits(MANTISSA)), bits(1))
    rounded = b.add(b.add(size, bits(0xFFF)), odd)
    normal = b.lshr(b.sub(rounded, bits(REBIASED)), bits(MANTISSA))
    # adding 2^(23 - 24) leaves the multiples of 2^-24 in the lowest bits, rounded by the machine
    half = bits(0x3F000000)
    shifted = b.fadd(bits.as_float(size), bits.as_float(half))
    small = b.sub(bits.as_integer(shifted), half)
    magnitude = b.select(b.icmp_signed("<", size, bits(HALF_LEAST)), small, normal)
    beyond = b.icmp_signed(">=", rounded, bits(HALF_MOST))
    magnitude = b.select(beyond, bits(HALF_INFINITY), magnitude)
    nan = b.fcmp_unordered("uno", x, x)
    return b.or_(b.select(nan, bits(HALF_NAN), magnitude), sign)


def _to_bf16(bits: _Bits, x: Value, wide: Value) -> Value:
    """As `rnncc.ir.precision.to_bf16`."""
    b = bits.b
    odd = b.and_(b.lshr(wide, bits(16)), bits(1))
    rounded = b.lshr(b.add(b.add(wide, bits(0x7FFF)), odd), bits(16))
    # Without that bit a NaN that loses all others would be infinity.
    quiet = b.or_(b.lshr(wide, bits(16)), bits(0x40))
    return b.select(b.fcmp_unordered("uno", x, x), quiet, rounded)
