"""Random numbers of several distributions, made of equally distributed ones."""

from __future__ import annotations

from math import pi

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.nn.arithmetic import negative

LEAST = 2.0**-25
"""Half of the distance between two numbers that are drawn."""


def exponential(b: Builder, drawn: SSAValue) -> SSAValue:
    """-log(1 - u); in place of 0, of which -inf may be made, what is likely there.

    Args:
        drawn: floats, equally distributed in [0, 1).
    """
    made = negative(b, b.log(b.sub(b.full_like(drawn, 1.0), drawn)))
    return b.maximum(made, b.full_like(made, LEAST))


def standard_normal(b: Builder, drawn: SSAValue, other: SSAValue) -> SSAValue:
    """Numbers of the standard normal distribution: Box and Muller (1958).

    Args:
        drawn, other: floats of one shape, equally distributed in [0, 1).
    """
    twice = exponential(b, drawn)
    radius = b.sqrt(b.mul(twice, b.full_like(twice, 2.0)))
    return b.mul(radius, b.cos(b.mul(other, b.full_like(other, 2 * pi))))
