"""A loop h = h + x over rows of N x H, and what must not run place by place."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from rnncc.ir.dims import Dim
from rnncc.kern.access import Access
from rnncc.kern.dialect import Buffer
from rnncc.planning.interchange import Interchange, interchanges
from tests.kern_samples import Kern, N, T, row_major, strided

H, t = 64, Dim.of("t")
ROW = N * H
OWN = row_major([N, H])


def planned(
    read: Access = OWN,
    write: Access = OWN,
    units: Dim | int = H,
    back: int = 0,
    copied: Access | None = None,
    places: tuple[str, str] = ("0", "8"),
    shift: int = 0,
) -> Interchange | None:
    """The plan for `for t: h[t] = h[t-1] + x[t - back]; z[t] = h[t]`.

    Args:
        read, write: how the kernel reads the state and writes the next one.
        back: where not 0, x is the sequence z that the loop writes, so many rows back.
        copied: how the second kernel reads h[t], and writes z[t]; None: there is none.
        places: the planned offsets of h and of what x is.
        shift: how many units beside its own a place reads x.
    """
    k = Kern()
    h0, h = k.buffer("h0", "input", ROW), k.buffer("h", "state", ROW, ring=1)
    x = k.buffer("x", "scratch" if places[0] == places[1] else "input", T * ROW)
    z = k.buffer("z", "output", T * ROW, fallback_size=ROW)
    domain = [N, units]

    def body(inner: Kern, state: SSAValue) -> Sequence[SSAValue]:
        row, shown = inner.row(h, t, ROW), inner.row(z, t, ROW)
        source = inner.row(z, t - back, ROW) if back else x
        at = OWN if back else strided(H, 1, offset=t * ROW + shift)
        inner.map(
            domain, [(state, read), (source, at)], [(row, write)], lambda b, s, v: [b.add(s, v)]
        )
        if copied is not None:
            inner.map(domain, [(row, copied)], [(shown, copied)], lambda b, s: [s])
        return [row]

    k.loop("t", T, [h0], body)
    func = k.program().func
    for buffer in (op for op in func.walk() if isinstance(op, Buffer)):
        if buffer.label.data in "hx":
            buffer.properties["offset"] = StringAttr(places["hx".index(buffer.label.data)])
    return next(iter(interchanges(func).values()), None)


def test_the_state_stays_inside() -> None:
    plan = planned(copied=OWN)
    assert plan is not None and plan.frame == (N, Dim.of(H))
    assert plan.inside == plan.last == {plan.carried[0].row}


def test_kernels_of_rows_need_no_state() -> None:
    """The first of two whose results the step alone reads, and none that a state reaches."""
    k = Kern()
    x, h0 = (k.buffer(name, "input", ROW) for name in ("x", "h0"))
    h = k.buffer("h", "state", ROW, ring=1)
    gates = [k.buffer(name, "scratch", ROW) for name in ("gate", "both")]

    def body(inner: Kern, state: SSAValue) -> Sequence[SSAValue]:
        row, domain, (gate, both) = inner.row(h, t, ROW), [N, H], gates
        inner.map(domain, [(x, OWN)], [(gate, OWN)], lambda b, v: [b.exp(v)])
        inner.map(domain, [(gate, OWN), (state, OWN)], [(both, OWN)], lambda b, *v: [b.mul(*v)])
        inner.map(domain, [(gate, OWN), (both, OWN)], [(row, OWN)], lambda b, *v: [b.add(*v)])
        return [row]

    k.loop("t", T, [h0], body)
    func = k.program().func
    for number, buffer in enumerate(op for op in func.walk() if isinstance(op, Buffer)):
        buffer.properties["offset"] = StringAttr(str(number))
    [plan] = interchanges(func).values()
    assert plan.of_rows == list(plan.parts[:1])


def test_a_vector_of_units_is_enough() -> None:
    assert planned(units=16) is not None


@pytest.mark.parametrize(
    "form",
    [
        {"read": strided(H, 1, offset=1)},
        {"read": strided(0, 1)},
        {"read": strided(H, 0)},
        {"read": strided(1, H), "write": strided(1, H)},
        {"read": strided(1, 1), "write": strided(1, 1)},
        {"units": N},
        {"units": 8},
        {"back": 1, "copied": OWN},
        {"copied": strided(H, 1, offset=1)},
        {"copied": strided(0, 1)},
    ],
    ids=str,
)
def test_other_places_of_the_frame_are_read(form: dict[str, object]) -> None:
    """The neighbour, another row, across, transposed, overlapping; too little; rows made before."""
    assert planned(**form) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("places", "shift", "fine"), [("08", 1, True), ("00", 0, True), ("00", 1, False)]
)
def test_memory_taken_over_is_read_at_the_same_places(places: str, shift: int, fine: bool) -> None:
    plan = planned(places=(places[0], places[1]), shift=shift)
    assert (plan is not None) == fine
