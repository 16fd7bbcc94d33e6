"""What the elementary functions of one element type are made of.

Polynomials come from tools/fit_polynomials.py; the reduction by ln 2 in two parts is Cody and
Waite's (1980).
"""

from __future__ import annotations

import math

from rnncc.codegen.llvm.vector import Real
from rnncc.records import record

Terms = tuple[float, ...]
"""Of a polynomial, lowest first."""


@record
class Table:
    """The numbers of one element type.

    Attributes:
        bits: of an element; shift: those of its mantissa, which stand below the exponent.
        bias: what the exponent's bits add to it.
        two_thirds: the bits of 2/3.
        ln2_high, ln2_low: ln 2; the first has few enough bits for its product with an exponent to
            be exact.
        exp_start: the first number whose exponential is a normal one; exp_end: from there on it is
            beyond the largest.
        sigmoid_range: where neither the sigmoid nor its difference from 1 is rounded away.
    """

    bits: int
    shift: int
    bias: int
    two_thirds: int
    ln2_high: float
    ln2_low: float
    exp_start: float
    exp_end: float
    sigmoid_range: tuple[float, float]
    exp: Terms
    expm1: Terms
    coth: Terms
    log: Terms
    tanh: Terms
    sin: Terms
    cos: Terms

    @property
    def rounder(self) -> float:
        """What leaves a sum's nearest integer in its low bits, biased as an exponent is."""
        # 1.5 rather than 1: with a negative integer the sum stays in the same binade, where the
        # last bit counts 1.
        return 1.5 * 2.0**self.shift + self.bias

    @property
    def least(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)


SINGLE = Table(
    bits=32,
    shift=23,
    bias=127,
    two_thirds=0x3F2AAAAB,
    ln2_high=355 / 512,
    ln2_low=math.log(2) - 355 / 512,
    exp_start=-87.33654,
    exp_end=89.0,
    sigmoid_range=(-89.0, 88.0),
    exp=(2.0, 0.999999881, 0.333330452, 0.0833365843, 0.0167370643, 0.00276365946),
    expm1=(0.49999997, 0.166665465, 0.0416674428, 0.0083662523, 0.00138699613),
    coth=(2.0, 0.16666618, -0.00276601315),
    log=(
        *(0.333332151, -0.249998048, 0.200104386, -0.166802078),
        *(0.140054733, -0.121877514, 0.1398599, -0.128776774),
    ),
    tanh=(1.0, -0.333333224, 0.133311421, -0.0527152829),
    sin=(-0.166666552, 0.00833218917, -0.000195182918),
    cos=(0.0416666456, -0.00138873106, 2.44325656e-05),
)
DOUBLE = Table(
    bits=64,
    shift=52,
    bias=1023,
    two_thirds=0x3FE5555555555555,
    ln2_high=0.6931471803691238,
    ln2_low=1.9082149292705877e-10,
    exp_start=-708.3964185322641,
    exp_end=710.0,
    sigmoid_range=(-709.9, 709.0),
    exp=(
        *(2.0, 1.0, 0.3333333333333336, 0.08333333333333336, 0.01666666666663919),
        *(0.002777777777775714, 0.00039682539780124226, 4.960317467503623e-05),
        *(5.511448180505097e-06, 5.511452457086223e-07, 5.022008709118537e-08),
        4.183693641305799e-09,
    ),
    expm1=(
        *(0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326138),
        *(0.001388888888888346, 0.00019841269874810804, 2.480158732631495e-05),
        *(2.755725541266707e-06, 2.7557272823349445e-07, 2.510521181810655e-08),
        *(2.091498985433584e-09,),
    ),
    coth=(
        *(2.0, 0.16666666666666574, -0.0027777777776883494, 6.613756295944757e-05),
        *(-1.6533880805704168e-06, 4.137485533370965e-08),
    ),
    log=(
        *(0.3333333333333333, -0.24999999999999997, 0.20000000000007292),
        *(-0.16666666666673638, 0.14285714283554127, -0.12499999997931178),
        *(0.11111111358739344, -0.10000000237337199, 0.0909089471678831),
        *(-0.08333319550660684, 0.07692785068360974, -0.07143315001667785),
        *(0.06657071516329906, -0.06240795499006214, 0.06000542003483039),
        *(-0.05668944397858276, 0.044003406392602216, -0.04172213785574763),
        *(0.08082083474010653, -0.07730333499720764),
    ),
    tanh=(
        *(1.0, -0.3333333333333211, 0.13333333332680747, -0.05396825266265792),
        *(0.02186936403342891, -0.008857129854658287, 0.0034429987895173535),
    ),
    sin=(
        *(-0.16666666666666666, 0.008333333333330948, -0.00019841269836758574),
        *(2.755731610255244e-06, -2.5051131845003624e-08, 1.5918129294866608e-10),
    ),
    cos=(
        *(0.041666666666666664, -0.0013888888888887398, 2.480158729876569e-05),
        *(-2.7557317271729793e-07, 2.08761462684032e-09, -1.1382632425521717e-11),
    ),
)
TABLES: dict[Real, Table] = {"f32": SINGLE, "f64": DOUBLE}
