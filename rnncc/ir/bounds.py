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
from rnncc.ir.ops.control import Scan
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of


def bounds_of(root: Operation, more: Iterable[Dim] = ()) -> tuple[Dim, ...]:
    """The formulas, `more` among them, that some sizes make negative, each symbol being 0 or more.

    Of two that differ by a number only the smaller one is there.
    """
    least = dict[Dim, int]()
    for formula in chain(_formulas(root), more):
        if is_natural(formula):
            continue
        constant = formula.coefficient()
        least[formula - constant] = min(least.get(formula - constant, constant), constant)
    return tuple(varying + constant for varying, constant in least.items() if not varying.is_static)


def _formulas(root: Operation) -> Iterator[Dim]:
    for op in root.walk():
        if isinstance(op, Scan):
            yield op.steps
        if isinstance(op, (RnnOp, Scan)):
            for value in op.results:
                yield from dims_of(value)
        if isinstance(op, RnnOp):
            yield from op.bounds()


def check_bounds(bounds: Iterable[Dim], sizes: Mapping[str, int]) -> None:
    """Raise `CompileError` if one of some formulas is negative."""
    for formula in bounds:
        if formula.symbols <= sizes.keys() and formula.evaluate(sizes) < 0:
            values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(formula.symbols))
            raise CompileError("", f"a size {formula} is negative", values)
