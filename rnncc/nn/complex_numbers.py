"""Complex numbers as pairs of floats, with gradients by the convention of real pairs.

The gradient of a real loss L with respect to z = x + iy is ∂L/∂x + i ∂L/∂y, the conjugate of the
Wirtinger derivative's double, as in PyTorch: it follows from the formulas of the parts alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of, dtype_of
from rnncc.nn.angles import atan2, cosh, sinh
from rnncc.nn.arithmetic import has_sign, hypotenuse, negative, times, with_sign
from rnncc.nn.axes import cut
from rnncc.nn.linear import matmul
from rnncc.records import record


@record
class Complex:
    """re + i · im, of one shape and element type."""

    re: SSAValue
    im: SSAValue


def unpacked(b: Builder, x: SSAValue) -> Complex:
    """From a tensor whose last axis holds the two parts."""
    *dims, _ = dims_of(x)
    parts = (b.reshape(b.slice(x, len(dims), k, 1), dims) for k in range(2))
    return Complex(*parts)


def packed(b: Builder, z: Complex) -> SSAValue:
    """A tensor whose last axis holds the two parts."""
    dims = dims_of(z.re)
    parts = [b.reshape(part, (*dims, 1)) for part in (z.re, z.im)]
    return b.concat(parts, len(dims))


def conjugate(b: Builder, z: Complex) -> Complex:
    """re - i · im"""
    return Complex(z.re, negative(b, z.im))


def multiply(b: Builder, z: Complex, w: Complex) -> Complex:
    """z · w"""
    re = b.sub(b.mul(z.re, w.re), b.mul(z.im, w.im))
    return Complex(re, b.add(b.mul(z.re, w.im), b.mul(z.im, w.re)))


def divide(b: Builder, z: Complex, w: Complex) -> Complex:
    """z / w, with w's larger part as the unit, so that no square overflows."""
    unit = b.stop_gradient(b.maximum(b.abs(w.re), b.abs(w.im)))
    re, im = b.div(w.re, unit), b.div(w.im, unit)
    size = b.add(b.mul(w.re, re), b.mul(w.im, im))
    numerator = multiply(b, z, Complex(re, negative(b, im)))
    return Complex(b.div(numerator.re, size), b.div(numerator.im, size))


def absolute(b: Builder, z: Complex) -> SSAValue:
    """|z|; flat at 0"""
    return hypotenuse(b, z.re, z.im)


def angle(b: Builder, z: Complex) -> SSAValue:
    """From -π to π; flat at 0"""
    return atan2(b, z.im, z.re)


def polar(b: Builder, size: SSAValue, turn: SSAValue) -> Complex:
    """The number of a size and an angle."""
    return Complex(b.mul(size, b.cos(turn)), b.mul(size, b.sin(turn)))


def exp(b: Builder, z: Complex) -> Complex:
    """e^re · (cos im + i sin im)"""
    return polar(b, b.exp(z.re), z.im)


def log(b: Builder, z: Complex) -> Complex:
    """ln |z| + i · angle, the principal value"""
    return Complex(b.log(absolute(b, z)), angle(b, z))


def sqrt(b: Builder, z: Complex) -> Complex:
    """The root with re ≥ 0: the part that no difference makes small, and the other from it."""
    large = b.sqrt(times(b, b.add(absolute(b, z), b.abs(z.re)), 0.5))
    none = b.compare("eq", large, b.full_like(large, 0.0))
    divisor = b.select(none, b.full_like(large, 1.0), times(b, large, 2.0))
    small = b.div(b.abs(z.im), divisor)
    behind = has_sign(b, b.stop_gradient(z.re))
    return Complex(
        b.select(behind, small, large), with_sign(b, b.select(behind, large, small), z.im)
    )


def power(b: Builder, z: Complex, exponent: Complex | float) -> Complex:
    """z^exponent: by products for a small whole exponent, by the root for half of one, else

    e^(exponent · ln z); 0 to a power whose real part is above 0 is 0, and flat there.
    """
    if isinstance(exponent, Complex):
        above = b.compare("gt", exponent.re, b.full_like(exponent.re, 0.0))
        return _by_logarithm(b, z, above, lambda log: multiply(b, exponent, log))
    if exponent == 0:
        return one_like(b, z)
    if abs(exponent) == 0.5:
        root = sqrt(b, z)
        return root if exponent > 0 else divide(b, one_like(b, z), root)
    if 0 < abs(exponent) <= 64 and exponent == int(exponent):
        magnitude_power = _integer_power(b, z, int(abs(exponent)))
        return magnitude_power if exponent > 0 else divide(b, one_like(b, z), magnitude_power)
    above = b.fill(exponent > 0, (), "i1")
    return _by_logarithm(
        b, z, above, lambda log: Complex(times(b, log.re, exponent), times(b, log.im, exponent))
    )


def _by_logarithm(
    b: Builder, z: Complex, above: SSAValue, raised: Callable[[Complex], Complex]
) -> Complex:
    """e^raised(ln z); 0 where z is 0 and its exponent's real part above 0."""
    zeros = (b.compare("eq", part, b.full_like(part, 0.0)) for part in (z.re, z.im))
    none = b.logical("and", b.logical("and", *zeros), above)
    # the logarithm of 0 and its slope are infinite, which 0 times them makes NaN
    power = exp(b, raised(log(b, Complex(b.select(none, b.full_like(z.re, 1.0), z.re), z.im))))
    return Complex(*(b.select(none, b.full_like(x, 0.0), x) for x in (power.re, power.im)))


def _integer_power(b: Builder, z: Complex, exponent: int) -> Complex:
    if exponent == 1:
        return z
    half = _integer_power(b, z, exponent // 2)
    square = multiply(b, half, half)
    return multiply(b, square, z) if exponent % 2 else square


def one_like(b: Builder, z: Complex) -> Complex:
    """1 in the shape of z"""
    return Complex(b.full_like(z.re, 1.0), b.full_like(z.re, 0.0))


def sin(b: Builder, z: Complex) -> Complex:
    """sin re · cosh im + i · cos re · sinh im"""
    re = b.mul(b.sin(z.re), cosh(b, z.im))
    return Complex(re, b.mul(b.cos(z.re), sinh(b, z.im)))


def cos(b: Builder, z: Complex) -> Complex:
    """cos re · cosh im - i · sin re · sinh im"""
    re = b.mul(b.cos(z.re), cosh(b, z.im))
    return Complex(re, negative(b, b.mul(b.sin(z.re), sinh(b, z.im))))


def tanh(b: Builder, z: Complex) -> Complex:
    """(t + i · s · c · (1 - t²)) / (c² + t² · s²) for t = tanh re, s = sin im and c = cos im"""
    t, s, c = b.tanh(z.re), b.sin(z.im), b.cos(z.im)
    square = b.mul(t, t)
    size = b.add(b.mul(c, c), b.mul(square, b.mul(s, s)))
    im = b.mul(b.mul(s, c), b.sub(b.full_like(square, 1.0), square))
    return Complex(b.div(t, size), b.div(im, size))


def sigmoid(b: Builder, z: Complex) -> Complex:
    """(1 + tanh(z / 2)) / 2"""
    half = tanh(b, Complex(times(b, z.re, 0.5), times(b, z.im, 0.5)))
    re = b.add(times(b, half.re, 0.5), b.full_like(half.re, 0.5))
    return Complex(re, times(b, half.im, 0.5))


def transform(
    b: Builder, z: Complex | SSAValue, forward: bool, count: int | None = None
) -> Complex:
    """The discrete Fourier transform along the last axis, by a product with its matrix:

    Y_k = Σ_t z_t · e^(∓2πi·k·t/n), the first `count` of the k; - is forward.
    """
    first = z.re if isinstance(z, Complex) else z
    size, axis = int(dims_of(first)[-1]), len(dims_of(first)) - 1
    cosine, sine = (angles[:, :count] for angles in _angles(size, size))
    rows = [np.concatenate((cosine, -sine if forward else sine), 1)]
    if isinstance(z, Complex):
        first = b.concat([z.re, z.im], axis)
        rows.append(np.concatenate((sine if forward else -sine, cosine), 1))
    transformed = matmul(b, first, b.constant(np.concatenate(rows), dtype_of(first)))
    return Complex(*cut(b, transformed, 2))


def real_inverse(b: Builder, z: Complex, size: int) -> SSAValue:
    """Σ_k z_k · e^(2πi·k·t/n) for n real results, of half of the z_k: the others are conjugates.

    The imaginary parts of z_0 and of z_(n/2) are taken as 0.
    """
    count, axis = int(dims_of(z.re)[-1]), len(dims_of(z.re)) - 1
    twice = np.array([1.0 if k == 0 or 2 * k == size else 2.0 for k in range(count)])[:, None]
    cosine, sine = (twice * angles for angles in _angles(count, size))
    matrix = b.constant(np.concatenate((cosine, -sine)), dtype_of(z.re))
    return matmul(b, b.concat([z.re, z.im], axis), matrix)


def _angles(rows: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2π·k·t/n, [rows, n]; exact multiples of a quarter turn are exact."""
    turns = np.outer(np.arange(rows), np.arange(size)) % size
    cosine, sine = np.cos(2 * math.pi / size * turns), np.sin(2 * math.pi / size * turns)
    quarters = 4 * turns % size == 0
    return np.where(quarters, cosine.round(), cosine), np.where(quarters, sine.round(), sine)
