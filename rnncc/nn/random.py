"""Random numbers of several distributions, made of equally distributed ones."""

from __future__ import annotations

from math import pi

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.arithmetic import negative
from rnncc.nn.reduction import cumulate

LEAST = 2.0**-25
"""Half of the distance between two numbers that are drawn."""
SPREAD = 0x915F77F5
"""A multiplier for which SPREAD · i + j is another number modulo 2^32 for all pairs of numbers that
differ by some ten thousand: Steele and Vigna, Computationally easy, spectrally good multipliers
for congruential pseudorandom number generators (2022)."""


def exponential(b: Builder, drawn: SSAValue) -> SSAValue:
    """-log(1 - u); in place of 0, of which -inf may be made, what is likely there.

    Args:
        drawn: floats, equally distributed in [0, 1).
    """
    logarithm = negative(b, b.log(b.sub(b.full_like(drawn, 1.0), drawn)))
    return b.maximum(logarithm, b.full_like(logarithm, LEAST))


def standard_normal(b: Builder, drawn: SSAValue, other: SSAValue) -> SSAValue:
    """Numbers of the standard normal distribution: Box and Muller (1958).

    Args:
        drawn, other: floats of one shape, equally distributed in [0, 1).
    """
    twice = exponential(b, drawn)
    radius = b.sqrt(b.mul(twice, b.full_like(twice, 2.0)))
    return b.mul(radius, b.cos(b.mul(other, b.full_like(other, 2 * pi))))


def seed_within(b: Builder, seed: SSAValue, iteration: SSAValue) -> SSAValue:
    """A seed for each iteration of a loop: SPREAD · seed + iteration + 1, modulo 2^32.

    Those of nested loops are of different iterations up to some ten thousand of each.

    Args:
        seed: i32, that of the net or of the loop around.
        iteration: i64, counted from 0.
    """
    spread = b.fill(SPREAD - (1 << 32), (), "i32")
    number = b.add(b.cast(iteration, "i32"), b.fill(1, (), "i32"))
    return b.add(b.mul(seed, spread), number)


def categories(b: Builder, logs: SSAValue, drawn: SSAValue) -> SSAValue:
    """The first place along the last axis at which the running sum of e^logs is above drawn of
    their sum: each is as likely as its e^log says. i32.

    Args:
        logs: floats [..., categories]; -inf of what is never drawn.
        drawn: floats [..., samples], equally distributed in [0, 1).
    """
    *rows, size = dims_of(logs)
    last = len(rows)
    top = b.reduce("max", logs, [last])
    weights = b.exp(b.sub(logs, b.broadcast(top, dims_of(logs), range(last))))
    sums = cumulate(b, weights, last)
    total = b.reshape(b.slice(sums, last, size - 1, 1), rows)
    total = b.broadcast(total, dims_of(drawn), range(last))
    every = [*dims_of(drawn), size]
    limits = b.broadcast(b.mul(drawn, total), every, range(last + 1))
    passed = b.compare("le", b.broadcast(sums, every, [*range(last), last + 1]), limits)
    return b.reduce("sum", b.cast(passed, "i32"), [last + 1])
