# pyright: basic, reportMissingImports=false
"""Loops over the graph of a step, whose values may be complex and which may draw numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch.fx import GraphModule
from xdsl.ir import SSAValue

from rnncc.frontends.torch.randomness import Random, draws
from rnncc.ir.builder import Builder, Values
from rnncc.ir.types import dims_of
from rnncc.nn.complex_numbers import Complex

Tensor = SSAValue | Complex
Tensors = Sequence[Tensor]
Body = Callable[[Builder, Random, Tensors, Tensors, Tensors], tuple[Tensors, Tensors]]
"""(builder, random numbers, what it holds, state, rows) -> (next state, rows of ys)."""


def scan(
    b: Builder,
    random: Random,
    step: GraphModule,
    body: Body,
    consts: Tensors,
    inits: Tensors,
    xs: Tensors,
    reverse: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """`Builder.scan` of a body that lowers `step`.

    A complex number is two values of the loop. Where the graph draws random numbers, the seed and
    the iterations' numbers become values of it, too.

    Raises:
        CompileError: there can be no random numbers here.
    """
    kinds = list[Tensors]()

    def lowered(
        inner: Builder, numbers: Random, held: Values, carry: Values, rows: Values
    ) -> tuple[Values, Values]:
        groups = zip((consts, inits, xs), (held, carry, rows), strict=True)
        kinds[:] = body(inner, numbers, *(grouped(like, values) for like, values in groups))
        return flat(kinds[0]), flat(kinds[1])

    def plain(inner: Builder, *groups: Values) -> tuple[Values, Values]:
        return lowered(inner, Random(), *groups)

    def drawing(inner: Builder, held: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        numbers = random.within(held[-1], rows[-1])
        return lowered(inner, numbers, held[:-1], carry, rows[:-1])

    held, rows = flat(consts), flat(xs)
    if draws(step):
        numbers = random.iterations(b, dims_of(rows[0])[0])
        results = b.scan([*held, random.begun()], flat(inits), [*rows, numbers], drawing, reverse)
    else:
        results = b.scan(held, flat(inits), rows, plain, reverse)
    finals, ys = (grouped(like, values) for like, values in zip(kinds, results, strict=True))
    return finals, ys


def flat(values: Tensors) -> list[SSAValue]:
    """The parts of complex numbers one after the other."""
    pairs = ((x.re, x.im) if isinstance(x, Complex) else (x,) for x in values)
    return [part for pair in pairs for part in pair]


def grouped(like: Tensors, parts: Values) -> list[Tensor]:
    """The opposite of `flat`, for values of the kinds of others."""
    rest = iter(parts)
    return [Complex(next(rest), next(rest)) if isinstance(x, Complex) else next(rest) for x in like]
