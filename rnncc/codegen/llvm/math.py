"""Elementary functions on float vectors as LLVM IR: exp, log, tanh, sigmoid, erf and relatives.

In: values of `MathEmitter.type`. Out: the results, within the bounds that docs/math.md states; NaN
gives NaN. No table, no library call, and a branch only to what rare numbers need; no result depends
on the lane count. Coefficients come from tools/fit_polynomials.py, the reduction by ln 2 in two
parts is Cody and Waite's (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from llvmlite import ir

from rnncc.codegen.llvm.coefficients import TABLES
from rnncc.codegen.llvm.far_turns import far_turns, parts_of
from rnncc.codegen.llvm.values import declared
from rnncc.codegen.llvm.vector import Vector, VectorEmitter

INF = math.inf
LOG2_E = math.log2(math.e)
# Beyond it tanh rounds to 1, in float64 too: 1 - tanh(20) is 8.5e-18.
TANH_END = 20.0
# erf's slope at 0; its argument is divided by it, so that the leading terms below are exactly 1.
SLOPE = 2 / math.sqrt(math.pi)
ERF_P = (
    0.0910795927,
    -0.000183587355,
    -0.000526961463,
    6.10070711e-05,
    1.33764274e-06,
    -1.17718139e-06,
    1.42591134e-07,
    -7.7673743e-09,
    1.64939604e-10,
)
ERF_TANH_P = (0.128379166, -0.478898108, 0.24377726, -0.120370023)
ERF_END = 3.95
# pi / 2 in two float64 parts; the first times a quarter turn's number is exact up to TURNS_END.
QUARTER_HIGH = 1.570796325802803
QUARTER_LOW = 9.920935796805404e-10
TURNS_END = 2.0**23
# 2 / pi for what lies beyond, down to a rest that no float32 makes large.
TURNS = parts_of(29, 7)
# From the least denormal float to beyond the largest.
FLOAT_BINADES = 149 + 128
# A digit's bits; 24 more for a float32, and the product still fits into float64's 53.
REM_BITS = 28


class MathEmitter(VectorEmitter):
    """`VectorEmitter` with the elementary functions of float32; see `double_math.py` for others."""

    def __init__(self, module: ir.Module, vector: Vector) -> None:
        super().__init__(module, vector)
        self.table = TABLES[vector.dtype]

    def exp(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """e**x as 2**n * e**r, n the nearest to x / ln 2; denormal results become 0."""
        clamped = self.minimum(b, x, self.splat(self.table.exp_end))
        rounder = self.splat(self.table.rounder - 1)
        biased = self.fma(b, clamped, self.splat(LOG2_E), rounder)
        n = b.fsub(biased, rounder)
        r = self._remainder(b, clamped, n, -1.0)
        # Of NaN this is false.
        vanishes = b.fcmp_ordered("<", x, self.splat(self.table.exp_start))
        return b.select(vanishes, self.splat(0.0), self._exp_scaled(b, r, n, biased))

    def _exp_scaled(self, b: ir.IRBuilder, r: ir.Value, n: ir.Value, biased: ir.Value) -> ir.Value:
        """2**n * e**r, of the same bits either way.

        By products it is 2**(n-1) * (2 * e**r): with n - 1 the largest results need no second
        factor; the smallest n then needs a denormal.
        """
        if self.scales_whole:
            halves = [term / 2 for term in self.table.exp]
            return self.scaled(b, self.fma(b, r, self.polynomial(b, r, halves), self.splat(1.0)), n)
        twice = self.fma(b, r, self.polynomial(b, r, self.table.exp), self.splat(2.0))
        power = self.bits(b, self._power_of_two(b, biased))
        least = self.splat_bits(1 << (self.table.shift - 1))
        # 2**(n-1) of the least n is denormal, which the shift of bits does not make: it is put in
        # by hand.
        power = self.from_bits(b, b.select(b.icmp_signed(">", power, least), power, least))
        return b.fmul(twice, power)

    def expm1(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """e**x - 1 as 2 * (s*(e**r - 1) + (s - 1/2)), s = 2**(n-1), n the nearest to x / ln 2."""
        # Below -40 e**x - 1 rounds to -1 in float64 too; further down the power would leave its
        # range.
        clamped = self.clamp(b, x, -40.0, self.table.exp_end)
        rounder = self.splat(self.table.rounder - 1)
        biased = self.fma(b, clamped, self.splat(LOG2_E), rounder)
        r = self._remainder(b, clamped, b.fsub(biased, rounder), -1.0)
        power = self._power_of_two(b, biased)
        rest = self.fma(b, b.fmul(r, r), self.polynomial(b, r, self.table.expm1), r)
        half = self.fma(b, power, rest, b.fsub(power, self.splat(0.5)))
        # Of the same sign anyway, but for zeros.
        return self.copy_sign(b, b.fmul(half, self.splat(2.0)), x)

    def sigmoid(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """1 / (1 + e**-x) as (a + r) / ((a + r) + 2**n * (a - r)), one division.

        Here -x = n ln 2 - r and a = r coth(r/2), even in r, for which e**-r = (a - r) / (a + r).
        """
        # Further out 2**n would leave the exponent's bits.
        x = self.clamp(b, x, *self.table.sigmoid_range)
        rounder = self.splat(self.table.rounder)
        biased = self.fma(b, x, self.splat(-LOG2_E), rounder)
        r = self._remainder(b, x, b.fsub(biased, rounder), 1.0)
        even = self.polynomial(b, b.fmul(r, r), self.table.coth)
        above, below = b.fadd(even, r), b.fsub(even, r)
        return b.fdiv(above, self.fma(b, self._power_of_two(b, biased), below, above))

    def tanh(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """tanh(n ln 2 / 2 + r) by the addition theorem, n the nearest; odd, at most 1."""
        power, r = self._half_steps(b, self.clamp(b, x, -TANH_END, TANH_END), 1.0)
        t = b.fmul(r, self.polynomial(b, b.fmul(r, r), self.table.tanh))
        return self._tanh_sum(b, power, t)

    def erf(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """tanh of atanh(erf(x)), an odd polynomial on the range where erf is not yet 1."""
        # Beyond it erf rounds to 1, and the polynomial would leave its range.
        x = self.clamp(b, x, -ERF_END, ERF_END)
        square = b.fmul(x, x)
        inner = self.fma(b, b.fmul(square, x), self.polynomial(b, square, ERF_P), x)
        power, r = self._half_steps(b, inner, SLOPE)
        t = self.fma(b, r, self.polynomial(b, b.fmul(r, r), ERF_TANH_P), r)
        return self._tanh_sum(b, power, t)

    def log(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """ln x as k ln 2 + ln m, m in [2/3, 4/3); denormals are scaled first, so they are right."""
        denormal = b.fcmp_ordered("<", x, self.splat(self.table.least))
        scaled = b.select(denormal, b.fmul(x, self.splat(2.0**self.table.shift)), x)
        exponent, mantissa = self._split(b, scaled)
        shift = b.select(denormal, self.splat(self.table.shift), self.splat(0.0))
        f = b.fsub(mantissa, self.splat(1.0))
        result = self._log_sum(b, b.fsub(exponent, shift), f)
        return self._log_edges(b, x, result, 0.0)

    def log1p(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """ln(1 + x) as ln u + c/u, with u = 1 + x rounded and c what the rounding lost."""
        one = self.splat(1.0)
        u = b.fadd(x, one)
        lost = b.fdiv(b.fsub(x, b.fsub(u, one)), u)
        exponent, mantissa = self._split(b, u)
        result = self._log_sum(b, exponent, b.fsub(mantissa, one), lost)
        # Of the same sign anyway, but for zeros: that of -0.0 is -0.0.
        return self.copy_sign(b, self._log_edges(b, x, result, -1.0), x)

    def sin(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """sin x from the remainder by a quarter turn."""
        return self._circular(b, x, 0)

    def cos(self, b: ir.IRBuilder, x: ir.Value) -> ir.Value:
        """cos x = sin(x + a quarter turn)."""
        return self._circular(b, x, 1)

    def _circular(self, b: ir.IRBuilder, x: ir.Value, ahead: int) -> ir.Value:
        """sin(x + ahead quarter turns)."""
        far = b.fcmp_ordered(">", self.abs(b, x), self.splat(TURNS_END))
        near = self._quarter_turns(b, x)
        quarter, r = self._where_rare(b, far, lambda: self._far_turns(b, x), near)
        quarter = b.add(quarter, self.splat_bits(ahead))
        square = b.fmul(r, r)
        sine = self._sine(b, r, square)
        cosine = self.polynomial(b, square, (1.0, -0.5, *self.table.cos))
        odd = b.icmp_unsigned("!=", b.and_(quarter, self.splat_bits(1)), self.splat_bits(0))
        bits = self.bits(b, b.select(odd, cosine, sine))
        # In the third and fourth quarter the sign turns: bit 1 becomes the sign's.
        half = b.shl(b.and_(quarter, self.splat_bits(2)), self.splat_bits(self.table.bits - 2))
        return self.from_bits(b, b.xor(bits, half))

    def _sine(self, b: ir.IRBuilder, r: ir.Value, square: ir.Value) -> ir.Value:
        """sin r within an eighth of a turn."""
        return b.fmul(r, self.polynomial(b, square, (1.0, *self.table.sin)))

    def _quarter_turns(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """n's low bits and r with x = n pi / 2 + r, n the nearest; by way of float64."""
        wide, long = self.like(ir.DoubleType()), self.like(ir.IntType(64))
        rounder = self.constant(wide, 1.5 * 2**52)
        x = b.fpext(x, wide)
        biased = b.fadd(b.fmul(x, self.constant(wide, 2 / math.pi)), rounder)
        n = b.fsub(biased, rounder)
        # The first product is exact: no fused multiply-add is needed, which not all machines have.
        r = b.fsub(x, b.fmul(n, self.constant(wide, QUARTER_HIGH)))
        r = b.fsub(r, b.fmul(n, self.constant(wide, QUARTER_LOW)))
        return b.trunc(b.bitcast(biased, long), self.integer), b.fptrunc(r, self.type)

    def _far_turns(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """As `_quarter_turns`, of any number; NaN of infinity."""
        wide = b.fpext(x, self.like(ir.DoubleType()))
        quarter, r = far_turns(self, b, [wide], TURNS)
        finite = b.fcmp_ordered("<", self.abs(b, x), self.splat(INF))
        r = b.select(finite, b.fptrunc(r, self.type), self.splat(math.nan))
        return b.trunc(quarter, self.integer), r

    def _where_rare(
        self,
        b: ir.IRBuilder,
        flags: ir.Value,
        make: Callable[[], Sequence[ir.Value]],
        others: Sequence[ir.Value],
    ) -> Sequence[ir.Value]:
        """What `make` gives where flags are true, `others` elsewhere; not made where none is."""
        before, rare, done = b.block, b.append_basic_block("rare"), b.append_basic_block("others")
        branch: Any = b.cbranch(self._any(b, flags), rare, done)  # its type stubs lack set_weights
        branch.set_weights([1, 1 << 16])
        b.position_at_end(rare)
        chosen = [b.select(flags, *pair) for pair in zip(make(), others, strict=True)]
        after = b.block
        b.branch(done)
        b.position_at_end(done)
        merged = [b.phi(value.type) for value in others]
        for phi, one, other in zip(merged, chosen, others, strict=True):
            phi.add_incoming(one, after)
            phi.add_incoming(other, before)
        return merged

    def _any(self, b: ir.IRBuilder, flags: ir.Value) -> ir.Value:
        """Whether one of the lanes is true."""
        lanes = self.vector.lanes
        if lanes == 1:
            return flags
        name = f"llvm.vector.reduce.or.v{lanes}i1"
        return b.call(declared(self.module, name, ir.IntType(1), [flags.type]), [flags])

    def rem(self, b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
        """x - y trunc(x / y), exactly; NaN if x is infinite or y is 0.

        A digit of the quotient to the base 2**REM_BITS at a time, from the highest: as a float64
        holds the product of a digit and a float32, every step is exact. A digit that its rounded
        quotient overstates by one leaves a negative rest, which is put right.
        """
        wide = self.like(ir.DoubleType())
        doubles = VectorEmitter(self.module, replace(self.vector, dtype="f64"))
        zero = self.constant(wide, 0.0)
        rest, divisor = (b.fpext(self.abs(b, v), wide) for v in (x, y))
        for digit in reversed(range(-(-FLOAT_BINADES // REM_BITS))):
            unit = b.fmul(divisor, self.constant(wide, 2.0 ** (REM_BITS * digit)))
            quotient = doubles.rounded(b, "trunc", b.fdiv(rest, unit))
            rest = b.fsub(rest, b.fmul(quotient, unit))
            negative = b.fcmp_ordered("<", rest, zero)
            rest = b.fadd(rest, b.select(negative, unit, zero))
        result = self.copy_sign(b, b.fptrunc(rest, self.type), x)
        # Of an infinite y the rest above is NaN; IEEE 754 has x itself.
        endless, inf = b.fcmp_ordered("==", self.abs(b, y), self.splat(INF)), self.splat(INF)
        whole = b.and_(endless, b.fcmp_ordered("<", self.abs(b, x), inf))
        return b.select(whole, x, result)

    def _remainder(self, b: ir.IRBuilder, x: ir.Value, n: ir.Value, sign: float) -> ir.Value:
        """x + sign * n * ln 2, as if exact."""
        r = self.fma(b, n, self.splat(sign * self.table.ln2_high), x)
        return self.fma(b, n, self.splat(sign * self.table.ln2_low), r)

    def _half_steps(self, b: ir.IRBuilder, x: ir.Value, scale: float) -> tuple[ir.Value, ir.Value]:
        """2**n and r with scale * x = n ln 2 / 2 + scale * r, n the nearest integer.

        One constant is enough here: as n grows, tanh forgets the error of n ln 2.
        """
        rounder = self.splat(self.table.rounder)
        biased = self.fma(b, x, self.splat(2 * LOG2_E * scale), rounder)
        step = self.splat(-math.log(2) / 2 / scale)
        return self._power_of_two(b, biased), self.fma(b, b.fsub(biased, rounder), step, x)

    def _tanh_sum(self, b: ir.IRBuilder, power: ir.Value, t: ir.Value) -> ir.Value:
        """tanh(n ln 2 / 2 + r) from power = 2**n and t = tanh(r); the signs keep a zero's sign."""
        one = self.splat(1.0)
        above, below = b.fadd(one, power), b.fneg(b.fsub(one, power))
        return b.fdiv(self.fma(b, above, t, below), self.fma(b, below, t, above))

    def _power_of_two(self, b: ir.IRBuilder, biased: ir.Value) -> ir.Value:
        """2**n from n + rounder: its low bits moved to the exponent; 0 of the least n."""
        return self.from_bits(b, b.shl(self.bits(b, biased), self.splat_bits(self.table.shift)))

    def _split(self, b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """k (as a float) and m with x = 2**k * m, m in [2/3, 4/3), for positive normal x."""
        bits, shift = self.bits(b, x), self.splat_bits(self.table.shift)
        k = b.ashr(b.sub(bits, self.splat_bits(self.table.two_thirds)), shift)
        return self._whole(b, k), self.from_bits(b, b.sub(bits, b.shl(k, shift)))

    def _whole(self, b: ir.IRBuilder, k: ir.Value) -> ir.Value:
        """A small integer as a float."""
        return b.sitofp(k, self.type)

    def _log_sum(
        self, b: ir.IRBuilder, k: ir.Value, f: ir.Value, rest: ir.Value | None = None
    ) -> ir.Value:
        """k ln 2 + ln(1 + f) + rest, added from the smallest term up."""
        square = b.fmul(f, f)
        cube, p = b.fmul(square, f), self.polynomial(b, f, self.table.log)
        small = b.fmul(cube, p) if rest is None else self.fma(b, cube, p, rest)
        small = self.fma(b, k, self.splat(self.table.ln2_low), small)
        small = self.fma(b, square, self.splat(-0.5), small)
        return self.fma(b, k, self.splat(self.table.ln2_high), b.fadd(f, small))

    def _log_edges(self, b: ir.IRBuilder, x: ir.Value, result: ir.Value, pole: float) -> ir.Value:
        """`result` inside (pole, inf); -inf at the pole, NaN below it and for NaN, inf at inf."""
        end = b.fcmp_ordered("==", x, self.splat(pole))
        outside = b.select(end, self.splat(-INF), self.splat(math.nan))
        result = b.select(b.fcmp_ordered(">", x, self.splat(pole)), result, outside)
        return b.select(b.fcmp_ordered("==", x, self.splat(INF)), x, result)
