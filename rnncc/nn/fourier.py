"""Fourier transforms of known length, as products with matrices of sines and cosines.

In come a tensor whose last two axes are elements and their real and imaginary parts, and what turns
an array into a constant; out comes the spectrum, of the same form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import NUMPY, dims_of, dtype_of
from rnncc.records import record

Array = np.ndarray[Any, Any]
Literal = Callable[[Array, str], SSAValue]
"""What makes a constant of an array, and of a name for it."""

_LEAST_FACTORED = 128
"""Elements from which on a transform is made of shorter ones; the matrix of 64 has 32 KB."""
_LEAST_GAIN = 4
"""How many times shorter the factors are together; below, moving elements takes what is spared."""


@record
class Transform:
    """A transform of `length` elements.

    Attributes:
        bins: how many elements of the result are kept.
        inverse: from a spectrum, whose upper half `real` leaves out, as the result is real.
    """

    length: int
    bins: int
    inverse: bool = False
    real: bool = False

    @property
    def factor(self) -> int:
        """The length of the first transforms that it is made of; 1 where it is not."""
        if self.length < _LEAST_FACTORED:
            return 1
        factors = (f for f in range(math.isqrt(self.length), 1, -1) if self.length % f == 0)
        factor = next(factors, 1)
        return factor if (factor + self.length // factor) * _LEAST_GAIN <= self.length else 1

    @property
    def widest(self) -> int:
        """The elements of the longest transform that is a matrix."""
        return self.length // self.factor


def transformed(b: Builder, x: SSAValue, transform: Transform, literal: Literal) -> SSAValue:
    """x [..., rows, 1 or 2] as [..., bins, 1 or 2]."""
    lead = dims_of(x)[:-2]
    y = (_whole if transform.factor == 1 else _factored)(b, x, transform, literal)
    if transform.inverse:  # here, as the matrices' ones and zeros are exact
        y = b.div(y, b.full_like(y, transform.length))
    return b.reshape(y, (*lead, transform.bins, 1 if transform.real else 2))


def _whole(b: Builder, x: SSAValue, transform: Transform, literal: Literal) -> SSAValue:
    """One product with a matrix [parts · rows, 1 or 2 · bins]: real and imaginary parts of a row
    beside a bin's."""
    *lead, rows, parts = dims_of(x)
    flat = b.reshape(x, (*(lead or [1]), rows * parts))
    matrix = _turns(int(rows), transform.bins, transform.length, transform.inverse)
    matrix = matrix[:, : int(parts), :, : 1 if transform.real else 2]
    if transform.real:
        matrix = matrix * _shares(int(rows), transform.length)[:, None, None, None]
    matrix = matrix.reshape(int(rows * parts), -1).astype(NUMPY[dtype_of(x)])
    return b.matmul(flat, literal(matrix, f"dft_{transform.length}"))


def _factored(b: Builder, x: SSAValue, transform: Transform, literal: Literal) -> SSAValue:
    """Transforms of every `second`-th element, turned, then transforms of their results (Cooley and
    Tukey 1965): what element second · n1 + n2 adds to bin k1 + first · k2 is turned by
    n1 k1 / first + n2 k1 / length + n2 k2 / second."""
    *lead, rows, parts = dims_of(x)
    first, second, dtype = transform.factor, transform.widest, NUMPY[dtype_of(x)]
    held, kept = -(-int(rows) // second), -(-transform.bins // first)
    components = 2 - transform.real
    at, ahead = len(lead), list(range(len(lead)))

    def product(
        x: SSAValue, rows: int, bins: int, size: int, parts: int, components: int
    ) -> SSAValue:
        """x [..., parts · rows] as [..., made · bins]."""
        matrix = _turns(rows, bins, size, transform.inverse)[:, :parts, :, :components]
        flat = matrix.transpose(1, 0, 3, 2).reshape(parts * rows, components * bins).astype(dtype)
        return b.matmul(x, literal(flat, f"dft_{size}"))

    if transform.real:
        shares = literal(_shares(int(rows), transform.length)[:, None].astype(dtype), "shares")
        x = b.mul(*b.broadcast_together(x, shares))
    x = b.pad(x, at, 0, Dim.of(held * second), 0.0)
    x = b.reshape(x, (*lead, held, second, parts))
    x = b.reshape(b.transpose(x, [*ahead, at + 1, at + 2, at]), (*lead, second, parts * held))
    y = product(x, held, first, first, int(parts), 2)
    y = _turned(b, b.reshape(y, (*lead, second, 2, first)), transform, literal)
    y = b.transpose(y, [*ahead, at + 2, at + 1, at])
    y = product(b.reshape(y, (*lead, first, 2 * second)), second, kept, second, 2, components)
    y = b.transpose(b.reshape(y, (*lead, first, components, kept)), [*ahead, at + 2, at, at + 1])
    return b.slice(b.reshape(y, (*lead, kept * first, components)), at, 0, transform.bins)


def _turned(b: Builder, y: SSAValue, transform: Transform, literal: Literal) -> SSAValue:
    """y [..., second, 2, first], each number of it times its root of one."""
    *_, second, _, first = dims_of(y)
    at = len(dims_of(y)) - 2
    turns = _turns(int(second), int(first), transform.length, transform.inverse)[:, 0]
    cosine, sine = (
        literal(turns[:, None, :, part].astype(NUMPY[dtype_of(y)]), f"turns_{transform.length}")
        for part in (0, 1)
    )

    def times(value: SSAValue, by: SSAValue) -> SSAValue:
        return b.mul(*b.broadcast_together(value, by))

    real, imaginary = (b.slice(y, at, part, 1) for part in (0, 1))
    turned = b.sub(times(real, cosine), times(imaginary, sine))
    return b.concat([turned, b.add(times(real, sine), times(imaginary, cosine))], at)


def _turns(rows: int, bins: int, length: int, inverse: bool) -> Array:
    """[rows, 2, bins, 2]: what the real and the imaginary part of a row add to those of a bin."""
    places = np.outer(np.arange(rows), np.arange(bins)) % length
    angle = 2 * np.pi * places / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    return np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)


def _shares(rows: int, length: int) -> Array:
    """How many bins of a whole spectrum each one of its lower half stands for: two, but for the
    first and the middle one."""
    shares = np.ones(rows)
    shares[1 : (length + 1) // 2] = 2
    return shares
