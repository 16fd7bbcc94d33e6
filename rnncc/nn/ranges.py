"""Where formulas of numbers turn, by element type: how far its numbers reach, how fine they are."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.types import dtype_of
from rnncc.records import record


@record
class Range:
    """Of one element type.

    Attributes:
        largest: the largest number.
        huge: little below where e^x overflows.
        large: x² + 1 is x² from here on.
        underflow: little above where e^x is no normal float any more, and `rnn.exp` gives 0.
        flat: 1 + e^-x is 1 from here on.
        gelu: from here on down GELU by tanh is 0.
        atan: odd terms of arctan on [0, tan(π/8)]; those of float32 are the exact 1/(2k + 1) or
            close to it, those of float64 come from tools/fit_polynomials.py.
    """

    largest: float
    huge: float
    large: float
    underflow: float
    flat: float
    gelu: float
    atan: tuple[float, ...]


RANGES = {
    "f32": Range(
        largest=3.4028234663852886e38,
        huge=80.0,
        large=1e4,
        underflow=-87.0,
        flat=40.0,
        gelu=20.0,
        atan=(1.0, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11, 1 / 13, -1 / 15),
    ),
    "f64": Range(
        largest=1.7976931348623157e308,
        huge=700.0,
        large=1e9,
        underflow=-708.0,
        flat=40.0,
        gelu=22.0,
        atan=(
            *(1.0, -0.3333333333333312, 0.19999999999940893, -0.14285714279250245),
            *(0.11111110744919658, -0.09090896809064027, 0.07692045330902225),
            *(-0.0666295181362919, 0.058468782973308715, -0.05035102456601548),
            *(0.03796525745386584, -0.017805397205419352),
        ),
    ),
}


def range_of(x: SSAValue) -> Range:
    """That of a value's elements."""
    return RANGES[dtype_of(x)]
