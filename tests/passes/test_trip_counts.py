"""Where trip counts get names: known numbers of steps, in all that has the sequences' rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of
from rnncc.passes.loops.trip_counts import name_trip_counts, restore_trip_counts

Values = Sequence[SSAValue]


def decayed(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
    h = i.add(i.mul(i.sigmoid(rows[0]), carry[0]), rows[0])
    return [h], [h]


def net_of(steps: int, units: int, positions: bool = False, last: bool = False) -> Program:
    """A product over [N, T, units], then a loop over its transpose, and back."""
    b = Builder.net("net")
    x = b.input("x", ["N", steps, units])
    wide = b.matmul(b.reshape(x, [Dim.of("N") * steps, units]), b.param("w", [units, units]))
    rows = b.transpose(b.reshape(wide, dims_of(x)), [1, 0, 2])
    if positions:
        rows = b.add(rows, b.broadcast(b.param("p", [steps, units]), dims_of(rows), [0, 2]))
    finals, ys = b.scan([], [b.input("h", ["N", units])], [rows], decayed)
    y = b.slice(ys[0], 0, steps - 1, 1) if last else b.transpose(ys[0], [1, 0, 2])
    return b.finish({"y": y, "final": finals[0]})


@pytest.mark.parametrize("last", [False, True])
def test_a_name_stands_in_all_that_has_the_rows(last: bool) -> None:
    program = net_of(40, 8, last=last)
    before = str(program.module)
    assert name_trip_counts(program, lambda _: True) == {"K": 40}
    assert dims_of(program.net.inputs["x"]) == tuple(map(Dim.of, ("N", "K", 8)))
    assert '"40"' not in str(program.module)
    assert str(restore_trip_counts(program, {"K": 40}).module) == before


@pytest.mark.parametrize(("steps", "units"), [(40, 8), (40, 40), (8, 40)])
def test_a_parameter_that_has_as_many_rows_keeps_the_number(steps: int, units: int) -> None:
    program = net_of(steps, units, positions=True)
    before = str(program.module)
    assert name_trip_counts(program, lambda _: True) == {}
    assert str(program.module) == before


def both_ways(b: Builder) -> SSAValue:
    """Rows as long as the loop, which are added to columns."""
    x = b.input("x", [40, 40])
    return b.scan([], [b.input("h", [40])], [b.add(x, b.transpose(x, [1, 0]))], decayed)[1][0]


def one_more(b: Builder) -> SSAValue:
    """All states, the first one included: 41 rows."""
    h = b.input("h", [8])
    ys = b.scan([], [h], [b.input("x", [40, 8])], decayed)[1][0]
    return b.concat([b.reshape(h, [1, 8]), ys], 0)


@pytest.mark.parametrize("build", [both_ways, one_more])
def test_where_a_name_cannot_stand_numbers_stay(build: Callable[[Builder], SSAValue]) -> None:
    b = Builder.net("net")
    program = b.finish({"y": build(b)})
    before = str(program.module)
    assert name_trip_counts(program, lambda _: True) == {}
    assert str(program.module) == before


def test_as_many_units_as_steps_stay_units() -> None:
    program = net_of(40, 40)
    assert name_trip_counts(program, lambda _: True) == {"K": 40}
    assert dims_of(program.net.inputs["x"]) == tuple(map(Dim.of, ("N", "K", 40)))


def test_loops_that_are_not_cut_keep_numbers() -> None:
    assert name_trip_counts(net_of(40, 8), lambda _: False) == {}
