"""Conditionals and loops that end by themselves, as gated scans."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from rnncc.ir.builder import Body, Builder, Values
from rnncc.ir.dims import Dim

DEFAULT_LIMIT = 100_000
"""The most iterations of a loop whose bound nobody knows or gives."""
NESTED_LIMIT = 1_000
"""The same for each of two such loops in each other, where values of all iterations are kept."""
Branch = Callable[[Builder, list[SSAValue], list[SSAValue]], Values]


def when(b: Builder, gate: SSAValue, consts: Values, inits: Values, body: Branch) -> list[SSAValue]:
    """`body(inner, consts, inits)` if a bool of rank 0 holds, else `inits` as they are."""
    step = _without_rows(lambda inner, consts, carry: body(inner, consts[1:], carry))
    return b.scan([gate, *consts], inits, [], step, length=Dim.of(1), gate=0)[0]


def repeat(
    b: Builder, consts: Values, inits: Values, body: Branch, limit: int, limited: bool = True
) -> list[SSAValue]:
    """While the carry's first, a bool of rank 0, holds: carry = body(inner, consts, carry).

    Args:
        limit: the most iterations that there can be.
        limited: whether more are an error of the run; without, the loop just ends.
    """
    step, count = _without_rows(body), Dim.of(limit)
    return b.scan(consts, inits, [], step, length=count, gate=len(consts), limited=limited)[0]


def _without_rows(body: Branch) -> Body:
    return lambda inner, consts, carry, rows: (body(inner, consts, carry), [])
