"""`SumLate` leaves sums where it would cost more than it saves.

What it does to the others, its docstring shows (test_docstrings.py).
"""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.passes.loops.sum_late import SumLate

Values = list[SSAValue]


@pytest.mark.parametrize(("gate", "late"), [(None, True), (2, False)])
def test_a_loop_that_may_not_run_sums_in_its_steps(gate: int | None, late: bool) -> None:
    """A conditional is a loop of one step: behind it, the sum would read the whole state again,
    and where the step does not run, a state of zeros."""
    b = Builder.net("conditional")
    h, x, runs = b.input("h", ["N", 64]), b.input("x", [1, "N", 64]), b.input("runs", [1], "i1")

    def step(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        h = i.mul(carry[0], rows[1])
        return [h, i.sum_rows(carry[1], h, True)], []

    [_, total], _ = b.scan([], [h, b.fill(0.0, [64])], [runs, x], step, gate=gate)
    assert SumLate().rewrite(b.finish({"total": total}).net) == late
