"""Choosing elements along an axis by comparing them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.build import Build
from rnncc.ir.types import FLOATS, dims_of, dtype_of


def ranks(b: Build, x: SSAValue, largest: bool) -> SSAValue:
    """How many of the last axis' elements come before each, as i32: beyond it, or equal earlier.

    NaN counts as larger than any number, as NumPy and PyTorch sort it.
    """
    dims = dims_of(x)
    rank, size = len(dims), dims[-1]
    wide = (*dims, size)
    mine = b.broadcast(x, wide, range(rank))
    other = b.broadcast(x, wide, [*range(rank - 1), rank])
    beyond = b.compare("gt" if largest else "lt", other, mine)
    equal = b.compare("eq", other, mine)
    if dtype_of(x) in FLOATS:
        nans = b.compare("ne", other, other), b.compare("ne", mine, mine)
        farther, nearer = nans if largest else reversed(nans)
        beyond = b.logical("or", beyond, b.logical("and", farther, b.logical_not(nearer)))
        equal = b.logical("or", equal, b.logical("and", *nans))
    earlier = b.compare("lt", b.iota(wide, rank, "i32"), b.iota(wide, rank - 1, "i32"))
    equal = b.logical("and", equal, earlier)
    return b.reduce("sum", b.cast(b.logical("or", beyond, equal), "i32"), [rank])
