"""Random loops whose state enters affinely, element by element, for tests of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program

Values = list[SSAValue]
Make = Callable[[Builder, SSAValue], SSAValue]
UNITS, STATES = 64, 3
TAIL = 8
"""More units than fill vectors."""

FACTORS: list[Make] = [
    lambda b, x: b.sigmoid(x),
    lambda b, x: b.exp(b.neg(b.relu(x))),
    lambda b, x: b.sub(b.full_like(x, 1.0), b.sigmoid(x)),
    lambda b, x: b.mul(x, b.full_like(x, 0.5)),
]
"""What a state is multiplied with."""


@st.composite
def light_programs(draw: Callable[..., Any]) -> Program:
    """h = a · h + b with a of rows, parameters or both; y is of h, contracted where h is wide.

    Between steps a wide h may be flat.
    """
    b = Builder.net("light")
    wide, pair = draw(st.booleans()), draw(st.booleans())
    units, states = UNITS + draw(st.sampled_from([0, TAIL])), draw(st.sampled_from([STATES, 16]))
    dims = ["N", units, states] if wide else ["N", units]
    x, z = b.input("x", ["T", "N", units]), b.input("z", ["T", "N", units])
    c = b.input("c", ["T", "N", states])
    flat = ["N", units * states] if wide and draw(st.booleans()) else dims
    starts = [b.input(f"h{i}", flat) for i in range(1 + pair)]
    consts = [b.param("p", [units]), b.param("q", [units, states])]
    factors = draw(st.lists(st.sampled_from(FACTORS), min_size=2, max_size=2))
    by_row, gated = draw(st.booleans()), draw(st.booleans())

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        p, q = consts
        x, z, c = rows
        before = [i.reshape(h, dims) for h in carry]
        per_unit = x if by_row else i.broadcast(p, ["N", units], [1])
        if wide:
            inner = i.mul(i.broadcast(per_unit, dims, [0, 1]), i.broadcast(q, dims, [1, 2]))
            added = i.mul(i.broadcast(z, dims, [0, 1]), i.broadcast(c, dims, [0, 2]))
        else:
            inner, added = per_unit, i.mul(z, x)
        a = factors[0](i, inner)
        after = [i.add(i.mul(a, before[0]), added)]
        if pair:
            other = i.mul(factors[1](i, inner), before[0])
            after = [i.sub(after[0], i.mul(a, before[1])), i.add(other, i.mul(a, before[1]))]
        y = after[-1]
        if wide:
            y = i.reduce("sum", i.mul(y, i.broadcast(c, dims, [0, 2])), [2])
        after = [i.reshape(h, flat) for h in after]
        return after, [i.mul(y, i.sigmoid(z)) if gated else y]

    reverse = draw(st.booleans())
    finals, ys = b.scan(consts, starts, [x, z, c], step, reverse=reverse)
    outputs = {"y": ys[0]}
    if draw(st.booleans()):
        outputs |= {f"last{i}": final for i, final in enumerate(finals)}
    return b.finish(outputs)
