"""A loop h[s] = a[s] h[s] + x, y = sum of h[s] + x, over rows of N x H with S states a unit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.kern.kernels import Reduce
from rnncc.planning.interchange import interchanges
from rnncc.planning.point_phases import PointPhases, point_phases
from tests.kern_samples import Kern, N, T, region, row_major, strided

H, S, t = 64, 4, Dim.of("t")
ROW, STATE = N * H, N * S * H
OF_UNITS = row_major([N, H])
OF_POINTS = row_major([N, S, H])
ROW_AT_POINTS = strided(H, 0, 1)
SUMMED = strided(S * H, 1, H)
"""The state where a sum's domain is [N, H, S]."""


def phases_of(
    read: Access = OF_POINTS,
    order: str = "any",
    feedback: bool = False,
    one_place: bool = False,
    states: int = S,
) -> PointPhases | None:
    """The phases of that loop.

    Args:
        read: how points read the state.
        order: of the sum.
        feedback: whether points read the sum of the step before instead of x.
        one_place: whether two values have the same memory.
        states: of a unit.
    """
    k = Kern()
    x, a = k.buffer("x", "input", T * ROW), k.buffer("a", "input", STATE)
    h0, y0 = k.buffer("h0", "input", STATE), k.buffer("y0", "input", ROW)
    h, y = k.buffer("h", "state", STATE, ring=1), k.buffer("y", "state", ROW, ring=1)
    total, gate = k.buffer("sum", "scratch", ROW), k.buffer("gate", "scratch", ROW)
    domain: list[Dim | int] = [N, states, H]

    def body(inner: Kern, *carried: SSAValue) -> Sequence[SSAValue]:
        state, before = carried
        row, shown = inner.row(h, t, STATE), inner.row(y, t, ROW)
        source = strided(H, 1, offset=t * ROW)
        inner.map([N, H], [(x, source)], [(gate, OF_UNITS)], lambda b, v: [b.mul(v, v)])
        step = (before if feedback else gate, ROW_AT_POINTS)
        inner.map(
            domain,
            [(state, read), (a, OF_POINTS), step],
            [(row, OF_POINTS)],
            lambda b, s, f, v: [b.add(b.mul(s, f), v)],
        )
        ins = [(row, SUMMED)]
        dims, terms = [N, Dim.of(H), Dim.of(states)], region(ins, lambda b, s: [s])
        inner.add(Reduce("sum", 1, dims, ins, (total, strided(H, 1, 0)), terms, order))
        inner.map(
            [N, H],
            [(total, OF_UNITS), (gate, OF_UNITS)],
            [(shown, OF_UNITS)],
            lambda b, s, v: [b.add(s, v)],
        )
        return [row, shown]

    k.loop("t", T, [h0, y0], body)
    func = k.program().func
    for number, buffer in enumerate(op for op in func.walk() if isinstance(op, Buffer)):
        place = 0 if one_place and buffer.label.data in ("sum", "gate") else number + 1
        buffer.properties["offset"] = StringAttr(str(place))
    [plan] = interchanges(func).values()
    return point_phases(plan)


def test_rows_points_and_sums() -> None:
    phases = phases_of()
    assert phases is not None and not phases.descends
    assert [len(p) for p in (phases.before, phases.points, phases.sums, phases.after)] == [1] * 4
    assert [[offset for _, offset in of_point] for of_point in phases.states] == [
        [Dim.of(H * s)] for s in range(S)
    ]
    assert [len(carried) for carried in phases.rows] == [0, 1]


def test_the_last_point_first() -> None:
    phases = phases_of(order="down")
    assert phases is not None and phases.descends


@pytest.mark.parametrize(
    "form",
    [
        {"read": strided(S * H, -H, 1, offset=(S - 1) * H)},
        {"feedback": True},
        {"one_place": True},
        {"states": 2},
    ],
    ids=str,
)
def test_points_need_each_other(form: dict[str, object]) -> None:
    """Another point's state; the sum of the step before; memory that is taken over; too few."""
    assert phases_of(**form) is None  # type: ignore[arg-type]
