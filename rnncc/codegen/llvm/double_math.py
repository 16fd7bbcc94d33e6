"""The elementary functions of float64: those of `math.py`, but for what float32 needs float64 for.

Coefficients come from tools/fit_polynomials.py.
"""

from __future__ import annotations

import math

from llvmlite import ir

from rnncc.codegen.llvm.far_turns import far_turns, parts_of
from rnncc.codegen.llvm.math import INF, MathEmitter
from rnncc.codegen.llvm.vector import Vector

NEAR_ERF = (
    *(1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792),
    *(0.0052239776248180145, -0.000854832698083379, 0.0001205533111164271),
    *(-1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07),
    *(1.4659775274047435e-08, -1.1372848856791672e-09, 5.957176147748909e-11),
)
ERFC = (
    *(1.2329951186255526, -0.13962111684056236, 0.01537965210257007, 0.0680970542544652),
    *(-0.1010390660290445, 0.0937328350448936, -0.06633036611671828, 0.037167512486740814),
    *(-0.016197734350641032, 0.005032040312285165, -0.0007575424899723285),
    *(-0.00019943791115473986, 0.00014780980824831742, -3.1982217080725404e-05),
    -2.0987219091222924e-05,
)
ERFC_MIDDLE = 4.0
# Beyond it erf rounds to 1: erfc(6) is 2.2e-17, less than half an ulp below 1.
ERF_END = 6.0
# pi / 2: three parts of 29 bits, whose product with a quarter turn's number is exact up to
# TURNS_END, and the rest.
QUARTER = (1.570796325802803, 9.920935774287987e-10, 2.2517417706346578e-18, 3.5215598651832e-27)
# 2 / pi for what lies beyond, with halves of 27 bits of what is smaller than FAR_END.
TURNS = parts_of(26, 9)
FAR_END = 2.0**63
HALF_BITS = -1 << 27
# Adding this leaves a sum's nearest integer in its low bits.
ROUNDER, ROUNDER_BITS = 1.5 * 2.0**52, 0x4338000000000000
# Binary digits of a quotient that are found at a time, beside the 53 of a divisor.
REM_BITS = 11
# Powers of two from here on are normal, as are their products with integers.
LEAST_POWER = -1000


def math_of(module: ir.Module, vector: Vector) -> MathEmitter:
    """The functions of vectors of an element type."""
    return (DoubleMath if vector.dtype == "f64" else MathEmitter)(module, vector)


class DoubleMath(MathEmitter):
    """`MathEmitter` of float64."""

    def erf(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """An odd polynomial below 1; from there on 1 - p / (1 + 2|x|) * e**(-x*x).

        p is a polynomial in (|x| - 4) / (|x| + 4), as Shepherd and Laframboise's (1981).
        """
        size = self.minimum(b, self.abs(b, x), self.splat(ERF_END))
        square = b.fmul(size, size)
        near = b.fmul(x, self.polynomial(b, square, NEAR_ERF))
        middle = self.splat(ERFC_MIDDLE)
        q = b.fdiv(b.fsub(size, middle), b.fadd(size, middle))
        p = b.fdiv(self.polynomial(b, q, ERFC), self.fma(b, size, self.splat(2.0), self.splat(1.0)))
        tail = b.fmul(p, self.exp(b, b.fneg(square)))
        far = self.copy_sign(b, b.fsub(self.splat(1.0), tail), x)
        return b.select(b.fcmp_ordered("<", size, self.splat(1.0)), near, far)

    def rem(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x - y trunc(x / y), exactly; NaN if x is infinite or y is 0.

        Long division of integers, some binary digits of the quotient at a time: a loop, as
        there may be 2,098 of them, which ends where all lanes have.
        """
        a, d = self.abs(b, x), self.abs(b, y)
        (left, above), (divisor, exponent) = (self._whole_parts(b, v) for v in (a, d))
        digits = b.sub(above, exponent)
        rest = self._long_rest(b, left, divisor, digits)
        smaller = b.fcmp_ordered("<", a, d)
        result = self.copy_sign(b, b.select(smaller, a, self._scaled(b, rest, exponent)), x)
        inf, zero = self.splat(INF), self.splat(0.0)
        valid = b.and_(b.fcmp_ordered("<", a, inf), b.fcmp_ordered(">", d, zero))
        return b.select(valid, result, self.splat(math.nan))

    def _whole_parts(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """m and k with x = m * 2**k, m of 53 bits, for positive x; some numbers for others."""
        denormal = b.fcmp_ordered("<", x, self.splat(self.table.least))
        scaled = b.select(denormal, b.fmul(x, self.splat(2.0**52)), x)
        bits, one = self.bits(b, scaled), 1 << 52
        m = b.or_(b.and_(bits, self.splat_bits(one - 1)), self.splat_bits(one))
        offset = self.table.bias + 52
        bias = b.select(denormal, self.splat_bits(offset + 52), self.splat_bits(offset))
        return m, b.sub(b.lshr(bits, self.splat_bits(52)), bias)

    def _long_rest(
        self, b: ir.IRBuilder, left: ir.Value, divisor: ir.Value, digits: ir.Value
    ) -> ir.Value:
        """What left * 2**digits leaves of multiples of a divisor; `digits` may be negative."""
        zero, most = self.splat_bits(0), self.splat_bits(REM_BITS)
        # No division by 0, whatever y is: a whole part has its leading bit.
        first, before = b.urem(left, divisor), b.block
        head, done = b.append_basic_block("digits"), b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        rest, count = b.phi(self.integer), b.phi(self.integer)
        rest.add_incoming(first, before)
        count.add_incoming(digits, before)
        fewer = b.select(b.icmp_signed("<", count, most), count, most)
        step = b.select(b.icmp_signed(">", fewer, zero), fewer, zero)
        following, later = b.urem(b.shl(rest, step), divisor), b.sub(count, step)
        rest.add_incoming(following, head)
        count.add_incoming(later, head)
        b.cbranch(self._any(b, b.icmp_signed(">", later, zero)), head, done)
        b.position_at_end(done)
        return following

    def _scaled(self, b: ir.IRBuilder, whole: ir.Value, exponent: ir.Value) -> ir.Value:
        """whole * 2**exponent, which is a float64: in two steps, of which the first is normal."""
        least = self.splat_bits(LEAST_POWER)
        first = b.select(b.icmp_signed(">", exponent, least), exponent, least)
        product = b.uitofp(whole, self.type)
        for part in (first, b.sub(exponent, first)):
            power = b.shl(b.add(part, self.splat_bits(self.table.bias)), self.splat_bits(52))
            product = b.fmul(product, self.from_bits(b, power))
        return product

    def _sine(self, b: ir.IRBuilder, r: ir.Value, square: ir.Value) -> ir.Value:
        """As r + r³p, which rounds less, as r has lost more on its way here; of r's sign, if 0."""
        cube, p = b.fmul(r, square), self.polynomial(b, square, self.table.sin)
        return self.copy_sign(b, self.fma(b, cube, p, r), r)

    def _quarter_turns(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """n's low bits and r with x = n pi / 2 + r, n the nearest."""
        rounder = self.splat(ROUNDER)
        biased = self.fma(b, x, self.splat(2 / math.pi), rounder)
        n, r = b.fsub(biased, rounder), x
        for part in QUARTER:
            r = self.fma(b, n, self.splat(-part), r)
        return self.bits(b, biased), r

    def _far_turns(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """As `_quarter_turns`, up to FAR_END; NaN beyond."""
        head = self.from_bits(b, b.and_(self.bits(b, x), self.splat_bits(HALF_BITS)))
        quarter, r = far_turns(self, b, [head, b.fsub(x, head)], TURNS)
        inside = b.fcmp_ordered("<", self.abs(b, x), self.splat(FAR_END))
        return quarter, b.select(inside, r, self.splat(math.nan))

    def _whole(self, b: ir.IRBuilder, k: ir.Value) -> ir.Value:
        """By way of bits: few machines have vectors of such conversions."""
        biased = b.add(k, self.splat_bits(ROUNDER_BITS))
        return b.fsub(self.from_bits(b, biased), self.splat(ROUNDER))
