"""A blob as shape inference knows it; what operators read and write."""

from __future__ import annotations

from dataclasses import dataclass

from rnncc.frontends.caffe2.constants import Known
from rnncc.ir.dims import Dim, Dims


@dataclass(eq=False)
class Blob:
    """One SSA version of a blob; what inference has found stands in `shape`, `dtype`, `value`.

    Attributes:
        value: the content, of a vector of sizes that is known at compile time.
        known: its one element, an integer or bool, where that is known at compile time.
        opaque: it holds what only gradient operators may read.
        lacks: what it does instead of holding a tensor, in words.
        shared: it shares its memory with another blob.
        uses: how many operators and outputs read it.
        end: of a vector, or one row, of which a run decides how many elements there are: what
            holds the number, counted from behind where it is negative. The shape is that of all
            that there may be.
    """

    name: str
    shape: Dims | None = None
    dtype: str | None = None
    value: Dims | None = None
    known: Known | None = None
    opaque: bool = False
    lacks: str = "holds nothing at inference"
    shared: bool = False
    uses: int = 0
    end: Blob | None = None
    total: Dim | None = None
