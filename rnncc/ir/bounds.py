"""What must hold of sizes, which are known when a net runs, for its ops to mean what they say.

In: a net. Out: formulas of sizes that must not be negative: of shapes, of slices' places, of what
is left behind them, and what a front end took for granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from xdsl.ir import Operation

from rnncc.errors import CompileError
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.chunks import Chunks
from rnncc.ir.ops.control import Scan
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of


def bounds_of(root: Operation, more: Iterable[Dim] = ()) -> tuple[Dim, ...]:
    """The formulas, `more` among them, that some sizes make negative, each symbol being 0 or more.

    Of two that differ by a number only the smaller one is there.
    """
    formulas = dict.fromkeys(chain(sizes_in(root), more))
    return smallest(f for f in formulas if not f.is_static and not is_natural(f))


def smallest(formulas: Iterable[Dim]) -> tuple[Dim, ...]:
    """Of formulas that differ by a number the smallest one, at the first one's place."""
    least = dict[Dim, int]()
    for formula in formulas:
        constant = formula.coefficient()
        rest = formula - constant
        least[rest] = min(least.get(rest, constant), constant)
    return tuple(rest + constant for rest, constant in least.items())


def sizes_in(root: Operation) -> Iterator[Dim]:
    """What must not be negative of a net: its values' sizes and what its ops need besides."""
    for op in root.walk():
        for block in (block for region in op.regions for block in region.blocks):
            for value in block.args:
                yield from dims_of(value)
        for value in op.results:
            yield from dims_of(value)
        if isinstance(op, (Scan, Chunks)):
            yield op.steps
        if isinstance(op, RnnOp):
            yield from op.bounds()


def check_bounds(bounds: Iterable[Dim], sizes: Mapping[str, int]) -> None:
    """Raise `CompileError` if one of some formulas is negative."""
    for formula in bounds:
        if formula.symbols <= sizes.keys() and formula.evaluate(sizes) < 0:
            values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(formula.symbols))
            raise CompileError("", f"a size {formula} is negative", values)
