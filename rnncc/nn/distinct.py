"""Which rows of a tensor are equal, and the order of those that differ: each beside each."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.types import dims_of
from rnncc.nn.reduction import cumulate
from rnncc.records import record


@record
class Distinct:
    """The groups of equal rows of a tensor of n.

    Attributes:
        rank: the number of each row's group [n].
        first: the first row of each group, 0 behind those that there are [n].
        sizes: how many rows each has [n].
        count: how many groups there are.
    """

    rank: SSAValue
    first: SSAValue
    sizes: SSAValue
    count: SSAValue


def distinct(b: Builder, rows: SSAValue, ordered: bool) -> Distinct:
    """The groups of equal rows [n, columns], all of them int64.

    Args:
        ordered: whether groups stand in the order of their rows, compared column by column, instead
            of that in which they begin.
    """
    n, _ = dims_of(rows)
    number = b.iota((n,), 0, "i64")
    before, equal = _compared(b, rows)
    whose = b.select(equal, b.iota((n, n), 1, "i64"), b.size(n, "i64"))
    first = b.minimum(b.reduce("min", whose, [1]), number)  # a NaN is a group of its own
    begins = b.compare("eq", first, number)
    if ordered:
        counts = b.logical("and", before, b.broadcast(begins, (n, n), [1]))
        rank = b.reduce("sum", b.cast(counts, "i64"), [1])
    else:
        earlier = cumulate(b, b.cast(begins, "i64"), 0, Builder.add, 0, exclusive=True)
        rank = b.gather(earlier, first, 0)
    none = b.fill(0, (n,), "i64")
    return Distinct(
        rank,
        b.scatter("max", none, first, rank, 0),
        b.scatter("sum", none, b.fill(1, (n,), "i64"), rank, 0),
        b.reduce("sum", b.cast(begins, "i64"), [0]),
    )


def _compared(b: Builder, rows: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Whether row j comes before row i, and whether it is equal, of shape [i, j]: the first column
    in which they differ tells."""
    n, columns = dims_of(rows)
    one, other = b.reshape(rows, (n, 1, columns)), b.reshape(rows, (1, n, columns))
    column = b.mul(b.iota((n, n, columns), 2, "i64"), b.fill(2, (), "i64"))
    place = b.add(column, b.cast(b.logical_not(b.compare("lt", other, one)), "i64"))
    behind = b.size(columns * 2, "i64")
    place = b.reduce("min", b.select(b.compare("ne", one, other), place, behind), [2])
    equal = b.compare("ge", place, behind)
    even = b.compare("eq", b.bits("and", place, b.full_like(place, 1)), b.full_like(place, 0))
    return b.logical("and", even, b.logical_not(equal)), equal
