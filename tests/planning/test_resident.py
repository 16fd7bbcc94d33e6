"""A loop over matrices [N, R, C], and what must not run place by place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.planning.resident import ResidentLoop, resident_loops
from tests.kern_samples import Kern, N, T, row_major, strided

R, C, t = 32, 64, Dim.of("t")
PLACE = R * C
ROW = N * PLACE
OWN = row_major([N, R, C])


def planned(
    read: Access = OWN,
    write: Access = OWN,
    shown: Access = OWN,
    stride: Dim | int = ROW,
    rows: int = R,
    scratch: bool = False,
) -> ResidentLoop | None:
    """The plan for `for t: h[t] = h[t-1] + x[t]; z[t] = h[t]`.

    Args:
        read, write: how the kernel reads the state and writes the next one.
        shown: how the second kernel reads h[t].
        stride: how far apart the rows of h are.
        rows: of a matrix.
        scratch: whether it goes to z by way of scratch, and scratch again.
    """
    k = Kern()
    h0, h = k.buffer("h0", "input", ROW), k.buffer("h", "state", ROW * 2, ring=2)
    x, z = k.buffer("x", "input", T * ROW), k.buffer("z", "output", T * ROW, fallback_size=ROW)
    between = [k.buffer(name, "scratch", ROW) for name in ("a", "b")] if scratch else []
    domain = [N, rows, C]

    def body(inner: Kern, state: SSAValue) -> Sequence[SSAValue]:
        row, last = inner.row(h, t, stride), inner.row(z, t, ROW)
        at = row_major([N, R, C], offset=t * ROW)
        inner.map(domain, [(state, read), (x, at)], [(row, write)], lambda b, s, v: [b.add(s, v)])
        source, access = row, shown
        for target in [*between, last]:
            inner.map(domain, [(source, access)], [(target, OWN)], lambda b, s: [s])
            source, access = target, OWN
        return [row]

    k.loop("t", T, [h0], body)
    func = k.program().func
    for number, buffer in enumerate(op for op in func.walk() if isinstance(op, Buffer)):
        buffer.properties["offset"] = StringAttr(str(number))
    return next(iter(resident_loops(func).values()), None)


def test_places_are_apart() -> None:
    plan = planned()
    assert plan is not None and plan.places == (N,)
    assert not plan.turns and not plan.local


def test_within_a_place_any_element_is_read() -> None:
    plan = planned(shown=strided(PLACE, 1, R))
    assert plan is not None and plan.places == (N,)


def test_rows_may_lie_further_apart_than_they_are_long() -> None:
    plan = planned(stride=ROW + 16)
    assert plan is not None and plan.places == (N,)


@pytest.mark.parametrize(
    "form",
    [
        {"read": strided(PLACE, C, 1, offset=PLACE)},
        {"read": strided(PLACE, C, 1, offset=1)},
        {"shown": strided(0, C, 1)},
        {"read": strided(C, N * C, 1)},
        {"write": strided(PLACE, C + 1, 1)},
        {"stride": ROW - 1},
        {"rows": 8},
    ],
    ids=str,
)
def test_other_places_are_touched(form: dict[str, object]) -> None:
    """The next place; one element of it; the first; as if turned; overlapping; other rows. And what
    is too small."""
    assert planned(**form) is None  # type: ignore[arg-type]


def test_memory_that_buffers_may_take_turns_in() -> None:
    """Scratch of a step may have the memory of what stands in for an output, once it is read."""
    plan = planned(scratch=True)
    assert plan is not None
    assert {(a.label.data, b.label.data) for a, b in plan.turns} >= {("a", "z")}
